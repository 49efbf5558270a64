"""Repeatable property tests, and skips that are only possible where they are honest."""

import os
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("tests.contracts.learner")

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", parent=settings.get_profile("ci"), derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[Any], list[Any]]:
    """Tests have no examples in docstrings: looking for some takes seconds."""
    found = yield
    return [item for item in found if not isinstance(item, DoctestModule)]


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("system"):
        for program in mark.args:
            if shutil.which(program) is None:
                message = f"needs the system program {program!r}"
                if os.environ.get("CI") == "true":
                    pytest.fail(f"{message}, and under CI it must be there", pytrace=False)
                pytest.skip(message)
