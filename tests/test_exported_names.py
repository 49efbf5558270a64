"""``__all__`` is the truth about each package, and every public thing says what it is."""

import importlib
import inspect
import pkgutil
from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest

import foretell
from foretell.core import MissingExtraError

PACKAGES = [
    "foretell",
    *(
        module.name
        for module in pkgutil.walk_packages(foretell.__path__, "foretell.")
        if module.ispkg
    ),
]

# Their names load their module on first use.
LAZY = (
    "foretell",
    "foretell.recall",
    "foretell.converse",
    "foretell.converse.audio",
    "foretell.converse.language",
    "foretell.train.plan",
    "foretell.train.rl",
    "foretell.train.stacked",
    "foretell.trust",
    "foretell.trust.selective",
)


def exported(package: ModuleType) -> list[str]:
    return list(getattr(package, "__all__", []))


def there(package: ModuleType) -> dict[str, Any]:
    """The exported things by name, but for those whose extra is not installed."""
    found = {}
    for key in exported(package):
        with suppress(MissingExtraError):
            found[key] = getattr(package, key)
    return found


@pytest.mark.parametrize("name", PACKAGES)
def test_all_names_exactly_the_public_things(name: str) -> None:
    package = importlib.import_module(name)
    names = exported(package)
    assert len(set(names)) == len(names)
    if name in LAZY:
        assert names == sorted(names)
        assert set(names) <= set(dir(package))
        return
    public = {
        key
        for key, value in vars(package).items()
        if not key.startswith("_") and not inspect.ismodule(value) and key != "annotations"
    }
    assert set(names) == public


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_thing_is_documented(name: str) -> None:
    package = importlib.import_module(name)
    assert inspect.getdoc(package)
    silent = []
    for key, value in there(package).items():
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        if not value.__doc__:
            silent.append(key)
        if inspect.isclass(value) and value.__module__.startswith("foretell"):
            silent += [
                f"{key}.{attribute}"
                for attribute, member in vars(value).items()
                if not attribute.startswith("_")
                and (inspect.isfunction(member) or isinstance(member, (property, classmethod)))
                and not inspect.getdoc(getattr(value, attribute))
            ]
    assert not silent


def test_the_stub_and_the_top_level_agree() -> None:
    assert sorted(dir(foretell)) == foretell.__all__
    for value in there(foretell).values():
        assert value.__module__.startswith("foretell.")
