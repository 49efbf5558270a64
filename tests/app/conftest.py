"""One fitted study with a known model, shared by the tests of the report."""

from __future__ import annotations

import pytest

from foretell.app.fitting import Origin, fit_study
from foretell.app.folder import FitFolder
from foretell.app.planning import make_plan
from foretell.app.study import Study
from tests.app.fake import Pulse, pulse_recording


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, FitFolder]:
    """A study of an irregular pulse and its folder."""
    folder = FitFolder(tmp_path_factory.mktemp("fit") / "pulse")
    data = pulse_recording()
    plan = make_plan(data, effort=2)
    request = {"command": "foretell fit pulse.csv --time t --out pulse"}
    folder.claim(request, resume=False)
    origin = Origin("A pulse", "pulse.csv", request["command"], citations=("heartpy",))
    study = fit_study(data, plan, folder, origin, learner=lambda plan: Pulse())
    folder.finish(request)
    return study, folder
