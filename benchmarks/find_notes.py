"""foretell find on the documentation of npm: what the sketch loses and gains.

Twenty questions in the words of somebody who does not know the answer. They, and what counts as
right (a file, a word that must stand in the passage), were written before anything was searched.
Compared are exact search over all float vectors, the sketch at several sizes and budgets, its bits
alone, and grep for the words of the question. Beside it: the embedding by NumPy against
sentence-transformers, on the same texts in one process, in turns.

benchmarks/find_notes.py NOTES     default: the documentation of an installed npm
"""

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from _common import CACHE, left_out, ratio_interval, shown, write_result

from foretell.app.notes.files import list_folder
from foretell.app.notes.library import Found, Library
from foretell.app.notes.sentence_vectors import DIMENSIONS, SentenceVectors, fingerprint, installed
from foretell.recall import SignSketch, SketchIndex

NOTES = Path("/usr/lib/node_modules/npm/docs/content")
K, TEXTS, TURNS = 5, 50, 7
STOP = set(
    "a an and are at be by can do does for from how i in is it its my of off on one or other "
    "people several should so someone tell that the their them this to up was what when where "
    "which who why will with without would you".split()
)
QUESTIONS = [  # question, file, what must stand in title or text
    ("How do I stop packages from running their own code when I install them?", "",
     "ignore-scripts|approve-scripts|deny-scripts|install-scripts"),
    ("make a reproducible clean install on the build server", "npm-ci|install-ci", ""),
    ("which file pins the exact version of everything in the tree?", "lock|shrinkwrap", ""),
    ("take a version that I published by accident back down", "unpublish|deprecate", ""),
    ("warn people away from an old release without deleting it", "deprecate", ""),
    ("log in with a second factor", "", "2fa|otp|two-factor|auth-type"),
    ("go through the company's web proxy", "", "proxy"),
    ("is my download cache corrupted?", "npm-cache|doctor", ""),
    ("see what would be published before publishing", "pack|publish|developers",
     "dry-run|npm pack|included"),
    ("force a dependency of a dependency to another version", "package-json", "overrides"),
    ("which of my dependencies have newer versions?", "outdated", ""),
    ("find known security holes in what I installed", "audit", ""),
    ("several packages in one repository", "", "workspace"),
    ("run a tool once without installing it", "npx|npm-exec", ""),
    ("why is this package in my tree?", "explain|npm-ls|query", ""),
    ("develop two packages together on my disk", "npm-link|workspaces", ""),
    ("which files end up in the tarball and which are left out?", "",
     r"npmignore|`?files`? (field|array|list)|gitignore"),
    ("only install what is needed in production", "", "omit|production|devDependencies|prune"),
    ("hand a package over to a colleague", "npm-owner|npm-access|npm-team", ""),
    ("tell npm which node versions my package works with", "", "engines"),
]  # fmt: skip


def right(found: Found, file: str, words: str) -> bool:
    text = f"{found.passage.title}\n{found.passage.text}"
    return bool(re.search(file, found.file) and re.search(words, text, re.IGNORECASE))


def content_words(question: str) -> list[str]:
    return [w for w in re.findall(r"[a-z0-9-]+", question.lower()) if w not in STOP and len(w) > 2]


def first_right(order: Any, good: Any) -> int | None:
    places = np.flatnonzero(good[np.asarray(order)])
    return int(places[0]) + 1 if places.size else None


def searches(X: Any, Q: Any) -> dict[str, tuple[Any, int, int]]:
    """Order of passages (nq, >= K) by each method, vectors read, bytes looked at for a question."""
    n, d = X.shape
    out: dict[str, tuple[Any, int, int]] = {
        "float, every vector": (np.argsort(-(Q @ X.T), axis=1, kind="stable"), n, 4 * d * n)
    }
    for bits, budget in ((384, 100), (384, 20), (128, 100), (128, 20), (64, 100)):
        index = SketchIndex(SignSketch(n_bits=bits, random_state=0).fit(X[:1]))
        index.add(X)
        ids = index.search(Q, k=budget, budget=budget).ids
        looked = n * bits // 8 + 4 * d * budget
        out[f"{bits} bits, {budget} candidates"] = (ids, budget, looked)
        if (bits, budget) == (384, 100):
            alone = index.search(Q, k=n, budget=n, rerank=False).ids
            out["384 bits alone"] = (alone, 0, n * bits // 8)
    return out


def grep(passages: list[Found], question: str) -> tuple[list[int], list[int]]:
    """Passages with all words of the question, and with any: most words first, file order."""
    texts = [f"{p.passage.title}\n{p.passage.text}".lower() for p in passages]
    words = content_words(question)
    hits = np.array([sum(word in text for word in words) for text in texts])
    ranked = [int(i) for i in np.argsort(-hits, kind="stable") if hits[i]]
    return [int(i) for i in np.flatnonzero(hits == len(words))], ranked


def quality(
    passages: list[Found], X: Any, Q: Any, questions: list[tuple[str, str, str]], what: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tables of all searches together and of each question; ``what`` says what was searched."""
    good = np.array([[right(p, file, words) for p in passages] for _, file, words in questions])
    found = searches(X, Q)
    exact = found["float, every vector"][0][:, :K]
    places: dict[str, list[int | None]] = {}
    rows = []
    for name, (order, reads, looked) in found.items():
        places[name] = [first_right(order[q], good[q]) for q in range(len(Q))]
        same = np.mean([np.isin(exact[q], order[q][:K]).mean() for q in range(len(Q))])
        rows.append([name, *counted(places[name]), float(same), reads, f"{looked / 1e3:.0f} kB"])
    for name, which in (("grep, all words", 0), ("grep, most words", 1)):
        hits = [grep(passages, question)[which] for question, _, _ in questions]
        places[name] = [first_right(h, good[q]) if h else None for q, h in enumerate(hits)]
        same = np.mean([np.isin(exact[q], hits[q][:K]).mean() for q in range(len(Q))])
        size = sum(len(p.passage.text) for p in passages)
        rows.append([name, *counted(places[name]), float(same), None, f"{size / 1e3:.0f} kB"])
    table = {
        "columns": ["search", f"right one first, of {len(Q)}", f"among {K}", "nowhere in 100",
                    f"the {K} of float search", "vectors read", "looked at for a question"],
        "rows": rows,
        "note": f"{len(passages)} passages of {what}; right by file and word.",
    }  # fmt: skip
    shown_ = ("float, every vector", "384 bits, 100 candidates", "64 bits, 100 candidates",
              "384 bits alone", "grep, most words")  # fmt: skip
    each = {
        "columns": ["question", *shown_],
        "rows": [
            [question, *(places[name][q] for name in shown_)]
            for q, (question, _, _) in enumerate(questions)
        ],
        "note": "Place of the first right passage; - where there is none.",
    }
    return table, each


def counted(places: list[int | None]) -> tuple[int, int, int]:
    first = sum(p == 1 for p in places)
    return (
        first,
        sum(p is not None and p <= K for p in places),
        sum(p is None or p > 100 for p in places),
    )


def embedding(texts: list[str]) -> dict[str, Any]:
    """NumPy against torch on the same texts, in turns."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)
    ours = SentenceVectors()
    peer = SentenceTransformer(str(installed()), device="cpu")
    peer.max_seq_length = 512
    options = {"batch_size": 16, "normalize_embeddings": True, "show_progress_bar": False}
    sides = {"NumPy": ours.encode, "torch": lambda some: peer.encode(some, **options)}
    vectors = {name: encode(texts) for name, encode in sides.items()}
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(TURNS):
        for name in list(sides)[:: 1 if turn % 2 else -1]:
            began = time.process_time()
            sides[name](texts)
            spent[name].append(time.process_time() - began)
    cosines = (vectors["NumPy"] * vectors["torch"]).sum(axis=1)
    starts = {
        "NumPy": "from foretell.app.notes.sentence_vectors import SentenceVectors as S; S()",
        "torch": "from sentence_transformers import SentenceTransformer as S; "
        f"S({str(installed())!r}, device='cpu')",
    }
    ratio = ratio_interval(spent["NumPy"], spent["torch"])
    rows = [
        [name, cpu_seconds(starts[name]), len(texts) / float(np.median(spent[name])),
         shown(ratio) if name == "NumPy" else "1"]
        for name in sides
    ]  # fmt: skip
    return {
        "columns": ["forward pass", "start, CPU-s", "texts a CPU-s", "time / torch"],
        "rows": rows,
        "note": f"{len(texts)} passages, {TURNS} turns; smallest cosine between the two vectors of "
        f"a text {float(cosines.min()):.7f}.",
    }


def built(folder: Path, notes: Path) -> tuple[list[Found], Any, float, int]:
    """Passages of an index that is begun or brought up to date, their vectors, CPU-s, embedded."""
    with Library.create(folder, notes, 384, fingerprint(), DIMENSIONS) as library:
        began = time.process_time()
        counts = library.build(list_folder(notes), SentenceVectors())
        spent = time.process_time() - began
        passages = library.everything()
        view, _ = library.index.view()
        rows = {int(i): row for row, i in enumerate(view.columns["ids"].all().ravel())}
        X = view.columns["vectors"].take(np.array([rows[p.id] for p in passages]))
    return passages, X, spent, counts.embedded


def cpu_seconds(program: str) -> float:
    timed = f"import time; {program}; print(time.process_time())"
    said = subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True)
    return float(said.stdout.split()[-1])


def main() -> None:
    notes = Path(sys.argv[1]) if len(sys.argv) > 1 else NOTES
    if not notes.is_dir():
        left_out(f"{notes} is no folder. Install npm, or name a folder of notes")
    passages, X, spent, embedded = built(CACHE / "find_notes", notes)
    print(f"{embedded} passages embedded in {spent:.0f} CPU-s")
    model = SentenceVectors()
    Q = model.encode([question for question, _, _ in QUESTIONS])
    table, each = quality(passages, X, Q, QUESTIONS, "the documentation of npm")
    some = [p.passage.embedded for p in passages[:: max(1, len(passages) // TEXTS)][:TEXTS]]
    tables = {"find-notes": table, "find-questions": each, "find-embedding": embedding(some)}
    write_result("find_notes", {"k": K, "passages": len(passages), "texts": len(some)}, tables)
    for one in tables.values():
        print(*one["rows"], one["note"], sep="\n")


if __name__ == "__main__":
    main()
