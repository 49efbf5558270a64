"""Routing data as scores and errors of two models; computed once and kept.

Prompts and whether Mixtral-8x7B and GPT-4-1106 answered them wrongly (lm-sys/RouteLLM, Apache-2.0):
14,042 multiple-choice questions (MMLU, MIT), 1,319 word problems (GSM8K, MIT). The score of each
model is the out-of-fold probability of a wrong answer by logistic regression on TF-IDF words and
word pairs of the prompt.
"""

import csv
import gzip

import numpy as np
from _common import CACHE, data

MODELS = ("Mixtral", "GPT-4")


def load(name: str = "mmlu") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores (n, 2), errors (n, 2) and the subject of each prompt (n,)."""
    kept = CACHE / ("lec_routing.npz" if name == "mmlu" else f"lec_routing_{name}.npz")
    if not kept.exists():
        subjects, prompts, errors = _read(name)
        kept.parent.mkdir(exist_ok=True)
        np.savez(kept, scores=_scores(prompts, errors), errors=errors, subjects=subjects)
    data = np.load(kept)
    return data["scores"], data["errors"], data["subjects"]


def _read(name: str) -> tuple[np.ndarray, list[str], np.ndarray]:
    with gzip.open(
        data(f"routing/{name}_routing.csv.gz"), "rt", encoding="utf-8", newline=""
    ) as handle:
        rows = list(csv.DictReader(handle))
    errors = np.array([[int(r["mixtral_wrong"]), int(r["gpt4_wrong"])] for r in rows])
    return np.array([r.get("subject", "") for r in rows]), [r["prompt"] for r in rows], errors


def _scores(prompts: list[str], errors: np.ndarray) -> np.ndarray:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import KFold

    scores = np.empty(errors.shape)
    for train, test in KFold(5, shuffle=True, random_state=0).split(errors):
        words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
        X = words.fit_transform([prompts[i] for i in train])
        X_test = words.transform([prompts[i] for i in test])
        for k in range(2):
            model = LogisticRegression(max_iter=200).fit(X, errors[train, k])
            scores[test, k] = model.predict_proba(X_test)[:, 1]
    return scores
