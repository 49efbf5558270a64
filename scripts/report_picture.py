#!/usr/bin/env python3
"""Draw docs/images/report.png: a report as a browser shows it, with some sections left out.

scripts/report_picture.py foretell-demo/report.html

Needs chromium, and Pillow (which the extra `plot` brings).
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageChops

TARGET = Path(__file__).resolve().parent.parent / "docs" / "images" / "report.png"
WIDTH, TALLEST = 1200, 4000
KEPT = (
    "<style>#heldout, #choices, #use, #provenance, #data .row, #structure > :nth-child(n + 4)"
    " { display: none } main { padding: 28px 24px } section { margin-top: 30px }</style></head>"
)


def main(report: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        page, shot = Path(name) / "page.html", Path(name) / "shot.png"
        page.write_text(report.read_text(encoding="utf-8").replace("</head>", KEPT, 1), "utf-8")
        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
        light = "--blink-settings=preferredColorScheme=1"
        size, profile = f"--window-size={WIDTH},{TALLEST}", f"--user-data-dir={name}/profile"
        subprocess.run(
            ["chromium", *flags, light, size, profile, f"--screenshot={shot}", page.as_uri()],
            check=True,
            capture_output=True,
        )
        whole = Image.open(shot).convert("RGB")
    drawn = ImageChops.difference(whole, Image.new("RGB", whole.size, "white")).getbbox()
    bottom = min(drawn[3] + 24, whole.height) if drawn else whole.height
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    picture = whole.crop((60, 0, WIDTH - 60, bottom)).quantize(256, kmeans=2)
    picture.save(TARGET, optimize=True)
    print(f"{TARGET} {picture.width} x {picture.height}, {TARGET.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
