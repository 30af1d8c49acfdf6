"""Clients that nobody wants, over TCP: what serve_test sends to a server. Each returns what came back; asserts nothing."""
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import resource
import select
import socket
import ssl
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CHAT = {"model": "chat", "messages": [{"role": "user", "content": "Which day?"}], "max_tokens": 4}
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--quiet", "--mca", "mpi_yield_when_idle", "1"]


class Server:
    """`trireme serve` on a free port, with the model of examples/chat and random weights."""

    def __init__(self, build, folder, *words, ranks=None, model="examples/chat", variables=None):
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / f"log-{time.time_ns()}"
        command = [build / "trireme", "serve", "--model", model, "--set", "model.init=random", "--set", "device=cpu",
                   "--port", "0", *words]
        if ranks:
            command = [*MPIRUN, "-n", ranks, *command]
        self.process = subprocess.Popen([str(word) for word in command], cwd=ROOT, stderr=self.log.open("w"),
                                        env={**os.environ, "OMP_NUM_THREADS": "1", **(variables or {})})
        self.port = self.await_port()

    def await_port(self):
        while self.process.poll() is None:
            if found := re.search(r" at https?://[\d.]+:(\d+)/", self.log.read_text()):
                return int(found[1])
            time.sleep(0.05)
        sys.exit("the server did not start: " + self.log.read_text())

    def ask(self, body=CHAT, path="/v1/chat/completions", headers=None, method="POST"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1200)
        text = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        connection.request(method, path, text, {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def status(self, *words, **more):
        return self.ask(*words, **more)[0]

    def metrics(self, headers=None):
        """Sums over all labels, by name. A server that is full has not yet noticed who has left."""
        found = {}
        while (answer := self.ask(None, "/metrics", method="GET", headers=headers))[0] == 503:
            time.sleep(0.05)
        for line in answer[1].decode().splitlines():
            if not line.startswith("#"):
                name, value = line.split("{")[0].removeprefix("trireme:"), line.rsplit(" ", 1)[1]
                reason = re.search(r'finished_reason="(\w+)"', line)
                found[f"{name}.{reason[1]}" if reason else name] = float(value)
        return found

    def held(self):
        """Rows, blocks and requests that the server has."""
        found = self.metrics()
        return sum(found[name] for name in ("num_requests_running", "num_requests_waiting", "num_requests_queued", "kv_cache_usage_perc"))

    def becomes_idle(self):
        """Waits for it; a row that is never freed is a hang, which the test's time limit ends."""
        while self.held() > 0:
            time.sleep(0.05)
        return True

    def memory(self):
        """Resident bytes."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) * 1024


def raw(port, data, wait=1200.0):
    """What comes back until the server closes, or is silent for so long; also where it closes before it has read all."""
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.settimeout(wait)
        found = b""
        with contextlib.suppress(OSError):
            peer.sendall(data)
        with contextlib.suppress(OSError):
            while part := peer.recv(65536):
                found += part
        return found


def first_bytes(port, data):
    """What comes back first, however long it takes."""
    with opened(port, data) as peer:
        return peer.recv(65536)


def refused(peers, status, count):
    """Waits until so many of the open connections were answered with this status; the answers."""
    answers = []
    while len(answers) < count:
        ready, _, _ = select.select(peers, [], [])
        for peer in ready:
            answers.append(peer.recv(65536))
            assert answers[-1].startswith(b"HTTP/1.1 %d" % status), answers[-1]
            peers.remove(peer)
            peer.close()
    return answers


def request(body, path="/v1/chat/completions", headers=""):
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}Content-Length: {len(text)}\r\n\r\n"
    return head.encode() + text


def opened(port, data):
    peer = socket.create_connection(("127.0.0.1", port))
    peer.sendall(data)
    return peer


def mutated(draw, good):
    """Bytes changed, dropped and doubled."""
    data = bytearray(good)
    for _ in range(draw.randrange(1, 5)):
        place = draw.randrange(len(data))
        kind = draw.randrange(3)
        if kind == 0:
            data[place] = draw.randrange(256)
        elif kind == 1:
            del data[place]
        else:
            data[place:place] = data[place:place + draw.randrange(1, 30)]
    return bytes(data)


def mutated_json(draw, value):
    """A field replaced by something of another kind, or of no sense."""
    value = json.loads(json.dumps(value))
    strange = [None, -1, 0, 1e308, 2 ** 63, "", "x" * 1000, [], {}, [[]], {"a": {}}, True, "\u0000", [None], {"type": "json_schema"}]
    value[draw.choice([*value, "tools", "stop", "tool_choice", "response_format", "logprobs", "top_k", "seed", "stream_options",
                       "chat_template_kwargs", "cache_salt", "prompt"])] = draw.choice(strange)
    return value


def mutated_requests(port, count, seed=11):
    """One connection each; the server's answers by status, None where there was none within a moment."""
    draw = random.Random(seed)
    good = {**CHAT, "n": 2, "stop": ["x"], "logit_bias": {"3": 1.5}, "max_tokens": 2, "temperature": 0.5, "top_p": 0.9}
    statuses = {}
    for number in range(count):
        data = mutated(draw, request(good)) if number % 2 else request(mutated_json(draw, good), headers="Connection: close\r\n")
        found = raw(port, data, 0.02) if number % 2 else raw(port, data)
        status = found[9:12].decode(errors="replace") if found.startswith(b"HTTP/1.1 ") else None
        statuses[status] = statuses.get(status, 0) + 1
    return statuses


def streams(port, count, tokens=2):
    """Many at once: how many ended with [DONE], and how many were told to wait."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + 100:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count + 100, hard), hard))
    peers = [opened(port, request({**CHAT, "max_tokens": tokens, "stream": True})) for _ in range(count)]
    done = told = 0
    for peer in peers:
        found = b""
        while b"[DONE]" not in found and b"rate_limit" not in found and (part := peer.recv(65536)):
            found += part
        done += b"[DONE]" in found
        told += b"HTTP/1.1 429" in found
        peer.close()
    return done, told


def dripped(port, data, pause=0.2):
    """Byte by byte; whether the server closed before the end."""
    with socket.create_connection(("127.0.0.1", port)) as peer:
        try:
            for byte in data:
                peer.sendall(bytes([byte]))
                time.sleep(pause)
        except OSError:
            return True
    return False


def over_tls(port, data, certificate):
    context = ssl.create_default_context(cafile=str(certificate))
    with socket.create_connection(("127.0.0.1", port)) as peer, context.wrap_socket(peer, server_hostname="localhost") as secure:
        secure.sendall(data)
        found = b""
        while part := secure.recv(65536):
            found += part
        return found
