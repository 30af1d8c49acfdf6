"""A relay between a client and a server of remote training: notes requests in order, and keeps its address while servers come
and go. Reads no more of HTTP than the first lines of requests."""
import re
import socket
import threading

REQUEST = re.compile(rb"(?:GET|POST|PUT|DELETE) (\S+) HTTP/1\.1\r\n")


class Relay:
    def __init__(self, port=None):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.port, self.targets = port, []
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def requests(self):
        return len(self.targets)

    def accept(self):
        while True:
            threading.Thread(target=self.relay, args=(self.listener.accept()[0],), daemon=True).start()

    def relay(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.port))
        except OSError:
            self.targets.append("no server")
            client.close()
            return
        threading.Thread(target=self.copy, args=(server, client, False), daemon=True).start()
        self.copy(client, server, True)

    def copy(self, source, target, counts):
        try:
            while data := source.recv(1 << 16):
                if counts:
                    self.targets += [target.decode() for target in REQUEST.findall(data)]
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
