"""Importing costs next to nothing and does nothing; the best of a few runs counts."""

import json
import os
import subprocess
import sys

HEAVY = ("numpy", "scipy", "sklearn", "numba", "torch", "pandas", "pyarrow", "matplotlib")
REPORT = """
import json, sys, time
print(json.dumps({"seconds": time.process_time(), "modules": sorted(sys.modules)}))
"""


def measure(code: str, runs: int = 5) -> tuple[float, set[str]]:
    """Lowest CPU seconds of a fresh interpreter that runs the code, and what it imported."""
    environment = {**os.environ, "PYTHONWARNINGS": "error", "COLUMNS": "100"}
    results = []
    for _ in range(runs):
        done = subprocess.run(
            [sys.executable, "-c", code + REPORT], capture_output=True, text=True, env=environment
        )
        assert done.returncode == 0, done.stderr
        results.append(json.loads(done.stdout.splitlines()[-1]))
    return min(result["seconds"] for result in results), set(results[0]["modules"])


def test_import_is_light() -> None:
    empty, _ = measure("")
    seconds, modules = measure("import foretell")
    assert seconds - empty <= 0.1
    assert modules.isdisjoint(HEAVY)


def test_errors_are_light() -> None:
    _, modules = measure("from foretell.core import DataError, Artifact, citation", runs=1)
    assert modules.isdisjoint(HEAVY)


def test_import_prints_nothing_and_sets_up_no_logging() -> None:
    code = (
        "import logging, foretell; assert not logging.getLogger().handlers; "
        "handlers = logging.getLogger('foretell').handlers; "
        "assert [type(h).__name__ for h in handlers] == ['NullHandler']; "
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_help_is_light() -> None:
    code = (
        "import sys; sys.argv = ['foretell', '--help']\n"
        "from foretell.app.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
    )
    seconds, modules = measure(code)
    assert seconds <= 0.25
    assert modules.isdisjoint(HEAVY)


def test_no_learner_of_this_package_needs_torch() -> None:
    code = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError("torch is not here")

sys.meta_path.insert(0, NoTorch())
import foretell.core, foretell.data, foretell.solve.piecewise, foretell.dynamics
foretell.CPLRNN, foretell.ALRNN, foretell.ReLUNeuralODE
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
