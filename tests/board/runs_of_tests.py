"""Boards under test, and runs for them: directories as docs/runs.md describes them, written line by line."""
import atexit
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = os.environ.get("TRIREME", str(ROOT / "build" / "trireme"))
failures = []


def check(good, what):
    print(("ok: " if good else "FAILED: ") + what, flush=True)
    if not good:
        failures.append(what)


def line(step, **more):
    """One logged step; numbers with many digits, as real ones have."""
    return {"step": step, "loss": 3 / step ** 0.5 + 0.001 * (step % 7), "grad_norm": 1 + 1 / step, "learning_rate": 1e-4 * (1 - step / 1e6),
            "tokens": 512, "tokens_per_second": 1000 + step % 13, "step_seconds": 0.5, "data_seconds": 0.0, "mfu": 0.31, "memory_gib": 1.25,
            "epoch": step / 100, "elapsed_seconds": step * 0.5, "remaining_seconds": 10.0, **more}


def experts(step, layers=3, count=8):
    return {"balance_loss": 1.0, "z_loss": 0.0, "drop_rate": 0.0, "entropy": 2.0 + step / 1000, "busiest_rank": 1, "busiest_load": 1.5, "idlest_rank": 0,
            "idlest_load": 0.5, "tokens_per_expert": {f"layers.{layer}": [(step * 7 + layer * 5 + expert * expert) % 40 for expert in range(count)] for layer in range(layers)}}


def write_log(folder, lines, mode="a"):
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    with open(pathlib.Path(folder) / "log.jsonl", mode) as file:
        file.write("".join(json.dumps(each) + "\n" for each in lines))


def write_trace(folder):
    events = []
    for rank in range(2):
        events.append({"ph": "M", "name": "process_name", "pid": rank, "tid": 0, "args": {"name": f"rank {rank}"}})
        for tid, lane in enumerate(("compute", "pp")):
            events.append({"ph": "M", "name": "thread_name", "pid": rank, "tid": tid, "args": {"name": lane}})
        for micro in range(4):
            events.append({"ph": "X", "name": f"F{micro}.{rank}", "pid": rank, "tid": 0, "ts": 1000 * micro, "dur": 800, "args": {"note": "n"}})
            events.append({"ph": "X", "name": "send", "pid": rank, "tid": 1, "ts": 1000 * micro + 800, "dur": 100, "args": {}})
    (pathlib.Path(folder) / "trace.json").write_text(json.dumps({"displayTimeUnit": "ms", "traceEvents": events}))


class Server:
    """`trireme board` or `trireme serve`; ends with the block."""
    def __init__(self, *words, port=0, command="board", log=None):
        self.log = pathlib.Path(log or (ROOT / "build" / "board_test" / f"{command}.log"))
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen([PROGRAM, command, *map(str, words), "--port", str(port)], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=self.log.open("w"), env={**os.environ, "OMP_NUM_THREADS": "1"})
        atexit.register(self.stop)  # also where a check throws
        while not re.search(r" at http://.*\n", self.log.read_text()):
            if self.process.poll() is not None:
                sys.exit(f"{command} did not start: {self.log.read_text()}")
            time.sleep(0.02)
        self.address = re.search(r" at (http://127\.0\.0\.1:(\d+)/\S*)", self.log.read_text() + " ")
        self.port, self.address = int(self.address[2]), self.address[1]
        self.token = self.address.partition("?token=")[2]  # of a board that may start runs

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(timeout=120)

    def ask(self, path, body=None, headers=None, method=None):
        """status, headers, bytes; with the board's own key where it has printed one, unless headers say otherwise"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        words = {} if data is None else {"Content-Type": "application/json"}
        if self.token and headers is None:
            words["Authorization"] = f"Bearer {self.token}"
        connection.request(method or ("GET" if data is None else "POST"), path, data, {**words, **(headers or {})})
        answer = connection.getresponse()
        result = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        connection.close()
        return result

    def json(self, path, body=None, headers=None):
        status, _, text = self.ask(path, body, headers)
        return json.loads(text) if status == 200 else {"status": status, "text": text.decode()}


class Events:
    """A stream of server-sent events: the next one as {"event", "id", "data"}."""
    def __init__(self, server, at="", last_id=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.connection.request("GET", f"/board/events?at={at}", headers={} if last_id is None else {"Last-Event-ID": last_id})
        self.answer = self.connection.getresponse()
        self.status = self.answer.status
        self.id = last_id

    def next(self):
        fields = {}
        while True:
            text = self.answer.readline().decode().rstrip("\n")
            if text == "":
                self.id = fields.get("id", self.id)
                return {**fields, "data": json.loads(fields["data"])}
            name, _, value = text.partition(": ")
            fields[name] = value

    def next_of(self, *names):
        while True:
            event = self.next()
            if event["event"] in names:
                return event

    def close(self):
        self.connection.close()
