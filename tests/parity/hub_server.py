"""A hub on this machine: enough of Hugging Face's protocol for huggingface_hub and for the program, and what goes wrong with one.
Knows nothing of what is compared."""
import hashlib
import http.server
import json
import ssl
import threading
import time
import urllib.parse

LARGE = 20_000  # files of this size and more are on the storage server, as with git-lfs


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub:
    """Serves {"owner/name": {"file": bytes}} until it is closed. Faults are attributes, which tests set."""

    def __init__(self, models, certificate=None):
        self.models = models
        self.commits = {name: hashlib.sha1(name.encode()).hexdigest() for name in models}
        self.requests = []       # (method, path, headers)
        self.sent = {}           # bytes of each large file
        self.refuse = {}         # path: (status, X-Error-Code)
        self.cuts = []           # how many bytes the next answers of the storage server have; then the connection ends
        self.wrong = set()       # large files that come with other bytes
        self.ignore_range = self.chunked = False
        self.pause = 0           # seconds between parts of 10 kB
        self.silences = []       # seconds after each part, of the next answers of the storage server
        self.failures = 0        # so many of the next answers are 503
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"hub": self}))
        self.server.daemon_threads = True
        self.scheme = "https" if certificate else "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def endpoint(self):
        return f"{self.scheme}://localhost:{self.server.server_address[1]}"

    @property
    def storage(self):
        """Another origin: a token for the hub is not for it."""
        return f"{self.scheme}://127.0.0.1:{self.server.server_address[1]}"

    def asked(self, part):
        return [request for request in self.requests if part in request[1]]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub = None

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub, path = self.hub, urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        hub.requests.append((self.command, self.path, dict(self.headers)))
        for part, (status, code) in hub.refuse.items():
            if part in path:
                return self.answer(status, X_Error_Code=code)
        if hub.failures > 0:
            hub.failures -= 1
            return self.answer(503)
        words = path.strip("/").split("/")
        if words[:2] == ["api", "models"]:
            return self.list("/".join(words[2:4]), words[4:])
        if words[0] == "storage":
            return self.send_large("/".join(words[1:3]), words[3])
        if words[:2] == ["api", "resolve-cache"]:
            return self.send_small("/".join(words[2:4]), words[5])
        if len(words) >= 5 and words[2] == "resolve":
            return self.resolve("/".join(words[:2]), words[3], "/".join(words[4:]))
        return self.answer(404)

    def list(self, name, rest):
        if name not in self.hub.models:
            return self.answer(401, b'{"error": "Repository not found"}', X_Error_Code="RepoNotFound")
        files, commit = self.hub.models[name], self.hub.commits[name]
        if len(rest) < 2 or rest[1] not in ("main", commit):
            return self.answer(404, X_Error_Code="RevisionNotFound")
        if rest[0] == "tree":
            entries = [{"type": "file", "path": file, "size": len(data), "oid": git_sha1(data),
                        **({"lfs": {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}} if len(data) >= LARGE else {})}
                       for file, data in files.items()]
            return self.answer(200, json.dumps(entries).encode(), Content_Type="application/json")
        info = {"_id": "1", "id": name, "modelId": name, "sha": commit, "siblings": [{"rfilename": file} for file in files]}
        return self.answer(200, json.dumps(info).encode(), Content_Type="application/json")

    def resolve(self, name, revision, file):
        hub = self.hub
        if name not in hub.models or file not in hub.models[name] or revision not in ("main", hub.commits[name]):
            return self.answer(404, X_Error_Code="EntryNotFound")
        data, commit, quoted = hub.models[name][file], hub.commits[name], urllib.parse.quote(file)
        if len(data) < LARGE:
            return self.answer(307, X_Repo_Commit=commit, ETag=f'"{git_sha1(data)}"', Location=f"/api/resolve-cache/{name}/{commit}/{quoted}")
        return self.answer(302, b"moved", X_Repo_Commit=commit, ETag='"of the redirection"', X_Linked_Etag=f'"{hashlib.sha256(data).hexdigest()}"',
                           X_Linked_Size=len(data), Location=f"{hub.storage}/storage/{name}/{quoted}?signature=x")

    def send_small(self, name, file):
        data = self.hub.models[name][file]
        self.answer(200, data, X_Repo_Commit=self.hub.commits[name], ETag=f'"{git_sha1(data)}"')

    def send_large(self, name, file):
        hub, data = self.hub, self.hub.models[name][file]
        if file in hub.wrong:
            data = data[:-1] + bytes([data[-1] ^ 1])
        begin = 0
        if self.headers["Range"] and not hub.ignore_range:
            begin = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        self.send_response(206 if begin else 200)
        self.send_header("ETag", '"of the storage"')
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        if hub.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        if self.command == "HEAD":
            return
        pause = hub.silences.pop(0) if hub.silences else hub.pause
        end = len(data) if not hub.cuts else min(len(data), begin + hub.cuts.pop(0))
        try:
            for first in range(begin, end, 10_000):
                part = data[first:min(end, first + 10_000)]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part) if hub.chunked else part)
                self.wfile.flush()
                hub.sent[file] = hub.sent.get(file, 0) + len(part)
                time.sleep(pause)
            if end < len(data):
                self.close_connection = True
                self.connection.close()
            elif hub.chunked:
                self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True  # the client has gone
