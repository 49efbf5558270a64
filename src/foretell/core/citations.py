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
        "cld": r"""@inproceedings{feng2026convex,
  title     = {Convex Language Detection},
  author    = {Feng, Miria and Tan, Alan and Pilanci, Mert},
  booktitle = {International Conference on Machine Learning (ICML)},
  series    = {Proceedings of Machine Learning Research},
  volume    = {306},
  year      = {2026},
  note      = {arXiv:2605.23235}
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
        "hybrid-latent-ode": r"""@inproceedings{teng2026embedding,
  title     = {Embedding Hybrid Systems into Continuous Latent Vector Fields},
  author    = {Teng, Sangli and Liu, Hang and Sreenath, Koushil},
  booktitle = {International Conference on Machine Learning (ICML)},
  year      = {2026},
  note      = {arXiv:2606.10596}
}""",
        "hybrifold": r"""@article{simic2005towards,
  title     = {Towards a geometric theory of hybrid systems},
  author    = {Simi{\'c}, Slobodan N. and Johansson, Karl Henrik and Lygeros, John and
               Sastry, Shankar},
  journal   = {Dynamics of Continuous, Discrete and Impulsive Systems},
  volume    = {12},
  pages     = {649--687},
  year      = {2005}
}""",
        "coral": r"""@inproceedings{bisht2026coral,
  title     = {{CORAL}: uncertainty-aware regulation of exposure concentration in recommender
               systems},
  author    = {Bisht, N. and Guo, L. and Gong, X. and Huo, H. and Xu, G.},
  booktitle = {International Conference on Machine Learning (ICML)},
  year      = {2026}
}""",
        "mmr": r"""@inproceedings{carbonell1998use,
  title     = {The use of {MMR}, diversity-based reranking for reordering documents and producing
               summaries},
  author    = {Carbonell, Jaime and Goldstein, Jade},
  booktitle = {Proceedings of the 21st Annual International ACM SIGIR Conference on Research and
               Development in Information Retrieval},
  pages     = {335--336},
  year      = {1998}
}""",
        "calibrated-recommendations": r"""@inproceedings{steck2018calibrated,
  title     = {Calibrated recommendations},
  author    = {Steck, Harald},
  booktitle = {Proceedings of the 12th ACM Conference on Recommender Systems},
  pages     = {154--162},
  year      = {2018}
}""",
        "fast-greedy-dpp": r"""@inproceedings{chen2018fast,
  title     = {Fast greedy {MAP} inference for determinantal point process to improve recommendation
               diversity},
  author    = {Chen, Laming and Zhang, Guoxin and Zhou, Eric},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {31},
  year      = {2018}
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
        "lec": r"""@inproceedings{wang2026lec,
  title     = {{LEC}: Linear Expectation Constraints for Selection-Conditioned Risk Control in
               Selective Prediction and Routing Systems},
  author    = {Wang, Z. and Aniri and Chen, T. and Zhang, Y. and Shen, H. T. and Shi, X. and
               Xu, K.},
  booktitle = {International Conference on Machine Learning (ICML)},
  year      = {2026},
  note      = {arXiv:2512.01556}
}""",
        "stochastic-lifting": r"""@inproceedings{berman2026stochastic,
  title     = {Stochastic Lifting for Generating Trajectories of Stochastic Physical Systems},
  author    = {Berman, Jules and Blickhan, Tobias and Peherstorfer, Benjamin},
  booktitle = {International Conference on Machine Learning (ICML)},
  series    = {Proceedings of Machine Learning Research},
  volume    = {306},
  year      = {2026},
  note      = {arXiv:2605.29194}
}""",
        "engression": r"""@article{shen2024engression,
  title   = {Engression: extrapolation through the lens of distributional regression},
  author  = {Shen, Xinwei and Meinshausen, Nicolai},
  journal = {Journal of the Royal Statistical Society Series B},
  year    = {2024},
  note    = {arXiv:2307.00835}
}""",
        "flow-matching": r"""@inproceedings{lipman2023flow,
  title     = {Flow Matching for Generative Modeling},
  author    = {Lipman, Yaron and Chen, Ricky T. Q. and Ben-Hamu, Heli and Nickel, Maximilian and
               Le, Matt},
  booktitle = {International Conference on Learning Representations},
  year      = {2023},
  note      = {arXiv:2210.02747}
}""",
        "distflow": r"""@inproceedings{wang2026distflow,
  title     = {{DistFlow}: A Fully Distributed {RL} Framework for Scalable and Efficient
               {LLM} Post-Training},
  author    = {Wang and Zhou and Liu and Li and Hu and Yang and Lu and Hou and Feng and Cheng
               and Qi},
  booktitle = {International Conference on Machine Learning (ICML)},
  year      = {2026},
  note      = {arXiv:2507.13833}
}""",
        "spare": r"""@inproceedings{lee2026spare,
  title     = {{SPARe}: Stacked Parallelism with Adaptive Reordering for Fault-Tolerant {LLM}
               Pretraining Systems with 100k+ {GPU}s},
  author    = {Lee and Chen and He and Underwood and Nicolae and Cappello and Lu and Di and Zhang},
  booktitle = {International Conference on Machine Learning (ICML)},
  year      = {2026},
  note      = {arXiv:2603.00357}
}""",
        "young-checkpoint": r"""@article{young1974first,
  title   = {A first order approximation to the optimum checkpoint interval},
  author  = {Young, John W.},
  journal = {Communications of the ACM},
  volume  = {17},
  number  = {9},
  pages   = {530--531},
  year    = {1974}
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
        "simhash": r"""@inproceedings{charikar2002similarity,
  title     = {Similarity estimation techniques from rounding algorithms},
  author    = {Charikar, Moses S.},
  booktitle = {Proceedings of the 34th Annual {ACM} Symposium on Theory of Computing},
  pages     = {380--388},
  year      = {2002},
  doi       = {10.1145/509907.509965}
}""",
        "asymmetric-sketches": r"""@inproceedings{dong2008asymmetric,
  title     = {Asymmetric distance estimation with sketches for similarity search in
               high-dimensional spaces},
  author    = {Dong, Wei and Charikar, Moses and Li, Kai},
  booktitle = {Proceedings of the 31st International {ACM SIGIR} Conference},
  year      = {2008}
}""",
        "stream-rag": r"""@inproceedings{arora2026streamrag,
  title     = {Stream {RAG}: Instant and Accurate Spoken Dialogue Systems with Streaming Tool
               Usage},
  author    = {Arora, Siddhant and others},
  booktitle = {International Conference on Machine Learning (ICML)},
  year      = {2026},
  note      = {arXiv:2510.02044}
}""",
        "conformal-risk-control": r"""@inproceedings{angelopoulos2024conformal,
  title     = {Conformal Risk Control},
  author    = {Angelopoulos, Anastasios N. and Bates, Stephen and Fisch, Adam and Lei, Lihua and
               Schuster, Tal},
  booktitle = {International Conference on Learning Representations},
  year      = {2024},
  note      = {arXiv:2208.02814}
}""",
        "rabitq": r"""@article{gao2024rabitq,
  title   = {{RaBitQ}: Quantizing High-Dimensional Vectors with a Theoretical Error Bound for
             Approximate Nearest Neighbor Search},
  author  = {Gao, Jianyang and Long, Cheng},
  journal = {Proceedings of the ACM on Management of Data},
  volume  = {2},
  number  = {3},
  year    = {2024},
  doi     = {10.1145/3654970}
}""",
        "qpko": r"""@inproceedings{tian2026qpko,
  title     = {{QPKO}: Differentiable {QP}-Embedded Deep {K}oopman Framework for Modeling Nonlinear
               Systems},
  author    = {Tian, Runze and Kou, Peng},
  booktitle = {International Conference on Machine Learning (ICML)},
  year      = {2026}
}""",
        "koopman-mpc": r"""@article{korda2018linear,
  title   = {Linear predictors for nonlinear dynamical systems: {K}oopman operator meets model
             predictive control},
  author  = {Korda, Milan and Mezi{\'c}, Igor},
  journal = {Automatica},
  volume  = {93},
  pages   = {149--160},
  year    = {2018}
}""",
        "edmd": r"""@article{williams2015data,
  title   = {A data-driven approximation of the {K}oopman operator: extending dynamic mode
             decomposition},
  author  = {Williams, Matthew O. and Kevrekidis, Ioannis G. and Rowley, Clarence W.},
  journal = {Journal of Nonlinear Science},
  volume  = {25},
  pages   = {1307--1346},
  year    = {2015}
}""",
        "edmd-dictionary-learning": r"""@article{li2017extended,
  title   = {Extended dynamic mode decomposition with dictionary learning: a data-driven adaptive
             spectral decomposition of the {K}oopman operator},
  author  = {Li, Qianxiao and Dietrich, Felix and Bollt, Erik M. and Kevrekidis, Ioannis G.},
  journal = {Chaos},
  volume  = {27},
  year    = {2017}
}""",
        "deep-koopman-control": r"""@article{shi2022deep,
  title   = {Deep {K}oopman operator with control for nonlinear systems},
  author  = {Shi, Haojie and Meng, Max Q.-H.},
  journal = {IEEE Robotics and Automation Letters},
  volume  = {7},
  year    = {2022}
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
