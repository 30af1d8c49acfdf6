"""How often the host waits for the device in a training step: once, for the norm of the gradients, which decides about the
update; with experts once more for what is logged of their routers, on one rank or several. Nothing is copied from pageable
memory, and what is copied to the host after the wait is complete. Counted by the twin (TWIN_HOST_WAITS), over the steps of a
longer run that a shorter one does not have. Experts over several ranks exchange tokens in sizes that the steps before had: a
step that does not fit is repeated, and gives what exact sizes give."""
import json

import pytest

from program import BUILD, failure_text, run_many, start, words_of

FEW, MANY = 1, 6
MICRO_BATCHES = 2
DENSE = dict(model_type="qwen3", hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
             intermediate_size=64, vocab_size=256, tie_word_embeddings=False, rms_norm_eps=1e-6, hidden_act="silu",
             rope_theta=10000.0, max_position_embeddings=512)
EXPERTS = DENSE | dict(model_type="qwen3_moe", moe_intermediate_size=32, num_experts=8, num_experts_per_tok=2, norm_topk_prob=True,
                       decoder_sparse_step=1, mlp_only_layers=[])
LORA = ["tuning.kind=lora", "tuning.rank=4", "tuning.targets=[all-linear]", "tuning.dropout=0.1"]
# name, ranks, model, settings; per step and rank at most: waits, and copies to the host after them (the norm, the loss, the
# routers' statistics).
CASES = [
    ("dense", 1, DENSE, [], 1, 2),
    ("lora, packed, recomputed", 1, DENSE, [*LORA, "data.packing=true", "memory.recompute=full"], 1, 2),
    ("tensor parallel", 2, DENSE, ["parallel.tensor=2"], 1, 2),
    ("experts", 1, EXPERTS, ["memory.recompute=selective"], 2, 3),
    ("experts of limited capacity", 2, EXPERTS, ["parallel.expert=2", "experts.overflow=drop", "experts.capacity=0.75"], 2, 3),
    ("experts over ranks", 2, EXPERTS, ["parallel.expert=2"], 2, 3),
]


def count(case, steps, folder):
    """Of the rank that counted most."""
    name, ranks, model, settings = case[:4]
    here = folder / f"{name}-{steps}"
    here.mkdir()
    (here / "config.json").write_text(json.dumps(model))
    ids = [[(7 * row + i) % 250 for i in range(32)] for row in range(16)]
    (here / "rows.jsonl").write_text("".join(json.dumps({"input_ids": row, "labels": row}) + "\n" for row in ids))
    batch = 2 * MICRO_BATCHES * (ranks if "parallel.expert=2" in settings else 1)
    (here / "run.yaml").write_text(
        f"model: {{path: '{here}', init: random, dtype: fp32}}\ntuning: {{kind: full}}\n"
        f"data: {{train: ['{here / 'rows.jsonl'}'], max_length: 64, packing: false, cache: '{here / 'cache'}'}}\n"
        f"run: {{output: '{here / 'out'}', steps: {steps}, global_batch: {batch}, micro_batch: 2}}\n"
        "save: {every: 0}\nlog: {every: 100}\n")
    result = start(ranks if ranks > 1 else None, [BUILD / "trireme", "train", here / "run.yaml", *words_of(["device=npu", *settings])],
                   variables={"TWIN_HOST_WAITS": str(here / "waits")})
    assert result.returncode == 0, failure_text(result)
    found = [json.loads(line) for line in (here / "waits").read_text().splitlines()]
    assert len(found) == ranks
    return {what: max(line.get(what, 0) for line in found) for line in found for what in line if what != "pid"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_waits_per_step(case, folder, record_property):
    few, many = count(case, FEW, folder), count(case, MANY, folder)
    per_step = {what: (many[what] - few.get(what, 0)) / (MANY - FEW) for what in many}
    per_step = {what: calls for what, calls in per_step.items() if calls}
    record_property("per step", json.dumps(per_step))
    assert few["aclrtSynchronizeStream"] > 0, "nothing was counted"

    def calls_of(begin, end):
        return sum(calls for what, calls in per_step.items() if what.startswith(begin) and what.endswith(end))
    # A wait for what is already computed is none: the shorter run may have missed those of its steps.
    missed = 2 * FEW / (MANY - FEW)
    assert calls_of("aclrtSynchronize", "") <= case[4] + missed, str(per_step)
    assert calls_of("", "to host") <= case[5], str(per_step)
    assert calls_of("", "from host") == 0, str(per_step)


CROWDED = 3  # the step whose tokens all choose the same experts
STEPS = 5


def train_command(exchange, folder):
    """Short rows of many tokens; in one step long ones of a single token."""
    batch = 2 * MICRO_BATCHES * 2
    ids = [[5] * 64 if row // batch + 1 == CROWDED else [(7 * row + i) % 250 for i in range(16)] for row in range(STEPS * batch)]
    (folder / "config.json").write_text(json.dumps(EXPERTS))
    (folder / "crowded.jsonl").write_text("".join(json.dumps({"input_ids": row, "labels": row}) + "\n" for row in ids))
    path = folder / f"{exchange}.yaml"
    path.write_text(
        f"model: {{path: '{folder}', init: random, dtype: fp32}}\ntuning: {{kind: full}}\n"
        f"data: {{train: ['{folder / 'crowded.jsonl'}'], max_length: 64, packing: false, shuffle: false, cache: '{folder / 'cache'}'}}\n"
        f"run: {{output: '{folder / exchange}', steps: {STEPS}, global_batch: {batch}, micro_batch: 2}}\n"
        "save: {every: 0}\nlog: {every: 1}\n")
    return ["train", path, *words_of(["device=npu", "parallel.expert=2", f"experts.exchange={exchange}"])]


def test_a_step_that_does_not_fit_is_repeated(folder, record_property):
    result = run_many(2, [train_command(exchange, folder) for exchange in ("exact", "expected")])
    assert result.returncode == 0, failure_text(result)
    exact, expected = ([json.loads(line) for line in (folder / name / "log.jsonl").read_text().splitlines()]
                       for name in ("exact", "expected"))
    assert [line["experts"].pop("repeated_steps", 0) for line in expected] == [int(step >= CROWDED) for step in range(1, STEPS + 1)]
    assert "the step is repeated with exact sizes" in result.stderr
    worst = 0
    for wanted, found in zip(exact, expected, strict=True):
        assert found["experts"]["tokens_per_expert"] == wanted["experts"]["tokens_per_expert"]
        worst = max([worst, *(abs(found[name] / wanted[name] - 1) for name in ("loss", "grad_norm"))])
    record_property("worst", worst)
    assert worst <= 1e-5, f"the steps differ by {worst}"
