"""The function that a job trains with: found by its name, and begun from the same chance."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

from foretell.core.errors import ParameterError


def resolve(target: str, path: list[str]) -> Any:
    """The function that ``package.module:function`` names.

    Raises
    ------
    ParameterError
        Says which half of the name cannot be found, and where was looked.
    """
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise ParameterError(
            f"target {target!r} must be package.module:function, for instance my_training:main."
        )
    for folder in reversed(path):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if module_name == missing or module_name.startswith(f"{missing}."):
            raise ParameterError(
                f"the module {module_name!r} of target {target!r} cannot be imported. Looked in "
                f"{', '.join(path) or 'the usual places'}. Put {module_name.split('.')[0]}.py "
                "beside the job file, or install its package."
            ) from error
        raise ParameterError(
            f"importing {module_name!r} needs {missing!r}, which is not installed. Install it, or "
            "take the import out."
        ) from error
    if not hasattr(module, name):
        known = [k for k, v in vars(module).items() if callable(v) and not k.startswith("_")]
        raise ParameterError(
            f"{module_name} has no {name!r}; it has {', '.join(sorted(known)[:8]) or 'nothing'}."
        )
    return getattr(module, name)


def import_torch_for(function: Any) -> None:
    """Import torch if the file of a function mentions it: later is too late for a seed."""
    source = None
    with contextlib.suppress(TypeError):  # a built-in has none
        source = inspect.getsourcefile(inspect.unwrap(function))
    if source and "torch" in Path(source).read_text(encoding="utf-8", errors="replace"):
        with contextlib.suppress(ImportError):
            importlib.import_module("torch")


def seed_all(function: Any, seed: int, threads: int) -> None:
    """The same first parameters on every worker, whatever the target draws them with."""
    import_torch_for(function)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (for the code of others, in a process of ours)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)
        torch.set_num_threads(threads)


def take_gpu(worker: int) -> None:
    """Make one of the GPUs that which "cuda" means in this process: NCCL needs one for each."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.device_count():
        torch.cuda.set_device(worker % torch.cuda.device_count())
