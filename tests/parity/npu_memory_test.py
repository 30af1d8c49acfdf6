"""The memory plan of `--dry-run` against what the twin's devices hold: every run of examples/ascend with its model and
its layout scaled down, the peak of a step within 5 % of the plan. Stages that compare answers are not: `bench step` has no
pairs to run them on."""
import json
import pathlib
import re

import pytest
import yaml

from program import Launches, failure_text, run_many, run_well, words_of

TOLERANCE = 0.05
TOKENS = 512
SIZES = dict(hidden_size=512, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=1, head_dim=128,
             intermediate_size=1536, vocab_size=2048)
EXPERTS = dict(moe_intermediate_size=192, num_experts=16, num_experts_per_tok=4)
LATENT = dict(num_key_value_heads=4, moe_intermediate_size=256, n_routed_experts=16,
              num_experts_per_tok=4, n_group=4, topk_group=2, first_k_dense_replace=1, q_lora_rank=128,
              kv_lora_rank=64, head_dim=None)
# run, model whose config is scaled down, its sizes, ranks, the layout of so few ranks
RUNS = [
    ("qwen3_8b_lora", "qwen3-8b", SIZES, 1, []),
    ("qwen3_8b_lora", "qwen3-8b", SIZES, 2, []),
    ("qwen2_7b_lora", "qwen2-7b", SIZES, 1, []),
    ("qwen2.5_14b_lora", "qwen2.5-14b", SIZES, 1, []),
    ("llama3_8b_pretrain", "llama-3-8b", SIZES, 2, []),
    ("qwen3_32b_full", "qwen3-32b", SIZES, 2, ["parallel.tensor=2"]),
    ("qwen3_30b_a3b_pretrain", "qwen3-30b-a3b", SIZES | EXPERTS, 2, ["parallel.expert=2"]),
    ("deepseek_v3_pretrain", "deepseek-v3", SIZES | LATENT, 4, ["parallel.pipeline=2", "parallel.expert=2"]),
]


def test_every_run_is_here():
    stages = {path.stem: yaml.safe_load(path.read_text())["stage"] for path in pathlib.Path("examples/ascend").glob("*.yaml")}
    assert {name for name, stage in stages.items() if stage in ("pt", "sft")} == {case[0] for case in RUNS}


def model_of(case, folder):
    """The model's config, scaled down."""
    _, model, sizes, _, _ = case
    config = json.loads(pathlib.Path("examples/configs", model, "config.json").read_text())
    config |= {key: value for key, value in sizes.items() if value is not None and (key in config or key in SIZES)}
    if sizes.get("head_dim", 0) is None:
        config.pop("head_dim", None)
    path = folder / model
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    return path


def settings_of(case):
    """Of the run: everything that decides about memory."""
    name, _, _, ranks, layout = case
    run = yaml.safe_load(pathlib.Path("examples/ascend", f"{name}.yaml").read_text())
    sections = {"tuning": run["tuning"], "memory": run["memory"], "parallel": run.get("parallel", {})}
    settings = ["device=npu", "model.dtype=bf16", f"data.max_length={TOKENS}", "comm.buffer_mb=1",
                "run.micro_batch=1", f"run.global_batch={ranks if 'pipeline' not in sections['parallel'] else 4 * ranks}"]
    for section, keys in sections.items():
        settings += [f"{section}.{key}={json.dumps(value) if isinstance(value, (bool, list)) else value}"
                     for key, value in keys.items()]
    return [*settings, "tuning.dropout=0", *layout]


def planned_mib(case, folder):
    """The largest rank's, without communicators, which are not tensors."""
    _, _, _, ranks, _ = case
    path = model_of(case, folder)
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps({"input_ids": [1] * TOKENS, "labels": [1] * TOKENS}) + "\n" for _ in range(32)))
    run = folder / f"{case[0]}.yaml"
    run.write_text(f"model: {{path: {path}, init: random}}\ndata: {{train: [{rows}]}}\n"
                   f"run: {{output: {folder / 'out'}, steps: 1}}\n")
    text = run_well(None, ["train", run, "--dry-run", "--world", ranks], settings_of(case)).stdout
    table = text[text.index("memory per rank, in MiB"):].splitlines()[1:]
    titles = table[0].split()
    largest = 0
    for line in table[1:]:
        if not re.fullmatch(r"\s+[\d,-]+(\s+[\d.]+)+", line):
            break
        row = dict(zip(titles[1:], map(float, line.split()[1:])))
        largest = max(largest, row["device"] - row["communicators"])
    return largest


def launch(ranks, cases, folder):
    commands = [["bench", "step", "--model", model_of(case, folder), "--steps", 1, *words_of(settings_of(case))]
                for case in cases]
    result = run_many(ranks, commands)
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == len(cases), failure_text(result)
    return [(line["states_gib"] + line["activations_gib"]) * 1024 for line in lines]


@pytest.fixture(scope="module")
def measured(selected, folder):
    return Launches(selected(test_plan), lambda case: case[3], lambda ranks, cases: launch(ranks, cases, folder))


@pytest.mark.parametrize("case", RUNS, ids=lambda case: f"{case[0]} on {case[3]}")
def test_plan(case, measured, folder, record_property):
    planned, found = planned_mib(case, folder), measured.of(case)
    record_property("MiB", f"planned {planned:.1f}, measured {found:.1f}, {found / planned:.3f}")
    assert abs(found / planned - 1) <= TOLERANCE, f"planned {planned:.1f} MiB, measured {found:.1f}: {found / planned:.3f}"
