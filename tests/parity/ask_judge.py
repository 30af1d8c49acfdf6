"""Has the judge run a pytest session, or runs it itself where the judge cannot: ask_judge.py PYTHON … -m pytest WORDS….
Its streams, folder and environment are the session's. Imports little: it is started for every test."""
import json
import os
import socket
import sys


def asked(path, words):
    """The session's status; None where the judge refuses it."""
    request = json.dumps({"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [len(request).to_bytes(4, "big")], [0, 1, 2])
        connection.sendall(request)
        if connection.recv(1) != b"y":
            return None
        status = connection.recv(4, socket.MSG_WAITALL)
    if len(status) < 4:
        sys.exit("ask_judge: the judge ended before the test; its output is above")
    return int.from_bytes(status, "big")


def main():
    command = sys.argv[1:]
    status = asked(os.environ["TRIREME_JUDGE"], command[command.index("pytest") + 1:])
    if status is None:
        os.execv(command[0], command)
    sys.exit(status)


if __name__ == "__main__":
    main()
