"""The manners of scikit-learn without importing it.

``get_params``, ``set_params`` and a ``repr`` of what differs from the defaults, so that
``sklearn.base.clone``, pipelines and searches take such objects for their own. Importing
scikit-learn itself costs more than everything else of a command (it loads scipy.stats and, where
they are installed, pandas and pyarrow): estimators of 2-D arrays inherit from it, others from this.
"""

from __future__ import annotations

import copy
import inspect
from collections import defaultdict
from typing import Any, Self, TypeVar

_LONGEST = 200  # characters of one argument in a repr


class Estimator:
    """Constructor arguments are keyword-only, and attributes of the same names.

    Examples
    --------
    >>> from foretell.core.estimator import Estimator
    >>> class Mean(Estimator):
    ...     def __init__(self, *, decay=0.5, start=0.0):
    ...         self.decay, self.start = decay, start
    >>> Mean(decay=0.9)
    Mean(decay=0.9)
    >>> Mean().set_params(start=1.0).get_params()
    {'decay': 0.5, 'start': 1.0}
    """

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        if cls.__init__ is object.__init__:
            return {}
        arguments = inspect.signature(cls.__init__).parameters.values()
        return {p.name: p.default for p in sorted(arguments, key=_name) if p.name != "self"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor arguments by name.

        Parameters
        ----------
        deep : bool
            Whether to add those of arguments that have some, as ``argument__name``.

        Returns
        -------
        dict
        """
        found: dict[str, Any] = {}
        for name in self._defaults():
            value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found.update({f"{name}__{k}": v for k, v in value.get_params().items()})
            found[name] = value
        return found

    def set_params(self, **params: Any) -> Self:
        """Set constructor arguments by name; ``argument__name`` sets that of an argument.

        Parameters
        ----------
        **params : dict

        Returns
        -------
        self

        Raises
        ------
        ValueError
            There is no such argument.
        """
        known = self.get_params(deep=False)
        nested: dict[str, dict[str, Any]] = defaultdict(dict)
        for key, value in params.items():
            name, inner, rest = key.partition("__")
            if name not in known:
                raise ValueError(
                    f"{type(self).__name__} has no argument {name!r}; it has {', '.join(known)}."
                )
            if inner:
                nested[name][rest] = value
            else:
                setattr(self, name, value)
        for name, inside in nested.items():
            getattr(self, name).set_params(**inside)
        return self

    def __repr__(self) -> str:
        defaults, given = self._defaults(), self.get_params(deep=False)
        texts = {name: repr(value) for name, value in given.items()}
        changed = [f"{k}={_cut(v)}" for k, v in texts.items() if v != repr(defaults[k])]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))


E = TypeVar("E", bound=Estimator)


def unfitted(estimator: E) -> E:
    """A new one with the same arguments, as ``sklearn.base.clone`` makes it."""
    given = estimator.get_params(deep=False)
    return type(estimator)(**{name: _copied(value) for name, value in given.items()})


def _copied(value: Any) -> Any:
    return unfitted(value) if isinstance(value, Estimator) else copy.deepcopy(value)


def _name(parameter: inspect.Parameter) -> str:
    return parameter.name


def _cut(text: str) -> str:
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]}...{text[-half:]}"
