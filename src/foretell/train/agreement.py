"""Where ranks meet: all are at one place of the program and none has failed, or all raise.

One round of two kilobytes from everybody to everybody carries an error flag, a hash of the place
and whatever the ranks have to tell. Only where something is wrong do they exchange texts, so that
the error names the ranks and what each of them said.
"""

from __future__ import annotations

import numpy as np

from foretell.core.errors import ControllerError, MissingExtraError
from foretell.train.graph import signature
from foretell.train.rl.group import Group

try:
    import torch
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train by reinforcement learning") from error

_TEXT, _SHOWN = 20_000, 300  # bytes of a message for the other ranks, and what is shown of it
_HEADER = 2048  # bytes in which ranks meet


class Agreement:
    """The ranks of a group, which go on together or not at all.

    Parameters
    ----------
    group : Group

    Examples
    --------
    >>> from foretell.train.rl import in_threads
    >>> def program(group):
    ...     error = ValueError("no prompts") if group.rank == 1 else None
    ...     try:
    ...         Agreement(group).agree("step 3, reward", error=error)
    ...     except Exception as raised:
    ...         return str(raised)
    >>> in_threads(2, program)
    ['Rank 1 failed before step 3, reward: ValueError: no prompts', 'no prompts']
    """

    def __init__(self, group: Group) -> None:
        self.group = group

    def agree(self, place: str, *, detail: str = "", error: BaseException | None = None) -> None:
        """Meet the other ranks; go on only if all are at this place and none has failed.

        Parameters
        ----------
        place : str
            Where in the program this is, for instance "step 3, actor_train".
        detail : str
            More that must be equal on all ranks, for instance a plan.
        error : exception, optional
            What went wrong on this rank.

        Raises
        ------
        ControllerError
            Another rank failed or is elsewhere; names the ranks and the places.
        Exception
            The given error, on the rank that gave it.
        """
        self._meet(place, detail, error)

    def _meet(
        self, place: str, detail: str, error: BaseException | None, told: bytes = b""
    ) -> list[bytes]:
        """Compare places, pass errors on, and give what every rank told."""
        mine = np.zeros(_HEADER, dtype=np.uint8)
        words = [int(error is not None), signature(f"{place}|{detail}"), len(told)]
        mine[:24] = np.array(words, dtype=np.int64).view(np.uint8)
        mine[24 : 24 + len(told)] = np.frombuffer(told[: _HEADER - 24], dtype=np.uint8)
        gathered = self.group.all_gather(torch.from_numpy(mine)).numpy()
        heads = gathered[:, :24].copy().view(np.int64)
        if len(set(heads[:, 1].tolist())) > 1:
            self._disagree(f"{place} {detail}", heads[:, 1].tolist(), error)
        if heads[:, 0].any():
            texts = self._texts("" if error is None else f"{type(error).__name__}: {error}")
            if error is not None:
                raise error
            failed = int(np.flatnonzero(heads[:, 0])[0])
            raise ControllerError(f"Rank {failed} failed before {place}: {texts[failed]}")
        sizes = heads[:, 2].tolist()
        found = [gathered[r, 24 : 24 + size].tobytes() for r, size in enumerate(sizes)]
        beyond = max(sizes) - (_HEADER - 24)
        if beyond > 0:
            rest = np.zeros(beyond, dtype=np.uint8)
            late = told[_HEADER - 24 :]
            rest[: len(late)] = np.frombuffer(late, dtype=np.uint8)
            more = self.group.all_gather(torch.from_numpy(rest)).numpy()
            found = [
                part + more[r].tobytes()[: size - len(part)]
                for r, (part, size) in enumerate(zip(found, sizes, strict=True))
            ]
        return found

    def _disagree(self, place: str, hashes: list[int], error: BaseException | None) -> None:
        texts = self._texts(place)
        columns = enumerate(zip(*texts, strict=False))
        same = next((k for k, letters in columns if len(set(letters)) > 1), 0)
        start = same - 40 if same > 80 else 0
        seen: dict[str, list[int]] = {}
        for rank, text in enumerate(texts):
            shown = text[start : start + _SHOWN]
            seen.setdefault(f"{'...' * (start > 0)}{shown}", []).append(rank)
        told = "; ".join(
            f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}: {text} "
            f"(hash {hashes[ranks[0]]:016x})"
            for text, ranks in seen.items()
        )
        raise ControllerError(
            f"The ranks are not at the same place: {told}. A decision must depend only on "
            "what all ranks know: settings, step, gathered metadata."
        ) from error

    def _texts(self, text: str) -> list[str]:
        raw = text.encode()[:_TEXT]
        sizes = self.group.all_gather(torch.tensor([len(raw)]))[:, 0].tolist()
        mine = np.zeros(max([*sizes, 1]), dtype=np.uint8)
        mine[: len(raw)] = np.frombuffer(raw, dtype=np.uint8)
        found = self.group.all_gather(torch.from_numpy(mine)).numpy()
        return [
            found[rank, :size].tobytes().decode(errors="replace") for rank, size in enumerate(sizes)
        ]
