#!/usr/bin/env python3
"""Draw docs/images/talk.png: the page of foretell talk, over the notes that come with it.

scripts/talk_picture.py

Needs chromium, the extra `serve`, and Pillow (which the extra `plot` brings).
"""

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.app.browser import Browser  # noqa: E402

TARGET = ROOT / "docs" / "images" / "talk.png"
NOTES = ROOT / "src" / "foretell" / "app" / "talk" / "example" / "notes"
ASKED = ["Which valve must be closed before opening the housing?", "Why does the compressor stop?"]
TYPED = "How much glycol"


def main() -> None:
    command = [sys.executable, "-c", "from foretell.app.cli import main; main()", "talk"]
    flags = ["--notes", str(NOTES), "--serve", "--port", "0"]
    with (
        subprocess.Popen([*command, *flags], stderr=subprocess.PIPE, text=True) as server,
        tempfile.TemporaryDirectory() as name,
        Browser(Path(name)) as browser,
    ):
        assert server.stderr is not None
        found = None
        while not found:
            line = server.stderr.readline() or sys.exit("the server did not start")
            found = re.search(r"Open (http://\S+/)", line)
        page = browser.page()
        page.appear(1180, 760)
        page.open(found[1])
        for number, question in enumerate(ASKED, 1):
            page.type(question, 0.05)
            page.press("Enter")
            page.until(f"document.querySelectorAll('.badge').length === {number}")
        page.look("[...document.querySelectorAll('.cite')].at(-1).click()")
        page.look("document.getElementById('question').focus()")
        page.type(TYPED, 0.12)
        page.until("document.querySelector('.quiet .found.ready')")
        shot = Path(name) / "shot.png"
        page.shot(shot)
        picture = Image.open(io.BytesIO(shot.read_bytes())).convert("RGB").quantize(128, kmeans=2)
        server.terminate()
    picture.save(TARGET, optimize=True)
    print(f"{TARGET} {picture.width} x {picture.height}, {TARGET.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
