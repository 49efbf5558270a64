"""The closed loop where nothing was tuned: other data, other categories, other users, run once.

MovieLens latest-small in place of 100k; 31 categories by clustering the items' factors in place of
genres; four users in five cling to what they click (drift 0.2 in place of 0.05), the others tire;
feedback comes five steps late; at step 50 everyone's liking moves half way to one category. All
settings of the policies are those of coral_loop.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from _common import run_jobs, write_result
from _coral_data import ml_latest_small
from coral_loop import FATIGUE, OUTSIDE, POOL, SLOTS, STEPS, USERS, paired, policy
from sklearn.cluster import KMeans

from foretell.trust import (
    ClosedLoopSimulator,
    EchoRanker,
    EventLog,
    ExcitationModel,
    SaturationState,
    SimulatedUsers,
)

SEEDS = range(10)
POLICIES = ("ranker alone", "MMR 0.7", "Steck 0.7", "dual 0.05 + MMR", "dual 0.02 + MMR", "penalty")
CATEGORIES, DELAY, SHOCK_STEP = 31, 5, 50


@lru_cache(maxsize=1)
def setting() -> tuple[Any, ...]:
    ratings = ml_latest_small()
    liking = ratings.utilities()
    kinds = KMeans(CATEGORIES, n_init=2, random_state=0).fit_predict(items_of(liking))
    log = EventLog.from_columns(
        ratings.user, kinds[ratings.item], times=ratings.time, sort=True, n_categories=CATEGORIES
    )
    return liking, kinds, log, ExcitationModel().fit(log)


def items_of(liking: np.ndarray) -> np.ndarray:
    """Directions of the items among the users, for clustering."""
    _, values, right = np.linalg.svd(liking, full_matrices=False)
    factors = (values[:20, None] * right[:20]).T
    return factors / np.maximum(np.linalg.norm(factors, axis=1, keepdims=True), 1e-9)


def play(name: str, seeds: list[int]) -> dict[str, Any]:
    liking, kinds, log, model = setting()
    U = liking.shape[0]
    clings = np.random.default_rng(6).random(U) < 0.8
    users = SimulatedUsers(
        liking, kinds, model.baseline_, outside=OUTSIDE, drift=np.where(clings, 0.2, 0.05),
        fatigue=np.where(clings, 0.0, FATIGUE), shock_step=SHOCK_STEP, shock=np.eye(CATEGORIES)[3],
    )  # fmt: skip
    ranker = EchoRanker(liking, kinds, model.baseline_, pool=POOL)
    state = SaturationState(model, warm=False)
    limit = float(np.quantile(state.replay(log), 0.9))
    simulator = ClosedLoopSimulator(
        users, ranker, policy(name, model, log), world=state, limit=limit, slots=SLOTS, delay=DELAY
    )
    runs = [simulator.run(USERS, STEPS, random_state=seed).summary() for seed in seeds]
    return {key: [run[key] for run in runs] for key in runs[0]}


def main() -> None:
    jobs = [{"name": name, "seeds": list(SEEDS)} for name in POLICIES]
    results = run_jobs("coral_held_out", play, jobs, workers=1)
    keys = ("clicks", "violations", "recovery_steps", "coverage")
    write_result(
        "coral_held_out",
        {"seeds": list(SEEDS), "categories": CATEGORIES, "delay": DELAY, "shock": SHOCK_STEP},
        {
            "coral-held-out": {
                "columns": ["policy", "clicks in 100 steps", "violations", "steps to recover",
                            "categories clicked"],
                "rows": [[name, *(paired(np.array(r[key])) for key in keys)]
                         for name, r in zip(POLICIES, results, strict=True)],
                "note": f"Mean with 95 % interval over {len(SEEDS)} seeds. Run once.",
            }
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
