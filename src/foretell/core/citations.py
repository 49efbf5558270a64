"""What to cite: the papers behind a result, as BibTeX.

Every learner names its papers by key; a model folder carries the keys, and ``foretell show --cite``
prints the entries.
"""

from __future__ import annotations

from types import MappingProxyType

from foretell.core.errors import ParameterError

CITATIONS = MappingProxyType(
    {
        "cplrnn": r"""@inproceedings{braendle2026continuous,
  title     = {Continuous-Time Piecewise-Linear Recurrent Neural Networks},
  author    = {Br{\"a}ndle, Alena and Eisenmann, Lukas and G{\"o}tz, Florian and
               Durstewitz, Daniel},
  booktitle = {International Conference on Machine Learning (ICML)},
  year      = {2026},
  note      = {arXiv:2602.15649}
}""",
        "scyfi": r"""@inproceedings{eisenmann2023bifurcations,
  title     = {Bifurcations and loss jumps in {RNN} training},
  author    = {Eisenmann, Lukas and Monfared, Zahra and G{\"o}ring, Niclas and Durstewitz, Daniel},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {36},
  pages     = {70511--70547},
  year      = {2023},
  note      = {arXiv:2310.17561}
}""",
        "sparse-teacher-forcing": r"""@inproceedings{mikhaeil2022difficulty,
  title     = {On the difficulty of learning chaotic dynamics with {RNN}s},
  author    = {Mikhaeil, Jonas M. and Monfared, Zahra and Durstewitz, Daniel},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {35},
  year      = {2022},
  note      = {arXiv:2110.07238}
}""",
        "generalised-teacher-forcing": r"""@inproceedings{hess2023generalized,
  title     = {Generalized Teacher Forcing for Learning Chaotic Dynamics},
  author    = {Hess, Florian and Monfared, Zahra and Brenner, Manuel and Durstewitz, Daniel},
  booktitle = {Proceedings of the 40th International Conference on Machine Learning},
  series    = {Proceedings of Machine Learning Research},
  volume    = {202},
  pages     = {13017--13049},
  year      = {2023},
  note      = {arXiv:2306.04406}
}""",
        "alrnn": r"""@inproceedings{brenner2024almost,
  title     = {Almost-Linear {RNN}s Yield Highly Interpretable Symbolic Codes in Dynamical Systems
               Reconstruction},
  author    = {Brenner, Manuel and Hemmer, Christoph J{\"u}rgen and Monfared, Zahra and
               Durstewitz, Daniel},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {37},
  pages     = {36829--36868},
  year      = {2024},
  doi       = {10.52202/079017-1161},
  note      = {arXiv:2410.14240}
}""",
        "neural-ode": r"""@inproceedings{chen2018neural,
  title     = {Neural Ordinary Differential Equations},
  author    = {Chen, Ricky T. Q. and Rubanova, Yulia and Bettencourt, Jesse and Duvenaud, David},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {31},
  pages     = {6571--6583},
  year      = {2018},
  note      = {arXiv:1806.07366}
}""",
        "osc": r"""@inproceedings{pence2026recursive,
  title     = {Recursive Binding on a Budget: Subspace Carving in Order-p Tensor Memories},
  author    = {Pence, T. and Yamada, D. and Singh, V.},
  booktitle = {International Conference on Machine Learning (ICML)},
  series    = {Proceedings of Machine Learning Research},
  volume    = {306},
  year      = {2026},
  note      = {arXiv:2606.11391}
}""",
        "heartpy": r"""@article{vangent2019heartpy,
  title   = {{HeartPy}: A novel heart rate algorithm for the analysis of noisy signals},
  author  = {van Gent, Paul and Farah, Haneen and van Nes, Nicole and van Arem, Bart},
  journal = {Transportation Research Part F: Traffic Psychology and Behaviour},
  volume  = {66},
  pages   = {368--378},
  year    = {2019},
  doi     = {10.1016/j.trf.2019.09.015}
}""",
    }
)


def citation(*keys: str) -> str:
    """BibTeX entries for the given keys, each once, in the order asked for.

    Parameters
    ----------
    *keys : str
        Keys such as ``"cplrnn"``; without any, all entries.

    Raises
    ------
    ParameterError
        For a key that is not in the table; the message lists the table.

    Examples
    --------
    >>> print(citation("neural-ode").splitlines()[1].strip())
    title     = {Neural Ordinary Differential Equations},
    """
    unknown = [key for key in keys if key not in CITATIONS]
    if unknown:
        raise ParameterError(
            f"There is no citation {unknown[0]!r}. Known keys: {', '.join(sorted(CITATIONS))}."
        )
    wanted = dict.fromkeys(keys or CITATIONS)
    return "\n\n".join(CITATIONS[key] for key in wanted)
