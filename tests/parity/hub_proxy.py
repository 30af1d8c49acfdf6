"""An HTTP proxy on this machine: fetches plain addresses, and passes on the bytes of tunnels (CONNECT). Keeps what it was asked."""
import base64
import select
import socket
import socketserver
import threading
import urllib.parse


class Proxy:
    """Until its block ends. credentials: NAME:PASSWORD that it wants; None: none."""

    def __init__(self, credentials=None):
        self.asked, self.refuses = [], False
        self.wanted = credentials and "Basic " + base64.b64encode(credentials.encode()).decode()
        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"proxy": self}))
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def place(self):
        return "127.0.0.1:%d" % self.server.server_address[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Handler(socketserver.StreamRequestHandler):
    proxy = None

    def handle(self):
        first = self.rfile.readline().decode()
        lines = []
        while (line := self.rfile.readline().decode()) not in ("\r\n", ""):
            lines.append(line)
        self.proxy.asked.append(first)
        headers = dict(line.rstrip("\r\n").split(": ", 1) for line in lines)
        sent = {name.lower(): value for name, value in headers.items()}.get("proxy-authorization")
        if self.proxy.refuses or sent != self.proxy.wanted:
            reason = b"403 Forbidden" if self.proxy.refuses else b"407 Proxy Authentication Required"
            self.wfile.write(b"HTTP/1.1 " + reason + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        method, address, _ = first.split(" ", 2)
        if method == "CONNECT":
            host, port = address.rsplit(":", 1)
            other = socket.create_connection((host, int(port)))
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            parts = urllib.parse.urlsplit(address)
            other = socket.create_connection((parts.hostname, parts.port))
            path = urllib.parse.urlunsplit(("", "", parts.path, parts.query, ""))
            kept = [line for line in lines if not line.lower().startswith(("proxy-", "connection:"))]
            other.sendall("".join([f"{method} {path} HTTP/1.1\r\n", *kept, "Connection: close\r\n\r\n"]).encode())
            self.say_that_it_ends(other)
        self.pass_on(other)

    def say_that_it_ends(self, other):
        """One request per connection: a client that keeps it for the next must know."""
        head = b""
        while b"\r\n" not in head and (part := other.recv(1 << 16)):
            head += part
        self.wfile.write(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))

    def pass_on(self, other):
        while True:
            for side in select.select([self.connection, other], [], [])[0]:
                data = side.recv(1 << 16)
                if not data:
                    other.close()
                    return
                (other if side is self.connection else self.connection).sendall(data)
