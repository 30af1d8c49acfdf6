"""A browser under test: headless Chromium driven by WebDriver, which is JSON over HTTP. Standard library only."""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def missing():
    """What of the browser is not installed; empty: nothing."""
    return [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]


class Browser:
    def __init__(self, width=1280, height=900):
        self.folder = tempfile.mkdtemp(prefix="trireme-browser-")
        log = open(pathlib.Path(self.folder) / "driver.log", "w")
        self.process = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=log, text=True)
        self.port = None
        while self.port is None:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError("chromedriver did not start: " + pathlib.Path(log.name).read_text())
            if "started successfully on port" in line:
                self.port = int(line.rsplit("port", 1)[1].strip(" .\n"))
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions",
                            "--disable-background-networking", "--disable-component-update", "--no-first-run", "--lang=en",
                            f"--user-data-dir={self.folder}/profile", f"--window-size={width},{height}"],
                   "perfLoggingPrefs": {"enableNetwork": True}}
        answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
        self.session = "/session/" + answer["sessionId"]
        self.call("POST", self.session + "/timeouts", {"script": 120000, "pageLoad": 120000})

    def call(self, method, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method,
                                         data=None if body is None else json.dumps(body).encode(), headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=240) as answer:
                return json.loads(answer.read())["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {json.loads(error.read())['value']['message'][:500]}") from None

    def open(self, address):
        self.call("POST", self.session + "/url", {"url": address})

    def run(self, script, *words):
        """The value that a script's `return` gives."""
        return self.call("POST", self.session + "/execute/sync", {"script": script, "args": list(words)})

    def run_async(self, script, *words):
        """The value that an async function's body returns."""
        return self.call("POST", self.session + "/execute/async", {
            "script": "const done = arguments[arguments.length - 1]; (async (...words) => {" + script + "})(...arguments).then(done, problem => done('failed: ' + problem));",
            "args": list(words)})

    def wait(self, what, script, *words, seconds=float(os.environ.get("PATIENCE", "180"))):
        """Until the script returns something true, which is returned. The limit only ends a test that hangs."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.run(script, *words)
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"waited in vain until {what}; the page: {self.run('return document.body.innerText')[:1500]}")

    def find(self, selector):
        return self.call("POST", self.session + "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)  # not below the header
        self.call("POST", f"{self.session}/element/{self.find(selector)}/click", {})

    def type(self, selector, text):
        self.call("POST", f"{self.session}/element/{self.find(selector)}/value", {"text": text})

    def keys(self, *names):
        """Pressed one after another wherever the focus is; special keys by their WebDriver code points."""
        actions = [action for name in names for action in ({"type": "keyDown", "value": name}, {"type": "keyUp", "value": name})]
        self.call("POST", self.session + "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def pointer(self, *moves):
        """(kind, x, y): kind is move, down or up; coordinates of the window."""
        actions = []
        for kind, x, y in moves:
            actions.append({"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)})
            if kind != "move":
                actions.append({"type": "pointerDown" if kind == "down" else "pointerUp", "button": 0})
        self.call("POST", self.session + "/actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions}]})

    def resize(self, width, height):
        self.call("POST", self.session + "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}})

    def picture(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("GET", self.session + "/screenshot")))

    def console(self):
        """Messages of the page since the last call that say that something is wrong."""
        return [entry["message"] for entry in self.call("POST", self.session + "/se/log", {"type": "browser"}) if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self):
        """Addresses that the page asked for since the last call."""
        found = []
        for entry in self.call("POST", self.session + "/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found

    def close(self):
        try:
            self.call("DELETE", self.session)
        finally:
            self.process.terminate()
            self.process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)
