"""Calibrate a real classifier, apply the rule to shifted data, and read what it says.

scikit-learn ships handwritten digits (its text sets must be downloaded). The same digits, with
sensor noise added, are the shift: the classifier errs more often, and is less sure.
"""

import csv
import subprocess
import sys

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

rng = np.random.default_rng(0)
images, truth = load_digits(return_X_y=True)
train, calibrate, new = np.array_split(rng.permutation(len(images)), 3)
model = LogisticRegression(C=0.01, max_iter=5000).fit(images[train], truth[train])


def write(name, rows, noise):
    """The uncertainty of every answer, and whether it was wrong."""
    seen = images[rows] + noise * rng.normal(size=images[rows].shape)
    sure = model.predict_proba(seen).max(axis=1)
    wrong = model.predict(seen) != truth[rows]
    with open(name, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["image", "uncertainty", "wrong"])
        table.writerows(zip(rows, np.round(1 - sure, 6), wrong.astype(int), strict=True))


write("calibration.csv", calibrate, 0.0)
write("new.csv", new, 0.0)
write("noisy.csv", new, 5.0)

for command in (
    "calibrate calibration.csv --alpha 0.02 --out rule.json",
    "apply rule.json new.csv --out decisions.csv",
    "apply rule.json noisy.csv --out decisions-noisy.csv",
    "report rule.json calibration.csv noisy.csv --out rule.html",
):
    print(f"\n$ foretell trust {command}", flush=True)
    foretell = [sys.executable, "-c", "from foretell.app.cli import main; main()"]
    subprocess.run([*foretell, "trust", *command.split()], check=True, stderr=subprocess.STDOUT)
