"""Packed weights in files, exchanged with transformers both ways: bitsandbytes' 4 and 8 bits, bytes and all, DeepSeek's fp8 blocks,
experts, merged adapters that are packed again; and files that are refused."""
import functools
import json
import math
import shutil

import bitsandbytes.functional as bits
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.integrations.finegrained_fp8 import Fp8Quantize
from transformers.quantizers.quantizers_utils import should_convert_module

import seeing_models
import tiny_models
from gradients import assert_within, relative
from import_test import EXPERT, fused
from lora_adapters import ROWS
from lora_runs import adapted, grads_words, rows  # noqa: F401  fixtures
from packed_peers import NF4, STORAGES, load_linear4bit, load_linear8bit, load_packed, tuned_over, whole  # noqa: F401  fixtures
from program import failure_text, run, run_many, words_of

# By kind, the model of transformers over such files, and a program's storage.
LOADERS = {"nf4": load_linear4bit, "int8": load_linear8bit}
KINDS = sorted(LOADERS)


def tensors_of(folder):
    return load_file(folder / "model.safetensors")


def loss_words(one, rows, out, settings=()):
    return grads_words(one, rows, out, one.adapter) + words_of(settings)


def losses_of(result, count):
    lines = [json.loads(line)["loss"] for line in result.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == count, failure_text(result)
    return lines


@pytest.fixture(scope="module")
def files(whole, folder, rows):
    """By kind, directories in 4 or 8 bits, the program's and transformers', and the losses of the program with each: packed and
    decoded. Merged, and packed again, from 4 bits. One launch."""
    one, found, commands = whole("files"), {}, []
    for kind in KINDS:
        ours, theirs = folder / f"ours-{kind}", folder / f"theirs-{kind}"
        LOADERS[kind](one.model).save_pretrained(theirs)
        packed = STORAGES[kind][0]
        commands += [["convert", "--from", one.model, "--to", ours, "--quantise", kind]]
        commands += [loss_words(one._replace(model=model), rows, folder / f"{kind}-{number}", settings)
                     for number, (model, settings) in enumerate([(one.model, packed), (ours, packed), (ours, []), (theirs, packed),
                                                                 (theirs, [])])]
        commands += [["merge", "--model", ours, "--adapters", one.adapter, "--to", folder / f"merged-{kind}"]]
    commands += [["merge", "--model", folder / "ours-nf4", "--adapters", one.adapter, "--to", folder / "again", "--quantise", "nf4"],
                 ["grads", "--model", folder / "again", "--rows", rows, "--out", folder / "again-grads"]]
    lines = losses_of(run_many(None, commands), 5 * len(KINDS) + 1)
    for number, kind in enumerate(KINDS):
        found[kind] = (folder / f"ours-{kind}", folder / f"theirs-{kind}", lines[5 * number:5 * number + 5])
    return one, found, lines[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_files_have_the_bytes_of_bitsandbytes(kind, files):
    ours, theirs = (tensors_of(path) for path in files[1][kind][:2])
    assert ours.keys() == theirs.keys()
    for name in ours:
        if ".quant_state." in name:
            states = [json.loads(bytes(side[name].numpy()).decode()) for side in (ours, theirs)]
            assert states[0] == states[1], name
        else:
            assert ours[name].dtype == theirs[name].dtype and torch.equal(ours[name], theirs[name]), name


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_exchanged_with_transformers(kind, files, folder, record_errors):
    """The program's losses over its own and transformers' files, packed and decoded, are those of transformers over both."""
    one, (ours, theirs, lines) = files[0], files[1][kind]
    load = LOADERS[kind]
    wanted = tiny_models.loss_of(tuned_over(load(theirs, packs=False), one.fused), ROWS)
    again = tiny_models.loss_of(tuned_over(load(ours, packs=False), one.fused), ROWS)
    merged = transformers.AutoModelForCausalLM.from_pretrained(folder / f"merged-{kind}", dtype=torch.float32)
    errors = {"program": max(relative(line, wanted) for line in lines), "transformers": relative(again, wanted),
              "merged": relative(tiny_models.loss_of(merged, ROWS), wanted)}
    record_errors(errors)
    assert_within(errors, {"program": 1e-5, "transformers": 1e-6, "merged": 1e-5})


def test_merged_weights_are_packed_again(files, folder, record_errors):
    merged, again = tensors_of(folder / "merged-nf4"), tensors_of(folder / "again")
    name = "model.layers.1.mlp.down_proj.weight"
    codes, state = bits.quantize_4bit(merged[name], **NF4)
    assert torch.equal(again[name], codes) and torch.equal(again[f"{name}.absmax"], state.absmax)
    errors = {"loss": relative(files[2], tiny_models.loss_of(load_linear4bit(folder / "again", packs=False), ROWS))}
    record_errors(errors)
    assert_within(errors, {"loss": 1e-5})


@pytest.fixture(scope="module")
def experts(adapted, folder, rows):
    """A model with experts one by one and stacked; both in nf4 with experts; the loss of the program over these."""
    one = adapted("qwen3_moe")
    stacked = folder / "stacked"
    shutil.copytree(one.model, stacked)
    save_file(fused(tensors_of(one.model), swap=False), stacked / "model.safetensors", metadata={"format": "pt"})
    commands = [["convert", "--from", source, "--to", folder / f"experts-{number}", "--quantise", "nf4", "--quantise-experts"]
                for number, source in enumerate([one.model, stacked])]
    commands += [loss_words(one._replace(model=folder / f"experts-{number}"), rows, folder / f"experts-grads-{number}",
                            settings) for number, settings in enumerate([STORAGES["nf4"][0], []])]
    return one, folder, losses_of(run_many(None, commands), 2)


def test_experts_are_modules_of_their_own(experts, record_errors):
    one, folder, lines = experts
    plain, both = tensors_of(one.model), [tensors_of(folder / f"experts-{number}") for number in range(2)]
    names = [name for name in plain if EXPERT.fullmatch(name)]
    assert names and both[0].keys() == both[1].keys()
    for name in names:
        codes, state = bits.quantize_4bit(plain[name], **NF4)
        assert torch.equal(both[0][name], codes) and torch.equal(both[0][f"{name}.absmax"], state.absmax), name
    assert all(torch.equal(both[0][name], both[1][name]) for name in both[0])
    wanted = tiny_models.loss_of(load_packed(one, NF4), ROWS)
    errors = {"loss": max(relative(line, wanted) for line in lines)}
    record_errors(errors)
    assert_within(errors, {"loss": 1e-5})


@pytest.fixture(scope="module")
def fp8(folder, rows):
    """A model with experts whose matrices are whole blocks, in fp8, and what came of that: a checkpoint, its files, nf4."""
    config = tiny_models.config_of("qwen3_moe", num_hidden_layers=2, mlp_only_layers=[1], hidden_size=128, intermediate_size=256,
                                   moe_intermediate_size=128, num_experts=3, num_experts_per_tok=2, head_dim=32)
    tiny_models.write_model(config, folder / "wide")
    to = lambda name: folder / f"fp8-{name}"
    steps = [("wide", "files", ["--quantise", "fp8"]), ("fp8-files", "checkpoint", []), ("fp8-checkpoint", "again", []),
             ("fp8-files", "nf4", ["--quantise", "nf4"]), ("fp8-checkpoint", "nf4-of-checkpoint", ["--quantise", "nf4"])]
    commands = [["convert", "--from", folder / source, "--to", to(name), *words] for source, name, words in steps]
    commands += [["grads", "--model", to(source), "--rows", rows, "--out", to(f"{source}-grads")] for source in ("files", "checkpoint")]
    lines = losses_of(run_many(None, commands), 2)
    assert lines[0] == lines[1]
    halved = shutil.copytree(to("files"), to("halved"))  # scales in bf16, as Qwen publishes them
    tensors = {name: tensor.bfloat16() if name.endswith("_scale_inv") else tensor for name, tensor in tensors_of(to("files")).items()}
    save_file(tensors, halved / "model.safetensors", metadata={"format": "pt"})
    return folder / "wide", to, lines[0]


def test_fp8_blocks_are_those_of_transformers(fp8, record_errors):
    plain, to, loss = fp8
    wide, found = tensors_of(plain), tensors_of(to("files"))
    how = transformers.FineGrainedFP8Config(weight_block_size=(128, 128))
    rule = Fp8Quantize(type("Quantizer", (), {"quantization_config": how}))
    whole_blocks = [name for name in wide if f"{name}_scale_inv" in found and all(size % 128 == 0 for size in wide[name].shape)]
    assert any(EXPERT.fullmatch(name) for name in whole_blocks)
    for name in whole_blocks:
        for part, wanted in rule._quantize_one(name, wide[name]).items():
            assert torch.equal(found[part].view(torch.uint8), wanted.view(torch.uint8)), part
    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        to("files"), dtype=torch.float32, quantization_config=transformers.FineGrainedFP8Config(dequantize=True))
    errors = {"loss": relative(loss, tiny_models.loss_of(loaded, ROWS))}
    record_errors(errors)
    assert_within(errors, {"loss": 1e-5})


def test_fp8_files_come_back_as_they_were(fp8):
    _, to, _ = fp8
    files, again = tensors_of(to("files")), tensors_of(to("again"))
    assert files.keys() == again.keys()
    assert all(torch.equal(files[name].view(torch.uint8), again[name].view(torch.uint8)) for name in files)


def test_fp8_files_are_packed_by_their_values(fp8):
    _, to, _ = fp8
    files, packed = tensors_of(to("files")), tensors_of(to("nf4"))
    name = "model.layers.1.mlp.gate_proj.weight"  # of two blocks
    scales = files[f"{name}_scale_inv"].repeat_interleave(128, 0).repeat_interleave(128, 1)
    codes, state = bits.quantize_4bit((files[name].float() * scales).bfloat16(), **NF4)
    assert torch.equal(packed[name], codes) and torch.equal(packed[f"{name}.absmax"], state.absmax)
    assert f"{name}_scale_inv" not in packed
    of_checkpoint = tensors_of(to("nf4-of-checkpoint"))
    assert packed.keys() == of_checkpoint.keys() and all(torch.equal(packed[name], of_checkpoint[name]) for name in packed)


def test_fp8_scales_may_be_in_bf16(fp8, rows):
    _, to, loss = fp8
    halved = run(None, ["grads", "--model", to("halved"), "--rows", rows, "--out", to("halved-grads")])
    assert relative(losses_of(halved, 1)[0], loss) < 1e-2


def test_adapter_over_fp8_is_packed_again(adapted, fp8, folder):
    """Refused without --quantise, at the door; with it, the merged matrix in bf16 is packed by transformers' rule."""
    one = adapted("patterns")
    base = folder / "fp8-base"
    run_many(None, [["convert", "--from", one.model, "--to", base, "--quantise", "fp8"]])
    words = ["merge", "--model", base, "--adapters", one.adapter, "--to"]
    refused = run(None, [*words, folder / "fp8-refused"])
    assert refused.returncode == 2 and "--quantise fp8" in refused.stderr and not (folder / "fp8-refused").exists(), failure_text(refused)
    result = run(None, [*words, folder / "fp8-merged", "--quantise", "fp8"])
    assert result.returncode == 0, failure_text(result)
    again = run(None, ["convert", "--from", base, "--to", folder / "fp8-twice", "--quantise", "fp8"])
    assert again.returncode == 2 and "is in fp8 already" in again.stderr, failure_text(again)
    before, after = tensors_of(base), tensors_of(folder / "fp8-merged")
    assert before.keys() == after.keys()
    changed = [name for name in before if not torch.equal(before[name].float(), after[name].float())]
    assert any(name.endswith("proj.weight") for name in changed)
    assert all(tensor.float().isfinite().all() for tensor in after.values())


def plain_models(folder):
    """Models with linear modules that are not packed: towers and mergers, a reward model's head, routers, a head of another
    name; by name, as transformers has them, and the names of their weights in files."""
    for family in ("qwen2_5_vl", "qwen3_vl", "internvl"):
        model = seeing_models.write_model(seeing_models.config_of(family), folder / f"plain-{family}")
        yield family, model, functools.partial(seeing_models.disk_name, family=family)
    reward = transformers.AutoModelForSequenceClassification.from_config(tiny_models.config_of("qwen3", num_labels=1), dtype=torch.float32)
    reward.save_pretrained(folder / "plain-reward")
    yield "reward", reward, str
    for family in ("qwen2_moe", "internlm2"):
        yield family, tiny_models.write_model(tiny_models.config_of(family), folder / f"plain-{family}"), str


def test_plain_modules_are_listed(folder):
    """transformers packs exactly those linear modules that the files have packed."""
    models = list(plain_models(folder))
    result = run_many(None, [["convert", "--from", folder / f"plain-{name}", "--to", folder / f"listed-{name}", "--quantise", "nf4"]
                             for name, _, _ in models])
    for name, model, in_files in models:
        assert (folder / f"listed-{name}").exists(), failure_text(result)
        packed = tensors_of(folder / f"listed-{name}")
        skipped = json.loads((folder / f"listed-{name}" / "config.json").read_text())["quantization_config"]["llm_int8_skip_modules"]
        modules = [module for module, kind in model.named_modules() if isinstance(kind, torch.nn.Linear)]
        found = {module for module in modules if should_convert_module(module, skipped)}
        wanted = {module for module in modules if f"{in_files(module + '.weight')}.absmax" in packed}
        assert wanted and found == wanted, (name, found ^ wanted)
        assert not any("embed_tokens" in word for word in skipped), skipped


# Directories that lack something or have too much: kind, the tensor's ending, what becomes of it, what the line must say.
BROKEN = [
    ("nf4", ".absmax", None, "'{name}' is missing"),
    ("nf4", ".quant_map", lambda map: map + 0.5, "another kind of packing, which is not read"),
    ("nf4", ".quant_state.bitsandbytes__nf4", None, "'{name}' is missing"),
    ("int8", ".SCB", None, "'{name}' is missing"),
    ("int8", ".SCB", lambda scales: scales[1:], "one for each row"),
    ("int8", ".SCB", lambda scales: scales * math.nan, "'{name}' has nan"),
    ("nf4", ".nested_absmax", lambda scales: scales * math.inf, "'{name}' has inf"),
    ("int8", ".weight_format", lambda order: order + 1, "which is not read"),
]


@pytest.mark.parametrize("kind, ending, change, text", BROKEN, ids=[f"{case[0]}{case[1]} {case[3] if case[2] else 'missing'}" for case in BROKEN])
def test_refuses_broken_files(kind, ending, change, text, files, folder, rows, request):
    one, ours = files[0], files[1][kind][0]
    broken = shutil.copytree(ours, folder / f"broken-{BROKEN.index((kind, ending, change, text))}")
    tensors = tensors_of(ours)
    name = next(name for name in tensors if name.endswith(ending))
    old = tensors.pop(name)
    if change is not None:
        tensors[name] = change(old)
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    result = run(None, grads_words(one._replace(model=broken), rows, broken / "grads", one.adapter))
    assert result.returncode == 2 and text.format(name=name) in result.stderr, failure_text(result)


# Words of convert, what the line must say.
REFUSED = [
    (["--quantise", "q4_k"], "wanted nf4, fp4, int8 or fp8"),
    (["--quantise", "nf4", "--quantise-block", "48"], "wanted 32, 64"),
    (["--quantise", "int8", "--quantise-block", "64"], "are for --quantise nf4 and fp4"),
    (["--quantise-experts"], "--quantise-experts is for --quantise"),
]


@pytest.mark.parametrize("words, text", REFUSED, ids=[" ".join(case[0]) for case in REFUSED])
def test_refused(words, text, whole, folder):
    result = run(None, ["convert", "--from", whole("files").model, "--to", folder / "refused", *words])
    assert result.returncode == 2 and text in result.stderr and not (folder / "refused").exists(), failure_text(result)


def test_refuses_a_format_that_is_not_read(whole, folder, rows):
    broken = shutil.copytree(whole("files").model, folder / "other-format")
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "hqq"}}))
    result = run(None, ["grads", "--model", broken, "--rows", rows, "--out", folder / "other-grads"])
    assert result.returncode == 2 and "quant_method 'hqq'" in result.stderr and "bf16" in result.stderr, failure_text(result)
