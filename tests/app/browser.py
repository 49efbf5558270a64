"""A real browser, headless, driven over its debugging socket: enough to type, click and look."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from websockets.sync.client import ClientConnection, connect

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--autoplay-policy=no-user-gesture-required",
    "--remote-debugging-port=0",
)
KEYS = {"Enter": 13, "Escape": 27, " ": 32, "ArrowUp": 38, "Tab": 9}


class Page:
    """One tab.

    Parameters
    ----------
    address : str
        Of its debugging socket.
    """

    def __init__(self, address: str) -> None:
        self._socket: ClientConnection = connect(
            address, max_size=1 << 26, max_queue=None, proxy=None
        ).__enter__()
        self._count = itertools.count(1)
        self.problems: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._count)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=20))
            if message.get("id") == number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        if message.get("method") == "Runtime.exceptionThrown":
            self.problems.append(str(message["params"]["exceptionDetails"])[:500])
        elif message.get("method") == "Log.entryAdded":
            entry = message["params"]["entry"]
            if entry["level"] == "error" and "WebSocket" not in entry["text"]:
                self.problems.append(f"{entry['text']} {entry.get('url', '')}")

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def look(self, code: str) -> Any:
        """The value of an expression in the page."""
        done = self.call(
            "Runtime.evaluate",
            expression=code,
            returnByValue=True,
            awaitPromise=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def until(self, code: str, seconds: float = 15.0) -> None:
        """Wait until an expression is true."""
        ends = time.monotonic() + seconds
        while not self.look(f"Boolean({code})"):
            assert time.monotonic() < ends, f"{code}\n{self.look('document.body.innerText')}"
            time.sleep(0.02)

    def type(self, text: str, each_s: float = 0.0) -> None:
        for letter in text:
            self.call("Input.insertText", text=letter)
            time.sleep(each_s)

    def press(self, key: str, kind: str = "both") -> None:
        about = {"key": key, "windowsVirtualKeyCode": KEYS[key]}
        if kind in ("both", "down"):
            self.call("Input.dispatchKeyEvent", type="rawKeyDown", **about)
        if kind in ("both", "up"):
            self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def mouse(self, kind: str, selector: str) -> None:
        """``kind`` is pressed or released, in the middle of an element."""
        x, y = self.look(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])"
            f"(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        kind = f"mouse{kind.capitalize()}"
        self.call(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1
        )

    def click(self, selector: str) -> None:
        self.mouse("pressed", selector)
        self.mouse("released", selector)

    def appear(self, width: int, height: int, *, dark: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def shot(self, path: Path) -> None:
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))


class Browser:
    """A browser with a profile of its own.

    Parameters
    ----------
    folder : Path
        For the profile.
    flags : str
        More flags.
    """

    def __init__(self, folder: Path, *flags: str) -> None:
        program = shutil.which("chromium")
        assert program is not None
        self._log = (folder / "chromium.log").open("wb")
        profile = folder / "profile"
        self._process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", *flags, "about:blank"],
            stdout=self._log,
            stderr=self._log,
        )
        port_file = profile / "DevToolsActivePort"
        ends = time.monotonic() + 60
        while not port_file.is_file() or port_file.read_text().count("\n") < 1:
            assert time.monotonic() < ends, (folder / "chromium.log").read_text()[-2000:]
            assert self._process.poll() is None, (folder / "chromium.log").read_text()[-2000:]
            time.sleep(0.05)
        port, path = port_file.read_text().split("\n")[:2]
        self._root = f"ws://127.0.0.1:{port}"
        self._control = Page.__new__(Page)
        self._control._socket = connect(self._root + path, proxy=None).__enter__()
        self._control._count, self._control.problems = itertools.count(1), []
        self.pages: list[Page] = []

    def forbid(self, permission: str) -> None:
        """Let every page that asks for something be refused."""
        about = {"permission": {"name": permission}, "setting": "denied"}
        self._control.call("Browser.setPermission", **about)

    def page(self, *, own: bool = False) -> Page:
        """A new tab; ``own`` gives it cookies and storage of its own."""
        about: dict[str, Any] = {"url": "about:blank"}
        if own:
            context = self._control.call("Target.createBrowserContext")
            about["browserContextId"] = context["browserContextId"]
        target = self._control.call("Target.createTarget", **about)["targetId"]
        page = Page(f"{self._root}/devtools/page/{target}")
        self.pages.append(page)
        return page

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        for page in (*self.pages, self._control):
            page._socket.close()  # the other side is gone, so nothing is waited for
        self._log.close()
