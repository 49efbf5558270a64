"""The report in a real browser: no error, no request, no overflow, and the pointer reads values."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from foretell.app.folder import FitFolder
from foretell.app.study import Study

pytestmark = pytest.mark.system("chromium")

WRAPPER = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">
<iframe id="f" style="width:{width}px;height:900px;border:0"></iframe><pre id="result"></pre>
<script>
const frame = document.getElementById("f"), report = {report};
frame.addEventListener("load", () => {{
  const page = frame.contentDocument, view = frame.contentWindow;
  const area = page.querySelector(".area[data-ranges]"), box = area.getBoundingClientRect();
  const at = {{clientX: box.left + box.width / 3, clientY: box.top + 9}};
  area.dispatchEvent(new view.PointerEvent("pointermove", at));
  const canvas = page.getElementById("space");
  const ink = () => canvas.toDataURL();
  const before = ink();
  canvas.dispatchEvent(new view.KeyboardEvent("keydown", {{key: "ArrowLeft"}}));
  const wide = [...page.querySelectorAll("main *")].filter((e) =>
    e.getBoundingClientRect().right > {width} + 1 && !e.closest(".scroll, pre, svg, .area"))
    .map((e) => e.outerHTML.slice(0, 80));
  document.getElementById("result").textContent = JSON.stringify({{
    width: page.documentElement.scrollWidth, wide,
    requests: view.performance.getEntriesByType("resource").map((r) => r.name),
    problems: view.problems, tip: page.querySelector(".tip")?.textContent || "",
    turned: before !== ink(), dark: view.matchMedia("(prefers-color-scheme: dark)").matches,
    paper: view.getComputedStyle(page.body).backgroundColor,
  }});
}});
frame.srcdoc = report;
</script>"""

LISTEN = (
    "<head><script>window.problems = [];"
    "addEventListener('error', (e) => problems.push(e.message || e.target.outerHTML), true);"
    "addEventListener('securitypolicyviolation', (e) => problems.push(e.violatedDirective));"
    "</script>"
)


def looked_at(report: Path, tmp_path: Path, *, width: int, dark: bool) -> dict[str, Any]:
    """Open the report in a frame of the given width and say what happened."""
    text = report.read_text(encoding="utf-8").replace("<head>", LISTEN, 1)
    page = tmp_path / "wrapper.html"
    content = json.dumps(text).replace("</", "<\\/")
    page.write_text(WRAPPER.format(width=width, report=content), encoding="utf-8")
    program = shutil.which("chromium")
    assert program is not None
    done = subprocess.run(
        [
            program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--enable-logging=stderr",
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            "--window-size=1400,1000",
            "--virtual-time-budget=4000",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    found = re.search(r'<pre id="result">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stderr[-2000:]
    assert found.group(1), done.stderr[-2000:]
    assert "CONSOLE" not in done.stderr, done.stderr[-2000:]
    result: dict[str, Any] = json.loads(html.unescape(found.group(1)))
    return result


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1280, True)])
def test_report_in_chromium(
    fitted: tuple[Study, FitFolder], tmp_path: Path, width: int, dark: bool
) -> None:
    seen = looked_at(fitted[1].report, tmp_path, width=width, dark=dark)
    assert seen["problems"] == []
    assert seen["requests"] == []
    assert seen["wide"] == []
    assert seen["width"] <= width
    assert seen["tip"].startswith("time [s]: ")
    assert "recorded: " in seen["tip"]
    assert seen["turned"]
    assert seen["dark"] is dark
    assert seen["paper"] == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")
