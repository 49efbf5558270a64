"""The server over real sockets: sessions, limits, strangers, nonsense, and a clean end."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("websockets", reason="needs the extra serve")

from websockets.exceptions import ConnectionClosed, InvalidStatus

from foretell.app.talk.gate import Gate
from foretell.app.talk.limits import Metrics, ServerLimits
from foretell.app.talk.sessions import Session
from foretell.core.errors import ParameterError
from tests.app.talking import NOTES, Client, Running, service

TOKEN = "a-token-of-good-length"


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with Running(service(about={"name": "pump", "passages": 4})) as one:
        yield one


def request(
    port: int, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body)
    if data is not None:
        sent.setdefault("content-type", "application/json")
    connection.request(method, path, data, sent)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, {k.lower(): v for k, v in answer.getheaders()}, text


# Asking -------------------------------------------------------------------------------------------


def test_a_typed_question_is_looked_up_while_it_is_typed(running: Running) -> None:
    with Client(running.port, hello={}) as page:
        assert page.welcome["name"] == "pump"
        assert not page.welcome["back"]
        for text in ("how do I", "how do I bleed the", "how do I bleed the brake "):
            page.say("partial", text=text)
        found = page.until("ready", id="bleed")
        assert found["turn"] == 1
        answer = page.ask("how do I bleed the brake line?")
        assert answer["text"] == NOTES["bleed"]
        assert answer["statements"][0]["sources"][0]["place"] == "pump.md:4-5"
        assert answer["decision"]["action"] == "accept"
        assert answer["waited"] >= 0
        looked = [m for m in page.seen if m["kind"] == "looking"]
        assert {"id": "bleed", "place": "pump.md:4-5", "title": "Pump"} in [
            m["source"] for m in looked
        ]


def test_a_question_that_fails_is_answered_with_the_reason(running: Running) -> None:
    with Client(running.port, hello={}) as page:
        answer = page.ask("how do I bleed the brake badly?")
        assert answer["decision"]["action"] == "withhold"
        assert "the reader broke" in answer["text"]
        assert page.ask("when is the oil changed?")["text"] == NOTES["oil"]


def test_stopping_and_barging_in(running: Running) -> None:
    reader = running.server.service.assistant
    with Client(running.port, hello={}) as page:
        page.say("end_of_turn", text="slowly, how do I bleed the brake line?", id="q1")
        page.until("state", to="answering")
        page.say("cancel")
        page.until("cancelled", turn=1)
        reader.go.set()  # type: ignore[attr-defined]
        assert page.ask("when is the oil changed?")["text"] == NOTES["oil"]
        assert [m["turn"] for m in page.seen if m["kind"] == "answer"] == [2]
        page.say("end_of_turn", text="how do I bleed the brake line?", id="q1")  # sent twice
        page.say("ping")
        page.until("pong")
        assert page.ask("who discovered radium?")["turn"] == 3


def test_a_page_that_comes_back_finds_its_conversation(running: Running) -> None:
    first = Client(running.port, hello={})
    first.ask("when is the oil changed?")
    key, seen = first.welcome["session"], max(m.get("n", 0) for m in first.seen)
    first.say("partial", text="who discovered the ")
    first.until("heard")
    first.close()
    with Client(running.port, hello={"session": key, "seen": seen}) as again:
        assert again.welcome["back"]
        state = again.until("resume")
        assert state["state"] == "listening"
        assert again.ask("who discovered the radium?")["text"] == NOTES["radium"]
        with Client(running.port, hello={"session": key, "seen": 0}) as third:
            assert again.ended() == "opened elsewhere"
            assert third.welcome["session"] == key
    with Client(running.port, hello={"session": "made up", "seen": 3}) as stranger:
        assert not stranger.welcome["back"]
        assert stranger.welcome["session"] not in (key, "made up")


def test_sessions_do_not_see_each_other(running: Running) -> None:
    pages = [Client(running.port, hello={}) for _ in range(8)]
    asked = list(NOTES) * 2
    words = {"bleed": "brake line", "limit": "Celsius", "oil": "oil hours", "radium": "Curies"}
    for page, id in zip(pages, asked, strict=True):
        page.say("partial", text=f"tell me about {words[id]} ")
    for page, id in zip(pages, asked, strict=True):
        page.say("end_of_turn", text=f"tell me about {words[id]}")
    for page, id in zip(pages, asked, strict=True):
        assert page.until("answer")["text"] == NOTES[id]
        page.until("state", to="idle")
        heard = {m["text"] for m in page.seen if m["kind"] == "heard"}
        assert heard <= {f"tell me about {words[id]}"}
        page.close()


def test_language_is_chosen_and_told(running: Running) -> None:
    with Client(running.port, hello={}) as page:
        page.say("language", language="de")
        assert page.until("language")["language"] == "de"
        page.say("language", language="<script>")
        assert "needed is a code" in page.until("refused")["reason"]


# Strangers and limits -----------------------------------------------------------------------------


def test_pages_of_other_sites_and_bent_names_are_refused(running: Running) -> None:
    for path in ("/", "/ws", "/source/oil", "/v1/models"):
        assert request(running.port, "GET", path, host="evil.example")[0] == 421
        status = request(running.port, "GET", path, origin="http://evil.example")[0]
        assert status == 403
    with pytest.raises(InvalidStatus):
        Client(running.port, additional_headers={"Origin": "http://evil.example"})
    with pytest.raises(InvalidStatus):
        Client(running.port, additional_headers={"Origin": "null"})
    same = f"http://127.0.0.1:{running.port}"
    Client(running.port, additional_headers={"Origin": same}, hello={}).close()


def test_beyond_this_machine_a_token_is_needed() -> None:
    for token in ("", "short"):
        with pytest.raises(ParameterError, match="FORETELL_TOKEN"):
            Gate("0.0.0.0", token)
    with Running(service(gate=Gate("127.0.0.1", TOKEN))) as one:
        assert request(one.port, "GET", "/health")[0] == 200
        for path in ("/", "/metrics", "/source/oil", "/static/app.js", "/openapi.json"):
            assert request(one.port, "GET", path)[0] == 401
            assert request(one.port, "GET", path, authorization="Bearer wrong")[0] == 401
            assert request(one.port, "GET", path, cookie='foretell-token="; x=')[0] == 401
            assert request(one.port, "GET", path, authorization=f"Bearer {TOKEN}")[0] == 200
        assert request(one.port, "GET", "/?token=wrong")[0] == 401
        status, headers, _ = request(one.port, "GET", f"/?token={TOKEN}")
        assert (status, headers["location"]) == (303, "/")
        assert "HttpOnly; SameSite=Strict" in headers["set-cookie"]
        cookie = headers["set-cookie"].partition(";")[0]
        assert request(one.port, "GET", "/", cookie=cookie)[0] == 200
        with pytest.raises(InvalidStatus):
            Client(one.port)
        Client(one.port, additional_headers={"Cookie": cookie}, hello={}).close()


def test_there_is_room_for_so_many() -> None:
    with Running(service(limits=ServerLimits(sessions=2, rate=5, burst=10))) as one:
        first, second = Client(one.port, hello={}), Client(one.port, hello={})
        third = Client(one.port)
        third.say("hello")
        assert "places are taken" in third.ended()
        first.close()
        while True:  # in the place of the one that left, as soon as that is noticed
            with suppress(ConnectionClosed), Client(one.port, hello={}):
                break
        with suppress(ConnectionClosed):
            for _ in range(100):
                second.say("ping")
        assert "Too many messages" in second.ended()


def test_silence_ends_a_connection() -> None:
    with Running(service(limits=ServerLimits(hello_s=0.1, idle_s=0.1))) as one:
        assert "too long" in Client(one.port).ended()  # no hello
        assert "too long" in Client(one.port, hello={}).ended()  # no word after it


def test_a_page_that_does_not_read_is_cut_off() -> None:
    limits = ServerLimits(queue=50, queue_bytes=1 << 12, send_s=0.05)

    async def lazy(stuck: bool) -> tuple[str, int]:
        session, page = Session(lambda id: {}, limits, Metrics(), 0.0), object()
        session.connect(page)
        taken = 0

        async def send(message: str | bytes) -> None:
            nonlocal taken
            taken += 1
            await asyncio.sleep(10 if stuck else 0)

        for n in range(1 if stuck else 100):
            session.tell({"kind": "pong", "n": n, "text": "x" * 100})
        return await session.send_all(page, send), taken

    assert asyncio.run(lazy(stuck=False)) == ("the page reads too slowly", 0)
    with pytest.raises(TimeoutError):
        asyncio.run(lazy(stuck=True))


# Nonsense -----------------------------------------------------------------------------------------


def nonsense(rng: random.Random) -> str | bytes:
    deep = rng.randrange(2, 6000)
    kinds = ["partial", "end_of_turn", "hello", "work_done", "answer", "timer", "spoken", "mute"]
    value = rng.choice(
        [None, True, 3, -1, 1e308, "x" * rng.randrange(2000), [], {"a": 1}, "\ud7ff"]
    )
    options: list[Any] = [
        rng.randbytes(rng.randrange(1, 300)),
        "[" * deep + "]" * deep,
        '{"kind":' * min(deep, 3000),
        json.dumps({"kind": rng.choice(kinds), rng.choice(["text", "turn", "id", "seen"]): value}),
        json.dumps({"kind": value}),
        json.dumps({"kind": "partial", "text": "\u202e\x00 pump" * rng.randrange(20)}),
        '{"kind": "partial", "text": NaN}',
        "x" * rng.randrange(1, 40_000),
        "",
    ]
    return rng.choice(options)  # type: ignore[no-any-return]


def test_nonsense_neither_breaks_the_server_nor_reaches_another_session(running: Running) -> None:
    """A small version of what `benchmarks/talk_hostile.py` does with 10,000 messages."""
    rng = random.Random(7)
    with Client(running.port, hello={}) as good:
        good.say("partial", text="my secret question about oil ")
        good.until("heard")
        sent = 0
        while sent < 400:
            bad = Client(running.port, **({"hello": {}} if rng.random() < 0.8 else {}))
            with suppress(ConnectionClosed):
                for _ in range(40):
                    sent += 1
                    bad.socket.send(nonsense(rng))
            bad.close()
            assert "secret" not in json.dumps(bad.seen)
        assert good.ask("when is the oil changed?")["text"] == NOTES["oil"]
    assert request(running.port, "GET", "/health")[2] == '{"status":"ok"}'


def test_frames_that_are_too_large_and_bad_http(running: Running) -> None:
    with Client(running.port, hello={}) as big:
        big.socket.send(b"x" * 200_000)
        big.ended()
    with Client(running.port, hello={}) as odd:
        odd.socket.send(b"xyz")
        assert "16 bit" in odd.until("refused")["reason"]
        odd.socket.send(b"xx")
        assert "no speech recogniser" in odd.until("refused")["reason"]
    for raw in (b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 70_000):
        with socket.create_connection(("127.0.0.1", running.port), timeout=20) as one:
            one.sendall(raw)
            one.shutdown(socket.SHUT_WR)
            assert b" 200 " not in one.recv(1000)
    for path in ("/static/..%2fserver.py", "/static/style.css%00", "/source/%ff", "/nothing"):
        assert request(running.port, "GET", path)[0] == 404


def test_headers_that_browsers_obey(running: Running) -> None:
    _, headers, page = request(running.port, "GET", "/")
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers
    assert "style=" not in page
    assert "<script>" not in page


# Other programs -----------------------------------------------------------------------------------


def test_chat_completions(running: Running) -> None:
    body = {
        "model": "any",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "when is the oil changed?"}]},
        ],
        "temperature": 0.3,
    }
    status, _, text = request(running.port, "POST", "/v1/chat/completions", body)
    answer = json.loads(text)
    assert status == 200
    said = f"{NOTES['oil']}\n\nSource: pump.md:4-5"
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": said}
    assert answer["foretell"]["decision"]["action"] == "accept"
    _, headers, text = request(
        running.port, "POST", "/v1/chat/completions", body | {"stream": True}
    )
    assert headers["content-type"].startswith("text/event-stream")
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    chunks = [json.loads(line) for line in lines[:-1]]
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks) == said
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    models = json.loads(request(running.port, "GET", "/v1/models")[2])
    assert models["data"][0]["id"] == "foretell"


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"messages": []}, 422, "messages"),
        ({"messages": [{"role": "king", "content": "?"}]}, 422, "role"),
        ({"messages": [{"role": "assistant", "content": "hi"}]}, 400, "no message of the user"),
        ({"messages": [{"role": "user", "content": "x" * 5000}]}, 400, "5000 characters"),
        (b"{not json", 422, ""),
        (b"[" * 20_000, 400, ""),
        (b"x" * 300_000, 413, "262144 bytes"),
    ],
)
def test_bad_requests_are_told_why(running: Running, body: Any, status: int, said: str) -> None:
    found, _, text = request(running.port, "POST", "/v1/chat/completions", body)
    assert found == status
    assert said in text


def test_metrics_and_sources(running: Running) -> None:
    with Client(running.port, hello={}) as page:
        page.ask("when is the oil changed?")
        text = request(running.port, "GET", "/metrics")[2]
    assert "# TYPE foretell_answers_total counter" in text
    assert 'foretell_answer_seconds{quantile="0.95"}' in text
    assert json.loads(request(running.port, "GET", "/source/oil")[2])["text"] == NOTES["oil"]


def test_the_end_is_clean() -> None:
    one = Running(service())
    page = Client(one.port, hello={})
    page.say("end_of_turn", text="slowly, the oil")
    page.until("state", to="answering")
    began = time.monotonic()
    one.close()
    assert time.monotonic() - began < 10
    page.ended()
