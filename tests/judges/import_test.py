#!/usr/bin/env python3
"""Other ways to store experts' weights on disk: in one tensor, in one tensor with swapped dims, and as fp8 with a scale
per block of 128 x 128 (as DeepSeek-V3 is published, with its multi-token prediction head). Each gives the gradients of
the plain directory, bit for bit; scales that do not match are refused."""
import json
import pathlib
import re
import shutil
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file

import tiny_models
from program import failure_text, run

BLOCK = 128
EXPERT = re.compile(r"(.*\.experts)\.(\d+)\.(gate|up|down)_proj\.weight")


def fused(tensors, swap):
    found, stacks = {}, {}
    for name, tensor in tensors.items():
        match = EXPERT.fullmatch(name)
        if match is None:
            found[name] = tensor
        else:
            stacks.setdefault(match[1], {})[(int(match[2]), match[3])] = tensor
    for stem, parts in stacks.items():
        experts = range(1 + max(number for number, _ in parts))
        gate_up = torch.stack([torch.cat([parts[e, "gate"], parts[e, "up"]]) for e in experts])
        down = torch.stack([parts[e, "down"] for e in experts])
        for name, tensor in (("gate_up_proj", gate_up), ("down_proj", down)):
            found[f"{stem}.{name}"] = (tensor.transpose(1, 2) if swap else tensor).contiguous()
    return found


def quantised(tensor):
    """fp8 values and scales, and what they represent."""
    blocks = [-(-size // BLOCK) for size in tensor.shape]
    scales = torch.rand(blocks) * 0.01 + 0.001
    wide = scales.repeat_interleave(BLOCK, 0)[:tensor.shape[0]].repeat_interleave(BLOCK, 1)[:, :tensor.shape[1]]
    narrow = (tensor / wide).clamp(-448, 448).to(torch.float8_e4m3fn)
    return narrow, scales, narrow.float() * wide


def as_fp8(tensors):
    """The tensors as published, and the same in fp32."""
    published, plain = {}, {}
    for name, tensor in tensors.items():
        if "_proj" not in name:
            published[name] = plain[name] = tensor
            continue
        published[name], published[f"{name}_scale_inv"], plain[name] = quantised(tensor)
    return published, plain


def write(folder, like, tensors):
    folder.mkdir()
    shutil.copy(like / "config.json", folder)
    save_file(tensors, folder / "model.safetensors")
    return folder


def gradients(model, rows, out, ranks, settings=()):
    result = run(ranks, ["grads", "--model", model, "--rows", rows, "--out", out], settings)
    assert result.returncode == 0, failure_text(result)
    return json.loads(result.stdout), load_file(out)


def expect_same(what, plain, other, rows, folder, settings):
    for ranks in (None, 2):
        chosen = settings if ranks else ()
        line, wanted = gradients(plain, rows, folder / "plain.safetensors", ranks, chosen)
        found_line, found = gradients(other, rows, folder / "other.safetensors", ranks, chosen)
        assert line == found_line, f"{what}: {found_line}, wanted {line}"
        assert wanted.keys() == found.keys(), f"{what}: {sorted(wanted.keys() ^ found.keys())}"
        differing = [name for name in wanted if not torch.equal(wanted[name], found[name])]
        assert not differing, f"{what}: gradients differ: {differing[:5]}"
        print(f"ok: {what}, {ranks or 1} ranks: {len(wanted)} gradients")


def main():
    torch.manual_seed(3)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        rows = folder / "rows.jsonl"
        tiny_models.write_rows(rows, tiny_models.make_rows(2))
        qwen = folder / "qwen"
        tiny_models.write_model(tiny_models.config_of("qwen3_moe", num_hidden_layers=2), qwen)
        tensors = load_file(qwen / "model.safetensors")
        for swap in (False, True):
            other = write(folder / f"fused-{swap}", qwen, fused(tensors, swap))
            expect_same(f"experts in one tensor{', dims swapped' if swap else ''}", qwen, other, rows, folder,
                        ["parallel.expert=2"])
        deepseek = folder / "deepseek"
        config = tiny_models.config_of("deepseek_v3", num_hidden_layers=2, hidden_size=160, intermediate_size=136)
        tiny_models.write_model(config, deepseek)
        published, plain = as_fp8(load_file(deepseek / "model.safetensors"))
        plain = write(folder / "plain", deepseek, plain)
        further = {"model.layers.2.eh_proj.weight": torch.zeros(2, 2)}
        other = write(folder / "fp8", deepseek, published | further)
        expect_same("fp8 with scales", plain, other, rows, folder, ["parallel.expert_tensor=2"])
        broken = dict(published)
        name = "model.layers.1.mlp.experts.3.up_proj.weight"
        broken[f"{name}_scale_inv"] = torch.ones(3, 3)
        result = run(None, ["grads", "--model", write(folder / "broken", deepseek, broken), "--rows", rows, "--out",
                            folder / "never"])
        wanted = result.returncode == 2 and name in result.stderr and "wanted [1, 2]" in result.stderr
        assert wanted, failure_text(result)
        print("ok: scales that do not match are refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
