"""The page in a real browser: typed and spoken questions, stopping, coming back, two at once."""

from __future__ import annotations

import subprocess
import sys
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("websockets", reason="needs the extra serve")

from tests.app.browser import Browser, Page
from tests.app.talking import NOTES, Running, service

pytestmark = pytest.mark.system("chromium")

ASK = "document.getElementById('question')"
ANSWERS = "[...document.querySelectorAll('article .answer')].map((e) => e.textContent.trim())"
SPOKEN = "When is the oil of the pump changed?"


class Drone:
    """A voice that goes on for a while."""

    def say(self, text, *, language=None, cancelled=lambda: False):
        for _ in range(100):
            if cancelled():
                return
            yield np.zeros(8000, np.int16), 16_000


def speech(path: Path) -> Path:
    """A question as a fake microphone plays it: silence, the words of espeak-ng, silence."""
    said = path.with_name("said.wav")
    subprocess.run(["espeak-ng", "-s", "150", "-w", said, SPOKEN], check=True, timeout=30)
    with wave.open(str(said)) as file:
        rate = file.getframerate()
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        silence = np.zeros(rate, np.int16)
        file.writeframes(np.concatenate([silence, samples, *[silence] * 20]).tobytes())
    return path


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    try:
        return speech(tmp_path_factory.mktemp("speech") / "question.wav")
    except FileNotFoundError:
        return None


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory, recording: Path | None) -> Iterator[Browser]:
    fake = f"--use-file-for-fake-audio-capture={recording}%noloop"
    folder = tmp_path_factory.mktemp("browser")
    media = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
    with Browser(folder, *media, *([fake] if recording else [])) as one:
        yield one


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    about = {"name": "pump", "passages": 4, "speaks": True, "missing": {}}
    with Running(service(about=about, voice=Drone())) as one:
        yield one


@pytest.fixture
def page(browser: Browser, running: Running) -> Iterator[Page]:
    one = browser.page(own=True)
    opened(one, running.url)
    yield one
    one.look("location.href = 'about:blank'")


def opened(page: Page, url: str) -> None:
    page.appear(1280, 860)
    page.open(url)
    page.until("document.getElementById('about').textContent")


def ask(page: Page, text: str) -> None:
    page.type(text)
    page.press("Enter")


def test_a_typed_question(page: Page) -> None:
    page.type("how do I bleed the brake line ", 0.01)
    page.until("document.querySelector('.quiet .found.ready')")
    assert "ready" in page.look("document.getElementById('quiet').textContent")
    assert page.look("document.querySelector('article')") is None
    page.type("?")
    page.press("Enter")
    page.until("document.querySelector('.badge')")
    assert page.look(ANSWERS) == [NOTES["bleed"] + "1"]
    page.click(".cite")
    assert page.look("document.querySelector('#source mark').textContent") == NOTES["bleed"]
    assert page.look("document.getElementById('source-place').textContent") == "pump.md:4-5"
    page.press("Escape")
    assert page.look("document.getElementById('source').hidden")
    assert page.look("document.activeElement.className") == "cite"
    page.click(".badge")
    why = page.look("document.querySelector('.why').textContent")
    assert "It is quoted." in why
    assert "given up to here" in why
    assert page.look("document.querySelector('.badge').ariaExpanded") == "true"
    assert "read before that" in page.look("document.querySelector('.when').textContent")
    assert page.problems == []


def test_the_page_fits_a_phone_and_names_its_parts(page: Page) -> None:
    ask(page, "who discovered the radium?")
    page.until("document.querySelector('.badge')")
    for width, dark in ((390, True), (320, False), (1280, True)):
        page.appear(width, 800, dark=dark)
        assert page.look("document.documentElement.scrollWidth") <= width
        paper = "rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)"
        assert page.look("getComputedStyle(document.body).backgroundColor") == paper
    nameless = page.look(
        "[...document.querySelectorAll('button, input, select, textarea')].filter((e) => "
        "!e.ariaLabel && !e.textContent.trim() && !e.labels?.length).map((e) => e.outerHTML)"
    )
    assert nameless == []
    assert page.look("document.getElementById('log').getAttribute('aria-live')") == "polite"


def test_typing_stops_an_answer_that_is_read_aloud(page: Page) -> None:
    page.click("#aloud")
    page.look(f"{ASK}.focus()")
    ask(page, "how do I bleed the brake line?")
    page.until("document.querySelector('.badge')")
    page.until("!document.getElementById('stop').hidden")
    page.type("when is ")
    page.until("document.getElementById('stop').hidden")
    page.type("the oil changed")
    page.press("Enter")
    page.until("document.querySelectorAll('.badge').length === 2")
    page.until("!document.getElementById('stop').hidden")
    page.press("Escape")
    page.until("document.getElementById('stop').hidden")
    assert page.look(ANSWERS)[1] == NOTES["oil"] + "1"


def test_stopping_while_it_is_thought_about(page: Page, running: Running) -> None:
    ask(page, "slowly, how do I bleed the brake line?")
    page.until("document.querySelector('.waiting')")
    page.press("Escape")
    page.until("document.querySelector('article .caption')")
    assert page.look("document.querySelector('article .caption').textContent") == "Stopped."
    ask(page, "when is the oil changed?")
    page.until("document.querySelector('.badge')")
    assert page.look(ANSWERS) == [NOTES["oil"] + "1"]
    ask(page, "?!")
    page.until("!document.getElementById('notice').hidden")
    assert page.look("document.getElementById('notice').textContent") == "Nothing was asked."


def test_two_at_once(browser: Browser, running: Running) -> None:
    pages = [browser.page(own=True) for _ in range(2)]
    for one in pages:
        opened(one, running.url)
    for one, text in zip(pages, ("who discovered radium", "which degrees Celsius"), strict=True):
        one.type(text)
    for one in pages:
        one.press("Enter")
    for one, id in zip(pages, ("radium", "limit"), strict=True):
        one.until("document.querySelector('.badge')")
        assert one.look(ANSWERS) == [NOTES[id] + "1"]


def test_it_comes_back_after_the_server_was_killed(browser: Browser, tmp_path: Path) -> None:
    code = (
        "import sys; from tests.app.talking import *; "
        "one = Running(service(about={'name': 'pump'}), int(sys.argv[1])); "
        "print(one.port, flush=True); threading.Event().wait(120)"
    )

    def start(port: str) -> tuple[subprocess.Popen[str], str]:
        server = subprocess.Popen(
            [sys.executable, "-c", code, port], stdout=subprocess.PIPE, text=True
        )
        assert server.stdout is not None
        return server, server.stdout.readline().strip()

    server, port = start("0")
    page = browser.page(own=True)
    try:
        opened(page, f"http://127.0.0.1:{port}/")
        ask(page, "when is the oil changed?")
        page.until("document.querySelector('.badge')")
        kill(server)
        page.until("document.getElementById('link').textContent === 'Connecting'")
        ask(page, "who discovered radium?")
        assert "as soon as it is" in page.look("document.getElementById('notice').textContent")
        server, _ = start(port)
        page.until("document.querySelectorAll('.badge').length === 2", 30)
        assert page.look(ANSWERS) == [NOTES["oil"] + "1", NOTES["radium"] + "1"]
        assert page.look("document.getElementById('link').textContent") == ""
    finally:
        kill(server)


def kill(server: subprocess.Popen[str]) -> None:
    server.kill()
    server.wait()
    assert server.stdout is not None
    server.stdout.close()


def hearing_service():
    """A server that hears, where the parts for it are installed."""
    from foretell.converse.audio import EnergyActivity, Hearing, WhisperRecogniser
    from foretell.core.errors import ForetellError

    try:
        recogniser = WhisperRecogniser()
    except ForetellError as error:
        pytest.skip(f"no speech recogniser: {error}")

    def ears() -> Hearing:
        return Hearing(recogniser, activity=EnergyActivity(), turn_end=None)

    return service(about={"name": "pump"}, ears=ears, manners=ears().manners)


def test_a_spoken_question(browser: Browser, recording: Path | None) -> None:
    if recording is None:
        pytest.skip("needs the system program 'espeak-ng'")
    with Running(hearing_service()) as one:
        page = browser.page(own=True)
        opened(page, one.url)
        page.click("#open")
        page.until("document.querySelector('article h2')", 30)
        page.until("document.querySelector('.badge')", 30)
        heard = page.look("document.querySelector('article h2').textContent").lower()
        assert "oil" in heard
        assert page.look(ANSWERS) == [NOTES["oil"] + "1"]
        assert page.look("document.getElementById('talk').ariaPressed") == "true"
        page.click("#open")
        page.until("document.getElementById('talk').ariaPressed === 'false'")
        assert page.problems == []
        held = browser.page(own=True)
        opened(held, one.url)
        held.mouse("pressed", "#talk")
        held.until("/changed/i.test(document.querySelector('article h2')?.textContent)", 30)
        held.mouse("released", "#talk")
        held.until("document.querySelector('.badge')", 30)
        assert held.look(ANSWERS) == [NOTES["oil"] + "1"]
        assert held.look("document.getElementById('talk').ariaPressed") == "false"


def test_the_microphone_is_refused_or_useless(browser: Browser, running: Running) -> None:
    page = browser.page(own=True)
    opened(page, running.url)
    page.look(
        "navigator.mediaDevices.getUserMedia = () => "
        "Promise.reject(new DOMException('no', 'NotAllowedError'))"
    )
    page.mouse("pressed", "#talk")
    page.until("!document.getElementById('notice').hidden")
    assert "not allowed" in page.look("document.getElementById('notice').textContent")
    page.mouse("released", "#talk")
    assert page.look("document.getElementById('talk').ariaPressed") == "false"
    ask(page, "")
    page.look(f"{ASK}.focus()")
    ask(page, "when is the oil changed?")
    page.until("document.querySelector('.badge')")
    assert page.look(ANSWERS) == [NOTES["oil"] + "1"]
