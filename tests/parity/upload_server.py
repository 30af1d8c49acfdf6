"""A hub on this machine that also takes files: enough of Hugging Face's protocol for huggingface_hub's upload_folder and
`trireme push`, on top of the one that gives them. Knows nothing of what is compared."""
import base64
import hashlib
import json
import urllib.parse

from hub_server import Handler, Hub, LARGE, git_sha1

PART = 40_000  # larger files than two of these are taken in parts


class UploadHub(Hub):
    """Repositories are made as clients ask for them."""

    def __init__(self):
        self.store = {}          # bytes of large files by their sha256
        self.parts = {}          # of those that come in parts: bytes by (sha256, number)
        self.pushed = []         # of each commit: its repository with its branch, its message, {path: how it came}
        self.private = {}        # by repository
        self.puts_left = None    # so many more files or parts are taken; then 403, as where an address is too old
        super().__init__({}, handler=UploadHandler)


class UploadHandler(Handler):
    def do_POST(self):
        path = urllib.parse.urlsplit(self.path).path
        for part, (status, code) in self.hub.refuse.items():
            if part in path:
                self.body()
                return self.answer(status, json.dumps({"error": "because"}).encode(), X_Error_Code=code)
        words = [urllib.parse.unquote(word) for word in path.strip("/").split("/")]
        if words[0] == "api" and len(words) > 4 and words[4] in ("preupload", "commit", "branch"):
            self.seen()
            return getattr(self, words[4])("/".join(words[2:4]), words[5])
        known = {"/api/repos/create": self.create, "/api/validate-yaml": self.validate, "/complete": self.complete,
                 "/verify": self.verify}
        if path in known:
            self.seen()
            return known[path]()
        if path.endswith(".git/info/lfs/objects/batch"):
            self.seen()
            return self.batch()
        return self.do_GET()

    def do_PUT(self):
        hub, data = self.hub, self.body()
        self.seen()
        if hub.puts_left is not None:
            if hub.puts_left == 0:
                return self.answer(403, b"<Error>Request has expired</Error>")
            hub.puts_left -= 1
        place = urllib.parse.urlsplit(self.path).path.split("/")[2:]
        if len(place) == 2:
            hub.parts[place[0], int(place[1])] = data
        elif hashlib.sha256(data).hexdigest() == place[0]:
            hub.store[place[0]] = data
        else:
            return self.answer(400, b"another digest")
        return self.answer(200, ETag=f'"{hashlib.md5(data).hexdigest()}"')

    def seen(self):
        self.hub.requests.append((self.command, self.path, dict(self.headers)))

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers["Content-Length"] or 0))
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def read(self):
        return json.loads(self.body() or b"{}")

    def create(self):
        asked = self.read()
        name = f"{asked['organization']}/{asked['name']}"
        if name in self.hub.models:
            return self.answer(409, json.dumps({"error": "You already created this model repo", "url": f"{self.hub.endpoint}/{name}"}).encode())
        self.hub.models[name], self.hub.private[name] = {}, asked.get("private", asked.get("visibility") == "private")  # of older and newer clients
        self.hub.commits[name] = hashlib.sha1(name.encode()).hexdigest()
        return self.json({"url": f"{self.hub.endpoint}/{name}", "name": name})

    def validate(self):
        self.body()
        return self.json({"errors": [], "warnings": []})

    def branch(self, name, branch):
        self.body()
        if f"{name}@{branch}" in self.hub.models:
            return self.answer(409, b'{"error": "Reference already exists"}')
        self.hub.models[f"{name}@{branch}"] = dict(self.hub.models[name])
        self.hub.commits[f"{name}@{branch}"] = hashlib.sha1(f"{name}@{branch}".encode()).hexdigest()
        return self.json({})

    def preupload(self, name, revision):
        asked, known = self.read(), self.hub.at(name, revision)
        if known is None:
            return self.answer(404, b'{"error": "Revision not found"}', X_Error_Code="RevisionNotFound")
        answer = []
        for file in asked["files"]:
            large, there = file["size"] >= LARGE, self.hub.models[known].get(file["path"])
            oid = None if there is None else hashlib.sha256(there).hexdigest() if large else git_sha1(there)
            answer.append({"path": file["path"], "uploadMode": "lfs" if large else "regular", "shouldIgnore": False, "oid": oid})
        return self.json({"files": answer})

    def batch(self):
        answer = []
        for one in self.read()["objects"]:
            entry = {"oid": one["oid"], "size": one["size"]}
            place, parts = f"{self.hub.storage}/store/{one['oid']}", -(-one["size"] // PART)
            if one["oid"] not in self.hub.store:
                upload = {"href": f"{place}?signature=x"}
                if parts > 2:
                    numbers = {f"{i:05}": f"{place}/{i}?signature=x" for i in range(1, parts + 1)}
                    upload = {"href": f"{self.hub.endpoint}/complete", "header": {"chunk_size": str(PART), **numbers}}
                entry["actions"] = {"upload": upload, "verify": {"href": f"{self.hub.endpoint}/verify"}}
            answer.append(entry)
        return self.json({"transfer": "basic", "objects": answer})

    def complete(self):
        asked = self.read()
        data = b"".join(self.hub.parts[asked["oid"], part["partNumber"]] for part in asked["parts"])
        tags = [f'"{hashlib.md5(self.hub.parts[asked["oid"], part["partNumber"]]).hexdigest()}"' for part in asked["parts"]]
        if hashlib.sha256(data).hexdigest() != asked["oid"] or tags != [part["etag"] for part in asked["parts"]]:
            return self.answer(400, b'{"error": "the parts are not the file"}')
        self.hub.store[asked["oid"]] = data
        return self.json({})

    def verify(self):
        asked = self.read()
        good = len(self.hub.store.get(asked["oid"], b"")) == asked["size"]
        return self.json({}) if good else self.answer(422, b'{"error": "another size"}')

    def commit(self, name, revision):
        known = self.hub.at(name, revision)
        lines = [json.loads(line) for line in self.body().splitlines()]
        files, came = self.hub.models[known], {}
        for line in lines[1:]:
            value = line["value"]
            large = line["key"] == "lfsFile"
            files[value["path"]] = self.hub.store[value["oid"]] if large else base64.b64decode(value["content"])
            came[value["path"]] = (line["key"], value.get("size"), value.get("oid"), value.get("content"))
        self.hub.pushed.append((known, lines[0]["value"]["summary"], came))
        commit = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.hub.commits[known] = commit
        url = f"{self.hub.endpoint}/{name}/commit/{commit}"
        return self.json({"success": True, "commitOid": commit, "commitUrl": url, "hookOutput": ""})
