"""Megatron checkpoints become Hugging Face directories, bit for bit, from every layout and both formats; a broken one is
refused by name and leaves nothing behind. The files are torch's own (megatron_files.py); megatron_judge.py has
megatron-core write them."""
import os
import shutil

import pytest
import torch
from safetensors.torch import load_file

import megatron_files
from program import failure_text, run, run_well

LAYOUTS = {
    "llama": dict(tp=2, pp=2, style="te"),
    "qwen2": dict(tp=2, pp=2, vpp=2),
    "qwen3": dict(tp=2),
    "qwen3_moe": dict(tp=2, pp=2, ep=2, style="grouped"),
    "deepseek_v3": dict(tp=2, pp=2, ep=2, style="te"),
}
RANK = "iter_0000003/mp_rank_00/model_optim_rng.pt"


def written(directory, model, writer, config=None, **layout):
    tensors = megatron_files.hf_tensors(megatron_files.MODELS[model])
    megatron_files.write_config(directory, config or megatron_files.MODELS[model])
    writer(directory, megatron_files.MODELS[model], tensors, **layout)
    return tensors


def check_converted(tmp_path, wanted):
    run_well(1, ["convert", "--from", tmp_path / "theirs", "--to", tmp_path / "ours"])
    found = load_file(tmp_path / "ours" / "model.safetensors")
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor), name


@pytest.mark.parametrize("model", LAYOUTS)
def test_files_of_ranks(tmp_path, model):
    check_converted(tmp_path, written(tmp_path / "theirs", model, megatron_files.write_torch, **LAYOUTS[model]))


@pytest.mark.parametrize("model", ["qwen2", "deepseek_v3"])
def test_torch_dist(tmp_path, model):
    check_converted(tmp_path, written(tmp_path / "theirs", model, megatron_files.write_dist))


class Foreign:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def add_foreign_class(directory):
    state = torch.load(directory / RANK, weights_only=False)
    torch.save(dict(state, more=Foreign()), directory / RANK)


def cut(directory, file):
    os.truncate(directory / file, (directory / file).stat().st_size // 2)


BROKEN = {
    "foreign": (megatron_files.write_torch, {}, {}, add_foreign_class, "names the class posix.mkdir"),
    "rank": (megatron_files.write_torch, dict(tp=2, pp=2), {},
             lambda d: shutil.rmtree(d / "iter_0000003/mp_rank_01_001"), "tensor-parallel rank 1, pipeline stage 1 is missing"),
    "half": (megatron_files.write_torch, {}, {}, lambda d: cut(d, RANK), "no complete file of torch.save"),
    "dist": (megatron_files.write_dist, {}, {}, lambda d: cut(d, "iter_0000003/__0_0.distcp"), "it is cut off"),
    "metadata": (megatron_files.write_dist, {}, {}, lambda d: (d / "iter_0000003/.metadata").unlink(), "only half saved"),
    "vocabulary": (megatron_files.write_torch, {}, dict(vocab_size=128), lambda d: None, "vocab_size is 128"),
    "layers": (megatron_files.write_torch, {}, dict(num_hidden_layers=5), lambda d: None, "has 4 layers, and config.json says 5"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_refused(tmp_path, case):
    writer, layout, config, spoil, words = BROKEN[case]
    written(tmp_path / "theirs", "llama", writer, config=dict(megatron_files.MODELS["llama"], **config), **layout)
    spoil(tmp_path / "theirs")
    result = run(1, ["convert", "--from", tmp_path / "theirs", "--to", tmp_path / "ours"])
    assert result.returncode == 2 and words in failure_text(result)
    assert {path.name for path in tmp_path.iterdir()} == {"theirs"} and not os.path.exists("executed")
