"""A hub on this machine: enough of Hugging Face's protocol for huggingface_hub, datasets and the program, and what goes wrong with one.
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
    """Serves {"owner/name": {"file": bytes}} until it is closed: models, and data sets as "datasets/owner/name"; another revision
    of one is "owner/name@refs/convert/parquet". Faults are attributes, which tests set."""

    def __init__(self, models, certificate=None, handler=None):
        self.models = models
        self.commits = {name: hashlib.sha1(name.encode()).hexdigest() for name in models}
        self.requests = []       # (method, path, headers)
        self.sent = {}           # bytes of each large file
        self.refuse = {}         # path: (status, X-Error-Code)
        self.cuts = []           # how many bytes the next answers of the storage server have; then the connection ends
        self.wrong = set()       # large files that come with other bytes
        self.sizes = {}          # files of which another size is told
        self.ignore_range = self.chunked = False
        self.pause = 0           # seconds between parts of 10 kB
        self.silences = []       # seconds after each part, of the next answers of the storage server
        self.failures = 0        # so many of the next answers are 503
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (handler or Handler,), {"hub": self}))
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

    def at(self, name, revision):
        """The repository that a revision is of, as it is among the models; None: there is none."""
        other = f"{name}@{revision}"
        if other in self.models:
            return other
        for known, commit in self.commits.items():
            if known.split("@")[0] == name and revision == commit:
                return known
        return name if name in self.models and revision == "main" else None

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
        raw = [urllib.parse.unquote(word) for word in urllib.parse.urlsplit(self.path).path.strip("/").split("/")]
        if words[:2] == ["api", "models"]:
            return self.list("/".join(words[2:4]), words[4:])
        if words[:2] == ["api", "datasets"]:
            return self.list("datasets/" + "/".join(words[2:4]), raw[4:])
        if words[0] == "storage":
            return self.send_large(*self.place(words[1:]))
        if words[:2] == ["api", "resolve-cache"]:
            return self.send_small(*self.place(words[2:]))
        kind = ["datasets"] if words[0] == "datasets" else []
        rest = raw[len(kind):]
        if len(rest) >= 5 and rest[2] == "resolve":
            return self.resolve("/".join(kind + rest[:2]), rest[3], "/".join(rest[4:]))
        return self.answer(404)

    do_POST = do_GET

    def place(self, words):
        """[datasets/]OWNER/NAME/COMMIT/FILE: which repository, and which file."""
        size = 3 if words[0] == "datasets" else 2
        return self.hub.at("/".join(words[:size]), words[size]), "/".join(words[size + 1:])

    def entry(self, file, data):
        large = {"lfs": {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}} if len(data) >= LARGE else {}
        return {"type": "file", "path": file, "size": len(data), "oid": git_sha1(data), **large}

    def tree(self, files, below):
        """All files below a folder, and the folders."""
        prefix = f"{below}/" if below else ""
        entries = {file: self.entry(file, data) for file, data in files.items() if file.startswith(prefix)}
        for file in list(entries):
            for end in [i for i, letter in enumerate(file) if letter == "/" and i > len(prefix)]:
                entries[file[:end]] = {"type": "directory", "path": file[:end], "size": 0, "oid": "0" * 40}
        if "recursive=true" not in self.path.lower():
            entries = {path: entry for path, entry in entries.items() if "/" not in path[len(prefix):]}
        return list(entries.values())

    def json(self, answer):
        return self.answer(200, json.dumps(answer).encode(), Content_Type="application/json")

    def list(self, name, rest):
        if name not in self.hub.models:
            return self.answer(401, b'{"error": "Repository not found"}', X_Error_Code="RepoNotFound")
        known = self.hub.at(name, rest[1] if len(rest) > 1 else "main")
        if known is None:
            return self.answer(404, X_Error_Code="RevisionNotFound")
        files, commit, identity = self.hub.models[known], self.hub.commits[known], name.removeprefix("datasets/")
        if rest and rest[0] == "tree":
            below = "/".join(rest[2:])
            entries = self.tree(files, below)
            return self.json(entries) if entries or not below else self.answer(404, X_Error_Code="EntryNotFound")
        if rest and rest[0] == "paths-info":
            asked = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()).get("paths", [])
            return self.json([entry for entry in self.tree(files, "") + [self.entry(file, data) for file, data in files.items()]
                              if entry["path"] in asked])
        self.json({"_id": "1", "id": identity, "modelId": identity, "sha": commit, "siblings": [{"rfilename": file} for file in files]})

    def resolve(self, name, revision, file):
        hub = self.hub
        known = hub.at(name, revision)
        if known is None or file not in hub.models[known]:
            return self.answer(404, X_Error_Code="EntryNotFound" if known else "RevisionNotFound")
        data, commit, quoted = hub.models[known][file], hub.commits[known], urllib.parse.quote(file)
        if len(data) < LARGE:
            return self.answer(307, X_Repo_Commit=commit, ETag=f'"{git_sha1(data)}"', Location=f"/api/resolve-cache/{name}/{commit}/{quoted}")
        return self.answer(302, b"moved", X_Repo_Commit=commit, ETag='"of the redirection"', X_Linked_Etag=f'"{hashlib.sha256(data).hexdigest()}"',
                           X_Linked_Size=hub.sizes.get(file, len(data)), Location=f"{hub.storage}/storage/{name}/{commit}/{quoted}?signature=x")

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
