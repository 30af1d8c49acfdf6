#!/usr/bin/env python3
"""Checkpoints and Hugging Face directories against their own readers: h5py sees every tensor whole, safetensors the
same bytes after a round trip, transformers the same logits. Then what is refused, and how."""
import json
import pathlib
import shutil
import sys
import tempfile

import h5py
import torch
import transformers
from safetensors.torch import load_file

import tiny_models
from program import failure_text, run

CARRIED = {"generation_config.json": '{"eos_token_id": 2}\n', "tokenizer.json": '{"version": "1.0"}',
           "tokenizer_config.json": '{"model_max_length": 128}', "chat_template.jinja": "{{ messages }}\n",
           "merges.txt": "a b\n"}
failures = []


def check(what, fine, detail=""):
    print(f"{'ok' if fine else 'FAILED'}: {what} {'' if fine else detail}", flush=True)
    if not fine:
        failures.append(what)


def convert(source, target, *more, ranks=None):
    result = run(ranks, ["convert", "--from", source, "--to", target, *more])
    check(f"convert {source.name} to {target.name} on {ranks or 1} ranks {' '.join(map(str, more))}",
          result.returncode == 0, failure_text(result))
    return result


def tensors_of(directory):
    files = sorted(directory.glob("*.safetensors"))
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def same_tensors(a, b):
    return a.keys() == b.keys() and all(x.dtype == b[name].dtype and torch.equal(x, b[name]) for name, x in a.items())


def h5py_equals(checkpoint, tensors, group="weights"):
    with h5py.File(checkpoint / "index.h5") as file:
        return set(file[group]) == set(tensors) and all(
            torch.equal(torch.from_numpy(file[group][name][()]).float(), tensor.float())
            for name, tensor in tensors.items())


def logits(directory):
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    with torch.no_grad():
        return model(torch.arange(20).unsqueeze(0)).logits


def judge_family(folder, family, ranks):
    model = folder / family
    tiny_models.write_model(tiny_models.config_of(family, num_hidden_layers=3), model)
    for name, text in CARRIED.items():
        (model / name).write_text(text)
    tensors = tensors_of(model)
    stored, back = folder / f"{family}-stored", folder / f"{family}-back"
    convert(model, stored, ranks=ranks)
    check("h5py reads the whole tensors", h5py_equals(stored, tensors))
    convert(stored, back, "--shard-bytes", 200000, "--verify", ranks=ranks)
    check("several shards with an index", (back / "model.safetensors.index.json").is_file())
    check("the same bytes in each tensor", same_tensors(tensors, tensors_of(back)))
    check("transformers computes the same logits", torch.equal(logits(model), logits(back)))
    check("other files are copied", all((back / name).read_text() == text for name, text in CARRIED.items()
                                        if name != "generation_config.json"))
    check("config and generation config too", all((back / name).read_bytes() == (model / name).read_bytes()
                                                  for name in ("config.json", "generation_config.json")))
    return model, stored


def judge_types(folder, model):
    tensors = tensors_of(model)
    stored, back = folder / "bf16-stored", folder / "bf16-back"
    convert(model, stored, "--dtype", "bf16")
    halves = {name: tensor.bfloat16() for name, tensor in tensors.items()}
    check("bf16 as torch rounds it, read by h5py as float32", h5py_equals(stored, halves))
    convert(stored, back, ranks=3)
    check("bf16 bytes", same_tensors(halves, tensors_of(back)))
    check("config.json says bfloat16", json.loads((back / "config.json").read_text())["dtype"] == "bfloat16")
    half = folder / "fp16-back"
    convert(stored, half, "--dtype", "fp16")
    check("fp16 as torch rounds it", same_tensors({name: tensor.half() for name, tensor in halves.items()},
                                                  tensors_of(half)))


def write_run(folder, model, rows, output, **run_keys):
    sections = {"device": "cpu", "model": {"path": str(model), "dtype": "bf16"}, "tuning": {"kind": "full"},
                "data": {"train": [str(rows)], "packing": False, "max_length": 64},
                "optimizer": {"lr": 1e-3, "schedule": "constant"},
                "run": {"steps": 4, "global_batch": 4, "save_every": 2, "output": str(output), **run_keys}}
    path = folder / "run.yaml"
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items()))
    return path


def judge_run(folder, model):
    """What a trained run leaves: final/ equals the checkpoint, for h5py, safetensors, transformers and ourselves."""
    rows, output = folder / "rows.jsonl", folder / "run"
    tiny_models.write_rows(rows, tiny_models.make_rows(8, shortest=8))
    result = run(4, ["train", write_run(folder, model, rows, output)],
                 ["parallel.tensor=2", "parallel.pipeline=2", "parallel.sequence=true"])
    check("train under tp 2, pp 2", result.returncode == 0, failure_text(result))
    final, last = tensors_of(output / "final"), output / "checkpoint-4"
    check("h5py reads final's tensors", h5py_equals(last, final))
    with h5py.File(last / "index.h5") as file:
        masters = {name: torch.from_numpy(value[()]) for name, value in file["optimizer/master"].items()}
        moments = all(abs(value[()]).max() > 0 for value in file["optimizer/exp_avg_sq"].values())
    check("masters are whole, and the weights are their bf16",
          all(torch.equal(masters[name].bfloat16(), tensor) for name, tensor in final.items()))
    check("moments are whole", moments)
    losses = []
    for directory in (output / "final", last):
        result = run(None, ["grads", "--model", directory, "--rows", rows, "--out", folder / "grads.safetensors"])
        check(f"grads of {directory.name}", result.returncode == 0, failure_text(result))
        losses.append(json.loads(result.stdout)["loss"])
    trained = transformers.AutoModelForCausalLM.from_pretrained(output / "final", dtype=torch.float32)
    theirs, _ = tiny_models.backward(trained, tiny_models.make_rows(8, shortest=8))
    check("a checkpoint is a model", losses[0] == losses[1], str(losses))
    check("transformers computes final's loss", abs(losses[0] - theirs) <= 1e-5 * theirs, f"{losses} {theirs}")
    return rows, output


def judge_inspect(model, stored, output):
    text = run(None, ["inspect", output / "checkpoint-4", "--digests"]).stdout
    check("inspect shows layout, step, tensors", all(word in text for word in (
        "tensor 2, pipeline 2", "step 4, 4 updates", "model.norm.weight", "exp_avg_sq/model.norm.weight", "bf16",
        "every piece matches its digest", "crc32c ")), text)
    check("inspect of two equal ones", "no difference in" in run(None, ["inspect", model, stored]).stdout)
    text = run(None, ["inspect", output / "checkpoint-2", output / "checkpoint-4"]).stdout
    check("inspect of two that differ", "elements differ, by at most" in text, text)
    text = run(None, ["inspect", output]).stdout
    check("inspect of a run", "checkpoint-2 checkpoint-4" in text, text)


def refused(what, words, arguments, settings=(), ranks=None, status=2, begins=False):
    """`begins`: the error is found only after the run has printed its plan."""
    result = run(ranks, arguments, settings)
    fine = result.returncode == status and all(word in result.stderr for word in words) and (begins or not result.stdout)
    check(f"refused: {what}", fine, failure_text(result))


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def judge_refusals(folder, model, other, stored, rows, output):
    refused("a target that is there", [f"{stored} already exists"], ["convert", "--from", model, "--to", stored])
    convert(other, stored, "--force")
    check("--force replaces", h5py_equals(stored, tensors_of(other)) and not list(folder.glob("*.part")))
    refused("no weights", ["has no weights"], ["convert", "--from", folder, "--to", folder / "x"])
    refused("an unknown type", ["--dtype int4", "bf16, fp16 or fp32"],
            ["convert", "--from", model, "--to", folder / "x", "--dtype", "int4"])
    check("nothing was written", not list(folder.glob("x*")))

    train = ["train", write_run(folder, model, rows, folder / "again")]
    last = output / "checkpoint-4"
    refused("another family", ["is of a qwen2 model", "model.path is a llama"],
            ["train", write_run(folder, other, rows, folder / "again")], [f"run.resume={last}"])
    wide = folder / "wide"
    tiny_models.write_model(tiny_models.config_of("qwen2", num_hidden_layers=3, intermediate_size=100), wide)
    refused("another model", ["is of another model", "mlp.gate_proj.weight' is [96, 64]", "[100, 64]"],
            ["train", write_run(folder, wide, rows, folder / "again")], [f"run.resume={last}"])
    train = ["train", write_run(folder, model, rows, folder / "again")]
    refused("weights only", [str(stored), "weights only"], train, [f"run.resume={stored}"])
    refused("no checkpoint", [str(model), "is not a checkpoint"], train, [f"run.resume={model}"])
    refused("another batch", ["run.global_batch 4", "this run has 8"], train,
            [f"run.resume={last}", "run.global_batch=8"])
    refused("an output with a newer one", ["checkpoint-4, newer than step 2"], train,
            [f"run.resume={output / 'checkpoint-2'}", f"run.output={output}"])
    broken = folder / "broken"
    shutil.copytree(last, broken)
    (broken / "rank-00002.h5").unlink()
    refused("a missing file", ["rank-00002.h5", "missing"], train, [f"run.resume={broken}"])
    shutil.copy(last / "rank-00002.h5", broken)
    manifest = (broken / "manifest.pb").read_bytes()
    (broken / "manifest.pb").write_bytes(b"\x08\x07" + manifest[2:])
    refused("a newer format", ["format 7", "1 to 2"], train, [f"run.resume={broken}"])
    (broken / "manifest.pb").write_bytes(manifest)
    with h5py.File(broken / "rank-00002.h5") as file:
        name, dataset = next(iter(file["exp_avg"].items()))
        place = dataset.id.get_offset()
    flip(broken / "rank-00002.h5", place + 3)
    refused("a flipped byte", ["rank-00002.h5", name.split("[")[0], "damaged"], train, [f"run.resume={broken}"],
            begins=True)
    refused("a flipped byte, on two ranks", ["rank-00002.h5", "damaged"], train, [f"run.resume={broken}"], ranks=2,
            begins=True)
    refused("a flipped byte, inspected", ["rank-00002.h5", "damaged"], ["inspect", broken, "--digests"])


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        made = {family: judge_family(folder, family, ranks)
                for family, ranks in (("llama3", None), ("qwen2", 2), ("qwen3", 3), ("llama", None))}
        model, stored = made["qwen2"]
        judge_types(folder, made["llama3"][0])
        rows, output = judge_run(folder, model)
        judge_inspect(model, stored, output)
        judge_refusals(folder, model, made["llama3"][0], stored, rows, output)
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
