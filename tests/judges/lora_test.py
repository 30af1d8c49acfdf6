#!/usr/bin/env python3
"""LoRA against PEFT: gradients of every trained parameter under every kind of layout, ten training steps, what a run
leaves behind, and what resumes from it. PEFT's adapters are read in both of its expert namings."""
import json
import pathlib
import sys
import tempfile
import warnings

import torch
import transformers
from safetensors.torch import load_file

import generate_test
import grads_test
import ten_steps_test
import tiny_models
from lora_adapters import ADAPTERS, ROWS, Judged, load_frozen, load_tuned, make_judge, make_model
from program import failure_text, run, run_many, words_of

NPU = "device=npu"  # in a separate process: torch sets up its threads for the first devices it finds
# adapter, ranks, settings; data parallelism is the rest
LAYOUTS = [
    *((adapter, 1, []) for adapter in ADAPTERS),
    ("all-linear", 1, ["memory.recompute=selective"]),
    ("deepseek_v3", 1, ["memory.recompute=full"]),
    ("qwen3_moe", 1, ["memory.recompute=selective"]),
    ("qwen3_moe", 1, [NPU]),
    ("all-linear", 2, ["parallel.tensor=2", "memory.recompute=selective"]),
    ("patterns", 2, ["parallel.tensor=2", "parallel.sequence=false"]),
    ("rslora", 2, ["parallel.pipeline=2", "parallel.schedule=zero_bubble"]),
    ("rslora", 2, ["parallel.zero=3"]),
    ("all-linear", 2, ["parallel.zero=2", "memory.recompute=full"]),
    ("rslora", 2, ["parallel.context=2"]),
    ("qwen3_moe", 2, ["parallel.expert=2", "parallel.zero=3"]),
    ("qwen2_moe", 2, ["parallel.tensor=2", "parallel.expert_tensor=2"]),
    ("deepseek_v3", 2, ["parallel.tensor=2", "parallel.expert=2"]),
    ("qwen3_moe", 4, ["parallel.tensor=2", "parallel.expert=2", "parallel.expert_tensor=2", "parallel.sequence=false"]),
    ("qwen2_moe", 4, ["parallel.context=2", "parallel.pipeline=2", "parallel.expert=2", "parallel.zero=2"]),
    ("patterns", 4, ["parallel.tensor=4", "parallel.sequence=true"]),
]
failures = []


def check(what, fine, detail=""):
    print(f"{'ok' if fine else 'FAILED'}: {what} {'' if fine else detail}", flush=True)
    if not fine:
        failures.append(what)


def many(ranks, commands):
    result = run_many(ranks, commands)
    return result.stdout.splitlines(), result


def dropout_words(folder, judges, device):
    """A pass with dropout on the pairs' inputs, experts included, and on hidden states."""
    judged = judges["qwen3_moe"]
    return ["grads", "--model", judged.model, "--adapters", judged.adapter, "--rows", folder / "rows.jsonl", "--out",
            folder / f"dropout-{device}.safetensors",
            *words_of([f"device={device}", "tuning.dropout=0.3", "tuning.hidden_dropout=0.2"])]


def judge_npu_dropout(folder):
    """The npu's kernels drop the same elements as the cpu's loops."""
    outs = [folder / f"dropout-{device}.safetensors" for device in ("npu", "cpu")]
    if not all(out.exists() for out in outs):
        check("dropout on npu equals that on cpu", False, "no gradients were written")
        return
    found, wanted = (load_file(out) for out in outs)
    error = max(grads_test.relative(found[name], wanted[name]) for name in wanted)
    check(f"dropout on npu equals that on cpu: {error:.1e}", error <= 1e-4)


def judge_gradients(folder, judges, rows):
    for ranks, npu in sorted({(ranks, NPU in settings) for _, ranks, settings in LAYOUTS}):
        cases = [(adapter, settings) for adapter, count, settings in LAYOUTS
                 if count == ranks and (NPU in settings) == npu]
        outs = [folder / f"{ranks}-{number}.safetensors" for number in range(len(cases))]
        commands = []
        for (adapter, settings), out in zip(cases, outs):
            one = judges[adapter]
            commands.append(["grads", "--model", one.model, "--rows", rows, "--out", out, "--adapters", one.adapter,
                             *(word for setting in settings for word in ("--set", setting))])
        if ranks == 1:
            commands.append(dropout_words(folder, judges, "npu" if npu else "cpu"))
        lines, result = many(ranks, commands)
        for number, ((adapter, settings), out) in enumerate(zip(cases, outs)):
            what = f"gradients of {adapter} on {ranks} ranks {' '.join(settings)}"
            if number >= len(lines) or not out.exists():
                check(what, False, failure_text(result))
                break
            errors, worst, wrong = grads_test.compare(json.loads(lines[number]), load_file(out), judges[adapter].judge)
            numbers = " ".join(f"{kind} {error:.1e}" for kind, error in errors.items())
            check(f"{what}: {numbers}", not wrong, f"{worst}: {wrong}")
    judge_npu_dropout(folder)


def judge_fused(folder, judges, rows):
    """Experts in one tensor: gate and up then share A, which the program reads as one for each. Conversely, PEFT
    stacks experts that are stored one by one."""
    names = [name for name, (_, _, settings) in ADAPTERS.items() if "target_parameters" in settings]
    outs = [folder / f"fused-{name}.safetensors" for name in names]
    lines, result = many(None, [["grads", "--model", judges[name].model, "--rows", rows, "--out", out,
                                 "--adapters", judges[name].fused] for name, out in zip(names, outs)])
    for name, line, out in zip(names, lines, outs):
        judge, found = judges[name].judge, load_file(out)
        error = grads_test.relative(json.loads(line)["loss"], judge.loss)
        own = [key for key in found if "down_proj" in key or "w2" in key or "self_attn" in key]
        worst = max(grads_test.relative(found[key], judge.gradients[key]) for key in own)
        check(f"experts of {name} in one tensor: loss {error:.1e} gradient {worst:.1e}", max(error, worst / 10) <= 1e-5)
    for name in ("mixtral", "deepseek_v3"):
        error = grads_test.relative(tiny_models.loss_of(load_tuned(judges[name], False), ROWS), judges[name].judge.loss)
        check(f"PEFT reads experts of {name} one by one: loss {error:.1e}", error <= 1e-6)
    check("experts in one tensor are read", len(lines) == len(names) and result.returncode == 0, failure_text(result))


# Ten steps. adapter (or "freeze"), ranks, settings
STEPS = [
    ("all-linear", 1, []),
    ("qwen3_moe", 1, ["memory.recompute=selective"]),
    ("freeze", 1, []),
    ("rslora", 1, []),
    ("rslora", 2, ["parallel.pipeline=2"]),
    ("all-linear", 2, ["parallel.tensor=2"]),
    ("all-linear", 2, ["parallel.pipeline=2"]),
    ("all-linear", 2, ["parallel.zero=3"]),
    ("freeze", 2, ["parallel.pipeline=2"]),
    ("freeze", 2, ["parallel.zero=3"]),
    ("qwen3_moe", 2, ["parallel.expert=2"]),
    ("qwen3_moe", 2, ["parallel.tensor=2", "parallel.expert_tensor=2"]),
]
FROZEN = ["tuning.kind=freeze", "tuning.last_layers=2", "tuning.targets=[all]", "tuning.modules_to_save=[lm_head]"]


def train_words(judged, rows, output, settings):
    """A ten-step fp32 run that starts from the adapter."""
    path = output.parent / f"{output.name}.yaml"
    sections = {
        "device": "cpu", "model": {"path": str(judged.model), "dtype": "fp32"},
        "tuning": {"kind": "lora", "dropout": 0.0},
        "data": {"train": [str(rows)], "shuffle": False, "packing": False, "max_length": 64},
        "optimizer": {**ten_steps_test.COSINE, **ten_steps_test.ADAMW},
        "run": {"steps": ten_steps_test.STEPS, "global_batch": ten_steps_test.BATCH, "micro_batch": 1, "log_every": 1,
                "save_every": 0, "output": str(output)},
    }
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items()))
    return ["train", path, *(word for setting in settings for word in ("--set", setting))]


def read_log(output):
    return [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]


def judge_steps(folder, judges):
    written = tiny_models.make_rows(ten_steps_test.EPOCH + 1, shortest=8, seed=ten_steps_test.SEED)
    rows = [row for row in written if tiny_models.trained_tokens([row]) > 0]
    tiny_models.write_rows(folder / "train.jsonl", written)
    references, outputs = {}, {}
    for ranks in (1, 2):
        cases = [(adapter, settings) for adapter, count, settings in STEPS if count == ranks]
        commands = []
        for number, (adapter, settings) in enumerate(cases):
            judged = judges["all-linear" if adapter == "freeze" else adapter]
            output = folder / f"steps-{ranks}-{number}"
            tuning = FROZEN if adapter == "freeze" else [f"tuning.adapters={judged.adapter}"]
            commands.append(train_words(judged, folder / "train.jsonl", output, [*tuning, *settings]))
            outputs[adapter, ranks, number] = output
        lines, result = many(ranks, commands)
        for number, (adapter, settings) in enumerate(cases):
            if adapter not in references:
                model = load_frozen(judges["all-linear"]) if adapter == "freeze" else load_tuned(judges[adapter])
                references[adapter] = ten_steps_test.reference(model, rows, ten_steps_test.COSINE), model
            output = outputs[adapter, ranks, number]
            what = f"ten steps of {adapter} on {ranks} ranks {' '.join(settings)}"
            if not (output / "final").exists():
                check(what, False, failure_text(result))
                break
            errors, wrong = ten_steps_test.compare(read_log(output), references[adapter][0], ten_steps_test.LIMITS)
            check(f"{what}: {' '.join(f'{field} {error:.1e}' for field, error in errors.items())}", not wrong, wrong)
    return {adapter: (outputs[adapter, 1, number], references[adapter][1])
            for number, (adapter, count, _) in enumerate(STEPS) if count == 1}


def judge_final(folder, judges, finals):
    """PEFT reads what a run leaves: the loss equals the program's, and the values those that PEFT would have got."""
    adapters = [name for name in finals if name != "freeze"]
    lines, result = many(None, [["grads", "--model", judges[name].model, "--rows", folder / "rows.jsonl", "--out",
                                 folder / "final.safetensors", "--adapters", finals[name][0] / "final"]
                                for name in adapters])
    for name, line in zip(adapters, lines):
        tuned = load_tuned(judges[name]._replace(adapter=finals[name][0] / "final"), trainable=False)
        error = grads_test.relative(json.loads(line)["loss"], tiny_models.loss_of(tuned, ROWS))
        found = dict(tuned.named_parameters())
        parts = {key: grads_test.relative(found[key].detach(), value.detach())
                 for key, value in finals[name][1].named_parameters() if value.requires_grad}
        worst = max(parts, key=parts.get)
        check(f"PEFT reads final/ of {name}: loss {error:.1e}, values {parts[worst]:.1e}",
              error <= 1e-5 and parts[worst] <= 1e-3, worst)
    check("the program reads its own adapters", len(lines) == len(adapters), failure_text(result))
    frozen = transformers.AutoModelForCausalLM.from_pretrained(finals["freeze"][0] / "final", dtype=torch.float32)
    before = load_frozen(judges["all-linear"])
    kept = all(torch.equal(a, b) for (name, a), (_, b) in zip(frozen.named_parameters(), before.named_parameters())
               if not b.requires_grad)
    error = grads_test.relative(tiny_models.loss_of(frozen, ROWS), tiny_models.loss_of(finals["freeze"][1], ROWS))
    check(f"final/ of a frozen run is a model: loss {error:.1e}, the rest equals the base", kept and error <= 1e-4)


# New adapters with dropout: every layout drops the same inputs. model, ranks, settings
DROPOUT = [
    ("all-linear", 1, []),
    ("all-linear", 1, ["tuning.dropout=0"]),
    ("qwen3_moe", 1, []),
    ("all-linear", 1, ["memory.recompute=full", "run.micro_batch=4"]),
    ("all-linear", 1, ["memory.recompute=selective", "run.micro_batch=2"]),
    ("all-linear", 2, ["parallel.tensor=2"]),
    ("all-linear", 2, ["parallel.pipeline=2", "parallel.schedule=zero_bubble", "memory.recompute=selective"]),
    ("all-linear", 2, ["parallel.zero=3"]),
    ("all-linear", 2, ["parallel.context=2"]),
    ("qwen3_moe", 2, ["parallel.expert=2"]),
    ("qwen3_moe", 2, ["parallel.tensor=2", "parallel.expert_tensor=2", "memory.recompute=full"]),
]


# Dropout on hidden states in one pass: every parameter's gradient equals that of one rank. model, ranks, settings
HIDDEN = [
    ("all-linear", 1, []),
    ("qwen3_moe", 1, []),
    ("all-linear", 1, ["tuning.hidden_dropout=0"]),
    ("all-linear", 1, ["memory.recompute=full", "run.micro_batch=4"]),
    ("all-linear", 1, ["memory.recompute=selective"]),
    ("all-linear", 1, ["ops.off=[dropout_add]"]),
    ("all-linear", 2, ["parallel.tensor=2"]),
    ("all-linear", 2, ["parallel.tensor=2", "parallel.sequence=false", "memory.recompute=full"]),
    ("all-linear", 2, ["parallel.pipeline=2", "memory.recompute=selective"]),
    ("all-linear", 2, ["parallel.context=2"]),
    ("qwen3_moe", 2, ["parallel.tensor=2", "parallel.expert=2"]),
    ("qwen3_moe", 2, ["parallel.tensor=2", "parallel.expert=2", "parallel.sequence=false"]),
    ("qwen3_moe", 2, []),
]


def hidden_words(folder, judges, ranks):
    """What is run, and what of it is compared: the model, its settings and where the gradients are."""
    cases = [(model, settings, folder / f"hidden-{ranks}-{number}.safetensors")
             for number, (model, count, settings) in enumerate(HIDDEN) if count == ranks]
    return [["grads", "--model", judges[model].model, "--rows", folder / "rows.jsonl", "--out", out,
             *words_of(["tuning.hidden_dropout=0.2", *settings])] for model, settings, out in cases], cases


def judge_hidden(cases, ranks, wanted, result):
    for model, settings, out in cases:
        what = f"hidden dropout in {model} on {ranks} ranks {' '.join(settings)}"
        if not out.exists():
            check(what, False, failure_text(result))
            break
        found = load_file(out)
        one = wanted.setdefault(model, found)
        error = max(grads_test.relative(found[name], one[name]) for name in one)
        differs = "tuning.hidden_dropout=0" in settings
        check(f"{what}: {error:.1e}", error > 1e-2 if differs else error <= 1e-4)


def judge_dropout(folder, judges):
    wanted, hidden = {}, {}
    for ranks in (1, 2):
        cases = [(model, settings) for model, count, settings in DROPOUT if count == ranks]
        outputs = [folder / f"dropout-{ranks}-{number}" for number in range(len(cases))]
        passes, hidden_cases = hidden_words(folder, judges, ranks)
        lines, result = many(ranks, [train_words(
            judges[model], folder / "train.jsonl", output,
            ["tuning.dropout=0.3", "run.steps=4", "optimizer.lr=0.02", "tuning.alpha=16", *settings])
            for (model, settings), output in zip(cases, outputs)] + passes)
        judge_hidden(hidden_cases, ranks, hidden, result)
        for (model, settings), output in zip(cases, outputs):
            what = f"dropout in {model} on {ranks} ranks {' '.join(settings)}"
            if not (output / "final").exists():
                check(what, False, failure_text(result))
                break
            losses = torch.tensor([line["loss"] for line in read_log(output)], dtype=torch.float64)
            error = grads_test.relative(losses, wanted.setdefault(model, losses))
            differs = "tuning.dropout=0" in settings
            check(f"{what}: {error:.1e}", error > 1e-3 if differs else error <= 2e-5)


# Runs that adapt every projection of a model with experts. family, changes to the model, settings
WHOLE = [
    ("deepseek_v3", {}, ["tuning.targets=[all-linear, gate]"]),
    ("deepseek_v2", {}, ["tuning.rslora=true"]),
    ("qwen2_moe", {}, ["tuning.targets=[all-linear, shared_expert_gate]"]),
    ("qwen3_moe", {}, ["tuning.rank=3"]),
    ("mixtral", {}, ["tuning.targets=[all-linear, gate]", "tuning.rslora=true"]),
    ("qwen3_moe", {}, ["tuning.targets=[up_proj, q_proj]"]),
    ("deepseek_v3", {}, ["tuning.targets=[shared_experts.gate_proj, layers.0.mlp.up_proj]"]),
]


def judge_whole(folder, judges):
    """PEFT loads what such runs leave: routed experts beside shared ones, dense layers and routers. The same adapter as
    a checkpoint, or with its experts stored one by one, gives the program the same gradients."""
    runs, commands = [], []
    for number, (family, changes, settings) in enumerate(WHOLE):
        model, output = folder / f"whole-model-{number}", folder / f"whole-{number}"
        make_model(model, family, changes)
        judged = Judged(model, output / "final", None, None)
        commands.append(train_words(judged, folder / "train.jsonl", output, [
            "run.steps=3", "optimizer.lr=0.05", "tuning.rank=4", "tuning.alpha=12", "run.save_every=3", *settings]))
        saved, apart = output / "checkpoint-3", folder / f"apart-{number}"
        commands.append(["convert", "--from", saved, "--to", apart, "--experts-apart"])
        commands += [["grads", "--model", model, "--rows", folder / "rows.jsonl", "--out", folder / f"{name}-{number}",
                      "--adapters", path] for name, path in (("f", output / "final"), ("c", saved), ("a", apart))]
        runs.append((family, settings, judged))
    lines, result = many(None, commands)
    printed = [json.loads(line) for line in lines if line.startswith("{") and "grad_norm" in line]
    check("runs of every projection succeed", len(printed) == 3 * len(WHOLE), failure_text(result))
    for number, (family, settings, judged) in enumerate(runs[:len(printed) // 3]):
        final, checkpoint, apart = printed[3 * number:3 * number + 3]
        grads = [load_file(folder / f"{name}-{number}") for name in "fca"]
        same = all(one.keys() == grads[0].keys() and all(torch.equal(one[key], grads[0][key]) for key in one)
                   for one in grads)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            tuned = load_tuned(judged, trainable=False)
            plain = transformers.AutoModelForCausalLM.from_pretrained(judged.model, dtype=torch.float32)
        wanted = tiny_models.loss_of(tuned, ROWS)
        error, effect = (grads_test.relative(wanted, other) for other in (final["loss"], tiny_models.loss_of(plain, ROWS)))
        missing = [str(warning.message)[:300] for warning in warned if "missing" in str(warning.message)]
        check(f"PEFT reads what a run of {family} {' '.join(settings)} leaves: loss {error:.1e}, moved by {effect:.1e}",
              error <= 1e-5 and effect > 1e-3 and not missing, missing)
        check(f"{len(grads[0])} gradients are equal from it, from its checkpoint and with experts apart", same)


def judge_resume(folder, judges):
    """A run that stops and resumes under another layout; its checkpoint has no base, and serves as an adapter."""
    judged, output, never_stopped = judges["all-linear"], folder / "resumed", folder / "never-stopped"
    common = ["tuning.dropout=0.3", "optimizer.lr=0.02", "tuning.alpha=16", "optimizer.schedule=constant",
              "run.save_every=2"]
    words = train_words(judged, folder / "train.jsonl", output, [*common, "run.steps=4"])
    other = train_words(judged, folder / "train.jsonl", never_stopped, [*common, "run.steps=4"])
    saved = output / "checkpoint-2"
    many(None, [other, [*words, "--set", "run.steps=2"]])
    base, kept = ((sum(file.stat().st_size for file in path.iterdir())) for path in (judged.model, saved))
    check(f"a checkpoint of {kept} bytes beside a base of {base}", kept < base)
    lines, result = many(2, [[*words, "--set", "parallel.tensor=2"]])
    losses, wanted = (torch.tensor([line["loss"] for line in read_log(path)]) for path in (output, never_stopped))
    error = grads_test.relative(losses, wanted) if len(losses) == len(wanted) else 1
    check(f"resumes from a checkpoint under another layout: {error:.1e}", error <= 2e-5, failure_text(result))
    grads = ["grads", "--model", judged.model, "--rows", folder / "rows.jsonl", "--out", folder / "x.safetensors",
             "--adapters"]
    lines, result = many(None, [["convert", "--from", saved, "--to", folder / "exported"], [*grads, saved],
                                [*grads, folder / "exported"]])
    same = len(lines) == 3 and lines[1] == lines[2]
    check("a checkpoint serves as an adapter, exported or not", same, failure_text(result))
    refused("another rank", ["was trained with rank 8", "this run has rank 4"],
            [*words, "--set", "tuning.rank=4", "--set", "run.steps=6"])  # a complete run would be refused
    refused("an adapter's checkpoint as a model", ["is an adapter's checkpoint", "tuning.adapters"],
            [*grads[:2], saved, *grads[3:7]])


# Generation with unmerged adapters. adapter, ranks, settings
WRITERS = [("patterns", 1, []), ("qwen3_moe", 1, []), ("patterns", 2, ["parallel.tensor=2"]),
           ("rslora", 2, ["parallel.pipeline=2"]), ("qwen3_moe", 2, ["parallel.expert=2"]),
           ("deepseek_v3", 2, ["parallel.tensor=2", "parallel.expert_tensor=2"])]


def clear_rows(tuned):
    """Rows whose next tokens PEFT predicts with a clear margin, with those tokens: rounding could flip others."""
    written = [(row, *generate_test.likeliest(tuned, row["input_ids"])) for row in ROWS]
    return [(row, tokens) for row, tokens, margin in written if margin > generate_test.CLEAR]


def judge_writing(folder, judges):
    wanted = {name: clear_rows(load_tuned(judges[name], False)) for name in {name for name, _, _ in WRITERS}}
    for name, rows in wanted.items():
        check(f"{name} has rows to generate from", len(rows) > 2)
        tiny_models.write_rows(folder / f"{name}.jsonl", [row for row, _ in rows])
    for ranks in (1, 2):
        cases = [(name, settings) for name, count, settings in WRITERS if count == ranks]
        lines, result = many(ranks, [
            ["generate", "--model", judges[name].model, "--adapters", judges[name].adapter, "--rows",
             folder / f"{name}.jsonl", "--max-new-tokens", generate_test.NEW, "--set", "model.dtype=fp32",
             *(word for setting in settings for word in ("--set", setting))] for name, settings in cases])
        found = [json.loads(line)["output_ids"] for line in lines]
        for name, settings in cases:
            tokens, found = found[:len(wanted[name])], found[len(wanted[name]):]
            check(f"{name} generates PEFT's tokens, {ranks} ranks {' '.join(settings)}",
                  tokens == [tokens for _, tokens in wanted[name]], failure_text(result)[-2000:])


def refused(what, texts, words):
    result = run(None, words)
    fine = result.returncode == 2 and all(text in result.stderr for text in texts)
    check(f"refused: {what}", fine, failure_text(result))


def judge_refusals(folder, judges):
    grads = ["grads", "--model", judges["rslora"].model, "--rows", folder / "rows.jsonl",
             "--out", folder / "x.safetensors"]
    lora = [*grads, "--set", "tuning.kind=lora", "--set"]
    refused("an unknown target", ["tuning.targets: 'q_porj'", "nearest: 'q_proj'"], [*lora, "tuning.targets=[q_porj]"])
    refused("a target without a pair", ["embed_tokens", "modules_to_save"], [*lora, "tuning.targets=[embed_tokens]"])
    refused("an adapter of another model", ["self_attn.kv_a_proj_with_mqa' is not a module of the model"],
            [*grads, "--adapters", judges["deepseek_v3"].adapter])
    refused("an adapter of another size", ["q_proj.lora_B.weight' is [96, 2]", "wants [64, 2]"],
            [*grads, "--adapters", judges["patterns"].adapter])
    refused("a part of a fused matrix", ["q_proj.weight cannot be trained without", "k_proj.weight"],
            [*grads, "--set", "tuning.kind=freeze", "--set", "tuning.targets=[q_proj]"])


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        tiny_models.write_rows(folder / "rows.jsonl", ROWS)
        judges = {name: make_judge(folder / name, *adapter) for name, adapter in ADAPTERS.items()}
        judge_gradients(folder, judges, folder / "rows.jsonl")
        judge_fused(folder, judges, folder / "rows.jsonl")
        judge_refusals(folder, judges)
        finals = judge_steps(folder, judges)
        judge_final(folder, judges, finals)
        judge_whole(folder, judges)
        judge_dropout(folder, judges)
        judge_resume(folder, judges)
        judge_writing(folder, judges)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
