"""Settings of every test run, and the Python blocks of README.md and docs/ as tests.

Each page runs in an empty folder of its own; docstring examples do too.
"""

import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestItem
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before anything imports numpy

# Processes that tests start take over the bytecode of the sources, like users' processes do.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


# The doctests and the page of what needs torch run where torch is.
_LEARNERS = ("hybrid/*", "koopman/*", "lifting/*", "module_task.py")
collect_ignore_glob = (
    []
    if importlib.util.find_spec("torch")
    else [
        "src/foretell/recall/osc_head.py",
        "src/foretell/train/agreement.py",
        "src/foretell/train/coordinator.py",
        "src/foretell/train/rl/*",
        *(f"src/foretell/train/stacked/{n}.py" for n in ("groups", "module", "on_device")),
        *(f"src/foretell/dynamics/{n}" for n in _LEARNERS),
    ]
)
if importlib.util.find_spec("fastapi") is None:
    _SERVED = ("completions", "connection", "server")
    collect_ignore_glob += [f"src/foretell/app/talk/{name}.py" for name in _SERVED]
if shutil.which("espeak-ng") is None:
    collect_ignore_glob.append("src/foretell/converse/audio/voice.py")


def _enter_empty_folder(namespace: dict[str, Any]) -> None:
    namespace["_before"] = Path.cwd()
    namespace["_folder"] = tempfile.TemporaryDirectory()
    os.chdir(namespace["_folder"].name)


def _leave(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["_before"])
    namespace["_folder"].cleanup()


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["README.md", "docs/*.md", "docs/**/*.md"],
    excludes=[] if importlib.util.find_spec("torch") else ["docs/methods/distflow.md"],
    setup=_enter_empty_folder,
    teardown=_leave,
).pytest()


# Files whose tests are slow and share nothing: each test may go to another process.
_SPREAD = frozenset({"tests/test_examples.py", "tests/train/stacked/test_real_processes.py"})


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The tests of one file go to one process, those of `_SPREAD` to any.

    Blocks of a page use what the ones before made, and whether to skip them; tests of a file share
    fixtures, and kernels that two processes would otherwise compile at the same time.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return nodeid if file in _SPREAD else file

    return ByFile(config, log)


@pytest.fixture(autouse=True)
def _docstring_examples_write_elsewhere(request, tmp_path, monkeypatch) -> None:
    if isinstance(request.node, DoctestItem):
        monkeypatch.chdir(tmp_path)
