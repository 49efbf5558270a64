"""How the ranks of a stage are cut into copies of the model."""

from __future__ import annotations

from dataclasses import dataclass, replace

from foretell.core.errors import ParameterError


@dataclass(frozen=True)
class ParallelLayout:
    """How the ranks of a stage are cut: rank = (dp * pp_size + pp) * tp_size + tp.

    Parameters
    ----------
    tp, pp : int
        Ranks that share one copy of the model, by tensor and by pipeline.
    dp : int, optional
        Copies of the model; by default as many as the ranks allow.

    Examples
    --------
    >>> layout = ParallelLayout(tp=2).over(8)
    >>> layout.dp, layout.copy_of(5), layout.members(2), layout.owner(2)
    (4, 2, (4, 5), 4)
    """

    tp: int = 1
    pp: int = 1
    dp: int | None = None

    def __post_init__(self) -> None:
        for name in ("tp", "pp", "dp"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ParameterError(f"{name}={value!r}; needed is a whole number of at least 1.")

    def over(self, n_ranks: int) -> ParallelLayout:
        """The same layout with dp filled in.

        Raises
        ------
        ParameterError
            When the ranks cannot be cut so.
        """
        size = self.tp * self.pp
        if n_ranks % size or (self.dp is not None and self.dp * size != n_ranks):
            raise ParameterError(
                f"{n_ranks} ranks cannot be cut into copies of tp*pp = {self.tp}*{self.pp} = {size}"
                f"{'' if self.dp is None else f', dp = {self.dp}'}. Use a multiple of {size} "
                "ranks, or a layout whose tp*pp divides them: ParallelLayout(tp=1)."
            )
        return replace(self, dp=n_ranks // size)

    def copy_of(self, rank: int) -> int:
        """The copy of the model (dp index) to which a rank belongs."""
        return rank // (self.tp * self.pp)

    def members(self, copy: int) -> tuple[int, ...]:
        """The ranks of a copy."""
        size = self.tp * self.pp
        return tuple(range(copy * size, (copy + 1) * size))

    def owner(self, copy: int) -> int:
        """The rank that hands out the rows of a copy: tp = 0, last pp."""
        return copy * self.tp * self.pp + (self.pp - 1) * self.tp
