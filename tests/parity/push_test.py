"""`trireme push` beside huggingface_hub's upload_folder: both send the same directory to the same server, which has the same files
after it, sent in the same way, and snapshot_download reads them back. Then what goes wrong: pushes that are cut off, refusals."""
import os
import pathlib
import random
import subprocess
import sys

import huggingface_hub
import pytest

from program import BUILD
from upload_server import UploadHub


@pytest.fixture
def folder(tmp_path):
    """One for each test: caches are in it."""
    return tmp_path


@pytest.fixture
def hub():
    served = UploadHub()
    yield served
    served.close()


@pytest.fixture
def model(folder):
    """No weights that anybody reads: bytes stand for them. One file is sent whole, one in parts, one twice, one is empty."""
    drawn, path = random.Random(1), folder / "final"
    files = {"config.json": b'{"model_type": "llama"}', "tokenizer.json": drawn.randbytes(25_000), "added_tokens.json": b"{}",
             "model-00001-of-00002.safetensors": drawn.randbytes(150_001), "model-00002-of-00002.safetensors": drawn.randbytes(60_000),
             "model.safetensors.index.json": b'{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}',
             "templates/tool use.jinja": b"{{ messages }}", "empty.txt": b"", "README.md": "---\nlicense: mit\n---\n# Ü\n".encode()}
    files["copy.safetensors"] = files["model-00002-of-00002.safetensors"]
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def variables(hub, folder, **more):
    """This server, this cache, and nothing else of the user's."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("HF_", "HUGGING", "TRANSFORMERS_", "USE_")) and not name.lower().endswith("_proxy")}
    return {**kept, "HF_ENDPOINT": hub.endpoint, "HF_HOME": str(folder / "home"), "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": "hf_secret",
            "OMP_NUM_THREADS": "1", **more}


def ours(hub, folder, *words, **more):
    return subprocess.run([str(BUILD / "trireme"), "push", *map(str, words)], env=variables(hub, folder, **more), capture_output=True,
                          text=True, timeout=300)


def well(result):
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def theirs(hub, folder, call):
    """A call of huggingface_hub, which reads its variables when it is imported."""
    code = f"import huggingface_hub; print(huggingface_hub.{call})"
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=variables(hub, folder), capture_output=True, text=True, timeout=300)


def contents(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*")
            if file.is_file() and file.relative_to(path).parts[0] != ".cache"}


def test_the_same_as_upload_folder(hub, folder, model):
    well(theirs(hub, folder, "create_repo('me/theirs', private=True)"))
    well(theirs(hub, folder, f"upload_folder(repo_id='me/theirs', folder_path={str(model)!r}, commit_message='all of it')"))
    hub.store.clear()
    hub.parts.clear()
    said = well(ours(hub, folder, model, "me/ours", "--private", "--message", "all of it"))
    assert hub.private == {"me/theirs": True, "me/ours": True}
    assert hub.models["me/ours"] == hub.models["me/theirs"] == contents(model)
    (_, theirs_said, theirs_sent), (_, ours_said, ours_sent) = hub.pushed
    assert ours_sent == theirs_sent and ours_said == theirs_said == "all of it"
    assert f"{hub.endpoint}/me/ours/commit/{hub.commits['me/ours']}: 10 files" in said
    # The storage server has another origin.
    assert all("Authorization" not in headers for method, _, headers in hub.requests if method == "PUT")
    assert not [(method, path) for method, path, headers in hub.requests
                if path.startswith("/api/models/me/ours") and headers.get("Authorization") != "Bearer hf_secret"]


def test_snapshot_download_reads_it_back(hub, folder, model):
    well(ours(hub, folder, model, "me/ours", "--branch", "try"))
    read = folder / "read"
    well(theirs(hub, folder, f"snapshot_download('me/ours', revision={hub.commits['me/ours@try']!r}, local_dir={str(read)!r})"))
    assert contents(read) == contents(model)
    assert hub.models["me/ours"] == {}


def test_nothing_is_sent_twice(hub, folder, model):
    hub.puts_left = 2  # of the first weights, which come in four parts
    cut = ours(hub, folder, model, "me/ours")
    assert cut.returncode == 2 and "403" in cut.stderr and "push again" in cut.stderr, cut.stderr
    assert hub.models["me/ours"] == {} and not hub.pushed
    hub.puts_left = None
    before = len(hub.asked("/store/"))
    well(ours(hub, folder, model, "me/ours"))
    assert hub.models["me/ours"] == contents(model)
    sent = len(hub.asked("/store/")) - before
    assert sent in (5, 6), sent  # four parts, the tokenizer, the other weights once: one of these may be there already
    (model / "config.json").write_text('{"model_type": "qwen3"}')
    before = len(hub.asked("/store/"))
    said = well(ours(hub, folder, model, "me/ours"))
    assert "1 file, 0 bytes sent to its store, 9 as they were" in said
    assert list(hub.pushed[-1][2]) == ["config.json"] and len(hub.asked("/store/")) == before
    assert "has all of it already" in well(ours(hub, folder, model, "me/ours")) and len(hub.pushed) == 2


def test_a_model_card_is_made(hub, folder, model):
    (model / "README.md").unlink()
    (model / "adapter_config.json").write_text('{"base_model_name_or_path": "Qwen/Qwen3-8B", "peft_type": "LORA"}')
    well(ours(hub, folder, model, "me/ours"))
    card = huggingface_hub.ModelCard(hub.models["me/ours"]["README.md"].decode())
    assert card.data.base_model == "Qwen/Qwen3-8B" and card.data.library_name == "peft" and card.data.tags == ["trireme", "lora"]
    assert card.text.strip().startswith("# ours") and "{{" not in card.text and not (model / "README.md").exists()


def test_a_dry_run_asks_nobody(hub, folder, model):
    (model / "optimizer.pt").write_bytes(b"x")
    said = well(ours(hub, folder, model, "me/ours", "--dry-run", HF_TOKEN="", HF_HUB_OFFLINE="1"))
    assert not hub.requests and "model-00001-of-00002.safetensors  150001 bytes" in said and "left out: optimizer.pt" in said
    assert f"10 files, {sum(map(len, contents(model).values())) - 1} bytes" in said


@pytest.mark.parametrize("status, part, wanted", [(401, "/create", "HF_TOKEN"), (403, "/create", "may not write to me/ours"),
                                                  (404, "/preupload/", "check the name"), (400, "/commit/", "because")])
def test_refusals(hub, folder, model, status, part, wanted):
    hub.refuse[part] = (status, "")
    result = ours(hub, folder, model, "me/ours")
    assert result.returncode == 2 and wanted in result.stderr and "hf_secret" not in result.stderr, result.stderr
    assert not hub.pushed


def test_refused_before_anything_is_asked(hub, folder, model):
    for words, more, wanted in [((model, "ours"), {}, "wanted the name of a repository"), ((model, "me/ours"), {"HF_TOKEN": ""}, "no token"),
                                ((model, "me/ours"), {"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE"), ((folder, "me/ours"), {}, str(model)),
                                ((model, "me/ours"), {"USE_MODELSCOPE_HUB": "1"}, "USE_MODELSCOPE_HUB")]:
        result = ours(hub, folder, *words, **more)
        assert result.returncode == 2 and wanted in result.stderr, result.stderr
    pathlib.Path(model / "manifest.pb").write_bytes(b"x")
    result = ours(hub, folder, model, "me/ours")
    assert result.returncode == 2 and "is a checkpoint" in result.stderr
    assert not hub.requests
