"""Calibrate a real text classifier, apply the rule to shifted texts, and read what it says.

Which part of scikit-learn does a sentence of its documentation come from? Those texts ship with it
(its own text sets must be downloaded). The shift: every second word is missing, as in notes taken
in a hurry; the classifier errs more often, and is less sure.
"""

import csv
import importlib
import inspect
import re
import subprocess
import sys

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

topics = ("linear_model", "cluster", "ensemble", "preprocessing", "decomposition", "svm")
part_of = {}  # every sentence once
for part in topics:
    for kind in filter(inspect.isclass, vars(importlib.import_module(f"sklearn.{part}")).values()):
        for text in re.split(r"[.:]\s", inspect.getdoc(kind)):
            words = re.findall("[a-z]+", text.lower())
            if len(words) >= 6:
                part_of.setdefault(" ".join(words), part)

rng = np.random.default_rng(0)
texts = rng.permutation(sorted(part_of))
truth = np.array([part_of[text] for text in texts])
train, calibrate, new = np.array_split(np.arange(len(texts)), 3)
model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=30, max_iter=2000))
model.fit(texts[train], truth[train])
hasty = [" ".join(w for w in text.split() if rng.random() < 0.5) for text in texts[new]]

for name, rows, seen in (
    ("calibration.csv", calibrate, texts[calibrate]),
    ("new.csv", new, texts[new]),
    ("hasty.csv", new, hasty),
):
    sure = model.predict_proba(seen).max(axis=1)
    wrong = (model.predict(seen) != truth[rows]).astype(int)
    with open(name, "w", newline="") as file:
        rows_of_table = zip(seen, np.round(1 - sure, 6), wrong, strict=True)
        csv.writer(file).writerows([("text", "uncertainty@1", "wrong"), *rows_of_table])

for command in (
    "calibrate calibration.csv --alpha 0.2 --out rule.json",
    "apply rule.json new.csv --out decisions.csv",
    "apply rule.json hasty.csv --out decisions-hasty.csv",
    "report rule.json calibration.csv hasty.csv --out rule.html",
):
    print(f"\n$ foretell trust {command}", flush=True)
    foretell = [sys.executable, "-c", "from foretell.app.cli import main; main()"]
    subprocess.run([*foretell, "trust", *command.split()], check=True, stderr=subprocess.STDOUT)
