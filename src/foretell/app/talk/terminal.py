"""The conversation in a terminal: it looks up while you type, and a line says what is ready.

Where input is no terminal, each line is a question and each answer is printed.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from foretell.app.talk.ask import OneByOne
from foretell.app.talk.live import LiveConversation
from foretell.app.talk.parts import Answers, Listener, Workers
from foretell.app.talk.wire import plain, written
from foretell.app.words import harmless
from foretell.core.errors import DataError
from foretell.core.timeline import Event

_ENTER, _CANCEL, _CLEAR, _END = ("\r", "\n"), "\x1b", "\x15", "\x04"
_RUBOUT = ("\x7f", "\x08")
_NEAREST = 3  # places that are named where no answer is given


async def run(assistant: Answers, record: Listener | None = None) -> None:
    """Ask until the input ends."""
    workers = Workers()
    try:
        if sys.stdin.isatty() and sys.stdout.isatty() and _keys_come_singly():
            await Screen(assistant, workers, record, sys.stdout).run()
        else:
            await _lines(assistant, workers, record)
    finally:
        workers.close()


async def _lines(assistant: Answers, workers: Workers, record: Listener | None) -> None:
    talk = OneByOne(assistant, workers, listeners=[record] if record else [])
    try:
        while line := await asyncio.to_thread(sys.stdin.readline):
            if line.strip():
                answer = await talk.ask(line.strip())
                sys.stdout.write("\n".join(described(answer)) + "\n\n")
                sys.stdout.flush()
    finally:
        await talk.close()


def described(answer: Mapping[str, Any]) -> list[str]:
    """An answer in lines of text.

    Examples
    --------
    >>> verdict = {"action": "withhold", "reason": "Nothing is near enough."}
    >>> print(*described({"text": "I cannot say.", "decision": verdict}), sep="\\n")
    I cannot say.
      Withheld: Nothing is near enough.
    """
    lines = [harmless(str(answer["text"]))]
    sources: dict[str, str] = {}
    for statement in answer.get("statements", ()):
        for source in statement["sources"]:
            title = str(source["title"]).rpartition(" > ")[2]
            sources.setdefault(source["id"], harmless(f"{source['place']}  {title}").strip())
    lines += [f"  [{number}] {where}" for number, where in enumerate(sources.values(), 1)]
    decision = answer["decision"]
    word = {"withhold": "Withheld", "pass_on": "Unsure", "accept": "Given"}[decision["action"]]
    quoted = any(
        s["kind"] == "notes" for one in answer.get("statements", ()) for s in one["sources"]
    )
    if word == "Given" and quoted and not answer.get("certificate"):
        word = "Given without a promise"
    lines.append(f"  {word}: {harmless(str(decision['reason']))}")
    if not sources:
        near = [harmless(str(s["place"])) for s in answer.get("nearest", ())[:_NEAREST]]
        lines += [f"  What came nearest: {', '.join(near)}"] if near else []
    lines += [f"  {harmless(str(remark))}" for remark in answer.get("remarks", ())]
    return lines


class Screen:
    """One line that is typed, and one below it that says what is being looked up.

    Parameters
    ----------
    assistant : Answers
    workers : Workers
    record : callable or None
    out : text stream
    """

    def __init__(
        self, assistant: Answers, workers: Workers, record: Listener | None, out: TextIO
    ) -> None:
        self._assistant, self._out, self._text = assistant, out, ""
        self._found: dict[str, tuple[str, bool]] = {}
        self._turn, self._asked, self._waiting = 0, "", False
        self._over = asyncio.Event()
        listeners = [record, self._hear] if record else [self._hear]
        self._live = LiveConversation(assistant, listeners, workers)

    async def run(self) -> None:
        """Until Ctrl-D or Ctrl-C."""
        loop = asyncio.get_running_loop()
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        stdin = sys.stdin.fileno()
        self._out.write("Ask; the notes are looked up while you type. Ctrl-D ends it.\n")
        with _single_keys(stdin):
            loop.add_reader(stdin, lambda: self.keys(decode(os.read(stdin, 4096))))
            try:
                self._draw()
                await self._over.wait()
            finally:
                loop.remove_reader(stdin)
                await self._live.close()
                self._out.write("\r\x1b[J")
                self._out.flush()

    def keys(self, keys: str) -> None:
        """What was typed."""
        if keys.startswith("\x1b["):  # arrows and such
            return
        for key in keys or _END:
            self._key(key)
        self._draw()

    def _key(self, key: str) -> None:
        if key == _END and not self._text:
            self._over.set()
        elif key in _ENTER:
            self._submit()
        elif key == _CANCEL:
            self._live.put("cancel", user=True)
        elif key in _RUBOUT:
            self._type(self._text[:-1])
        elif key == _CLEAR:
            self._type("")
        elif key.isprintable():
            self._type(self._text + key)

    def _type(self, text: str) -> None:
        self._text = text[-self._live.limits.text :]
        stable = len(self._text.split()) - (not self._text.endswith(" "))
        data = {"text": self._text, "stable": max(stable, 0)}
        with contextlib.suppress(DataError):
            self._live.put("partial", data, user=True)

    def _submit(self) -> None:
        text = self._text.strip()
        if text and not self._waiting:
            self._asked, self._text, self._waiting = text, "", True
            self._live.put("end_of_turn", {"text": text}, user=True)

    def _hear(self, event: Event) -> None:
        message = written(event, self._named)
        if message is None:
            return
        kind = message["kind"]
        if kind == "state" and message["to"] == "listening":
            self._turn, self._found = message["turn"], {}
        elif kind == "looking" and message["turn"] == self._turn:
            source = message["source"]
            title = str(source.get("title") or source.get("place", "")).rpartition(" > ")[2]
            self._found[source["id"]] = (title, False)
        elif kind == "ready" and message["id"] in self._found:
            self._found[message["id"]] = (self._found[message["id"]][0], True)
        elif kind == "answer":
            self._say(described(plain(message)))
        elif kind in ("cancelled", "refused") and self._waiting:
            self._say([f"  {message.get('reason', 'Stopped.')}"])
        self._draw()

    def _say(self, lines: list[str]) -> None:
        asked = harmless(self._asked)
        self._out.write("\r\x1b[J" + f"> {asked}\n" + "\n".join(lines) + "\n\n")
        self._waiting, self._found = False, {}

    def _named(self, id: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._assistant.source(id).to_dict()
        return found

    def _draw(self) -> None:
        """The line and the quiet line; the cursor stays behind what was typed."""
        width = max(shutil.get_terminal_size().columns, 20)
        shown = harmless(self._text)[-(width - 4) :]
        quiet = "preparing the answer" if self._waiting else self._quiet()
        below = f"\n\r\x1b[2m  {quiet[: width - 3]}\x1b[0m\x1b[A" if quiet else ""
        self._out.write(f"\r\x1b[J> {shown}{below}\r\x1b[{len(shown) + 2}C")
        self._out.flush()

    def _quiet(self) -> str:
        ready = [title for title, done in self._found.values() if done]
        if not self._found:
            return ""
        titles = ", ".join(dict.fromkeys(harmless(title) for title in reversed(ready)))
        return f"{len(ready)} of {len(self._found)} ready: {titles}" if ready else "looking up"


def _keys_come_singly() -> bool:
    try:
        import termios  # noqa: F401
    except ImportError:
        return False
    return True


@contextlib.contextmanager
def _single_keys(stdin: int) -> Iterator[None]:
    import termios
    import tty

    before = termios.tcgetattr(stdin)
    try:
        tty.setcbreak(stdin)
        yield
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)
