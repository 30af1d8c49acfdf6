"""Models and data sets from ModelScope, against modelscope_hub: both ask the same server, and each finds in its cache what the other has
downloaded. Then what goes wrong."""
import os
import subprocess
import sys

import pytest

from hub_data_test import csv, documents, lines, run_file, texts
from hub_test import CHAT
from modelscope_server import ModelScope
from program import BUILD

SET = {"train.jsonl": lines("a"), "test.jsonl": lines("t"), "README.md": b"# a data set"}
MANY = {f"data/{number:04}.jsonl": lines(f"{number:04}", 1) for number in range(450)}
LARGE = {"train.csv": csv("c") + b"".join(b"row %d\n" % number for number in range(20_000))}
MODEL = {name: (CHAT / name).read_bytes() for name in ("config.json", "tokenizer.json", "tokenizer_config.json")} | {
    "model.safetensors": bytes(50_000), "README.md": b"#", "pytorch_model.bin": b"x", "onnx/model.safetensors": b"x"}


@pytest.fixture
def hub():
    served = ModelScope({"datasets/own/set-1.5": SET, "datasets/own/many": MANY, "datasets/own/large": LARGE, "models/own/tiny-1.5": MODEL,
                         "datasets/own/empty": {"README.md": b"#"}})
    yield served
    served.close()


def variables(hub, folder, **more):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("HF_", "HUGGING", "TRANSFORMERS_", "MODELSCOPE_", "USE_MODELSCOPE")) and not name.lower().endswith("_proxy")}
    return {**kept, "MODELSCOPE_ENDPOINT": hub.endpoint, "MODELSCOPE_CACHE": str(folder / "scope"), "HF_HOME": str(folder / "hf"),
            "HF_ENDPOINT": "http://127.0.0.1:1", "HF_HUB_DOWNLOAD_TIMEOUT": "5", "XDG_CACHE_HOME": str(folder / "xdg"), "HOME": str(folder),
            "OMP_NUM_THREADS": "1", **more}


def ours(hub, folder, title, **more):
    """The rows, or the refusal: one line, with the status of bad input."""
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / "texts"
    for ending in (".bin", ".idx"):
        out.with_suffix(ending).unlink(missing_ok=True)
    command = [str(BUILD / "trireme"), "tokenize", str(run_file(folder, title)), "--out", str(out)]
    result = subprocess.run(command, env=variables(hub, folder, **more), capture_output=True, text=True, timeout=300)
    if result.returncode == 0:
        return documents(out)
    errors = [line for line in result.stderr.splitlines() if line and not line.startswith(("I", "W"))]
    assert result.returncode == 2 and len(errors) == 1, result.stderr
    return errors[0]


def theirs(hub, folder, call):
    """A call of modelscope_hub, which reads its variables when it is imported."""
    code = f"from modelscope_hub import HubApi; print(HubApi().download_repo({call}))"
    result = subprocess.run([sys.executable, "-c", code], env=variables(hub, folder), capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip().splitlines()[-1]


def cache(folder):
    """Contents of the files in it; not their locks."""
    root = folder / "scope"
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*"))
            if path.is_file() and ".lock" not in path.parts}


def test_data(hub, tmp_path):
    """The same rows and files; neither downloads what the other has."""
    assert ours(hub, tmp_path / "ours", "ms::own/set-1.5") == texts("a")
    assert ours(hub, tmp_path / "ours", "own/set-1.5:test", USE_MODELSCOPE_HUB="1") == texts("t")
    theirs(hub, tmp_path / "theirs", "'own/set-1.5', 'dataset'")
    assert cache(tmp_path / "ours") == cache(tmp_path / "theirs")
    folder = tmp_path / "ours" / "scope" / "datasets" / "own--set-1.5" / "snapshots" / "master"
    assert theirs(hub, tmp_path / "ours", "'own/set-1.5', 'dataset', local_files_only=True") == str(folder)
    sent = len([path for _, path, _ in hub.requests if path.startswith("/storage/")])
    assert ours(hub, tmp_path / "theirs", "ms::own/set-1.5") == texts("a")
    theirs(hub, tmp_path / "ours", "'own/set-1.5', 'dataset'")
    assert len([path for _, path, _ in hub.requests if path.startswith("/storage/")]) == sent
    before = len(hub.requests)
    assert ours(hub, tmp_path / "theirs", "ms::own/set-1.5", HF_HUB_OFFLINE="1") == texts("a")
    assert len(hub.requests) == before


def test_pages(hub, tmp_path):
    """Lists of data sets come in pages of 200."""
    assert ours(hub, tmp_path, "ms::own/many") == [f"{number:04} 0" for number in range(450)]
    hub.missing_pages = True
    assert "lists 200 of its 451 files; try again later" in ours(hub, tmp_path / "b", "ms::own/many")


def test_a_model(hub, tmp_path):
    words = ["generate", "--model", "own/tiny-1.5", "--prompt", "Hello", "--max-new-tokens", "1", "--set", "model.init=random"]
    settings = variables(hub, tmp_path, USE_MODELSCOPE_HUB="1")
    result = subprocess.run([str(BUILD / "trireme"), *words], env=settings, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    names = {name.rsplit("/", 1)[1] for name in cache(tmp_path)}
    assert names == {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"}
    assert theirs(hub, tmp_path, "'own/tiny-1.5', 'model', local_files_only=True").endswith("models/own--tiny-1.5/snapshots/master")
    before = len(hub.requests)
    assert subprocess.run([str(BUILD / "trireme"), *words], env=settings, capture_output=True, timeout=300).returncode == 0
    assert len(hub.requests) == before


def test_what_goes_wrong(hub, tmp_path):
    assert "there is no such data set, or no revision 'master'; check the name, and MODELSCOPE_ENDPOINT" in ours(hub, tmp_path, "ms::own/none")
    assert "no revision 'other'" in ours(hub, tmp_path, "ms::own/set-1.5?revision=other")
    assert "has no files of data" in ours(hub, tmp_path, "ms::own/empty")
    assert "has no split 'dev'; it has train, test" in ours(hub, tmp_path, "ms::own/set-1.5:dev")
    hub.message = "closed for today"
    assert "answered: closed for today; check the name, or set MODELSCOPE_API_TOKEN" in ours(hub, tmp_path, "ms::own/set-1.5")
    hub.message, hub.wrong = "", {"train.csv"}
    assert "train.csv: what " in (refusal := ours(hub, tmp_path, "ms::own/large")) and "check MODELSCOPE_ENDPOINT" in refusal
    hub.wrong, hub.cuts = set(), [5_000]
    assert len(ours(hub, tmp_path, "ms::own/large")) == 20_003
    ranges = [headers.get("Range") for _, path, headers in hub.requests if path.endswith("storage/datasets/own/large/train.csv")]
    assert ranges[-2:] == [None, "bytes=5000-"]


def test_the_token_is_for_the_hub_only(hub, tmp_path):
    assert ours(hub, tmp_path, "ms::own/set-1.5", MODELSCOPE_API_TOKEN="secret") == texts("a")
    for method, path, headers in hub.requests:
        secret = (headers.get("Authorization"), headers.get("Cookie"))
        assert secret == ((None, None) if path.startswith("/storage/") else ("Bearer secret", "m_session_id=secret")), (method, path)
