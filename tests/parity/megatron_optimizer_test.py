"""A run resumes from a Megatron checkpoint: masters and moments are imported bit for bit, whatever split them, and the next
step is megatron-core's own. What is not whole, or not Adam's, is refused by name and leaves nothing behind.

`--full`: every case, form and version of megatron-core that stands first on the module path (0.12 is installed; 0.16 writes
dp_reshardable and fully_reshardable)."""
import json
import os
import sys

import h5py
import pytest
import torch
from safetensors.torch import load_file

import megatron_files
import megatron_optimizer_files as theirs
import megatron_state_files as state_files
from program import failure_text, run, run_well, start, words_of

OPTIONS = ("full",)
IMPORT = ["--as", "checkpoint", "--optimizer"]
TOLERANCE = 1e-5  # of weights and losses after a step in fp32; a step moves weights by 1e-2


def convert(source, target, *more):
    run_well(1, ["convert", "--from", source, "--to", target, *more])
    return target


def stored(checkpoint, state):
    with h5py.File(checkpoint / "index.h5") as file:
        group = file[f"optimizer/{state}"] if state != "weights" else file["weights"]
        return {name: torch.tensor(group[name][()]) for name in group}


def trained(tensors):
    return {name: tensor for name, tensor in tensors.items() if not name.endswith("e_score_correction_bias")}


def check_states(checkpoint, states):
    for kind, ours in state_files.STATES.items():
        wanted, found = trained(states[kind]), stored(checkpoint, ours)
        assert found.keys() == wanted.keys(), ours
        for name, tensor in wanted.items():
            assert torch.equal(found[name], tensor), (ours, name)


LAYOUTS = {
    "llama": dict(tp=2, pp=2, style="te"),
    "qwen2": dict(tp=2, pp=2, vpp=2),
    "qwen3_moe": dict(tp=2, pp=2, ep=2, style="te"),
    "deepseek_v3": dict(tp=2, pp=2, ep=2),
}


def written(directory, model, distributed, **layout):
    config = megatron_files.MODELS[model]
    hf = megatron_files.hf_tensors(config)
    megatron_files.write_config(directory, config)
    megatron_files.write_torch(directory, config, hf, **layout)
    states = state_files.state_tensors(hf)
    state_files.add_to_torch(directory, config, states, distributed, **layout)
    return states


@pytest.mark.parametrize("distributed", [False, True])
@pytest.mark.parametrize("model", LAYOUTS)
def test_files_of_ranks(tmp_path, model, distributed):
    states = written(tmp_path / "theirs", model, distributed, **LAYOUTS[model])
    check_states(convert(tmp_path / "theirs", tmp_path / "checkpoint-3", *IMPORT), states)


@pytest.mark.parametrize("tp", [None, 2])
@pytest.mark.parametrize("model", ["llama", "qwen3_moe"])
def test_torch_dist(tmp_path, model, tp):
    config = megatron_files.MODELS[model]
    hf = megatron_files.hf_tensors(config)
    megatron_files.write_config(tmp_path / "theirs", config)
    megatron_files.write_dist(tmp_path / "theirs", config, hf)
    states = state_files.state_tensors(hf)
    state_files.add_to_dist(tmp_path / "theirs", config, hf, states, tp)
    check_states(convert(tmp_path / "theirs", tmp_path / "checkpoint-3", *IMPORT), states)


def each_rank(change, directory):
    for file in directory.glob("iter_*/mp_rank_*/model_optim_rng.pt"):
        state = torch.load(file, weights_only=False)
        change(state)
        torch.save(state, file)


def other_shape(state):
    moments = state["optimizer"]["optimizer"]["state"][0]
    moments["exp_avg"] = moments["exp_avg"][:-1].clone()


def sgd(state):
    for values in state["optimizer"]["optimizer"]["state"].values():
        values["momentum_buffer"] = values.pop("exp_avg")
        del values["exp_avg_sq"]


def muon(state):
    state["args"].optimizer = "muon"


def lost(state):
    del state["optimizer"]["optimizer"]["state"][1]


def other_step(state):
    state["optimizer"]["optimizer"]["state"][1]["step"] = torch.tensor(2.0)


def other_master(state):
    state["optimizer"]["fp32_from_fp16_params"][0][0].mul_(1.5)


def remove(name):
    return lambda directory: next(directory.glob(f"iter_0000003/{name}")).unlink()


def cut(directory):
    file = directory / "iter_0000003/mp_rank_01/distrib_optim.pt"
    os.truncate(file, file.stat().st_size // 2)


BROKEN = {
    "shape": (False, lambda d: each_rank(other_shape, d), "has the shape"),
    "sgd": (False, lambda d: each_rank(sgd, d), "'momentum_buffer', and only Adam's states are read"),
    "muon": (False, lambda d: each_rank(muon, d), "its optimizer is muon"),
    "moments": (False, lambda d: each_rank(lost, d), "has no exp_avg of"),
    "step": (False, lambda d: each_rank(other_step, d), "is not said once: 2, 3"),
    "master": (False, lambda d: each_rank(other_master, d), "is not its weight in bf16"),
    "none": (False, lambda d: each_rank(lambda state: state.pop("optimizer"), d), "has no optimizer's states"),
    "rank": (True, remove("mp_rank_01/distrib_optim.pt"), "mp_rank_01/distrib_optim.pt is not there"),
    "half": (True, cut, "no complete file of torch.save"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_refused(tmp_path, case):
    distributed, spoil, words = BROKEN[case]
    written(tmp_path / "theirs", "llama", distributed, tp=2)
    spoil(tmp_path / "theirs")
    result = run(1, ["convert", "--from", tmp_path / "theirs", "--to", tmp_path / "checkpoint-3", *IMPORT])
    assert result.returncode == 2 and words in failure_text(result), failure_text(result)
    assert {path.name for path in tmp_path.iterdir()} == {"theirs"}


def test_refused_by_name(tmp_path):
    written(tmp_path / "theirs", "llama", False)
    for target, more, words in [("checkpoint-4", IMPORT, "checkpoint-3"), ("hf", ["--optimizer"], "--as checkpoint"),
                                ("checkpoint-3", [*IMPORT, "--dtype", "fp32"], "leave out --dtype")]:
        result = run(1, ["convert", "--from", tmp_path / "theirs", "--to", tmp_path / target, *more])
        assert result.returncode == 2 and words in failure_text(result), failure_text(result)
    assert {path.name for path in tmp_path.iterdir()} == {"theirs"}


@pytest.fixture(scope="module")
def judged(tmp_path_factory, request):
    """What megatron-core has written: the folder and the cases."""
    out = tmp_path_factory.mktemp("megatron")
    cases = list(theirs.CASES) if request.config.getoption("--full") else ["qwen3_moe_ep2"]
    done = start(None, [sys.executable, "-W", "ignore", theirs.__file__, "--out", out, "--only", *cases])
    assert done.returncode == 0, failure_text(done)
    return out, cases


def next_step(folder, checkpoint, dtype):
    """One more step of ours: the log's line and the weights."""
    rows = [row.tolist() for batch in theirs.batches() for row in batch]
    (folder / "rows.jsonl").write_text("".join(json.dumps({"input_ids": row, "labels": row}) + "\n" for row in rows))
    sections = {
        "device": "cpu", "model": {"path": str(checkpoint), "dtype": dtype}, "tuning": {"kind": "full"},
        "data": {"train": [str(folder / "rows.jsonl")], "packing": False, "max_length": 64, "shuffle": False},
        "optimizer": {"lr": theirs.RATE, "schedule": "constant", "clip": theirs.CLIP, "weight_decay": theirs.DECAY,
                      "beta1": theirs.BETAS[0], "beta2": theirs.BETAS[1], "eps": theirs.EPSILON},
        "run": {"steps": theirs.STEPS + 1, "global_batch": theirs.ROWS, "output": str(folder / "output"),
                "resume": str(checkpoint)},
    }
    (folder / "run.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items()))
    run_well(None, ["train", folder / "run.yaml"])
    line = json.loads((folder / "output" / "log.jsonl").read_text().splitlines()[-1])
    return line, load_file(folder / "output" / "final" / "model.safetensors")


def forms(out, case, way):
    marks = {f"{case}_{way}_{end}" for end in ("param", "exp_avg", "exp_avg_sq", "next")}
    return sorted(path for path in out.glob(f"{case}_{way}_*") if path.is_dir() and path.name not in marks)


def tensors_of(directory, target):
    return load_file(convert(directory, target) / "model.safetensors")


def close(found, wanted, what):
    assert found.keys() == wanted.keys()
    worst = max((found[name].float() - wanted[name].float()).abs().max().item() for name in wanted)
    print(f"{what}: weights differ by at most {worst:.1e}")
    assert worst < TOLERANCE, (what, worst)


@pytest.mark.parametrize("way", ["plain", "distributed"])
def test_next_step_is_megatrons(judged, tmp_path, way):
    out, cases = judged
    for case in cases:
        dtype = theirs.CASES[case][4]
        wanted = {state: tensors_of(out / f"{case}_{way}_{state}", tmp_path / f"{case}_{state}")
                  for state in ("param", "exp_avg", "exp_avg_sq")}
        assert len(forms(out, case, way)) >= 2
        for form in forms(out, case, way):
            folder = tmp_path / form.name
            checkpoint = convert(form, folder / f"checkpoint-{theirs.STEPS}", *IMPORT)
            for kind, ours in state_files.STATES.items():
                found = stored(checkpoint, "weights" if dtype == "fp32" and kind == "param" else ours)
                assert found.keys() == wanted[kind].keys()
                assert all(torch.equal(found[name], wanted[kind][name]) for name in found), (form.name, ours)
            if dtype != "fp32":
                continue
            line, weights = next_step(folder, checkpoint, dtype)
            losses = json.loads((out / f"{case}_{way}.losses").read_text())
            print(f"{form.name}: loss {line['loss']}, megatron-core {losses[-1]}")
            assert line["step"] == theirs.STEPS + 1 and abs(line["loss"] - losses[-1]) < TOLERANCE
            close(weights, tensors_of(out / f"{case}_{way}_next", tmp_path / f"{form.name}_next"), form.name)
