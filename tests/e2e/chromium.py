"""A headless Chromium for tests, driven by the DevTools protocol over a pipe: no network, no package besides the browser."""

import base64
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def find_browser():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Chromium:
    """One browser with one page. Complaints (console errors, exceptions, refused loads) gather in `complaints`."""

    def __init__(self, width=1400, height=900):
        self.folder = tempfile.mkdtemp(prefix="ly-chromium-")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def hand_over():
            # The browser reads on descriptor 3 and writes on 4.
            high = [os.dup(to_browser), os.dup(from_browser)]
            while min(high) <= 4:
                high = [os.dup(fd) for fd in high]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [find_browser(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--mute-audio",
             "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
             "--proxy-server=127.0.0.1:9", f"--window-size={width},{height}", f"--user-data-dir={self.folder}",
             "--remote-debugging-pipe"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(3, 4),
            preexec_fn=hand_over, start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.next_id = 0
        self.session = None
        self.answers = {}
        self.events = []
        self.complaints = []
        target = self.call("Target.createTarget", url="about:blank", width=width, height=height)["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.read_end], [], [], left)[0]:
                raise AssertionError("the browser does not answer")
            more = os.read(self.read_end, 1 << 20)
            if not more:
                raise AssertionError("the browser ended")
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(line)
        if "id" in message:
            self.answers[message["id"]] = message
            return
        self.events.append(message["method"])
        params = message.get("params", {})
        if message["method"] == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description") or details["text"])
        elif message["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif message["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([arg.get("value") for arg in params["args"]]))
        elif message["method"] == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith(("file:", "about:", "data:")):
                self.complaints.append(f"asks for {url}")

    def call(self, method, timeout=120, **params):
        self.next_id += 1
        message = {"id": self.next_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write_end, data):]
        deadline = time.monotonic() + timeout
        while self.next_id not in self.answers:
            self._read(deadline)
        answer = self.answers.pop(self.next_id)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, path):
        self.events.clear()
        self.call("Page.navigate", url=pathlib.Path(path).absolute().as_uri())
        deadline = time.monotonic() + 120
        while "Page.loadEventFired" not in self.events:
            self._read(deadline)
        self.frames(2)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise AssertionError(f"{expression}: {details.get('exception', {}).get('description', details['text'])}")
        return result["result"].get("value")

    def frames(self, count=1):
        """Lets the page draw so many frames."""
        self.evaluate(f"""new Promise((done) => {{
            let left = {count};
            const next = () => (left-- > 0 ? requestAnimationFrame(next) : done(1));
            next();
        }})""")

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")

    def click(self, selector):
        x, y = self.evaluate(f"""(() => {{
            const element = document.querySelector({json.dumps(selector)});
            element.scrollIntoView({{block: 'nearest'}});
            const box = element.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        self.click_at(x, y)

    def click_at(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)
        self.frames(2)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, start, end, modifiers=0):
        self.mouse("mouseMoved", *start, modifiers=modifiers)
        self.mouse("mousePressed", *start, button="left", clickCount=1, modifiers=modifiers)
        for part in (0.25, 0.5, 0.75, 1):
            at = [a + (b - a) * part for a, b in zip(start, end)]
            self.mouse("mouseMoved", *at, button="left", buttons=1, modifiers=modifiers)
        self.mouse("mouseReleased", *end, button="left", clickCount=1, modifiers=modifiers)
        self.frames(2)

    def wheel(self, x, y, delta_y, delta_x=0, modifiers=0):
        self.mouse("mouseWheel", x, y, deltaX=delta_x, deltaY=delta_y, modifiers=modifiers)
        self.frames(2)

    def press(self, key, modifiers=0):
        named = {"Enter": 13, "Escape": 27, "Home": 36}
        text = {} if key in named and key != "Enter" else {"text": "\r" if key == "Enter" else key}
        code = named.get(key, ord(key.upper()[0]))
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, modifiers=modifiers,
                  **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code, modifiers=modifiers)
        self.frames(2)

    def type_into(self, selector, text):
        self.evaluate(f"document.querySelector({json.dumps(selector)}).select()")
        self.call("Input.insertText", text=text)
        self.frames(2)

    def scheme(self, value):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])
        self.frames(2)

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
