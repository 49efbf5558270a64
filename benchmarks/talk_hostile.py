"""Ten thousand messages that are malformed or hostile, while somebody else holds a conversation.

Random bytes, deep and broken JSON, kinds that a page may not say, wrong types, wrong order, frames
that are too large, connections that are torn, and clients that send their request letter by letter.
Wanted: the server answers all the while, nothing of the other conversation comes out anywhere, and
its memory stays where it was.

FORETELL_DATA=... python benchmarks/talk_hostile.py [messages]
"""

import asyncio
import json
import random
import sys
from collections import Counter
from contextlib import suppress
from typing import Any

from _common import write_result
from _talk import Typist, resident_mb, served
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

SECRET = "zebrafish"
KINDS = (
    "hello partial end_of_turn barge_in cancel spoken language listen mute settings ping work_done "
    "work_failed answer timer query frame final disconnect reconnect state say __class__".split()
)
FIELDS = ["text", "turn", "id", "seen", "session", "rate", "speak", "language", "kind", "n"]


def message(rng: random.Random) -> tuple[str, str | bytes]:
    """A kind of mischief, and the message."""
    deep = rng.randrange(2, 16_000)
    values: list[Any] = [
        None, True, -1, 2**70, 1e308, "x" * rng.randrange(5000), [], {"a": {"b": 1}}, "\u0000",
        "../../etc/passwd", "<script>alert(1)</script>", [[]] * 50, float("nan"),
    ]  # fmt: skip
    kind, value = rng.choice(KINDS), rng.choice(values)
    content = {"kind": kind, rng.choice(FIELDS): value, rng.choice(FIELDS): rng.choice(values)}
    options: list[tuple[str, str | bytes]] = [
        ("random bytes", rng.randbytes(rng.randrange(1, 500))),
        ("sound of odd length", bytes(2 * rng.randrange(1, 5000) + 1)),
        ("deep JSON", "[" * deep + "]" * deep),
        ("deep objects", '{"kind":' * min(deep, 4000) + "1" + "}" * min(deep, 4000)),
        ("broken JSON", json.dumps(content)[: rng.randrange(1, 30)]),
        ("wrong kinds and types", json.dumps(content)),
        ("no object", json.dumps(value)),
        ("too long", "y" * rng.randrange(33_000, 120_000)),
        ("too large a frame", b"z" * rng.randrange(140_000, 300_000)),
        ("wrong order", json.dumps({"kind": rng.choice(["spoken", "mute", "hello"]), "turn": 9})),
        ("odd letters", json.dumps({"kind": "partial", "text": "\u202e\u0000\ufeff" * 50})),
        ("somebody's session", json.dumps({"kind": "hello", "session": rng.randbytes(9).hex()})),
    ]
    return rng.choice(options)


async def attack(port: int, count: int, seed: int, done: Counter[str]) -> list[str]:
    """Send so many; gives all that came back."""
    rng, back = random.Random(seed), []
    sent = 0
    while sent < count:
        try:
            async with connect(
                f"ws://127.0.0.1:{port}/ws", proxy=None, compression=None, close_timeout=1,
                max_queue=None,
            ) as socket:  # fmt: skip
                if rng.random() < 0.9:
                    await socket.send('{"kind": "hello"}')
                for _ in range(min(rng.randrange(5, 60), count - sent)):
                    name, text = message(rng)
                    done[name] += 1
                    sent += 1
                    await socket.send(text)
                    with suppress(TimeoutError):
                        back.append(str(await asyncio.wait_for(socket.recv(), 0.003)))
                if rng.random() < 0.3:
                    socket.transport.abort()
        except (ConnectionClosed, InvalidStatus, OSError):
            continue
    return back


async def slowly(port: int) -> bytes:
    """A request that is sent letter by letter, until the server has enough of it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for letter in b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 1000:
        writer.write(bytes([letter]))
        try:
            return await asyncio.wait_for(reader.read(1000), 0.5)
        except TimeoutError:
            continue
        except ConnectionError:
            return b""
    return b"never"


async def watched(port: int, stop: asyncio.Event) -> tuple[int, float]:
    """Somebody who asks about a secret all the while: answers, and the longest wait."""
    typist = await Typist.open(port)
    answers, longest = 0, 0.0
    while not stop.is_set():
        waited, answer = await typist.ask(f"what is the {SECRET} number {answers}", 4.0)
        assert answer["turn"] == answers + 1
        answers, longest = answers + 1, max(longest, waited)
    await typist.close()
    return answers, longest


async def run(port: int, messages: int) -> dict[str, Any]:
    done: Counter[str] = Counter()
    stop = asyncio.Event()
    good = asyncio.create_task(watched(port, stop))
    slow = [asyncio.create_task(slowly(port)) for _ in range(20)]
    parts = [attack(port, messages // 4, seed, done) for seed in range(4)]
    back = [line for part in await asyncio.gather(*parts) for line in part]
    refused = await asyncio.gather(*slow)
    stop.set()
    answers, longest = await good
    return {
        "by_kind": dict(done),
        "messages": done.total(),
        "answers": answers,
        "longest": longest,
        "leaks": sum(SECRET in line for line in back),
        "slow": sum(b"never" not in data for data in refused),
    }


def main() -> None:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with served() as (port, pid, folder):
        asyncio.run(run(port, 400))
        before = resident_mb(pid)
        found = asyncio.run(run(port, messages))
        after = resident_mb(pid)
        log = (folder / "log").read_text()
    columns = [
        "messages", "crashes", "answers to the other meanwhile", "its longest wait, ms",
        "leaks", "slow writers cut off", "memory before, MB", "after, MB",
    ]  # fmt: skip
    row = [
        found["messages"],
        log.count("Traceback"),
        found["answers"],
        f"{1000 * found['longest']:.0f}",
        found["leaks"],
        f"{found['slow']} of 20",
        f"{before:.0f}",
        f"{after:.0f}",
    ]
    print(row, found["by_kind"])
    settings = {"by_kind": found["by_kind"]}
    write_result("talk_hostile", settings, {"talk-hostile": {"columns": columns, "rows": [row]}})


if __name__ == "__main__":
    main()
