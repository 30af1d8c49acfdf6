"""Models that are downloaded from a hub, against huggingface_hub: both ask the same server, their caches have the same files, links and
locks, and each finds what the other has downloaded. Then what goes wrong: connections that are cut, bytes that are wrong, refusals,
processes that are killed, several at once."""
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import time

import pytest

from hub_proxy import Proxy
from hub_server import Hub
from program import BUILD, MPIRUN

NAME, SHARD = "owner/tiny-1.5", "model-00001-of-00002.safetensors"
WANTED = ["*.safetensors", "*.safetensors.index.json", "config*.json", "*config.json", "tokenizer*", "chat_template.*"]
NOT_WANTED = ["consolidated*", "*/*"]
CHAT = pathlib.Path("examples/chat")


def model():
    """The example's, whose weights are never read: bytes stand for them."""
    drawn = random.Random(1)
    files = {name: (CHAT / name).read_bytes() for name in ("config.json", "tokenizer.json", "tokenizer_config.json")}
    files |= {SHARD: drawn.randbytes(300_000), "model-00002-of-00002.safetensors": drawn.randbytes(100_000),
              "model.safetensors.index.json": b'{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}',
              "generation_config.json": b"{}", "config copy.json": b'{"a": 1}'}
    others = {"README.md": b"#", "pytorch_model.bin": bytes(50_000), "model.gguf": b"x", "onnx/model.safetensors": b"x",
              "consolidated.safetensors": bytes(30_000), ".gitattributes": b"x"}
    return files | others


@pytest.fixture
def folder(tmp_path):
    """One for each test: caches are in it."""
    return tmp_path


@pytest.fixture
def hub():
    served = Hub({NAME: model()})
    yield served
    served.close()


def variables(hub, folder, **more):
    """For both programs: this server, this cache, and nothing else of the user's."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("HF_", "HUGGING", "TRANSFORMERS_")) and not name.lower().endswith("_proxy")}
    return {**kept, "HF_ENDPOINT": hub.endpoint, "HF_HOME": str(folder), "HF_HUB_DOWNLOAD_TIMEOUT": "5", "HF_HUB_DISABLE_XET": "1",
            "XDG_CACHE_HOME": str(folder / "xdg"), "OMP_NUM_THREADS": "1", **more}


def command(name=NAME, path="generate"):
    asked = ["--prompt", "Hello", "--max-new-tokens", "1"]
    return [str(BUILD / "trireme"), path, "--model", name, *asked, "--set", "model.init=random"]


def ours(hub, folder, name=NAME, ranks=None, limit=None, **more):
    launch = command(name) if ranks is None else [*MPIRUN, "-n", str(ranks), *command(name)]
    restrict = (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))) if limit else None
    return subprocess.run(launch, env=variables(hub, folder, **more), capture_output=True, text=True, timeout=300, preexec_fn=restrict)


def theirs(hub, folder, call, **more):
    """A call of huggingface_hub, which reads its variables when it is imported."""
    code = f"import huggingface_hub as hub; print(hub.{call})"
    result = subprocess.run([sys.executable, "-c", code], env=variables(hub, folder, **more), capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def download(local=False):
    return f"snapshot_download({NAME!r}, allow_patterns={WANTED}, ignore_patterns={NOT_WANTED}, local_files_only={local})"


def cache(folder):
    """What is in it: contents, and where links lead. Not its tag, nor the list of all files that newer versions of huggingface_hub keep."""
    found, root = {}, folder / "hub"
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_dir() and not path.is_symlink() or name == "CACHEDIR.TAG" or "/trees/" in name:
            continue
        found[name] = ("link", os.readlink(path)) if path.is_symlink() else ("file", path.read_bytes())
    return found


def assert_downloaded(result, folder, wanted):
    assert result.returncode == 0, result.stderr
    assert cache(folder) == wanted


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    """The cache as huggingface_hub fills it."""
    served, folder = Hub({NAME: model()}), tmp_path_factory.mktemp("theirs")
    theirs(served, folder, download())
    served.close()
    return cache(folder)


def assert_refused(result, *parts):
    """One line, and the status of bad input."""
    lines = [line for line in result.stderr.splitlines() if line and not line.startswith(("I", "W"))]
    assert result.returncode == 2 and len(lines) == 1, result.stderr
    for part in (f"--model: ", "is neither a directory nor in a hub's cache (looked for ", "and cannot be downloaded: ", *parts):
        assert part in lines[0], lines[0]


def test_like_huggingface_hub(hub, folder, wanted):
    assert_downloaded(ours(hub, folder), folder, wanted)
    assert (folder / "hub" / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")
    asked = len(hub.requests)
    assert theirs(hub, folder, f"snapshot_download({NAME!r}, local_files_only=True)").endswith(hub.commits[NAME])
    assert theirs(hub, folder, download(local=True)).endswith(hub.commits[NAME])
    assert theirs(hub, folder, f"try_to_load_from_cache({NAME!r}, 'config.json')").endswith("config.json")
    assert "tiny-1.5" in theirs(hub, folder, "scan_cache_dir()") and "warnings=[]" in theirs(hub, folder, "scan_cache_dir()")
    assert ours(hub, folder).returncode == 0
    assert len(hub.requests) == asked  # nobody asked again


def test_finds_what_huggingface_hub_has_downloaded(hub, folder, wanted):
    theirs(hub, folder, download())
    hub.requests.clear()
    assert_downloaded(ours(hub, folder), folder, wanted)
    assert not hub.requests


def test_completes_what_huggingface_hub_has_begun(hub, folder, wanted):
    theirs(hub, folder, f"hf_hub_download({NAME!r}, 'config.json')")
    theirs(hub, folder, f"hf_hub_download({NAME!r}, {SHARD!r})")
    hub.sent.clear()
    assert_downloaded(ours(hub, folder), folder, wanted)
    assert SHARD not in hub.sent


def test_revisions(hub, folder):
    commit = hub.commits[NAME]
    assert ours(hub, folder, f"{NAME}@{commit}").returncode == 0
    repository = folder / "hub" / "models--owner--tiny-1.5"
    assert (repository / "snapshots" / commit / "config.json").exists() and not list((repository / "refs").iterdir())
    assert ours(hub, folder, f"{NAME}@main").returncode == 0
    assert (repository / "refs" / "main").read_text() == commit
    assert_refused(ours(hub, folder, f"{NAME}@other"), "404 Not Found: it has no revision 'other'; name another after the @")


def test_cut_connections_are_resumed(hub, folder, wanted):
    hub.cuts = [40_000, 1_000, 0, 100_000]
    assert_downloaded(ours(hub, folder), folder, wanted)
    assert hub.sent[SHARD] == 300_000  # each byte once
    ranges = [headers.get("Range") for _, path, headers in hub.asked(f"storage/{NAME}/{hub.commits[NAME]}/{SHARD}")]
    assert ranges == [None, "bytes=40000-", "bytes=41000-", "bytes=41000-", "bytes=141000-"]


@pytest.mark.parametrize("fault", ["ignore_range", "chunked"])
def test_other_servers(hub, folder, wanted, fault):
    setattr(hub, fault, True)
    hub.cuts = [40_000]
    assert_downloaded(ours(hub, folder), folder, wanted)


def test_busy_servers_are_asked_again(hub, folder, wanted):
    hub.failures = 2
    assert_downloaded(ours(hub, folder), folder, wanted)


def test_a_killed_download_is_resumed(hub, folder, wanted):
    hub.pause = 0.1
    process = subprocess.Popen(command(), env=variables(hub, folder), stderr=subprocess.DEVNULL)
    while hub.sent.get(SHARD, 0) < 100_000:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    partial = list((folder / "hub").rglob("*.incomplete"))
    assert len(partial) == 1 and not list((folder / "hub").rglob("snapshots/*/*"))
    hub.pause, first = 0, partial[0].stat().st_size
    time.sleep(0.3)  # the server notices
    hub.sent.clear()
    assert first >= 90_000
    assert_downloaded(ours(hub, folder), folder, wanted)
    assert hub.sent[SHARD] == 300_000 - first


def test_damaged_parts_are_downloaded_again(hub, folder, wanted):
    blobs = folder / "hub" / "models--owner--tiny-1.5" / "blobs"
    blobs.mkdir(parents=True)
    digest = next(name for name, (kind, data) in wanted.items() if kind == "file" and len(data) == 300_000).split("/")[-1]
    (blobs / f"{digest}.incomplete").write_bytes(bytes(200_000))
    result = ours(hub, folder)
    assert "have the digest" in result.stderr
    assert_downloaded(result, folder, wanted)
    assert hub.sent[SHARD] == 400_000


def test_several_at_once(hub, folder, wanted):
    hub.pause = 0.02
    processes = [subprocess.Popen(command(), env=variables(hub, folder), stderr=subprocess.PIPE, text=True) for _ in range(2)]
    errors = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    assert cache(folder) == wanted and hub.sent[SHARD] == 300_000


def test_one_rank_downloads(hub, folder, wanted):
    assert_downloaded(ours(hub, folder, ranks=2), folder, wanted)
    assert len(hub.asked("/api/models/")) == 1 and hub.sent[SHARD] == 300_000


def test_plans_need_no_weights(hub, folder):
    for words in (["plan", "--world", "2"], ["train", "examples/chat/run.yaml", "--dry-run", "--set", f"data.cache={folder}/data",
                                                      "--set", f"data.template={CHAT}/chat_template.jinja"]):
        result = subprocess.run([str(BUILD / "trireme"), *words, "--set", f"model.path={NAME}"], env=variables(hub, folder),
                                capture_output=True, text=True)
        assert result.returncode == 0 and not hub.sent, result.stderr
    assert ours(hub, folder).returncode == 0 and hub.sent[SHARD] == 300_000


def test_the_token_is_for_the_hub_only(hub, folder, wanted):
    assert_downloaded(ours(hub, folder, HF_TOKEN="secret"), folder, wanted)
    for method, path, headers in hub.requests:
        assert headers.get("Authorization") == (None if path.startswith("/storage/") else "Bearer secret"), (method, path)


def test_the_token_of_a_login(hub, folder):
    (folder / "token").write_text("of-a-login\n")
    assert ours(hub, folder).returncode == 0
    assert hub.requests[0][2]["Authorization"] == "Bearer of-a-login"


REFUSALS = {
    "unknown": ({}, "401 Unauthorized: there is no such model, or it is private or gated; check the name, or set HF_TOKEN"),
    "gated": ({"/resolve/": (403, "GatedRepo")}, "403 Forbidden: it is gated, and no token was sent; request access on "),
    "gated_list": ({"/api/": (401, "GatedRepo")}, "401 Unauthorized: it is gated, and no token was sent"),
    "missing": ({"/api/": (404, "RepoNotFound")}, "404 Not Found: there is no such model; check the name, and HF_ENDPOINT"),
    "busy": ({"/api/": (503, "")}, "503 Service Unavailable; try again later"),
    "page": ({"/api/": (200, "")}, "wanted a commit and the files of a model: is HF_ENDPOINT a hub?"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(hub, folder, case):
    hub.refuse, text = REFUSALS[case]
    assert_refused(ours(hub, folder, "owner/other" if case == "unknown" else NAME), text)
    assert not list(folder.rglob("snapshots/*/*"))


def test_wrong_bytes(hub, folder):
    hub.wrong = {SHARD}
    assert_refused(ours(hub, folder), f"{SHARD}: what {hub.endpoint}/{NAME} sends has the sha256 ", "; wanted ", "check HF_ENDPOINT")
    assert not list((folder / "hub").rglob("*.incomplete"))


def test_no_network(hub, folder):
    assert_refused(ours(hub, folder, HF_ENDPOINT="http://127.0.0.1:1"), "http://127.0.0.1:1 cannot be reached: Connection refused",
                   str(folder / "hub" / "models--owner--tiny-1.5" / "snapshots" / "main"))
    assert_refused(ours(hub, folder, HF_ENDPOINT="http://no.such.host.invalid"), "http://no.such.host.invalid cannot be found: ")


def test_silent_servers(hub, folder, wanted):
    hub.silences = [5]
    result = ours(hub, folder, HF_HUB_DOWNLOAD_TIMEOUT="1")
    assert "did not answer in HF_HUB_DOWNLOAD_TIMEOUT = 1; trying again" in result.stderr
    assert_downloaded(result, folder, wanted)


def test_full_disks(hub, folder):
    assert_refused(ours(hub, folder, limit=250_000), ".incomplete: cannot be written: File too large; free some space, or set HF_HUB_CACHE")


def test_read_only_caches(hub, folder):
    (folder / "hub").write_text("a file")
    assert_refused(ours(hub, folder), "cannot be cached in ", "set HF_HUB_CACHE to a writable directory")


def test_offline(hub, folder):
    result = ours(hub, folder, HF_HUB_OFFLINE="1")
    assert result.returncode == 2 and "HF_HUB_OFFLINE is set, so that nothing is downloaded; use hf download owner/tiny-1.5" in result.stderr
    assert not hub.requests


def test_proxies(hub, folder, wanted):
    with Proxy("name:pass word") as proxy:
        both = {"HTTP_PROXY": f"http://name:pass%20word@{proxy.place}", "HTTPS_PROXY": "http://127.0.0.1:1"}
        theirs(hub, folder / "theirs", download(), **both)
        assert_downloaded(ours(hub, folder, **both), folder, wanted)
        assert proxy.asked and all(line.startswith(("GET http://", "HEAD http://")) for line in proxy.asked)
        assert_refused(ours(hub, folder / "b", HTTP_PROXY=proxy.place), "407 Proxy Authentication Required")
        proxy.asked.clear()
        assert ours(hub, folder / "c", **both, NO_PROXY="localhost,127.0.0.1").returncode == 0 and not proxy.asked
    assert_refused(ours(hub, folder / "d", HTTP_PROXY="socks5://127.0.0.1:1"), "HTTP_PROXY names 'socks5://127.0.0.1:1'; wanted http://")
    assert_refused(ours(hub, folder / "e", all_proxy="127.0.0.1:1"), "(by all_proxy) cannot be reached: Connection refused")


def test_tunnels(folder, wanted):
    hub, trusts = certified(folder / "both", "DNS:localhost", "IP:127.0.0.1")
    with Proxy() as proxy:
        result = ours(hub, folder, https_proxy=f"http://{proxy.place}", HTTPS_PROXY="", **trusts)
        assert_downloaded(result, folder, wanted)
        assert proxy.asked and all(line.startswith("CONNECT ") for line in proxy.asked)
        proxy.refuses = True
        assert_refused(ours(hub, folder / "b", https_proxy=f"http://{proxy.place}", **trusts),
                       f"cannot be reached: the proxy {proxy.place} (https_proxy) answered 403 Forbidden")
    hub.close()


def certified(folder, *names):
    """A hub with a certificate for these names, and that certificate, which is not signed by anybody."""
    folder.mkdir()
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=hub",
                    "-addext", "subjectAltName=" + ",".join(names)], check=True, capture_output=True)
    return Hub({NAME: model()}, (certificate, key)), {"SSL_CERT_FILE": str(certificate)}


def test_https(folder, wanted):
    hub, trusts = certified(folder / "both", "DNS:localhost", "IP:127.0.0.1")
    assert_downloaded(ours(hub, folder, **trusts), folder, wanted)
    assert_refused(ours(hub, folder / "a"), "its certificate is not trusted: self-signed certificate; SSL_CERT_FILE may name")
    hub.close()
    hub, trusts = certified(folder / "name", "DNS:localhost")
    assert_refused(ours(hub, folder / "b", HF_ENDPOINT=hub.storage, **trusts), "its certificate is not trusted: IP address mismatch")
    hub.close()
    hub, trusts = certified(folder / "number", "IP:127.0.0.1")
    assert_refused(ours(hub, folder / "c", **trusts), "its certificate is not trusted: hostname mismatch")
    hub.close()
