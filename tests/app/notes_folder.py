"""A folder of notes with all that goes wrong, and a model that needs no weights."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foretell.app.notes.word_pieces import split_words

DIMENSIONS = 64

GUIDE = """\
# Pump

The pump moves water from the lower to the upper basin.

## Starting

Pull the red cord until the motor coughs, then push the choke back.

## Repair

When the valve leaks, replace the rubber ring under the cap.
"""


class WordBags:
    """Unit vectors from hashed words: equal words, equal directions."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        self.seen += texts
        out = np.full((len(texts), DIMENSIONS), 1e-3, np.float32)
        for row, text in zip(out, texts, strict=True):
            for word in split_words(text):
                row += np.random.default_rng(zlib.crc32(word.encode())).normal(size=DIMENSIONS)
        return out / np.linalg.norm(out, axis=1, keepdims=True)


def notes_folder(folder: Path) -> Path:
    """Three good files and all kinds of bad ones."""
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "guide.md").write_text(GUIDE)
    (folder / "deep" / "er" / "plants.txt").write_text("Tomatoes need sun.\n\nFerns need shade.\n")
    (folder / "README").write_text("Notes about the house.\r\nNothing else.\r\n")
    (folder / "empty.md").write_text("")
    (folder / "blob.txt").write_bytes(b"abc\0def")
    (folder / "latin.txt").write_bytes("first\ncafé\n".encode("latin-1"))
    (folder / "wide.txt").write_bytes("wide".encode("utf-16"))
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    (folder / "gone.md").symlink_to(folder / "nowhere")
    (folder / "photo.png").write_bytes(b"\x89PNG")
    (folder / ".hidden.md").write_text("secret")
    return folder


def pdf(*pages: str) -> bytes:
    """A PDF with one line of text a page."""
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(pages)))
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for i, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
        parts.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * i} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        parts.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    out, places = b"%PDF-1.4\n", []
    for number, part in enumerate(parts, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    end = (
        f"xref\n0 {len(parts) + 1}\n0000000000 65535 f \n{table}"
        f"trailer\n<< /Size {len(parts) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    )
    return out + end.encode()
