"""The memory plan of `--dry-run` against what the twin's devices hold: every run of examples/ascend with its model and
its layout scaled down, the peak of a step within 5 % of the plan. `bench step` measures a pass over rows; stages that
compare answers, or sample them first, are trained for two steps, and the run's log has the peak."""
import json
import pathlib
import re
import shutil

import pytest
import yaml

from program import Launches, failure_text, run_many, run_well, words_of

TOLERANCE = 0.05
TOKENS = 512
SIZES = dict(hidden_size=512, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=1, head_dim=128,
             intermediate_size=1536, vocab_size=2048)
WIDER = SIZES | dict(hidden_size=1024)  # so that what has one size in every model, such as an operator's scratch, is small here, too
EXPERTS = dict(moe_intermediate_size=192, num_experts=16, num_experts_per_tok=4)
LATENT = dict(num_key_value_heads=4, moe_intermediate_size=256, n_routed_experts=16,
              num_experts_per_tok=4, n_group=4, topk_group=2, first_k_dense_replace=1, q_lora_rank=128,
              kv_lora_rank=64, head_dim=None)
# A stage that samples: rows may have the first many tokens, and their cache has; few are sampled, one by one, and trained on.
SAMPLED_TOKENS, NEW_TOKENS = 96, 8
# run, model whose config is scaled down, its sizes, ranks, the layout of so few ranks
RUNS = [
    ("qwen3_8b_lora", "qwen3-8b", SIZES, 1, []),
    ("qwen3_8b_lora", "qwen3-8b", SIZES, 2, []),
    ("qwen2_7b_lora", "qwen2-7b", SIZES, 1, []),
    ("qwen2.5_14b_lora", "qwen2.5-14b", SIZES, 1, []),
    ("llama3_8b_pretrain", "llama-3-8b", SIZES, 2, []),
    ("qwen3_32b_full", "qwen3-32b", SIZES, 2, ["parallel.tensor=2"]),
    ("qwen3_32b_full", "qwen3-32b", SIZES, 2, ["parallel.tensor=1", "parallel.zero=3", "memory.recompute=full",
                                               "memory.offload_activations=true", "memory.offload_parameters=true"]),
    ("qwen3_30b_a3b_pretrain", "qwen3-30b-a3b", SIZES | EXPERTS, 2, ["parallel.expert=2"]),
    ("deepseek_v3_pretrain", "deepseek-v3", SIZES | LATENT, 4, ["parallel.pipeline=2", "parallel.expert=2"]),
    ("qwen3_8b_dpo_lora", "qwen3-8b", SIZES, 1, []),
    ("qwen3_8b_kto_lora", "qwen3-8b", SIZES, 1, []),
    ("qwen3_8b_reward", "qwen3-8b", SIZES, 1, []),
    ("qwen3_8b_dpo_full", "qwen3-8b", SIZES, 2, ["parallel.tensor=2"]),
    ("qwen3_8b_orpo_full", "qwen3-8b", SIZES, 2, ["parallel.tensor=2"]),
    ("qwen3_8b_grpo_lora", "qwen3-8b", WIDER, 2, ["parallel.tensor=2"]),
    ("qwen3_8b_ppo_lora", "qwen3-8b", WIDER, 2, ["parallel.tensor=2"]),
    ("qwen3_8b_gkd_lora", "qwen3-8b", WIDER, 2, ["distillation.layout.tensor=2"]),
    ("qwen3_30b_a3b_grpo", "qwen3-30b-a3b", SIZES | EXPERTS, 2, ["parallel.tensor=1", "parallel.expert=2"]),
]
# The same over packed weights.
NF4 = "model.quantise=nf4"
RUNS += [("qwen3_8b_lora", "qwen3-8b", WIDER, ranks, [NF4]) for ranks in (1, 2)]
RUNS += [("qwen3_8b_lora", "qwen3-8b", WIDER, 2, [NF4, "parallel.zero=3"])]
PROMPT = 8  # tokens that both answers of a pair follow


def is_packed(path):
    """Their plan is compared in quantise_memory_test.py."""
    return "quantise" in yaml.safe_load(path.read_text())["model"]


def sees(path):
    """Their plan has images of a mean size, which the rows of `bench step` have not."""
    return "max_pixels" in yaml.safe_load(path.read_text())["model"]


def test_every_run_is_here():
    runs = pathlib.Path("examples/ascend").glob("*.yaml")
    assert {path.stem for path in runs if not is_packed(path) and not sees(path)} == {case[0] for case in RUNS}


def run_of(case):
    return yaml.safe_load(pathlib.Path("examples/ascend", f"{case[0]}.yaml").read_text())


def compares(case):
    return run_of(case)["stage"] not in ("pt", "sft")


def samples(case):
    return "rl" in run_of(case)


def tokens_of(case):
    return SAMPLED_TOKENS if samples(case) else TOKENS


def model_of(case, folder):
    """The model's config, scaled down; rewards read text, so it has a tokenizer."""
    _, model, sizes, _, _ = case
    config = json.loads(pathlib.Path("examples/configs", model, "config.json").read_text())
    config |= {key: value for key, value in sizes.items() if value is not None and (key in config or key in SIZES)}
    if sizes.get("head_dim", 0) is None:
        config.pop("head_dim", None)
    path = folder / f"{model}-{config['hidden_size']}"  # runs of one launch may differ in it
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    shutil.copy("examples/chat/tokenizer.json", path)
    return path


def settings_of(case, device="npu"):
    """Of the run: everything that decides about memory."""
    _, _, _, ranks, layout = case
    run = run_of(case)
    packing = {key: value for key, value in run["model"].items() if key.startswith("quantise")}
    sections = {"model": packing, "tuning": run["tuning"], "memory": run["memory"], "parallel": run.get("parallel", {})}
    settings = [f"device={device}", "model.dtype=bf16", f"data.max_length={tokens_of(case)}", "comm.buffer_mb=1",
                "run.micro_batch=1", f"run.global_batch={ranks if 'pipeline' not in sections['parallel'] else 4 * ranks}"]
    for section, keys in sections.items():
        settings += [f"{section}.{key}={json.dumps(value) if isinstance(value, (bool, list)) else value}"
                     for key, value in keys.items()]
    if samples(case):
        settings += [f"rl.max_new_tokens={NEW_TOKENS}", "run.global_batch=32"]
        settings += ["rl.group=8", "rl.iterations=1"] if "group" in run["rl"] else []
    return [*settings, "tuning.dropout=0", *layout]


def record_of(case):
    """As long as the run allows."""
    prompt, chosen, rejected = [2] * PROMPT, [1] * (TOKENS - PROMPT), [3] * (TOKENS - PROMPT)
    pair = dict(prompt_ids=prompt, chosen_ids=chosen, rejected_ids=rejected)
    return {"dpo": pair, "orpo": pair, "kto": dict(prompt_ids=prompt, completion_ids=chosen, label=True),
            "rm": dict(chosen_ids=prompt + chosen, rejected_ids=prompt + rejected),
            "grpo": dict(prompt_ids=prompt, solution="Monday"), "ppo": dict(prompt_ids=prompt, solution="Monday"),
            "gkd": dict(input_ids=[1] * SAMPLED_TOKENS, labels=[-100] * PROMPT + [1] * (SAMPLED_TOKENS - PROMPT))}.get(
                run_of(case)["stage"], dict(input_ids=[1] * TOKENS, labels=[1] * TOKENS))


def teacher_of(case, folder):
    """A teacher has weights: those of a model of the same shape after a step on the cpu."""
    path = folder / "teacher"
    if not path.exists():
        rows = folder / "teacher.jsonl"
        rows.write_text(json.dumps(dict(input_ids=[1] * 8, labels=[1] * 8)) + "\n")
        run_well(None, ["train", "examples/bytes/run.yaml"], [
            f"model.path={model_of(case, folder)}", "model.init=random", "model.dtype=bf16", f"data.train=[{rows}]", "run.steps=1",
            "run.global_batch=1", "device=cpu", f"run.output={path}"])
    return path / "final"


def run_file(case, folder):
    """Two steps of the run with its model and its data scaled down: the first update makes the moments."""
    stem = f"{case[0]}-{case[3]}"
    rows, path, run = folder / f"{stem}.jsonl", folder / f"{stem}.yaml", run_of(case)
    record = record_of(case)
    others = [record | ({"label": False} if "label" in record else {}), record]  # liked ones and others, in turn
    rows.write_text("".join(json.dumps(other) + "\n" for other in others) * 16)
    if "distillation" in run:
        run["distillation"]["teacher"] = str(teacher_of(case, folder))
    path.write_text(yaml.safe_dump({
        "stage": run["stage"], "model": {"path": str(model_of(case, folder)), "init": "random"},
        "data": {"train": [str(rows)], "packing": True, "cache": str(folder / "cache")}, "run": {"output": str(folder / stem), "steps": 2},
        **{key: run[key] for key in ("reference", "preference", "rl", "distillation") if key in run}}))
    return path


def planned_mib(case, folder, device="npu"):
    """The largest rank's, without communicators, which are not tensors."""
    _, _, _, ranks, _ = case
    text = run_well(None, ["train", run_file(case, folder), "--dry-run", "--world", ranks], settings_of(case, device)).stdout
    table = text[text.index("memory per rank, in MiB"):].splitlines()[1:]
    titles = table[0].split()
    largest, communicators = 0, 0
    for line in table[1:]:
        if not re.fullmatch(r"\s+[\d,-]+(\s+[\d.]+)+", line):
            break
        row = dict(zip(titles[1:], map(float, line.split()[1:])))
        largest = max(largest, row["device"] - row["communicators"])
        communicators = row["communicators"]
    phases = re.search(r"most device memory per rank: training ([\d.]+) MiB, sampling ([\d.]+) MiB", text)
    assert (phases is not None) == samples(case), text
    return largest if phases is None else max(map(float, phases.groups())) - communicators


def command_of(case, folder, device):
    if compares(case):
        return ["train", run_file(case, folder), *words_of(settings_of(case, device))]
    return ["bench", "step", "--model", model_of(case, folder), "--steps", 1, *words_of(settings_of(case, device))]


def launch(ranks, cases, folder, device="npu"):
    """What each case took, in MiB. Of a run rank 0's peak: its ranks hold alike."""
    result = run_many(ranks, [command_of(case, folder, device) for case in cases])
    assert result.returncode == 0, failure_text(result)
    lines = iter([json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")])
    found = []
    for case in cases:
        if compares(case):
            logged = json.loads((folder / f"{case[0]}-{ranks}" / "log.jsonl").read_text().splitlines()[-1])
            found.append(logged["memory_gib"] * 1024)
        else:
            line = next(lines)
            found.append((line["states_gib"] + line["activations_gib"]) * 1024)
    return found


@pytest.fixture(scope="module")
def measured(selected, folder):
    return Launches(selected(test_plan), lambda case: case[3], lambda ranks, cases: launch(ranks, cases, folder))


@pytest.mark.parametrize("case", RUNS, ids=lambda case: f"{case[0]} on {case[3]}{' packed' if NF4 in case[4] else ''}")
def test_plan(case, measured, folder, record_property):
    planned, found = planned_mib(case, folder), measured.of(case)
    record_property("MiB", f"planned {planned:.1f}, measured {found:.1f}, {found / planned:.3f}")
    assert abs(found / planned - 1) <= TOLERANCE, f"planned {planned:.1f} MiB, measured {found:.1f}: {found / planned:.3f}"


def test_optimizer_leaves_while_sampling(folder, record_property):
    """With rl.offload_optimizer masters and moments are not on the device beside a large cache, and nothing else changes."""
    case = next(case for case in RUNS if case[0] == "qwen3_30b_a3b_grpo")
    ranks = case[3]
    settings = [*settings_of(case), "data.max_length=8192"]
    outputs = [folder / f"offload-{offload}" for offload in ("false", "true")]
    result = run_many(ranks, [["train", run_file(case, folder), *words_of([
        *settings, f"rl.offload_optimizer={output.name.removeprefix('offload-')}", f"run.output={output}"])] for output in outputs])
    assert result.returncode == 0, failure_text(result)
    stays, leaves = ([json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()] for output in outputs)
    assert [(line["loss"], line["grad_norm"]) for line in stays] == [(line["loss"], line["grad_norm"]) for line in leaves]
    text = run_well(None, ["train", run_file(case, folder), "--dry-run", "--world", ranks], [*settings, "rl.offload_optimizer=true"]).stdout
    states = float(re.search(r"its masters and moments, ([\d.]+) MiB", text)[1])
    less = (stays[-1]["memory_gib"] - leaves[-1]["memory_gib"]) * 1024
    record_property("MiB", f"planned {states:.1f} less, measured {less:.1f}")
    assert 0.9 * states < less < 1.1 * states
