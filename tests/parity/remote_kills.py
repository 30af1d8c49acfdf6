"""Kills `trireme serve --train` (kill -9) at random moments of a client's loop, on one rank and on two, there every third time
the mpirun that started them, and starts it again:
remote_kills.py [--kills N M] [--seed S], N with one rank and M with two. The client is the real package. Nothing that was acknowledged may be lost: the loop,
cut off and resumed as often as that, has the losses of one that nobody disturbed; every saved path is listed and loads; nothing
half done is left; a client whose server went away fails clearly, after few requests."""
import argparse
import fcntl
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from program import BUILD, HANG_SECONDS, MPIRUN
from relay import Relay

VERSIONS = {1: "0.36.0", 2: "0.24.1"}  # by ranks: both dialects
KEPT = "kept"
STEPS_A_KILL = 3  # at most, so that there is a step left for every kill
MOST_REQUESTS = 100  # of a client after its server was killed, until it gives up


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def is_alive(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Service:
    def __init__(self, folder, ranks, relay):
        self.folder, self.ranks, self.relay, self.starts = folder, ranks, relay, 0
        self.start()

    def start(self):
        self.starts += 1
        port = free_port()
        command = [BUILD / "trireme", "serve", "--model", self.folder / "chat", "--port", port, "--set", "model.init=random",
                   "--set", "model.dtype=fp32", "--train", "--train-directory", self.folder / KEPT, "--train-max-rank", 4]
        if self.ranks > 1:
            command = [*MPIRUN, "-n", self.ranks, *command, "--set", f"parallel.tensor={self.ranks}"]
        self.log = self.folder / f"log-{self.starts}"
        self.process = subprocess.Popen([str(word) for word in command], stderr=self.log.open("w"), stdout=subprocess.DEVNULL,
                                        env={**os.environ, "OMP_NUM_THREADS": "1"})
        while " at http://" not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        self.relay.port = port

    def processes(self):
        """Of the ranks, or the one process."""
        if self.ranks == 1:
            return [self.process.pid]
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return sorted(int(child) for task in tasks for child in task.read_text().split())

    def kill(self, draw, with_launcher):
        """A rank, or the launcher, after which ranks have to end by themselves."""
        ranks = self.processes()
        launcher = self.process.pid if with_launcher and self.ranks > 1 else None
        victim = launcher or draw.choice(ranks)
        os.kill(victim, signal.SIGKILL)
        killed = time.time()
        self.process.wait()
        for one in ranks:
            while is_alive(one):
                assert time.time() - killed < HANG_SECONDS, f"rank {ranks.index(one)} outlives what was killed"
                time.sleep(0.02)
        self.refuses_nobody()
        return "mpirun" if victim == launcher else f"rank {ranks.index(victim)} of {len(ranks)}"

    def refuses_nobody(self):
        """Neither the port nor the directory's lock is held by what was killed, once its last thread has ended."""
        for last in [False] * 100 + [True]:
            try:
                with open(self.folder / KEPT / "lock", "r+") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with socket.create_server(("127.0.0.1", self.relay.port)):
                    return
            except OSError:
                if last:
                    raise
                time.sleep(0.1)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def start_client(ranks, relay, journal, steps):
    interpreter = pathlib.Path(f".venv-parity-tinker-{VERSIONS[ranks]}/bin/python")
    assert interpreter.exists(), f"tinker {VERSIONS[ranks]} is not installed; scripts/setup --parity does it"
    return subprocess.Popen([interpreter, "tests/parity/remote_script.py", "tests/parity/remote_kills_client.py", relay.url, journal, str(steps)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={"HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin"})


def entries_of(journal):
    return [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []


def run_to_end(ranks, relay, journal, steps):
    client = start_client(ranks, relay, journal, steps)
    out, err = client.communicate()
    assert client.returncode == 0, (client.returncode, out[-1000:], err[-3000:])
    return out


def left_aside(folder):
    return [str(path) for path in (folder / KEPT).glob("*/*/*/.*")]


def kill_once(service, relay, journal, draw, number):
    """One kill at a random moment; how many requests the client sent from then on, and what it said."""
    done = len(entries_of(journal))
    client = start_client(service.ranks, relay, journal, done + STEPS_A_KILL)
    if draw.random() < 0.25:
        time.sleep(draw.uniform(0, 3))  # while the client starts and makes its model
    else:
        while len(entries_of(journal)) == done and client.poll() is None:
            time.sleep(0.005)
        time.sleep(draw.uniform(0, 0.15))  # in a step, a save or a sample
    client_until_end = number % 4 == 0  # a client that is there when the server comes back; the others were cut off, too
    victim = service.kill(draw, with_launcher=number % 3 == 0)
    before = relay.requests
    if not client_until_end:
        client.kill()
        client.communicate()
        service.start()
        return victim, None, ""
    service.start()
    killed = time.time()
    _, err = client.communicate()
    return victim, {"requests": relay.requests - before, "seconds": time.time() - killed, "status": client.returncode}, err.strip().splitlines()[-1:]


def run_case(ranks, kills, seed):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="remote-kills-"))
    shutil.copytree("examples/chat", folder / "chat")
    relay = Relay()
    service = Service(folder, ranks, relay)
    try:
        most = kill_often(service, relay, folder, kills, random.Random(seed))
    finally:
        service.stop()
    shutil.rmtree(folder)
    print(f"{ranks} ranks, tinker {VERSIONS[ranks]}: {kills} kills, as undisturbed; at most {most} requests after a kill")


def kill_often(service, relay, folder, kills, draw):
    """How many requests a client sent at most from a kill until it gave up."""
    alone, cut = folder / "alone.jsonl", folder / "cut.jsonl"
    ranks, steps, most = service.ranks, STEPS_A_KILL * kills + 2, 0
    run_to_end(ranks, relay, alone, steps)
    for number in range(kills):
        victim, seen, said = kill_once(service, relay, cut, draw, number)
        if seen is None or seen["status"] != 0:  # a client that had not begun goes on, and has samplers
            assert left_aside(folder) == [], left_aside(folder)
        print(f"kill {number + 1} of {kills}: {victim}, {len(entries_of(cut))} steps saved; client {seen or 'ended'} {said}", flush=True)
        if seen is not None and seen["status"] != 0:
            assert seen["status"] == 3, said
            most = max(most, seen["requests"])
            assert seen["requests"] <= MOST_REQUESTS, seen
    run_to_end(ranks, relay, cut, steps)
    compare(entries_of(alone), entries_of(cut), json.loads(run_to_end(ranks, relay, cut, 0)))
    return most


def compare(alone, cut, checked):
    wanted = {entry["step"]: entry["loss"] for entry in alone}
    assert [entry["step"] for entry in cut] == sorted(wanted), [entry["step"] for entry in cut]
    for entry in cut:
        assert abs(entry["loss"] - wanted[entry["step"]]) < 1e-4 * abs(wanted[entry["step"]]), (entry, wanted[entry["step"]])
    for step, loss in checked["losses"].items():
        assert abs(loss - wanted[int(step)]) < 1e-4 * abs(wanted[int(step)]), (step, loss)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, nargs=2, default=[25, 25])
    parser.add_argument("--seed", type=int, default=7)
    words = parser.parse_args()
    for count, number in zip(sorted(VERSIONS), words.kills):
        if number > 0:
            run_case(count, number, words.seed)
