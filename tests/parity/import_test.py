"""Other ways to keep experts' weights on disk: in one tensor, in one tensor with its dims swapped, and as fp8 with a
scale for each block of 128 x 128 (as DeepSeek-V3 is published, with its head for a second next token), and as MXFP4 (as
GPT-OSS is). Each gives the gradients of the plain directory, bit for bit; scales that do not fit are refused."""
import json
import re
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

import tiny_models
from program import failure_text, run, run_well

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
    """fp8 and its scales, and what both stand for."""
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


@pytest.fixture(scope="module")
def rows(folder):
    tiny_models.write_rows(folder / "rows.jsonl", tiny_models.make_rows(2))
    return folder / "rows.jsonl"


@pytest.fixture(scope="module")
def qwen(folder):
    tiny_models.write_model(tiny_models.config_of("qwen3_moe", num_hidden_layers=2), folder / "qwen")
    return folder / "qwen"


@pytest.fixture(scope="module")
def deepseek(folder):
    """The directory as published and the plain one, and the tensors as published."""
    torch.manual_seed(3)
    config = tiny_models.config_of("deepseek_v3", num_hidden_layers=2, hidden_size=160, intermediate_size=136)
    tiny_models.write_model(config, folder / "deepseek")
    published, plain = as_fp8(load_file(folder / "deepseek/model.safetensors"))
    further = {"model.layers.2.eh_proj.weight": torch.zeros(2, 2)}
    config = json.loads((folder / "deepseek/config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                                     "weight_block_size": [BLOCK, BLOCK]}
    write(folder / "fp8", folder / "deepseek", published | further)
    (folder / "fp8/config.json").write_text(json.dumps(config))
    return (folder / "fp8", write(folder / "plain", folder / "deepseek", plain), published)


def gradients(model, rows, out, ranks, settings=()):
    result = run_well(ranks, ["grads", "--model", model, "--rows", rows, "--out", out], settings)
    return json.loads(result.stdout), load_file(out)


def assert_same(plain, other, rows, ranks, settings, record_property):
    folder, chosen = rows.parent, settings if ranks else ()
    line, wanted = gradients(plain, rows, folder / "wanted.safetensors", ranks, chosen)
    found_line, found = gradients(other, rows, folder / "found.safetensors", ranks, chosen)
    assert found_line == line
    assert wanted.keys() == found.keys(), f"names differ: {sorted(wanted.keys() ^ found.keys())}"
    differing = [name for name in wanted if not torch.equal(wanted[name], found[name])]
    assert not differing, f"gradients differ: {differing[:5]}"
    record_property("gradients", len(wanted))


@pytest.mark.parametrize("ranks", [None, 2], ids=["1 rank", "2 ranks"])
@pytest.mark.parametrize("swap", [False, True], ids=["as they are", "dims swapped"])
def test_experts_in_one_tensor(swap, ranks, qwen, rows, folder, record_property):
    if not (folder / f"fused-{swap}").exists():
        write(folder / f"fused-{swap}", qwen, fused(load_file(qwen / "model.safetensors"), swap))
    assert_same(qwen, folder / f"fused-{swap}", rows, ranks, ["parallel.expert=2"], record_property)


@pytest.mark.parametrize("ranks", [None, 2], ids=["1 rank", "2 ranks"])
def test_fp8_with_scales(ranks, deepseek, rows, record_property):
    published, plain, _ = deepseek
    assert_same(plain, published, rows, ranks, ["parallel.expert_tensor=2"], record_property)


def test_what_a_run_leaves_is_plain(deepseek, rows, folder):
    """Its weights are not quantised, and its config.json does not say so."""
    (folder / "run.yaml").write_text(
        f"model: {{path: '{deepseek[0]}', dtype: fp32}}\ntuning: {{kind: full}}\noptimizer: {{lr: 0, schedule: constant}}\n"
        f"data: {{train: ['{rows}'], max_length: 64, packing: false, cache: '{folder / 'cache'}'}}\n"
        f"run: {{output: '{folder / 'run'}', steps: 1, global_batch: 2, micro_batch: 1}}\n")
    run_well(None, ["train", folder / "run.yaml"])
    assert "quantization_config" not in json.loads((folder / "run/final/config.json").read_text())
    found, wanted = load_file(folder / "run/final/model.safetensors"), load_file(deepseek[1] / "model.safetensors")
    assert found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_scales_that_do_not_fit_are_refused(deepseek, rows, folder):
    name = "model.layers.1.mlp.experts.3.up_proj.weight"
    broken = write(folder / "broken", folder / "deepseek", deepseek[2] | {f"{name}_scale_inv": torch.ones(3, 3)})
    result = run(None, ["grads", "--model", broken, "--rows", rows, "--out", folder / "never"])
    assert result.returncode == 2 and name in result.stderr and "wanted [1, 2]" in result.stderr, failure_text(result)


@pytest.fixture(scope="module")
def gpt_oss(folder):
    """The directory as published, with experts in MXFP4, and the one with transformers' dequantised weights."""
    torch.manual_seed(4)
    like = folder / "gpt_oss"
    tiny_models.write_model(tiny_models.config_of("gpt_oss", num_hidden_layers=2, intermediate_size=32), like)
    published, plain = {}, {}
    for name, tensor in load_file(like / "model.safetensors").items():
        if not name.endswith(("gate_up_proj", "down_proj")):
            published[name] = plain[name] = tensor.bfloat16()
            continue
        experts, inputs, outputs = tensor.shape
        blocks = torch.randint(256, (experts, outputs, inputs // 32, 16), dtype=torch.uint8)
        scales = torch.randint(119, 124, blocks.shape[:3], dtype=torch.uint8)
        published |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        plain[name] = convert_moe_packed_tensors(blocks, scales)
    config = json.loads((like / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    write(folder / "mxfp4", like, published)
    (folder / "mxfp4/config.json").write_text(json.dumps(config))
    return folder / "mxfp4", write(folder / "unpacked", like, plain)


@pytest.mark.parametrize("ranks", [None, 4], ids=["1 rank", "4 ranks"])
def test_mxfp4(ranks, gpt_oss, rows, record_property):
    published, plain = gpt_oss
    assert_same(plain, published, rows, ranks, ["parallel.tensor=2", "parallel.expert=2", "parallel.expert_tensor=2"],
                record_property)


def test_mxfp4_is_converted_to_plain_weights(gpt_oss, folder):
    """There and back: transformers' dequantised tensors, byte for byte, and a config.json that does not say otherwise."""
    for source, target in ((gpt_oss[0], folder / "stored"), (folder / "stored", folder / "back")):
        run_well(None, ["convert", "--from", source, "--to", target])
    found, wanted = load_file(folder / "back/model.safetensors"), load_file(gpt_oss[1] / "model.safetensors")
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name].view(torch.int16), wanted[name].view(torch.int16)) for name in wanted)
    assert "quantization_config" not in json.loads((folder / "back/config.json").read_text())
