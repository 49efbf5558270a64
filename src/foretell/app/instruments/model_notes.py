"""What a fitted model tells about itself, as short notes that can be found and quoted."""

from __future__ import annotations

from foretell.app.instruments.model_view import ModelView
from foretell.app.notes.passages import Passage
from foretell.app.words import amount, listing


def notes_of(view: ModelView) -> list[tuple[str, Passage]]:
    """File and passage of each note; the findings are those of the report."""
    title = f"The model {view.name}"
    said = [(f"{view.name}/model/model.json", _card(view))]
    summary = f"{view.name}/summary.json"
    verdict = view.summary.get("verdict", {}).get("sentence")
    if verdict:
        said.append((summary, f"How good the model is. {verdict}"))
    said += [(summary, str(text)) for text in view.summary.get("findings", [])]
    said += [(summary, f"Warning. {text}") for text in view.summary.get("warnings", [])]
    return [(file, Passage(title, text, 0, 0)) for file, text in said]


def _card(view: ModelView) -> str:
    def shown(names: tuple[str, ...]) -> str:
        units = (view.unit_of(name) for name in names)
        return listing([f"{n} in {u}" if u else n for n, u in zip(names, units, strict=True)])

    lines = [f"The variables of the model are {shown(view.shown)}."]
    if view.controls:
        lines.append(f"Its inputs, which can be changed, are {shown(view.controls)}.")
    else:
        lines.append("It was fitted without inputs.")
    if view.data is not None:
        data = view.data
        lines.append(
            f"It was fitted to {data.n_recordings} recordings with {data.n_samples} samples, "
            f"{amount(data.median_interval, data.time_unit)} apart."
        )
    learner = view.summary.get("plan", {}).get("learner")
    if learner:
        lines.append(f"The learner is {learner}.")
    return " ".join(lines)
