"""A headless Chromium that is spoken to over its own pipe: no driver, no port, no network."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

START_S = ANSWER_S = 60.0
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking"),
    *("--disable-component-update", "--hide-scrollbars", "--remote-debugging-pipe"),
)
KEYS = {"Enter": 13, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
KEYS |= {"Home": 36, "End": 35, "Escape": 27}
Json = dict[str, Any]


def program() -> str | None:
    """Where Chromium is on this machine; None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One Chromium. Made by ``browser()``, which ends it."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, back
        self._rest = b""
        self._number = 0
        self.heard: list[Json] = []

    def call(self, method: str, session: str | None = None, **params: object) -> Json:
        """The answer to a command. RuntimeError if it is an error, TimeoutError if none comes."""
        self._number += 1
        number = self._number
        message: Json = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline_s = time.monotonic() + ANSWER_S
        while (answer := self.read(deadline_s, method)).get("id") != number:
            self.heard.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: Json = answer["result"]
        return result

    def read(self, deadline_s: float, step: str) -> Json:
        """The next message. TimeoutError at the deadline, EOFError when Chromium has ended."""
        while b"\0" not in self._rest:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not select.select([self._back], [], [], left_s)[0]:
                raise TimeoutError(f"Chromium did not answer {step} within {ANSWER_S:.0f} s")
            read = os.read(self._back, 1 << 20)
            if not read:
                raise EOFError(f"Chromium ended before it answered {step}")
            self._rest += read
        message, _, self._rest = self._rest.partition(b"\0")
        told: Json = json.loads(message)
        return told


@contextmanager
def browser() -> Iterator[Browser]:
    """A Chromium with a profile of its own; both are gone at the end."""
    path = program()
    if path is None:
        raise FileNotFoundError("chromium is not installed")
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        to_read, to_write = os.pipe()
        back_read, back_write = os.pipe()
        process = subprocess.Popen(
            [path, f"--user-data-dir={profile}", *FLAGS],
            pass_fds=(3, 4),
            preexec_fn=lambda: _as_3_and_4(to_read, back_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_read)
        os.close(back_write)
        try:
            yield Browser(to_write, back_read)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            os.close(to_write)
            os.close(back_read)


def _as_3_and_4(read: int, write: int) -> None:
    """Chromium reads descriptor 3 and writes descriptor 4; one of ours may be one of these."""
    for number, one in enumerate([fcntl.fcntl(one, fcntl.F_DUPFD, 10) for one in (read, write)], 3):
        os.dup2(one, number)


class Tab:
    """One page of a browser, as a person sees and uses it.

    ``dark``: what the reader prefers. ``touch`` is a phone's screen.
    """

    def __init__(
        self, owner: Browser, size: tuple[int, int] = (1440, 900), *, dark: bool = False
    ) -> None:
        self._owner = owner
        target = owner.call("Target.createTarget", url="about:blank")["targetId"]
        self._target = target
        attached = owner.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for area in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{area}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=size[0],
            height=size[1],
            deviceScaleFactor=1,
            mobile=size[0] < 500,
        )
        self.prefer(dark=dark)

    def call(self, method: str, **params: object) -> Json:
        """The answer to a command of this page."""
        return self._owner.call(method, self._session, **params)

    def close(self) -> None:
        """Close the page."""
        self._owner.call("Target.closeTarget", targetId=self._target)

    def prefer(self, *, dark: bool = False, media: str = "") -> None:
        """Show the page as to somebody who prefers this; ``media`` may be ``print``."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file and wait until its first map, if it has any, is drawn."""
        self._owner.heard.clear()
        # Another fragment alone would not load the page anew.
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=path.as_uri() + fragment)
        self.until("document.readyState === 'complete' && document.body.dataset.ready")

    def js(self, text: str) -> Any:
        """The value of an expression, awaited. RuntimeError if it throws."""
        said = self.call("Runtime.evaluate", expression=text, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in said:
            raise RuntimeError(f"{text}: {said['exceptionDetails']}")
        return said["result"].get("value")

    def until(self, text: str) -> None:
        """Wait for an expression to be true. TimeoutError after a minute."""
        deadline_s = time.monotonic() + ANSWER_S
        while not self.js(f"Boolean({text})"):
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"never true within {ANSWER_S:.0f} s: {text}")
            time.sleep(0.02)

    def text(self, selector: str) -> str:
        """What stands in an element, as it is shown."""
        return str(self.js(f"document.querySelector({json.dumps(selector)}).innerText"))

    def settle(self) -> None:
        """Wait until all that was asked for has been drawn."""
        self.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def point(self, x: float, y: float) -> None:
        """Move the mouse there."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def click(self, x: float, y: float) -> None:
        """Press and release the left button there."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def wheel(self, x: float, y: float, down: float) -> None:
        """Turn the wheel there."""
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=down)
        self.settle()

    def key(self, *names: str) -> None:
        """Press these keys one after the other."""
        for name in names:
            code: Json = {"key": name, "windowsVirtualKeyCode": KEYS.get(name, ord(name[0]))}
            text = {"Enter": "\r"}.get(name, name if len(name) == 1 else "")
            self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **code)
            self.call("Input.dispatchKeyEvent", type="keyUp", **code)
        self.settle()

    def write(self, text: str) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)
        self.settle()

    def picture(self, *, whole: bool = False) -> bytes:
        """A PNG of what is in view, or of the whole page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(shot["data"])

    def pdf(self, *, paper_inches: tuple[float, float] = (8.27, 11.69)) -> bytes:
        """The page as it is printed."""
        printed = self.call(
            "Page.printToPDF",
            paperWidth=paper_inches[0],
            paperHeight=paper_inches[1],
            preferCSSPageSize=True,
            printBackground=False,
        )
        return base64.b64decode(printed["data"])

    def complaints(self) -> list[str]:
        """What was said on the console, thrown, or logged since the page was opened."""
        self.js("1")
        return [
            json.dumps(one["params"])
            for one in self._owner.heard
            if one.get("sessionId") == self._session
            and one["method"]
            in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        ]

    def requests(self) -> Sequence[str]:
        """Every address that was asked for since the page was opened."""
        return [
            one["params"]["request"]["url"]
            for one in self._owner.heard
            if one.get("sessionId") == self._session
            and one["method"] == "Network.requestWillBeSent"
        ]
