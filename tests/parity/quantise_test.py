"""Adapters over packed weights (model.quantise), against PEFT over bitsandbytes: gradients of every trained parameter under every
kind of layout, ten steps of training over its Linear4bit. Where transformers has experts in one tensor, which bitsandbytes leaves as they are, each
expert's matrix is packed and decoded by bitsandbytes beforehand. Launches of one number of ranks are shared."""
import functools
import json
import shutil

import bitsandbytes.functional as bits
import peft
import pytest
import torch
import transformers
from bitsandbytes.nn import Linear4bit
from safetensors.torch import load_file, save_file

import decoding
import steps
import tiny_models
from gradients import Reference, assert_equals, assert_within, relative
from lora_adapters import ADAPTERS, ROWS, experts_of, gradients, is_gate_up, make_adapted, two_blocks
from lora_runs import TRAINED, adapted, grads_words, name_of, read_log, rows, train_rows, train_words  # noqa: F401  fixtures
from program import Launches, failure_text, run, run_grads, run_many, words_of

NF4 = dict(quant_type="nf4", blocksize=64, compress_statistics=True)
# What the program is told, and bitsandbytes.
STORAGES = {
    "nf4": (["model.quantise=nf4"], NF4),
    "flat nf4": (["model.quantise=nf4", "model.quantise_nested=false"], dict(NF4, compress_statistics=False)),
    "fp4": (["model.quantise=fp4", "model.quantise_block=32"], dict(NF4, quant_type="fp4", blocksize=32)),
}
# adapter, storage, ranks, settings
LAYOUTS = [
    ("all-linear", "fp4", 1, []),
    ("all-linear", "flat nf4", 1, ["memory.recompute=selective"]),
    ("dora", "nf4", 1, []),
    ("phi3", "nf4", 1, []),
    ("deepseek_v3", "nf4", 1, ["memory.recompute=full"]),
    ("qwen2_moe", "nf4", 1, []),
    ("all-linear", "flat nf4", 2, ["parallel.tensor=2"]),
    ("all-linear", "fp4", 2, ["parallel.tensor=2", "parallel.sequence=false", "memory.recompute=selective"]),
    ("phi3", "nf4", 2, ["parallel.tensor=2"]),
    ("dora", "nf4", 2, ["parallel.tensor=2"]),
    ("rslora", "nf4", 2, ["parallel.pipeline=2", "parallel.schedule=zero_bubble"]),
    ("rslora", "nf4", 2, ["parallel.zero=3"]),
    ("rslora", "nf4", 2, ["parallel.context=2"]),
    ("qwen3_moe", "nf4", 2, ["parallel.expert=2", "parallel.zero=3"]),
    ("qwen2_moe", "nf4", 2, ["parallel.tensor=2", "parallel.expert_tensor=2"]),
    ("deepseek_v3", "nf4", 2, ["parallel.tensor=2", "parallel.expert=2"]),
    ("qwen3_moe", "nf4", 4, ["parallel.tensor=2", "parallel.expert=2", "parallel.expert_tensor=2", "parallel.sequence=false"]),
]


# Rows of whole blocks, for the library's own loops for AVX-512 decode others with scales of their neighbours. By name: family, adapter.
WHOLE_BLOCKS = {"linear4bit": ("llama3", "all-linear"), "files": ("phi3", "phi3")}


@pytest.fixture(scope="module")
def whole(folder):
    """By name of the above, made when first asked for."""
    return functools.cache(lambda name: make_adapted(folder / name, WHOLE_BLOCKS[name][0], dict(intermediate_size=128),
                                                     ADAPTERS[WHOLE_BLOCKS[name][1]][2]))


def case_name(case):
    return f"{case[1]} {name_of((case[0], *case[2:]))}"


def decoded(matrix, storage):
    """By the rule, not by the library's loops."""
    codes, state = bits.quantize_4bit(matrix.contiguous(), **storage)
    scales = bits.dequantize_blockwise(state.absmax, state.state2) + state.offset if state.nested else state.absmax
    pairs = torch.stack([codes.flatten() >> 4, codes.flatten() & 15], 1).flatten()[:matrix.numel()]
    values = bits.get_4bit_type(storage["quant_type"], device="cpu")[pairs.long()]
    return (values * scales.repeat_interleave(storage["blocksize"])[:matrix.numel()]).view_as(matrix)


@torch.no_grad()
def pack_base(model, storage):
    """Every matrix that the program packs becomes what its packed form stands for."""
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and ".layers." in name and not name.endswith("shared_expert_gate"):
            module.weight.copy_(decoded(module.weight, storage))
    for name, stack in model.named_parameters():
        if name.endswith((".experts.gate_up_proj", ".experts.down_proj")):
            for matrix in stack:
                for part in matrix.chunk(2 if "gate_up" in name else 1):
                    part.copy_(decoded(part, storage))


def tuned_over(base, adapter):
    tuned = peft.PeftModel.from_pretrained(base, adapter, is_trainable=True)
    for name, parameter in tuned.named_parameters():
        if is_gate_up(name, parameter, tuned) and "lora_B" in name:
            parameter.register_hook(lambda gradient, mask=two_blocks(parameter, experts_of(tuned)): gradient * mask)
    return tuned


def load_packed(one, storage):
    base = transformers.AutoModelForCausalLM.from_pretrained(one.model, dtype=torch.float32)
    pack_base(base, storage)
    return tuned_over(base, one.fused)


def load_linear4bit(model, packs=True):
    """packs: transformers does; otherwise the directory's weights are packed."""
    how = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                                          bnb_4bit_compute_dtype=torch.float32)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, device_map="cpu",
                                                               **(dict(quantization_config=how) if packs else {}))
    for module in loaded.modules():
        if isinstance(module, Linear4bit):
            module.support_avx512bf16_for_cpu = False  # without gradients it would round to bf16, and wants whole blocks in rows
    return loaded


@pytest.fixture(scope="module")
def references(adapted):
    @functools.cache
    def make(adapter, storage):
        tuned = load_packed(adapted(adapter), STORAGES[storage][1])
        loss, tokens = tiny_models.backward(tuned, ROWS)
        wanted = gradients(tuned)
        return Reference(None, None, loss, tokens, tiny_models.norm_of(wanted.values()), wanted)
    return make


@pytest.fixture(scope="module")
def passes(adapted, rows):
    def launch(ranks, cases):
        commands = [[*grads_words(adapted(adapter), rows, rows.parent / f"packed-{ranks}-{number}.safetensors", adapted(adapter).adapter),
                     *words_of([*STORAGES[storage][0], *settings])]
                    for number, (adapter, storage, _, settings) in enumerate(cases)]
        return run_grads(ranks, commands)
    return Launches(LAYOUTS, lambda case: case[2], launch)


@pytest.mark.parametrize("case", LAYOUTS, ids=case_name)
def test_gradients(case, passes, references, record_errors):
    assert_equals(passes.of(case), references(*case[:2]), record_errors)


# Ten steps. adapter, ranks, settings
STEPS = [
    ("linear4bit", 1, []),
    ("qwen3_moe", 1, ["memory.recompute=selective"]),
    ("linear4bit", 2, ["parallel.tensor=2"]),
    ("linear4bit", 2, ["parallel.pipeline=2"]),
    ("linear4bit", 2, ["parallel.zero=3"]),
    ("qwen3_moe", 2, ["parallel.expert=2"]),
    ("qwen3_moe", 2, ["parallel.tensor=2", "parallel.expert_tensor=2"]),
]


@pytest.fixture(scope="module")
def step_runs(adapted, whole, train_rows):
    of = lambda name: (whole if name in WHOLE_BLOCKS else adapted)(name)

    def launch(ranks, cases):
        outputs = [train_rows.parent / f"packed-steps-{ranks}-{number}" for number in range(len(cases))]
        commands = [train_words(of(adapter), train_rows, output,
                                [f"tuning.adapters={of(adapter).adapter}", *STORAGES["nf4"][0], *settings])
                    for output, (adapter, _, settings) in zip(outputs, cases)]
        result = run_many(ranks, commands)
        return [(output, result) for output in outputs]
    return Launches(STEPS, lambda case: case[1], launch)


@pytest.fixture(scope="module")
def step_references(adapted, whole):
    rows = [row for row in TRAINED if tiny_models.trained_tokens([row]) > 0]

    @functools.cache
    def make(adapter):
        if adapter in WHOLE_BLOCKS:
            model = tuned_over(load_linear4bit(whole(adapter).model), whole(adapter).fused)
        else:
            model = load_packed(adapted(adapter), NF4)
        return steps.reference(model, rows, steps.COSINE)
    return make


@pytest.mark.parametrize("case", STEPS, ids=name_of)
def test_ten_steps(case, step_runs, step_references, record_errors):
    output, result = step_runs.of(case)
    assert (output / "final").exists(), failure_text(result)
    steps.assert_curve(read_log(output), step_references(case[0]), steps.LIMITS, record_errors)


# Generation: adapter, ranks, settings
WRITERS = [("deepseek_v3", 1, []), ("qwen3_moe", 2, ["parallel.tensor=2", "parallel.expert_tensor=2"])]


@pytest.fixture(scope="module")
def writers(adapted, folder):
    """Tokens of each case, those of PEFT over the decoded weights where it is sure of them, and how the launch ended."""
    def launch(ranks, cases):
        wanted, commands = [], []
        for name, _, settings in cases:
            tuned = load_packed(adapted(name), NF4)
            written = [(row, *decoding.likeliest(tuned, row["input_ids"])) for row in ROWS]
            clear = [(row, tokens) for row, tokens, margin in written if margin > decoding.CLEAR]
            tiny_models.write_rows(folder / f"write-{name}.jsonl", [row for row, _ in clear])
            wanted.append([tokens for _, tokens in clear])
            commands.append(["generate", "--model", adapted(name).model, "--adapters", adapted(name).adapter, "--rows",
                             folder / f"write-{name}.jsonl", "--max-new-tokens", decoding.NEW,
                             *words_of(["model.dtype=fp32", *STORAGES["nf4"][0], *settings])])
        result = run_many(ranks, commands)
        lines = iter(json.loads(line)["output_ids"] for line in result.stdout.splitlines() if line.startswith("{"))
        return [([tokens for _, tokens in zip(right, lines)], right, result) for right in wanted]
    return Launches(WRITERS, lambda case: case[1], launch)


@pytest.mark.parametrize("case", WRITERS, ids=name_of)
def test_generates_as_peft_does(case, writers):
    tokens, wanted, result = writers.of(case)
    assert len(wanted) > 2 and tokens == wanted, failure_text(result)[-2000:]


@pytest.fixture(scope="module")
def files(whole, folder, rows):
    """Directories in 4 bits, the program's and transformers', and the lines of the program with each; one launch."""
    one, ours, theirs = whole("files"), folder / "ours", folder / "theirs"
    load_linear4bit(one.model).save_pretrained(theirs)
    words = [grads_words(one._replace(model=model), rows, folder / f"files-{number}", one.adapter) + words_of(settings)
             for number, (model, settings) in enumerate([(one.model, STORAGES["nf4"][0]), (ours, STORAGES["nf4"][0]), (ours, []),
                                                         (theirs, STORAGES["nf4"][0]), (theirs, [])])]
    merged = ["merge", "--model", ours, "--adapters", one.adapter, "--to", folder / "merged"]
    result = run_many(None, [["convert", "--from", one.model, "--to", ours, "--quantise", "nf4"], *words, merged])
    lines = [json.loads(line)["loss"] for line in result.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == len(words) and (folder / "merged").exists(), failure_text(result)
    return one, ours, theirs, lines


def test_files_have_the_bytes_of_bitsandbytes(files):
    ours, theirs = (load_file(path / "model.safetensors") for path in files[1:3])
    assert ours.keys() == theirs.keys()
    for name in ours:
        if ".quant_state." in name:
            states = [json.loads(bytes(side[name].numpy()).decode()) for side in (ours, theirs)]
            assert states[0] == states[1], name
        else:
            assert torch.equal(ours[name], theirs[name]), name


def test_files_are_exchanged_with_transformers(files, folder, record_errors):
    """The program's losses over its own and transformers' files, packed and decoded, are those of transformers over both."""
    one, ours, theirs, lines = files
    wanted = tiny_models.loss_of(tuned_over(load_linear4bit(theirs, packs=False), one.fused), ROWS)
    again = tiny_models.loss_of(tuned_over(load_linear4bit(ours, packs=False), one.fused), ROWS)
    merged = transformers.AutoModelForCausalLM.from_pretrained(folder / "merged", dtype=torch.float32)
    errors = {"program": max(relative(line, wanted) for line in lines), "transformers": relative(again, wanted),
              "merged": relative(tiny_models.loss_of(merged, ROWS), wanted)}
    record_errors(errors)
    assert_within(errors, {"program": 1e-5, "transformers": 1e-6, "merged": 1e-5})


def test_refuses_files_without_scales(files, folder, rows):
    one, ours, _, _ = files
    broken = shutil.copytree(ours, folder / "broken")
    tensors = load_file(ours / "model.safetensors")
    name = next(name for name in tensors if name.endswith(".absmax"))
    del tensors[name]
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    result = run(None, grads_words(one._replace(model=broken), rows, folder / "broken-grads", one.adapter))
    assert result.returncode == 2 and f"'{name}' is missing" in result.stderr, failure_text(result)


# settings of a run, what the line must say
REFUSED = [
    (["model.quantise=nf4", "tuning.kind=full"], ["model.quantise", "tuning.kind: lora"]),
    (["model.quantise=nf4", "tuning.init=pissa"], ["model.quantise", "tuning.init: lora"]),
    (["model.quantise=nf4", "tuning.modules_to_save=[o_proj]", "tuning.targets=[q_proj]"],
     ["o_proj is packed", "model.quantise_except"]),
    (["model.quantise=nf4", "model.quantise_block=48"], ["model.quantise_block = 48", "wanted 32, 64"]),
    (["model.quantise=nf4", "model.quantise_except=[q_proj]"], ["cannot be packed without", "q_proj.weight"]),
    (["model.quantise=nf4", "model.quantise_except=[q_porj]"], ["model.quantise_except: 'q_porj'", "nearest: 'q_proj'"]),
    (["model.quantise=int8"], ["model.quantise int8", "nf4"]),
    (["model.quantise=nf4", "device=npu"], ["model.quantise", "device: cpu"]),
    (["model.quantise_block=128"], ["model.quantise_block", "model.quantise nf4"]),
]


@pytest.mark.parametrize("settings, texts", REFUSED, ids=[" ".join(case[0]) for case in REFUSED])
def test_refused(settings, texts, adapted, train_rows):
    result = run(None, train_words(adapted("all-linear"), train_rows, train_rows.parent / "refused", settings))
    assert result.returncode == 2, failure_text(result)
    for text in texts:
        assert text in result.stderr, f"{text!r} is not in: {failure_text(result)}"
