"""Stages over packed weights (model.quantise): runs that compare answers, sample completions and distil log what the same runs log
over the decoded weights in plain form, which bitsandbytes decoded: the same completions, losses and gradients."""
import json
import pathlib
import shutil
import sys

import pytest
import torch
import transformers

from gradients import assert_within
from lora_runs import read_log
from packed_peers import STORAGES, pack_base
from program import Launches, failure_text, run, run_many, words_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHAT = ROOT / "examples/chat"
# What a completion is worth follows from its tokens alone: one token more or less changes the loss.
JUDGE = """import json, sys
for line in sys.stdin:
    print(sum(json.loads(line)["completion_ids"]) % 7, flush=True)
"""
SAMPLES = ["rl.group=4", "rl.max_new_tokens=6", "rl.beta=0.05", f"data.train=[{ROOT / 'examples/rl/days.jsonl'}]"]
STAGES = {
    "dpo": ["reference=base", f"data.train=[{ROOT / 'examples/preference/polite.jsonl'}]", "run.global_batch=4"],
    "grpo": SAMPLES,
    "ppo": [*SAMPLES, "rl.value_model=policy"],
    "gkd": ["distillation.lambda=1", "rl.max_new_tokens=6", f"data.train=[{CHAT / 'days.jsonl'}]"],
}
# stage, storage, ranks, settings
CASES = [("dpo", "nf4", 1, []), ("grpo", "nf4", 1, []), ("ppo", "nf4", 1, []), ("gkd", "int8", 1, []),
         ("grpo", "nf4", 2, ["parallel.tensor=2"]), ("dpo", "int8", 2, ["parallel.zero=3"])]
# Of what a log has of these; the reward and the length follow from the tokens alone.
LIMITS = {"loss": 1e-5, "grad_norm": 1e-4, "kl": 1e-4, "objective/kl": 1e-4, "rewards/margins": 1e-4, "reward": 1e-12,
          "completions/mean_length": 1e-12}
SAMPLER = "sampling/sampling_logp_difference/max"  # between the sampler's log-probabilities and the trainer's


def case_name(case):
    return " ".join([*case[:2], f"{case[2]} ranks", *case[3]])


@pytest.fixture(scope="module")
def models(folder):
    """A model with the example's tokenizer and the same with decoded weights, by storage; another one that teaches."""
    config = transformers.AutoConfig.for_model(**json.loads((CHAT / "config.json").read_text()))
    torch.manual_seed(5)
    found = {}
    plain = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    for storage in (None, "nf4", "int8", "teacher"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        if storage != "teacher":
            model.load_state_dict(plain.state_dict())
        if storage in STORAGES:
            pack_base(model, STORAGES[storage][1])
        found[storage] = folder / f"model-{storage}"
        model.save_pretrained(found[storage])
        for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copy(CHAT / name, found[storage])
    return found


def train_words(models, case, packed, output):
    stage, storage, _, settings = case
    path = output.parent / f"{output.name}.yaml"
    path.write_text(f"stage: {stage}\nmodel: {{dtype: fp32}}\ntuning: {{kind: lora, rank: 4, dropout: 0}}\n"
                    "data: {max_length: 128, packing: false}\noptimizer: {lr: 2.0e-3, schedule: constant}\n"
                    "run: {steps: 3, global_batch: 8, micro_batch: 1}\nsave: {every: 0}\nlog: {every: 1}\n")
    judge = output.parent / "judge.py"
    judge.write_text(JUDGE)
    rewards = [f'rl.rewards=["program:{sys.executable} {judge}"]'] if stage in ("grpo", "ppo") else []
    teacher = [f"distillation.teacher={models['teacher']}"] if stage == "gkd" else []
    model = [f"model.path={models[None]}", *STORAGES[storage][0]] if packed else [f"model.path={models[storage]}"]
    return ["train", path, *words_of([*STAGES[stage], *rewards, *teacher, *model, f"data.cache={output.parent / 'cache'}",
                                      f"run.output={output}", *(settings if packed else [])])]


@pytest.fixture(scope="module")
def runs(models, folder):
    """Logs by stage and storage of plain runs; of packed ones by case."""
    plain = {case[:2]: folder / f"plain-{case[0]}-{case[1]}" for case in CASES}
    result = run_many(None, [train_words(models, (*kind, 1, []), False, output) for kind, output in plain.items()])
    assert all((output / "final").exists() for output in plain.values()), failure_text(result)

    def launch(ranks, cases):
        outputs = [folder / f"packed-{ranks}-{number}" for number in range(len(cases))]
        result = run_many(ranks, [train_words(models, case, True, output) for case, output in zip(cases, outputs)])
        return [(output, plain[case[:2]], result) for case, output in zip(cases, outputs)]
    return Launches(CASES, lambda case: case[2], launch)


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_logs_what_plain_weights_log(case, runs, record_errors):
    output, plain, result = runs.of(case)
    assert (output / "final").exists(), failure_text(result)
    found, wanted = read_log(output), read_log(plain)
    assert len(found) == len(wanted) == 3
    errors = {name: max(abs(one[name] - other[name]) / max(abs(other[name]), 0.1) for one, other in zip(found, wanted))
              for name in LIMITS if name in wanted[0]}
    record_errors(errors)
    assert all(line["grad_norm"] > 1e-3 for line in wanted), "nothing is trained"
    assert_within(errors, {name: LIMITS[name] for name in errors})
    assert max(line.get(SAMPLER, 0) for line in found) < 1e-4


def test_refuses_another_layout_for_sampling(models, folder):
    words = train_words(models, ("grpo", "nf4", 1, ["rl.sampling.tensor=1", "rl.sampling.pipeline=2"]), True, folder / "refused")
    result = run(2, words)
    assert result.returncode == 2 and "leave rl.sampling out" in result.stderr, failure_text(result)
