"""Everything that foretell raises on purpose.

    ForetellError                 catch this to catch them all
    ├── DataError                 the recordings are not usable as given (also a ValueError)
    ├── ParameterError            an argument has an impossible value (also a ValueError)
    ├── NotFittedError            a result was asked for before ``fit`` (also a ValueError)
    ├── ArtifactError             a model folder cannot be written or read (also an OSError)
    ├── CapacityError             a memory of fixed size has no room left (also a ValueError)
    ├── WipeoutError              failures took every copy of some data (also a RuntimeError)
    ├── ControllerError           another rank failed, is missing or disagrees (also a RuntimeError)
    ├── NumericalError            a computation left its valid range (also an ArithmeticError)
    ├── ProgramError              a program that was called failed or hung (also a RuntimeError)
    └── MissingExtraError         an optional dependency is not installed (also an ImportError)

    ForetellWarning               a result is usable, but look at it (a UserWarning)

A message says what was given, what is needed, and the line that fixes it.
"""

from __future__ import annotations


class ForetellError(Exception):
    """Base class of every error that foretell raises on purpose."""


class DataError(ForetellError, ValueError):
    """The recordings are not usable as given; the message names the row and the column."""


class ParameterError(ForetellError, ValueError):
    """An argument has an impossible value; the message names the possible ones."""


class NotFittedError(ForetellError, ValueError):
    """A result was asked for before the model was fitted or loaded."""


class ArtifactError(ForetellError, OSError):
    """A model folder cannot be written, or read back as a model."""


class CapacityError(ForetellError, ValueError):
    """A memory of fixed size would no longer answer as reliably as promised; nothing was stored."""


class WipeoutError(ForetellError, RuntimeError):
    """Failures took every group that could compute some shard; the step cannot be completed.

    Parameters
    ----------
    shards : list of int
        The shards without a host.
    """

    def __init__(self, shards: list[int]) -> None:
        self.shards = shards
        shown = ", ".join(map(str, shards[:5])) + (", ..." if len(shards) > 5 else "")
        super().__init__(
            f"Every host of {len(shards)} shard{'s' * (len(shards) != 1)} failed ({shown}), so the "
            "batch cannot be completed. Restart all groups from the last checkpoint."
        )


class ControllerError(ForetellError, RuntimeError):
    """Another rank failed, is missing or wants something else; the message names the ranks."""


class NumericalError(ForetellError, ArithmeticError):
    """A computation left its valid range, for instance a training that diverged."""


class ProgramError(ForetellError, RuntimeError):
    """A program that was called could not be started, failed, or wrote nothing for too long."""


class MissingExtraError(ForetellError, ImportError):
    """An optional dependency is missing.

    Parameters
    ----------
    package : str
        The import that failed.
    extra : str
        The extra of foretell that installs it.
    purpose : str
        What it was needed for, as the end of "... is needed to <purpose>".
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(
            f"{package} is needed to {purpose}, and it is not installed. "
            f'Install it with: pip install "foretell[{extra}]"'
        )


class ForetellWarning(UserWarning):
    """A result is usable, but something about it deserves a look."""
