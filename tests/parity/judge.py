"""Runs a command whose parity tests share one import of the peers: judge.py COMMAND…. Importing torch, transformers, PEFT and
TRL takes longer than many a comparison, so this process imports them once and forks for every pytest session that
tests/parity/run asks it for. A session still has a process, an environment, a folder and streams of its own; it ends when the
one that asked ends. Compares nothing itself."""
import gc
import importlib
import json
import os
import pathlib
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

import peers_environment  # noqa: F401, before the peers

PEERS = ("pytest", "torch", "transformers", "peft", "datasets", "trl", "trl.experimental.cpo", "trl.experimental.orpo",
         "trl.trainer.dpo_trainer", "trl.trainer.grpo_trainer", "trl.trainer.kto_trainer", "trl.trainer.reward_trainer",
         "trl.trainer.rloo_trainer", "transformers.trainer", "openai", "h5py")
# Variables that imports read: a session that wants others than ours imports for itself.
READ_BY_IMPORTS = ("HF_", "LD_", "MKL_", "OMP_", "PYTHON", "TOKENIZERS_", "TORCH", "TRANSFORMERS_", "TRL_")
ACCEPTED, REFUSED = b"y", b"n"


def receive(connection):
    """One request: its words, folder, environment, and its standard streams."""
    header, streams, _, _ = socket.recv_fds(connection, 4, 3)
    length, text = int.from_bytes(header, "big"), b""
    while len(text) < length:
        piece = connection.recv(length - len(text))
        if not piece:
            raise ConnectionError("a request that ends in its middle")
        text += piece
    return {**json.loads(text), "streams": streams}


def is_ours(environment):
    return all(os.environ.get(name) == value for name, value in environment.items() if name.startswith(READ_BY_IMPORTS))


class Judge:
    def __init__(self, command):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.selector, self.sessions = selectors.DefaultSelector(), {}
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.folder / "socket"))
        self.listener.listen()
        self.command = subprocess.Popen(command, env={**os.environ, "TRIREME_JUDGE": str(self.folder / "socket")})
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command gets it, too, and its end is ours
        signal.signal(signal.SIGTERM, lambda *_: self.command.terminate())
        self.selector.register(self.listener, selectors.EVENT_READ, self.answer)
        self.selector.register(os.pidfd_open(self.command.pid), selectors.EVENT_READ, lambda _: None)

    def serve(self):
        """None when the command has ended; in a fork, the request that it is for."""
        while self.command.poll() is None:
            for key, _ in self.selector.select():
                if request := key.data(key.fileobj):
                    return request
        for session in self.sessions:
            os.killpg(session, signal.SIGKILL)
        shutil.rmtree(self.folder)
        return None

    def answer(self, listener):
        connection, _ = listener.accept()
        try:
            request = receive(connection)
        except (ConnectionError, ValueError):
            return connection.close()
        if not is_ours(request["environment"]):
            connection.sendall(REFUSED)
            connection.close()
        elif (session := os.fork()) == 0:
            os.setsid()
            self.forget()
            connection.close()
            return request
        else:
            connection.sendall(ACCEPTED)
            self.sessions[session] = connection
            end = os.pidfd_open(session)
            self.selector.register(connection, selectors.EVENT_READ, lambda _: self.stop(session))
            self.selector.register(end, selectors.EVENT_READ, lambda _: self.report(session, end))
        for stream in request["streams"]:
            os.close(stream)
        return None

    def forget(self):
        """In a fork: what belongs to the judge alone."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.selector.close()
        self.listener.close()
        for connection in self.sessions.values():
            connection.close()

    def stop(self, session):
        """The one that asked has gone."""
        self.selector.unregister(self.sessions[session])
        os.killpg(session, signal.SIGKILL)

    def report(self, session, end):
        status = os.waitstatus_to_exitcode(os.waitpid(session, 0)[1])
        connection = self.sessions.pop(session)
        for registered in (connection, end):
            if registered in self.selector.get_map():
                self.selector.unregister(registered)
        os.close(end)
        try:
            connection.sendall((status if status >= 0 else 128 - status).to_bytes(4, "big"))
        except BrokenPipeError:
            pass  # it has gone, too
        connection.close()


def run_session(request):
    for number, stream in enumerate(request["streams"]):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv, sys.path[0] = ["pytest", *request["words"]], request["folder"]  # as python -m pytest has them
    return sys.modules["pytest"].console_main()


def main():
    for name in PEERS:
        importlib.import_module(name)
    assert threading.active_count() == 1, f"a fork has no threads but its own: {threading.enumerate()}"
    gc.freeze()
    judge = Judge(sys.argv[1:])
    request = judge.serve()
    sys.exit(judge.command.returncode if request is None else run_session(request))


if __name__ == "__main__":
    main()
