"""What `trireme convert --to-megatron` writes: torch reads it, without executing a class that is not named here, and finds
the tensors that megatron_files.py, which knows nothing of it, has for the same layout; and a way there and back leaves every
byte. megatron_judge.py has megatron-core load such files."""
import argparse
import json
import zipfile

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file

import megatron_files
from program import failure_text, run, run_well

# Model: layout, and the names of Transformer Engine.
LAYOUTS = {
    "llama": dict(tp=2, pp=2, style="te"),
    "qwen2": dict(tp=2, pp=2, vpp=2),
    "qwen3": dict(tp=2),
    "qwen3_moe": dict(tp=2, pp=2, ep=2),
    "deepseek_v3": dict(tp=2, pp=2, ep=2, style="te"),
}
KEYS = dict(tp="tensor", pp="pipeline", vpp="virtual_stages", ep="expert")


@pytest.fixture(autouse=True)
def zeros_for_padding(monkeypatch):
    monkeypatch.setattr(megatron_files, "PADDING", 0.0)


def written(tmp_path, model, form, layout):
    """The model's tensors, after `convert --to-megatron FORM` wrote tmp_path/ours."""
    config = megatron_files.MODELS[model]
    tensors = megatron_files.hf_tensors(config)
    megatron_files.write_config(tmp_path / "hf", config)
    save_file(tensors, tmp_path / "hf" / "model.safetensors", metadata={"format": "pt"})
    settings = [f"parallel.{KEYS[key]}={size}" for key, size in layout.items() if key in KEYS]
    settings.append(f"parallel.expert_tensor={layout.get('tp', 1)}")
    impl = "transformer_engine" if layout.get("style") == "te" else "local"
    run_well(1, ["convert", "--from", tmp_path / "hf", "--to", tmp_path / "ours", "--to-megatron", form,
                 "--transformer-impl", impl, "--make-vocab-size-divisible-by", "8"], settings)
    return tensors


def load(path):
    with torch.serialization.safe_globals([argparse.Namespace]):
        return torch.load(path, weights_only=True)


def check_back(tmp_path, tensors):
    run_well(1, ["convert", "--from", "megatron", tmp_path / "ours", "--to", tmp_path / "back"])
    found = load_file(tmp_path / "back" / "model.safetensors")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(found[name], tensor), name


def check_chunk(ours, theirs, name):
    ours = {key: value for key, value in ours.items() if value is not None}
    theirs = {key: value for key, value in theirs.items() if value is not None}
    assert ours.keys() - theirs.keys() <= {"embedding.word_embeddings.weight"}, name  # an MTP layer's, on the last stage
    assert not theirs.keys() - ours.keys(), name
    for key, tensor in theirs.items():
        assert torch.equal(ours[key], tensor), f"{name}: {key}"


@pytest.mark.parametrize("model", LAYOUTS)
def test_files_of_ranks(tmp_path, model):
    layout = LAYOUTS[model]
    tensors = written(tmp_path, model, "torch", layout)
    megatron_files.write_torch(tmp_path / "theirs", megatron_files.MODELS[model], tensors, **layout)
    theirs = {path.parent.name: path for path in (tmp_path / "theirs").glob("iter_*/*/model_optim_rng.pt")}
    ours = {path.parent.name: path for path in (tmp_path / "ours").glob("release/*/model_optim_rng.pt")}
    assert ours.keys() == theirs.keys()
    for rank, path in ours.items():
        assert zipfile.ZipFile(path).testzip() is None
        found, wanted = load(path), torch.load(theirs[rank], weights_only=False)
        assert found["checkpoint_version"] == 3.0
        unknown = {"iteration", "consumed_train_samples", "save"}
        if model == "deepseek_v3":  # which has no groups of queries
            unknown |= {"group_query_attention", "num_query_groups"}
        for key, value in vars(wanted["args"]).items():
            if key not in unknown:
                assert vars(found["args"])[key] == value, key
        for key in (key for key in wanted if key.startswith("model")):
            check_chunk(found[key], wanted[key], f"{rank} {key}")
    assert (tmp_path / "ours" / "latest_checkpointed_iteration.txt").read_text() == "release"
    check_back(tmp_path, tensors)


@pytest.mark.parametrize("model", ["qwen2", "qwen3_moe", "deepseek_v3"])
def test_torch_dist(tmp_path, model):
    tensors = written(tmp_path, model, "torch_dist", dict(tp=2))
    iteration = tmp_path / "ours" / "release"
    metadata = dcp.FileSystemReader(iteration).read_metadata().state_dict_metadata
    found = {key: torch.empty(entry.size, dtype=entry.properties.dtype) for key, entry in metadata.items() if hasattr(entry, "size")}
    states = {key: None for key in metadata if key not in found}
    dcp.load({**found, **states}, checkpoint_id=str(iteration), no_dist=True)
    for key, tensor in megatron_files.stacked(megatron_files.MODELS[model], tensors, 16).items():
        assert torch.equal(found[key], tensor), key
    assert all("._extra_state/shard_" in key for key in states)
    assert json.loads((iteration / "metadata.json").read_text())["sharded_backend"] == "torch_dist"
    assert load(iteration / "common.pt")["args"].tensor_model_parallel_size == 2
    check_back(tmp_path, tensors)


def test_ranks_share_the_work(tmp_path):
    """Three processes write what one does."""
    tensors = written(tmp_path, "qwen3", "torch_dist", dict(tp=2))
    run_well(3, ["convert", "--from", "megatron", tmp_path / "ours", "--to", tmp_path / "again", "--to-megatron", "torch_dist"])
    run_well(3, ["convert", "--from", tmp_path / "again", "--to", tmp_path / "ranks", "--to-megatron", "torch"],
             ["parallel.tensor=2", "parallel.pipeline=2"])
    run_well(1, ["convert", "--from", tmp_path / "ranks", "--to", tmp_path / "back"])
    found = load_file(tmp_path / "back" / "model.safetensors")
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())


REFUSED = {
    "format": (["--to-megatron", "zarr"], [], "wanted torch or torch_dist"),
    "key": (["--to-megatron", "torch"], ["optimizer.lr=1"], "parallel.tensor, parallel.pipeline"),
    "misspelt": (["--to-megatron", "torch"], ["parallel.tensr=2"], "parallel.tensr"),
    "size": (["--to-megatron", "torch"], ["parallel.tensor=4"], "does not divide the model's 2 heads of keys"),
    "names": (["--to-megatron", "torch", "--transformer-impl", "te"], [], "wanted local or transformer_engine"),
    "kind": (["--to-megatron", "torch", "--as", "hf"], [], "--as is not for --to-megatron"),
    "alone": (["--transformer-impl", "local"], [], "--transformer-impl is for --to-megatron"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path, case):
    words, settings, message = REFUSED[case]
    config = megatron_files.MODELS["llama"]
    megatron_files.write_config(tmp_path / "hf", config)
    save_file(megatron_files.hf_tensors(config), tmp_path / "hf" / "model.safetensors", metadata={"format": "pt"})
    result = run(1, ["convert", "--from", tmp_path / "hf", "--to", tmp_path / "ours", *words], settings)
    assert result.returncode == 2 and message in failure_text(result), failure_text(result)
    assert {path.name for path in tmp_path.iterdir()} == {"hf"}


def test_the_word_says_what_the_directory_is(tmp_path):
    megatron_files.write_config(tmp_path / "hf", megatron_files.MODELS["llama"])
    for words, message in {("megatron", tmp_path / "hf"): "is not a Megatron checkpoint", ("megatron",): "--from megatron DIR",
                           ("nemo", tmp_path / "hf"): "wanted --from DIR, or --from megatron DIR",
                           ("megatron", tmp_path / "none"): "no such directory"}.items():
        result = run(1, ["convert", "--from", *words, "--to", tmp_path / "ours"])
        assert result.returncode == 2 and message in failure_text(result), failure_text(result)
