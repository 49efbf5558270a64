"""Turn what goes wrong in a command into a short message and an exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import ParamSpec, TypeVar

import typer

P = ParamSpec("P")
R = TypeVar("R")

FAILED, INTERRUPTED = 1, 130


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Wrap a command: kind errors, exit codes, and a clean end on Ctrl-C or a polite kill."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        from foretell.core.errors import ForetellError  # not for --help, which loads little

        previous = _stop_politely()
        try:
            return command(*args, **kwargs)
        except ForetellError as error:
            if os.environ.get("FORETELL_DEBUG"):
                raise
            typer.echo(f"Error: {error}", err=True)
            raise typer.Exit(FAILED) from error
        except KeyboardInterrupt as error:
            typer.echo(str(error) or "Stopped.", err=True)
            raise typer.Exit(INTERRUPTED) from error
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(FAILED) from None
        finally:
            if previous is not None:
                signal.signal(signal.SIGTERM, previous)

    return wrapped


@contextmanager
def interrupts_as_such() -> Iterator[None]:
    """Keep Ctrl-C what it is where compiled code, which turns it into SystemError, was running."""
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise


def _stop_politely() -> Callable[[int, FrameType | None], object] | int | None:
    """Treat a termination request like Ctrl-C, where signals can be set."""
    try:
        return signal.signal(signal.SIGTERM, _interrupt)
    except ValueError:
        return None


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
