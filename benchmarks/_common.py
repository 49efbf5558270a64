"""What every benchmark shares: cached jobs on two processes, intervals, the result file."""

import datetime
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402  (after the thread limits)

HERE = Path(__file__).resolve().parent
CACHE = HERE / ".cache"
WORKERS = int(os.environ.get("WORKERS", "2"))
LEFT_OUT = 3  # exit code of a benchmark that lacks data, a package or a right: not a failure


def left_out(reason: str) -> NoReturn:
    """End this benchmark; ``make bench`` goes on and names it at the end."""
    print(f"left out: {reason}", flush=True)
    raise SystemExit(LEFT_OUT)


def data(name: str) -> Path:
    """A file or folder of the data that benchmarks/README.md lists."""
    path = Path(os.environ.get("FORETELL_DATA", "data")) / name
    if not path.exists():
        left_out(f"{path} is missing. Name the folder that holds {name}: FORETELL_DATA=/path")
    return path


def wordnet(part: str) -> Path:
    """A file of WordNet, as the Debian package wordnet-base installs it."""
    path = Path(os.environ.get("FORETELL_WORDNET", "/usr/share/wordnet")) / part
    if not path.is_file():
        left_out(f"{path} is missing. Install it: apt-get install wordnet-base")
    return path


def program(name: str) -> str:
    """Where a program of the system is, which the Debian package of its name installs."""
    found = shutil.which(name)
    return found or left_out(f"{name} is not installed. Install it: apt-get install {name}")


def environment(name: str, packages: str, bare: str) -> Path:
    """The Python of an environment for a peer that can't be installed beside the others."""
    folder = CACHE / "environments" / name
    python, done = folder / "bin" / "python", folder / ".has-all"
    if not done.exists():
        print(f"making an environment for {name} (once)", flush=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        for command in (
            [sys.executable, "-m", "venv", str(folder)],
            [*pip, *packages.split()],
            [*pip, "--no-deps", bare],
        ):
            if subprocess.run(command, timeout=900).returncode:
                left_out(f"{name} could not be installed, for the reason above")
        done.touch()
    return python


def package(name: str, command: str | None = None) -> Path:
    """The folder of an installed package, which is not imported."""
    found = find_spec(name)
    if found is None or found.origin is None:
        left_out(f"{name} is not installed. Install it: {command or f'pip install {name}'}")
    return Path(found.origin).parent


def run_jobs(
    name: str,
    function: Callable[..., dict[str, Any]],
    jobs: list[dict[str, Any]],
    workers: int = WORKERS,
) -> list[dict[str, Any]]:
    """Results of ``function(**job)`` in the order of the jobs.

    Each result is kept in a file, so that a benchmark that was stopped goes on where it was.
    Remove benchmarks/.cache to measure anew.
    """
    folder = CACHE / name
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{_key(job)}.json" for job in jobs]
    todo = [n for n, path in enumerate(paths) if not path.exists()]
    with ProcessPoolExecutor(max_workers=workers) as pool:
        futures = {pool.submit(function, **jobs[n]): n for n in todo}
        for done, future in enumerate(as_completed(futures), 1):
            n = futures[future]
            result = future.result()
            paths[n].write_text(json.dumps({"job": jobs[n], "result": result}))
            shown = {k: v for k, v in result.items() if not isinstance(v, (list, dict))}
            print(f"[{done}/{len(todo)}] {jobs[n]} -> {shown}", flush=True)
    return [json.loads(path.read_text())["result"] for path in paths]


def write_result(name: str, settings: dict[str, Any], tables: dict[str, Any], **more: Any) -> None:
    """Write benchmarks/results/<name>.json, from which the tables in the docs are made."""
    content = {
        "benchmark": name,
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, NumPy {np.__version__}; one thread, process CPU time",
        "settings": settings,
        "tables": tables,
        **more,
    }
    path = HERE / "results" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(_finite(content), indent=1, allow_nan=False) + "\n")
    print(f"wrote {path.relative_to(HERE.parent)}")


def median_interval(values: Any, *, level: float = 0.95, seed: int = 0) -> tuple[float, ...]:
    """Median with a bootstrap interval over seeds."""
    x = np.asarray(values, dtype=float)
    draws = np.median(_resampled(x.size, seed, x), axis=1)
    return float(np.median(x)), *_ends(draws, level)


def ratio_interval(
    ours: Any, peer: Any, *, level: float = 0.95, seed: int = 0
) -> tuple[float, ...]:
    """Median of paired ratios ours / peer with a bootstrap interval."""
    return median_interval(np.asarray(ours) / np.asarray(peer), level=level, seed=seed)


def shown(values: tuple[float, ...], digits: int = 3) -> str:
    """A number with its interval, as text."""
    middle, low, high = (f"{v:.{digits}g}" for v in values)
    return f"{middle} [{low}, {high}]"


def _finite(value: Any) -> Any:
    """The same content with text where a number is not finite, which JSON cannot hold."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def _resampled(n: int, seed: int, x: Any) -> Any:
    return x[np.random.default_rng(seed).integers(n, size=(4000, n))]


def _ends(draws: Any, level: float) -> tuple[float, float]:
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], method="nearest")
    return float(low), float(high)


def _key(job: dict[str, Any]) -> str:
    text = json.dumps(job, sort_keys=True)
    words = "-".join(str(v) for v in job.values() if not isinstance(v, dict))
    return f"{words}-{hashlib.sha256(text.encode()).hexdigest()[:8]}".replace("/", "_")
