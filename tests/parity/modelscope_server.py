"""ModelScope's server on this machine: enough of its protocol for modelscope_hub and for the program, and what goes wrong with one.
Knows nothing of what is compared."""
import hashlib
import http.server
import json
import threading
import urllib.parse

PAGE_LIMIT = 3000  # of a model's list, which the server cuts without a word


class ModelScope:
    """Serves {"datasets/owner/name": {"file": bytes}} until it is closed. Faults are attributes, which tests set."""

    def __init__(self, repositories):
        self.repositories = repositories
        self.requests = []   # (method, path with its question, headers)
        self.wrong = set()   # files that come with other bytes
        self.message = ""    # a refusal that comes with status 200
        self.missing_pages = False  # only the first page of a list is ever sent
        self.cuts = []       # how many bytes the next answers of the storage server have; then the connection ends
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"hub": self}))
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def endpoint(self):
        return f"http://localhost:{self.server.server_address[1]}"

    @property
    def storage(self):
        """Another origin: a token for the hub is not for it."""
        return f"http://127.0.0.1:{self.server.server_address[1]}"

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

    def json(self, data, status=200, **more):
        answer = {"Code": status, "Success": status == 200, "Message": "" if status == 200 else "not found", "Data": data, **more}
        self.answer(status, json.dumps(answer).encode(), Content_Type="application/json")

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub, parts = self.hub, urllib.parse.urlsplit(self.path)
        hub.requests.append((self.command, self.path, dict(self.headers)))
        words, asked = parts.path.strip("/").split("/"), {key: value[0] for key, value in urllib.parse.parse_qs(parts.query).items()}
        if words[0] == "storage":
            return self.send("/".join(words[1:4]), urllib.parse.unquote("/".join(words[4:])))
        name, rest = "/".join(words[2:5]), words[5:]
        if words[:2] != ["api", "v1"] or name not in hub.repositories:
            return self.json(None, 404)
        if hub.message:
            return self.json(None, Success=False, Code=10010205001, Message=hub.message)
        files = hub.repositories[name]
        if not rest:
            return self.json({"Id": 1, "Type": 4, "Name": name.split("/")[-1]})
        if rest == ["revisions"]:
            return self.json({"RevisionMap": {"Branches": [{"Revision": "master"}], "Tags": []}})
        if asked.get("Revision", "master") != "master":
            return self.json(None, 404)
        if rest in (["repo", "files"], ["repo", "tree"]):
            return self.list(files, asked, paged=rest[1] == "tree")
        if rest == ["repo"] and asked.get("FilePath") in files:
            return self.answer(302, Location=f"{hub.storage}/storage/{name}/{urllib.parse.quote(asked['FilePath'])}",
                               X_Linked_ETag=hashlib.sha256(files[asked["FilePath"]]).hexdigest())
        return self.json(None, 404)

    def list(self, files, asked, paged):
        root = asked.get("Root", "").strip("/")
        entries = [{"Path": path, "Name": path.split("/")[-1], "Type": "blob", "Size": len(data), "Revision": "1" * 40,
                    "Sha256": hashlib.sha256(data).hexdigest(), "IsLFS": False, "CommittedDate": 1}
                   for path, data in files.items() if path.startswith(root)]
        folders = sorted({path.rsplit("/", 1)[0] for path in files if "/" in path})
        entries += [{"Path": folder, "Name": folder, "Type": "tree", "Size": 0, "Sha256": "", "Revision": "1" * 40} for folder in folders]
        if not paged:
            return self.json({"Files": entries[:PAGE_LIMIT]})
        number, size = int(asked.get("PageNumber", 1)), int(asked.get("PageSize", 200))
        shown = [] if self.hub.missing_pages and number > 1 else entries[(number - 1) * size:number * size]
        return self.json({"Files": shown}, TotalCount=len(entries))

    def send(self, name, file):
        data = self.hub.repositories[name][file]
        if file in self.hub.wrong:
            data = data[:-1] + bytes([data[-1] ^ 1])
        begin = 0
        if self.headers["Range"]:
            begin = int(self.headers["Range"].removeprefix("bytes=").split("-")[0])
        self.send_response(206 if self.headers["Range"] else 200)
        if self.headers["Range"]:
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        if self.command == "HEAD":
            return
        end = len(data) if not self.hub.cuts else min(len(data), begin + self.hub.cuts.pop(0))
        try:
            self.wfile.write(data[begin:end])
        except OSError:
            pass  # the client has gone
        self.close_connection = end < len(data)
