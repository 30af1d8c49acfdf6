"""Data sets that are named by their hub id, against `datasets` and huggingface_hub: all ask the same server. The same rows in the same
order, or both refuse; caches with the same files and links, in which each finds what the other has downloaded; and what goes wrong."""
import gzip
import io
import json
import os
import pathlib
import subprocess
import sys

import numpy
import pyarrow
import pyarrow.parquet
import pytest
import yaml

from hub_server import Hub
from hub_test import cache, theirs, variables
from program import BUILD, run_many

CHAT = pathlib.Path("examples/chat").resolve()


def texts(label, count=3):
    return [f"{label} {number}" for number in range(count)]


def lines(label, count=3):
    return "".join(json.dumps({"text": text}) + "\n" for text in texts(label, count)).encode()


def parquet(label, count=3):
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"text": texts(label, count)}), file)
    return file.getvalue()


def csv(label):
    return ("text\n" + "\n".join(texts(label)) + "\n").encode()


def card(**keys):
    return b"---\n" + yaml.safe_dump({"license": "mit", **keys}).encode() + b"---\n# A data set\n"


CONFIGS = [{"config_name": "en", "data_files": [{"split": "train", "path": "en/*.jsonl"}, {"split": "test", "path": ["en-test/a.jsonl", "en-test/b*"]}]},
           {"config_name": "de", "data_files": "de/**"}]
# Files of a repository, and what is asked of it: (behind the colon, subset, split). A subset of None is the default one.
SHAPES = {
    "one": ({"data.jsonl": lines("a")}, [("", None, "train"), (":train", None, "train"), (":test", None, "test"), (":default/train", "default", "train")]),
    "several": ({"b.jsonl": lines("b"), "a.jsonl": lines("a"), "c/d.jsonl": lines("d"), "README.md": b"# x", "notes.py": b"1"}, [("", None, "train")]),
    "sharded": ({f"data/train-0000{i}-of-00003.parquet": parquet(f"t{i}") for i in range(3)} | {"data/odd-00000-of-00001.parquet": parquet("odd"),
                 "extra/train.csv": csv("x")}, [("", None, "train"), (":odd", None, "odd"), (":validation", None, "validation")]),
    "file_names": ({"train_1.jsonl": lines("1"), "train_0.jsonl": lines("0"), "my-dev.jsonl": lines("v"), "my.test.jsonl": lines("t"), "latest.jsonl": lines("n")},
                   [("", None, "train"), (":validation", None, "validation"), (":test", None, "test")]),
    "folders": ({"x/train/b.jsonl": lines("b"), "x/train/a.jsonl": lines("a"), "test-1/c.jsonl": lines("c"), "train.jsonl": lines("n")},
                [("", None, "train"), (":test", None, "test")]),
    "only_test": ({"a/train.jsonl": lines("a"), "test/one.jsonl": lines("t")}, [("", None, "train"), (":test", None, "test")]),
    "training": ({"training-data.jsonl": lines("a"), "evaluation.jsonl": lines("e")}, [("", None, "train"), (":test", None, "test")]),
    "hidden": ({".a/b.jsonl": lines("h"), "__c/d.jsonl": lines("s"), "x.jsonl": lines("x"), ".y.jsonl": lines("y"), "config.json": b"{}"}, [("", None, "train")]),
    "gz": ({"train.jsonl.gz": gzip.compress(lines("z"))}, [("", None, "train")]),
    "csv": ({"train.csv": csv("c")}, [("", None, "train")]),
    "text": ({"train.txt": b"one\ntwo\n"}, [("", None, "train")]),
    "mixed": ({"a.csv": csv("c"), "b.jsonl": lines("b"), "c.jsonl": lines("c2"), "d.md": b"x"}, [("", None, "train")]),
    "large": ({"train.parquet": parquet("l", 8000)}, [("", None, "train")]),
    "configs": ({"README.md": card(configs=CONFIGS), "en/2.jsonl": lines("e2"), "en/1.jsonl": lines("e1"), "en-test/a.jsonl": lines("ta"),
                 "en-test/b1.jsonl": lines("tb"), "de/x/y.jsonl": lines("d"), "other.jsonl": lines("o")},
                [(":en", "en", "train"), (":en/test", "en", "test"), (":de", "de", "train"), ("", None, "train"), (":fr", "fr", "train"),
                 (":de/test", "de", "test")]),
    "default": ({"README.md": card(configs=[{"config_name": "a", "data_files": "a.jsonl"}, {"config_name": "b", "data_files": "b.jsonl", "default": True}]),
                 "a.jsonl": lines("a"), "b.jsonl": lines("b")}, [("", None, "train"), (":a", "a", "train")]),
    "defaults": ({"README.md": card(configs=[{"config_name": "default", "data_files": "a.jsonl"}, {"config_name": "b", "data_files": "b.jsonl", "default": True}]),
                  "a.jsonl": lines("a"), "b.jsonl": lines("b")}, [("", None, "train")]),
    "data_dir": ({"README.md": card(configs=[{"config_name": "a", "data_dir": "x/a"}, {"config_name": "b", "data_dir": "x/b"}]),
                  "x/a/train.jsonl": lines("a"), "x/a/test.jsonl": lines("at"), "x/b/rows.jsonl": lines("b")},
                 [(":a", "a", "train"), (":a/test", "a", "test"), (":b", "b", "train")]),
    "missing_file": ({"README.md": card(configs=[{"config_name": "a", "data_files": "none.jsonl"}]), "a.jsonl": lines("a")}, [("", None, "train")]),
    "no_pattern": ({"README.md": card(configs=[{"config_name": "a", "data_files": "none*.jsonl"}]), "a.jsonl": lines("a")}, [("", None, "train")]),
    "repeated": ({"train-train.jsonl": lines("r"), "README.md": card(tags=["x"])}, [("", None, "train")]),
    "brackets": ({"README.md": card(configs=[{"config_name": "a", "data_files": "p[0-1][!a]?.jsonl"}]), "p0bc.jsonl": lines("0"), "p1ab.jsonl": lines("no"),
                  "p1bb.jsonl": lines("1"), "p2bb.jsonl": lines("no")}, [("", None, "train")]),
    "empty": ({"README.md": b"# nothing"}, [("", None, "train")]),
    "pictures": ({"train/a.png": b"x", "train/b.png": b"x", "train/metadata.jsonl": lines("m")}, [("", None, "train")]),
    "script": ({"script.py": b"import datasets", "script.csv": csv("s")}, [("", None, "train")]),
}
CASES = [(name, *asked) for name, (_, all_asked) in SHAPES.items() for asked in all_asked]
# The hub's own conversions, on a branch of the repository: subset, split, files.
CONVERSIONS = {
    "script": {},
    "converted": {"en/train/0000.parquet": parquet("e0"), "en/train/0001.parquet": parquet("e1"), "en/test/0000.parquet": parquet("et"),
                  "de/partial-train/0000.parquet": parquet("d")},
    "archives": {"default/train/0000.parquet": parquet("a")},
}
ORIGINALS = {"converted": {"converted.py": b"import datasets", "raw.csv": csv("s")}, "archives": {"a.tar": b"x", "b.tar": b"x", "README.md": b"#"}}


@pytest.fixture(scope="module")
def hub():
    repositories = {f"datasets/own/{name}": files for name, (files, _) in SHAPES.items()}
    repositories |= {f"datasets/own/{name}": files for name, files in ORIGINALS.items()}
    repositories |= {f"datasets/own/{name}@refs/convert/parquet": files for name, files in CONVERSIONS.items() if files}
    served = Hub(repositories)
    yield served
    served.close()


def run_file(folder, title, **data):
    """Texts without end tokens are bytes in the example's tokenizer."""
    path = folder / "run.yaml"
    settings = {"train": [title], "cache": str(folder / "data"), **data}
    path.write_text(yaml.safe_dump({"stage": "pt", "model": {"path": str(CHAT)}, "data": settings}))
    return path


def documents(prefix):
    """The texts of a .bin that `trireme tokenize` has written: one byte per token, and an end token."""
    lengths = numpy.frombuffer(pathlib.Path(f"{prefix}.idx").read_bytes(), dtype=numpy.int64, count=1, offset=18)[0]
    sizes = numpy.frombuffer(pathlib.Path(f"{prefix}.idx").read_bytes(), dtype=numpy.int32, count=lengths, offset=34)
    tokens, begin, found = numpy.fromfile(f"{prefix}.bin", dtype=numpy.uint16), 0, []
    for size in sizes:
        found.append(bytes(token for token in tokens[begin:begin + size] if token < 256).decode())
        begin += size
    return found


def ours(hub, folder, title, data=(), **more):
    """The rows, or the refusal: one line, with the status of bad input."""
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / "texts"
    for ending in (".bin", ".idx"):
        out.with_suffix(ending).unlink(missing_ok=True)
    command = [str(BUILD / "trireme"), "tokenize", str(run_file(folder, title, **dict(data))), "--out", str(out)]
    result = subprocess.run(command, env=variables(hub, folder, **more), capture_output=True, text=True, timeout=300)
    if result.returncode == 0:
        return documents(out)
    errors = [line for line in result.stderr.splitlines() if line and not line.startswith(("I", "W"))]
    assert result.returncode == 2 and len(errors) == 1, result.stderr
    return errors[0]


JUDGE = """
import json, sys
import datasets
for name, subset, split in json.load(sys.stdin):
    try:
        print(json.dumps(list(datasets.load_dataset(name, subset, split=split)["text"])))
    except Exception as error:
        print(json.dumps(f"{type(error).__name__}: {error}"))
"""


@pytest.fixture(scope="module")
def wanted(hub, tmp_path_factory):
    """What `datasets` reads in each case, from one process."""
    folder = tmp_path_factory.mktemp("theirs")
    asked = json.dumps([(f"own/{name}", subset, split) for name, _, subset, split in CASES])
    settings = variables(hub, folder, HF_DATASETS_DISABLE_PROGRESS_BARS="1", HF_UPDATE_DOWNLOAD_COUNTS="0")
    result = subprocess.run([sys.executable, "-c", JUDGE], input=asked, env=settings, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    return dict(zip(CASES, map(json.loads, result.stdout.splitlines()), strict=True))


@pytest.fixture(scope="module")
def found(hub, tmp_path_factory):
    """What the program reads in each case, from one launch and with one cache."""
    folder, commands = tmp_path_factory.mktemp("ours"), []
    for number, (name, title, _, _) in enumerate(CASES):
        (folder / str(number)).mkdir()
        path = run_file(folder / str(number), f"own/{name}{title}", cache=str(folder / "data"))
        commands.append(["tokenize", path, "--out", folder / str(number) / "texts"])
    settings = variables(hub, folder, HF_HUB_OFFLINE="0")  # the tests themselves run offline
    result = run_many(None, commands, variables=settings, options=["--refusals"])
    assert result.returncode == 0, result.stderr
    rows = {}
    for number, (case, line) in enumerate(zip(CASES, result.stdout.splitlines(), strict=True)):
        rows[case] = json.loads(line)["refused"] if line.startswith("{") else documents(folder / str(number) / "texts")
    return rows


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0] + case[1])
def test_rows(found, wanted, case):
    name, title, _, _ = case
    rows = found[case]
    if isinstance(wanted[case], str):
        assert isinstance(rows, str) and rows.startswith(f"data.train: own/{name}{title} is neither a file nor a directory"), (rows, wanted[case])
    else:
        assert rows == wanted[case]


def test_conversions(hub, tmp_path):
    """What needs code, or is in archives, is read from the hub's conversion to Parquet, as huggingface_hub caches it."""
    assert ours(hub, tmp_path, "own/converted:en") == [*texts("e0"), *texts("e1")]
    assert ours(hub, tmp_path, "own/converted:en/test") == texts("et")
    assert ours(hub, tmp_path, "own/archives") == texts("a")
    assert "the hub has converted only a part of the split train in its subset de" in ours(hub, tmp_path, "own/converted:de")
    assert "name one after a colon: de, en" in ours(hub, tmp_path, "own/converted")
    assert "needs code (script.py), which is never run, and the hub has no conversion" in ours(hub, tmp_path, "own/script")
    assert "needs code" in ours(hub, tmp_path, "own/converted:en?revision=" + hub.commits["datasets/own/converted"])
    theirs(hub, tmp_path / "theirs", "snapshot_download('own/converted', repo_type='dataset', revision='refs/convert/parquet', allow_patterns='en/*')")
    kept = {name: file for name, file in cache(tmp_path).items() if "datasets--own--converted" in name and "CACHEDIR" not in name}
    assert kept == {name: file for name, file in cache(tmp_path / "theirs").items() if "CACHEDIR" not in name}


def test_the_same_cache(hub, tmp_path):
    """Files and links as huggingface_hub makes them; neither downloads what the other has."""
    download = "snapshot_download('own/configs', repo_type='dataset', allow_patterns=['README.md', 'en/*'])"
    theirs(hub, tmp_path / "theirs", download)
    assert ours(hub, tmp_path / "ours", "own/configs:en") == [*texts("e1"), *texts("e2")]
    kept = {name: file for name, file in cache(tmp_path / "theirs").items() if "CACHEDIR" not in name}
    assert cache(tmp_path / "ours") == kept
    before = len(hub.requests)
    assert ours(hub, tmp_path / "ours", "own/configs:en") == [*texts("e1"), *texts("e2")]
    assert theirs(hub, tmp_path / "ours", download.replace(")", ", local_files_only=True)")).endswith(hub.commits["datasets/own/configs"])
    assert len(hub.requests) == before  # nobody asked again
    assert "warnings=[]" in theirs(hub, tmp_path / "ours", "scan_cache_dir()")


def test_offline(hub, tmp_path):
    theirs(hub, tmp_path, "snapshot_download('own/sharded', repo_type='dataset')")
    before = len(hub.requests)
    assert ours(hub, tmp_path, "own/sharded", HF_HUB_OFFLINE="1") == [text for i in range(3) for text in texts(f"t{i}")]
    assert "HF_HUB_OFFLINE is set, so that nothing is downloaded; use hf download --repo-type dataset own/one" in ours(
        hub, tmp_path, "own/one", HF_HUB_OFFLINE="1")
    next((tmp_path / "hub").rglob("train-00001-of-00003.parquet")).unlink()
    assert "has 2 of the 3 files of data/train-00000-of-00003.parquet; download it whole" in ours(hub, tmp_path / "b", "own/sharded", HF_HUB_OFFLINE="1",
                                                                                                  HF_HOME=str(tmp_path))
    assert len(hub.requests) == before


def test_no_network(hub, tmp_path):
    """A cache is used when the hub does not answer; without one that is an error."""
    assert "cannot be reached: Connection refused" in ours(hub, tmp_path, "own/one", HF_ENDPOINT="http://127.0.0.1:1")
    theirs(hub, tmp_path, "snapshot_download('own/one', repo_type='dataset')")
    assert ours(hub, tmp_path, "own/one", HF_ENDPOINT="http://127.0.0.1:1") == texts("a")


def test_what_is_here_comes_first(hub, tmp_path, monkeypatch):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "one").write_text("")
    (tmp_path / "own" / "one").unlink()
    (tmp_path / "own" / "one").mkdir()
    (tmp_path / "own" / "one" / "a.jsonl").write_bytes(lines("here"))
    monkeypatch.chdir(tmp_path)
    before = len(hub.requests)
    assert ours(hub, tmp_path / "a", "own/one") == texts("here")
    assert "own/none.jsonl does not exist; check the path" in ours(hub, tmp_path / "a", "own/none.jsonl")
    assert len(hub.requests) == before
    assert ours(hub, tmp_path / "a", "hf::own/one") == texts("a")


def test_revisions(hub, tmp_path):
    commit = hub.commits["datasets/own/one"]
    assert ours(hub, tmp_path, f"own/one?revision={commit}") == texts("a")
    assert ours(hub, tmp_path, "own/one:train?revision=main") == texts("a")
    assert "it has no revision 'other'; name another after the ?revision=" in ours(hub, tmp_path, "own/one?revision=other")


REFUSALS = {
    "unknown": ("own/none", {}, "401 Unauthorized: there is no such data set, or it is private or gated; check the name, or set HF_TOKEN"),
    "gated": ("own/one", {"/resolve/": (403, "GatedRepo")}, "403 Forbidden: it is gated, and no token was sent; request access on "),
    "gated_list": ("own/one", {"/api/": (401, "GatedRepo")}, "401 Unauthorized: it is gated, and no token was sent"),
    "subset": ("own/configs:fr/train", {}, "has no subset 'fr'; it has en, de"),
    "no_default": ("own/configs", {}, "has several subsets and no default one; name one after a colon: en, de"),
    "split": ("own/configs:de/test", {}, "has no split 'test' in its subset de; it has train; its subsets are en, de: name one after a colon, as in :de/train"),
    "empty": ("own/empty", {}, "has no files of data"),
    "pictures": ("own/pictures", {}, "the split train has the file train/a.png, which is of a kind that is not read here"),
    "count": ("own/one#none", {}, "ends in 'none'; wanted a number of samples, such as #500"),
    "at": ("own/one@main", {}, "ends in 'main'; wanted a weight, such as @0.3; a revision is written ?revision=NAME"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(hub, tmp_path, case):
    title, hub.refuse, text = REFUSALS[case]
    try:
        refusal = ours(hub, tmp_path, title)
    finally:
        hub.refuse = {}
    assert isinstance(refusal, str) and refusal.startswith("data.train: own/") and text in refusal, refusal
    assert not (tmp_path / "texts.bin").exists() and not list((tmp_path / "data").glob("hub/*"))


def test_a_hub_that_lies(hub, tmp_path):
    hub.sizes = {"train.parquet": 100}
    refusal = ours(hub, tmp_path, "own/large")
    hub.sizes = {}
    assert "sends more than its 100 bytes" in refusal
    hub.wrong = {"train.parquet"}
    refusal = ours(hub, tmp_path, "own/large")
    hub.wrong = set()
    assert "has the sha256 " in refusal and "check HF_ENDPOINT" in refusal
    hub.cuts = [30_000]
    assert len(ours(hub, tmp_path, "own/large")) == 8000


def test_dry_run_and_inspect(hub, tmp_path):
    """A number of samples does not depend on where caches are; the name stays in the run's file."""
    settings, found = variables(hub, tmp_path), []
    for home in ("a", "b"):
        path = run_file(tmp_path, "own/sharded#4", max_length=64, packing=False)
        more = {"HF_HOME": str(tmp_path / home)}
        words = ["train", str(path), "--dry-run", "--set", "model.init=random", "--set", f"run.output={tmp_path}/out", "--set", f"data.cache={tmp_path}/{home}/data"]
        result = subprocess.run([str(BUILD / "trireme"), *words], env=settings | more, capture_output=True, text=True, timeout=300)
        assert result.returncode == 0, result.stderr
        result = subprocess.run([str(BUILD / "trireme"), "inspect", str(path), "--set", f"data.cache={tmp_path}/{home}/data"], env=settings | more,
                                capture_output=True, text=True, timeout=300)
        assert result.returncode == 0 and "3 samples" in result.stdout, result.stderr
        found.append(result.stdout.replace(f"{tmp_path}/{home}", ""))
    assert found[0] == found[1]
    result = subprocess.run([str(BUILD / "trireme"), "inspect", "hf::own/one", "--model", str(CHAT), "--set", "stage=pt", "--set", f"data.cache={tmp_path}/c"],
                            env=settings, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0 and "a 0" in result.stdout, result.stderr


def test_dataset_info(hub, tmp_path):
    """LLaMA-Factory's entries on a hub: their subset, split, columns and number of samples."""
    described = {"test_of_en": {"hf_hub_url": "own/configs", "subset": "en", "split": "test", "columns": {"prompt": "text"}},
                 "few": {"hf_hub_url": "own/one", "num_samples": 2, "columns": {"prompt": "text"}}}
    (tmp_path / "dataset_info.json").write_text(json.dumps(described))
    more = {"dataset_info": str(tmp_path)}
    assert ours(hub, tmp_path, "test_of_en", data=more) == [*texts("ta"), *texts("tb")]
    path = run_file(tmp_path, "few", max_length=64, packing=False, **more)
    result = subprocess.run([str(BUILD / "trireme"), "inspect", str(path)], env=variables(hub, tmp_path), capture_output=True, text=True, timeout=300)
    assert result.returncode == 0 and "a 0" in result.stdout, result.stderr
