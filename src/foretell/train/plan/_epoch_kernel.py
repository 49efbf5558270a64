"""One epoch of a simulated training: from all groups alive to a wipe-out, a restart or the end.

Between two failures every step takes equally long, but for jitter, so whole stretches of steps are
passed at once: the work is in the failures and the checkpoints, not in the steps.

A failure inside a step: survivors finish what they have, the group is noticed and left out
(``stall_s``), its units are computed by others (the patch), and if it died in the all-reduce, that
is done again. A failure during a save leaves nothing to patch.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from foretell.train.plan._matching import QUICK, WIPED_OUT, largest, patch, replan

REORDER, REPLICATE, DROP = 0, 1, 2
FINISHED, WIPED, STOPPED, LATE = 0, 1, 2, 3
FAILURES, PATCH_S, LOAD_STEPS, STEPS, SAVE_S, STALL_S, FIXED = 0, 1, 2, 3, 4, 5, 6
N_TALLIES = 7


@njit(cache=True)
def run_epoch(  # type: ignore[no-untyped-def]
    hosts,
    stacks,
    where,
    times,
    groups,
    rng,
    mode,
    first,
    restart_at,
    goal,
    done,
    useful,
    compute_s,
    reduce_s,
    save_s,
    interval_s,
    stall_s,
    jitter,
    limit_s,
    tally,
):  # pragma: no cover
    """Run until something ends the epoch.

    Returns (end, seconds, steps kept, useful seconds of the kept steps, steps done). ``done`` and
    ``useful`` are what the checkpoint of the start holds; ``tally`` is added to in place.
    """
    n, r = hosts.shape
    q = first.shape[1]
    alive = np.ones(n, np.bool_)
    n_failed = 0
    owner = first.copy()
    spare = np.full((n, q), -1, np.int64)
    load = np.full(n, q, np.int64)
    capacity = q * r if mode == REPLICATE else q
    t, since = 0.0, 0.0
    saved, saved_useful = done, useful
    event, n_events = 0, times.shape[0]
    while True:
        step_s = capacity * compute_s / q + reduce_s
        gain = (n - n_failed) / n if mode == DROP else 1.0
        coming = times[event] if event < n_events else math.inf
        due = max(1, math.ceil((interval_s - save_s - since) / step_s))
        count = min(due, math.ceil((goal - done) / gain - 1e-9))
        pace = step_s * max(0.1, 1 + jitter * rng.standard_normal() / math.sqrt(count))
        if t > limit_s:
            return LATE, t, saved, saved_useful, done
        in_step = t + count * pace > coming
        if in_step:
            count = int((coming - t) / pace) if coming > t else 0
        t += count * pace
        since += count * pace
        done += count * gain
        useful += count * pace
        tally[STEPS] += count
        tally[LOAD_STEPS] += count * capacity / q
        if not in_step and done >= goal - 1e-9:
            return FINISHED, t, done, useful, done
        if in_step:
            end = max(t, coming) + pace - (max(t, coming) - t)
            computed = t + capacity * compute_s / q
        else:
            end = t + save_s
            computed = math.inf
            tally[SAVE_S] += save_s
        ready = end
        hit = False
        supplier = owner
        while event < n_events and times[event] < end:
            now = times[event]
            while event < n_events and times[event] <= now:
                if alive[groups[event]]:
                    alive[groups[event]] = False
                    n_failed += 1
                    tally[FAILURES] += 1
                event += 1
            if not _hosted(hosts, alive, mode, n_failed):
                return WIPED, max(now, t) + stall_s, saved, saved_useful, done
            extra = stall_s
            tally[STALL_S] += stall_s
            if mode == REORDER:
                if not hit:
                    supplier = owner.copy()
                old_spare = spare.copy()
                capacity, _, _ = replan(
                    hosts, stacks, where, alive, owner, spare, load, capacity, np.int64(QUICK)
                )
                if capacity == WIPED_OUT:
                    return WIPED, max(now, t) + stall_s, saved, saved_useful, done
                if in_step:
                    units = largest(patch(hosts, stacks, where, alive, supplier, old_spare))
                    extra += units * compute_s / q
                    tally[PATCH_S] += units * compute_s / q
                    tally[FIXED] += units == 0
            if in_step and now > computed:
                extra += reduce_s
            hit = True
            end += extra
        if in_step:
            gain = (n - n_failed) / n if mode == DROP else 1.0
            done += gain
            useful += pace
            tally[STEPS] += 1
            tally[LOAD_STEPS] += (ready - t - reduce_s) / compute_s
            since += end - t
            t = end
            if done >= goal - 1e-9:
                return FINISHED, t, done, useful, done
        else:
            t = end
            since = 0.0
            saved, saved_useful = done, useful
        if n_failed >= restart_at:
            if in_step:
                t += save_s
                tally[SAVE_S] += save_s
            return STOPPED, t, done, useful, done


@njit(cache=True)
def _hosted(hosts, alive, mode, n_failed):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Whether the batch can still be made."""
    n, r = hosts.shape
    if mode == DROP:
        return n_failed < n
    for i in range(n):
        for p in range(r):
            if alive[hosts[i, p]]:
                break
        else:
            return False
    return True
