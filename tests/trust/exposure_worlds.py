"""Excitation models with known parameters, logs drawn at random, and regulators over them."""

import numpy as np

from foretell.trust import EventLog, ExcitationModel, Gate


def known_model(mu, alpha, decay, users=None):
    """A fitted model with these parameters: usual shares (U, C), excitation (C, C)."""
    mu, alpha = np.atleast_2d(np.asarray(mu, float)), np.asarray(alpha, float)
    model = ExcitationModel(decay=decay)
    model.users_ = np.arange(mu.shape[0]) if users is None else np.asarray(users)
    model.groups_ = None
    model.baseline_, model.prior_ = mu, mu.mean(0)
    model.excitation_, model.standard_errors_ = alpha, 0.1 * alpha
    model.decay_, model.prior_strength_ = decay, 50.0
    model.gate_ = Gate(True, 1.0, 1.1, 1.2, 100)
    model.state_, model.counts_ = np.zeros_like(mu), np.ones_like(mu)
    model.counted_, model.exposure_ = alpha.copy(), np.ones(mu.shape[1])
    model.engagements_ = np.stack([np.full(mu.shape[1], 30.0), np.full(mu.shape[1], 60.0)])
    return model


def random_model(seed, n_categories=5, n_users=20, strength=0.15):
    rng = np.random.default_rng(seed)
    mu = rng.dirichlet(np.full(n_categories, 2.0), size=n_users)
    alpha = rng.uniform(0, 0.1 * strength, (n_categories, n_categories))
    alpha[np.diag_indices(n_categories)] += rng.uniform(0.5, 1.0, n_categories) * strength
    return known_model(mu, alpha, float(rng.uniform(0.05, 0.6)))


def runs_log(seed=0, n_users=40, n_events=100, n_categories=4, run=5, **more):
    """Each user consumes a random category several times in a row, then another."""
    rng = np.random.default_rng(seed)
    stretches = rng.integers(n_categories, size=n_users * n_events // run)
    users = np.repeat(np.arange(n_users), n_events)
    return EventLog.from_columns(
        users, np.repeat(stretches, run), n_categories=n_categories, **more
    )
