"""Reward models against TRL's RewardTrainer, ten steps in fp32: loss, gradient norm and metrics of every step, every
gradient of the first; full and LoRA. What a run writes is loaded by transformers and PEFT and gives the same scores.
Then the same gradients under layouts: each equal to one rank's."""
import json
import math

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import preference_peers
import reward_peers as peers
import tiny_models
from gradients import assert_within
from program import Launches, failure_text, run, run_many, run_well, words_of

OPTIONS = ("device",)
LIMITS = {"loss": 2e-5, "norm": 1e-4, "metrics": 2e-5, "gradient": 1e-4}
LAYOUT = {"loss": 1e-5, "metrics": 1e-4, "gradient": 1e-4}
SCORE = {"score": 1e-5}
METRICS = ("accuracy", "margin", "mean_reward", "min_reward", "max_reward")
CENTER = 0.05
# name: family, margins, our settings, TRL's, whether by an adapter
CASES = {"full": ("llama", False, [], {}, False),
         "margin": ("llama", True, [], {}, False),
         "centred": ("llama", True, [f"preference.center_rewards={CENTER}"], dict(center_rewards_coefficient=CENTER), False),
         "tied": ("qwen2", True, [], {}, False),
         "lora": ("llama", True, [f"preference.center_rewards={CENTER}"], dict(center_rewards_coefficient=CENTER), True)}
# family, ranks, settings
LAYOUTS = [("llama", 1, ["run.micro_batch=4"]), ("llama", 2, ["parallel.tensor=2"]),
           ("llama", 2, ["parallel.tensor=2", "parallel.sequence=false", "run.micro_batch=2"]),
           ("llama", 2, ["parallel.pipeline=2"]), ("llama", 2, ["parallel.context=2"]),
           ("llama", 2, ["parallel.context=2", "parallel.context_method=ulysses", "run.micro_batch=2"]),
           ("llama", 2, ["parallel.zero=3", "run.micro_batch=4"]), ("llama", 2, ["parallel.zero=0", "memory.recompute=full"]),
           ("llama", 2, ["parallel.pipeline=2", "parallel.schedule=interleaved", "parallel.virtual_stages=2"]),
           ("llama", 2, ["parallel.pipeline=2", "parallel.schedule=dualpipev", "parallel.virtual_stages=2", "run.micro_batch=2"]),
           ("qwen3_moe", 1, ["run.micro_batch=4"]), ("qwen3_moe", 2, ["parallel.expert=2"]),
           ("qwen3_moe", 4, ["parallel.expert=2", "parallel.expert_tensor=2", "parallel.tensor=2"]),
           ("llama", 4, ["parallel.tensor=2", "parallel.context=2"]), ("llama", 4, ["parallel.pipeline=2", "parallel.zero=2"]),
           ("llama", 4, ["parallel.tensor=2", "parallel.pipeline=2", "parallel.schedule=zero_bubble"]), ("llama", 3, [])]
ON_NPU = [("llama", 1, ["run.micro_batch=4"]), ("llama", 2, ["parallel.tensor=2"]), ("llama", 2, ["parallel.context=2"]),
          ("llama", 2, ["parallel.zero=3"]), ("llama", 2, ["parallel.pipeline=2", "parallel.schedule=zero_bubble"]),
          ("qwen3_moe", 2, ["parallel.expert=2"])]
TEXTS = [side for row in peers.pairs(False) for side in (row["chosen_ids"], row["rejected_ids"])]


def relative(found, wanted):
    return abs(found - wanted) / max(abs(wanted), 1e-6)


def gradient_error(found, wanted):
    assert found.keys() == wanted.keys(), f"names differ: {sorted(found.keys() ^ wanted.keys())[:4]}"
    return max(((found[name] - wanted[name]).abs().max() / wanted[name].abs().max().clamp_min(1e-12)).item() for name in wanted)


def log_of(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def run_settings(folder, name, data, more):
    adamw = [f"optimizer.{key}={value}" for key, value in preference_peers.ADAMW.items()]
    return ["device=cpu", "stage=rm", "model.dtype=fp32", f"data.train=[{data}]", "data.shuffle=false", "data.packing=false",
            "data.max_length=64", f"data.cache={folder / 'cache'}", *adamw, f"optimizer.lr={preference_peers.LR}",
            "optimizer.schedule=constant", "optimizer.clip=0", f"run.steps={preference_peers.STEPS}",
            f"run.global_batch={preference_peers.BATCH}", "run.micro_batch=1", "save.every=0",
            f"run.output={folder / 'out' / name}", *more]


@pytest.fixture(scope="module")
def files(folder):
    """Reward models by family, an adapter, a causal model, rows with and without margins."""
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    for family in ("llama", "qwen2", "qwen3_moe"):
        peers.write_reward_model(family, folder / family)
    peers.write_adapter(folder / "llama", folder / "adapter")
    tiny_models.write_model(tiny_models.config_of("qwen2", **peers.SPECIAL), folder / "causal")
    for name, rows in (("plain", peers.pairs(False)), ("margins", peers.pairs(True))):
        tiny_models.write_rows(folder / f"{name}.jsonl", rows)
        tiny_models.write_rows(folder / f"{name}-4.jsonl", rows[:preference_peers.BATCH])
    tiny_models.write_rows(folder / "texts.jsonl", [{"input_ids": ids} for ids in TEXTS])
    return folder


@pytest.fixture(scope="module")
def runs(files, selected):
    """One launch trains all cases and gives the gradients of their first batches."""
    commands = []
    for name in dict.fromkeys([*selected(test_ten_steps), "margin", "lora"]):
        family, margins, ours, _, adapter = CASES[name]
        data = files / ("margins.jsonl" if margins else "plain.jsonl")
        tuning = ["tuning.kind=lora", f"tuning.adapters={files / 'adapter'}"] if adapter else ["tuning.kind=full"]
        (files / f"{name}.yaml").write_text("")
        commands.append(["train", files / f"{name}.yaml", *words_of(
            run_settings(files, name, data, [f"model.path={files / family}", *tuning, *ours]))])
        commands.append(["grads", "--model", files / family, "--rows", data.with_stem(f"{data.stem}-4"),
                         "--out", files / f"{name}.safetensors", *(["--adapters", files / "adapter"] if adapter else []),
                         *words_of(["device=cpu", "stage=rm", *ours])])
    result = run_many(1, commands)
    assert result.returncode == 0, failure_text(result)
    return files


@pytest.mark.devices("cpu")
@pytest.mark.parametrize("case", CASES)
def test_ten_steps(case, runs, record_errors):
    family, margins, _, theirs, adapter = CASES[case]
    model = (peft.PeftModel.from_pretrained(peers.load(runs / family), runs / "adapter", is_trainable=True) if adapter
             else peers.load(runs / family))
    log, gradients = peers.train(model, peers.pairs(margins), runs / "trl", **theirs)
    for word in (".default", ".modules_to_save"):
        gradients = {name.replace(word, ""): value for name, value in gradients.items()}
    found = log_of(runs / "out" / case)
    assert len(found) == len(log) == preference_peers.STEPS
    errors = {"loss": max(relative(a["loss"], b["loss"]) for a, b in zip(found, log)),
              "norm": max(relative(a["grad_norm"], b["grad_norm"]) for a, b in zip(found, log)),
              "metrics": max(abs(a[name] - b[name]) / max(1, abs(b[name])) for a, b in zip(found, log) for name in METRICS),
              "gradient": gradient_error(load_file(runs / f"{case}.safetensors"), gradients)}
    record_errors(errors)
    assert_within(errors, LIMITS)


def scores_of(words, settings=(), ranks=None):
    result = run_well(ranks, ["score", *words], ["device=cpu", *settings])
    return [json.loads(line)["score"] for line in result.stdout.splitlines() if line.startswith("{")]


def assert_scores(found, wanted, record_errors):
    assert len(found) == len(wanted)
    assert max(wanted) - min(wanted) > 0.1, "equal scores would show little"
    errors = {"score": max(abs(a - b) / max(1, abs(b)) for a, b in zip(found, wanted))}
    record_errors(errors)
    assert_within(errors, SCORE)


@pytest.mark.devices("cpu")
def test_transformers_loads_what_a_run_writes(runs, record_errors):
    """A reward model, and what `convert` makes of its checkpoint and back."""
    final = runs / "out" / "margin" / "final"
    config = json.loads((final / "config.json").read_text())
    assert config["architectures"] == ["LlamaForSequenceClassification"] and len(config["id2label"]) == 1
    assert "score.weight" in load_file(final / "model.safetensors") and "lm_head.weight" not in load_file(final / "model.safetensors")
    wanted = peers.scores(peers.load(final), TEXTS)
    data = ["--data", runs / "texts.jsonl"]
    assert_scores(scores_of(["--model", final, *data]), wanted, record_errors)
    for source, target, more in ((final, "kept", ["--verify"]), (runs / "kept", "back", ["--verify"])):
        run_well(None, ["convert", "--from", source, "--to", runs / target, *more])
        assert_scores(scores_of(["--model", runs / target, *data]), wanted, record_errors)
    assert load_file(runs / "back" / "model.safetensors").keys() == load_file(final / "model.safetensors").keys()


@pytest.mark.devices("cpu")
def test_peft_loads_the_head_of_an_adapter(runs, record_errors):
    """PEFT's scores are those of the adapter, and of the model it is merged into."""
    final = runs / "out" / "lora" / "final"
    assert json.loads((final / "adapter_config.json").read_text())["modules_to_save"] == ["score"]
    wanted = peers.scores(peft.PeftModel.from_pretrained(peers.load(runs / "llama"), final), TEXTS)
    data = ["--data", runs / "texts.jsonl"]
    assert_scores(scores_of(["--model", runs / "llama", "--adapters", final, *data]), wanted, record_errors)
    run_well(None, ["merge", "--model", runs / "llama", "--adapters", final, "--to", runs / "merged"])
    assert_scores(peers.scores(peers.load(runs / "merged"), TEXTS), wanted, record_errors)


@pytest.mark.devices("cpu")
@pytest.mark.parametrize("kind", ["full", "freeze", "lora"])
def test_a_causal_model_gets_a_head(kind, files, record_errors):
    """Drawn from the seed, the same on any layout; the tied lm_head is gone from what is written."""
    tuning = {"full": ["tuning.kind=full"], "freeze": ["tuning.kind=freeze", "tuning.targets=[all]", "tuning.last_layers=1"],
              "lora": ["tuning.kind=lora", "tuning.rank=4", "tuning.dropout=0"]}[kind]
    (files / "causal.yaml").write_text("")
    logs = []
    for ranks, layout in ((1, []), (2, ["parallel.tensor=2"])):
        settings = [*run_settings(files, f"causal-{kind}-{ranks}", files / "margins.jsonl",
                                  [f"model.path={files / 'causal'}", *tuning, *layout]), "run.steps=3"]
        result = run_well(ranks, ["train", files / "causal.yaml"], settings)
        assert "score.weight is new, drawn from run.seed = 42" in result.stdout + result.stderr
        logs.append(log_of(files / "out" / f"causal-{kind}-{ranks}"))
    errors = {"loss": max(relative(a["loss"], b["loss"]) for a, b in zip(*logs)), "metrics": max(
        abs(a[name] - b[name]) / max(1, abs(b[name])) for a, b in zip(*logs) for name in METRICS)}
    record_errors(errors)
    assert_within(errors, {kind: LAYOUT[kind] for kind in errors})
    final = files / "out" / f"causal-{kind}-1" / "final"
    words = ["--model", files / "causal", "--adapters", final] if kind == "lora" else ["--model", final]
    found = scores_of([*words, "--data", files / "texts.jsonl"])
    if kind == "lora":
        base = peers.CLASSIFIER.from_pretrained(files / "causal", dtype=torch.float32, num_labels=1)
        wanted = peers.scores(peft.PeftModel.from_pretrained(base, final), TEXTS)
        run_well(None, ["merge", "--model", files / "causal", "--adapters", final, "--to", files / "causal-merged"])
        assert_scores(peers.scores(peers.load(files / "causal-merged"), TEXTS), wanted, record_errors)
    else:
        wanted = peers.scores(peers.load(final), TEXTS)
    assert_scores(found, wanted, record_errors)


@pytest.mark.devices("cpu")
def test_value_head_of_llama_factory(files, record_errors):
    """A causal model with value_head.safetensors: its bias counts in scores."""
    model = transformers.AutoModelForCausalLM.from_pretrained(files / "causal", dtype=torch.float32)
    model.save_pretrained(files / "factory")
    torch.manual_seed(4)
    weight, bias = torch.randn(1, model.config.hidden_size) * 0.2, torch.tensor([0.75])
    save_file({"v_head.summary.weight": weight, "v_head.summary.bias": bias}, files / "factory" / "value_head.safetensors")
    with torch.no_grad():
        wanted = [(model.model(torch.tensor([ids])).last_hidden_state[0, -1] @ weight[0] + bias).item() for ids in TEXTS]
    assert_scores(scores_of(["--model", files / "factory", "--data", files / "texts.jsonl"]), wanted, record_errors)
    run_well(None, ["convert", "--from", files / "factory", "--to", files / "factory-kept"])
    assert_scores(scores_of(["--model", files / "factory-kept", "--data", files / "texts.jsonl"]), wanted, record_errors)
    (files / "factory.yaml").write_text("")
    result = run_well(1, ["train", files / "factory.yaml"], [*run_settings(
        files, "factory", files / "plain.jsonl", [f"model.path={files / 'factory'}", "tuning.kind=full"]), "run.steps=1",
        "optimizer.lr=0"])
    assert "its bias 0.75 is left out" in result.stdout + result.stderr
    found = scores_of(["--model", files / "out" / "factory" / "final", "--data", files / "texts.jsonl"])
    assert_scores(found, [score - 0.75 for score in wanted], record_errors)


@pytest.mark.devices("cpu")
@pytest.mark.parametrize("ranks, layout", [(2, ["parallel.tensor=2"]), (2, ["parallel.pipeline=2", "run.micro_batch=3"]),
                                           (2, ["parallel.context=2"]), (3, [])], ids=str)
def test_scores_under_layouts(ranks, layout, files, record_errors):
    wanted = peers.scores(peers.load(files / "llama"), TEXTS)
    assert_scores(scores_of(["--model", files / "llama", "--data", files / "texts.jsonl"], layout, ranks), wanted, record_errors)


def grads_words(files, family, settings, out, device):
    return ["grads", "--model", files / family, "--rows", files / "margins.jsonl", "--out", out,
            *words_of([f"device={device}", "stage=rm", f"preference.center_rewards={CENTER}", *settings])]


def launch_layouts(ranks, cases, files, device):
    """What each case printed, and its gradients."""
    outs = [files / f"{device}-{ranks}-{number}.safetensors" for number in range(len(cases))]
    result = run_many(ranks, [grads_words(files, family, settings, out, device)
                              for (family, _, settings), out in zip(cases, outs)])
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert result.returncode == 0 and len(lines) == len(cases), failure_text(result)[-3000:]
    return [(line, load_file(out)) for line, out in zip(lines, outs)]


@pytest.fixture(scope="module")
def plain(files):
    """One rank, one pair at a time, on the cpu."""
    families = ("llama", "qwen3_moe")
    found = launch_layouts(1, [(family, 1, ["run.micro_batch=1"]) for family in families], files, "cpu")
    return dict(zip(families, found))


@pytest.fixture(scope="module")
def launches(selected, files, device):
    cases = [case for function in (test_layouts, test_layouts_on_npu) for case in selected(function)]
    return Launches(cases, lambda case: case[1], lambda ranks, cases: launch_layouts(ranks, cases, files, device))


def assert_same_as_one_rank(case, launches, plain, record_errors):
    line, gradients = launches.of(case)
    wanted, wanted_gradients = plain[case[0]]
    errors = {"loss": relative(line["loss"], wanted["loss"]),
              "metrics": max(abs(line[name] - wanted[name]) / max(1, abs(wanted[name])) for name in METRICS),
              "gradient": gradient_error(gradients, wanted_gradients)}
    record_errors(errors)
    assert_within(errors, LAYOUT)


def case_name(case):
    return f"{case[0]} {case[1]} ranks {' '.join(case[2])}".strip()


@pytest.mark.devices("cpu")
@pytest.mark.parametrize("case", LAYOUTS, ids=case_name)
def test_layouts(case, launches, plain, record_errors):
    assert_same_as_one_rank(case, launches, plain, record_errors)


@pytest.mark.devices("npu")
@pytest.mark.parametrize("case", ON_NPU, ids=case_name)
def test_layouts_on_npu(case, launches, plain, record_errors):
    assert_same_as_one_rank(case, launches, plain, record_errors)


@pytest.mark.devices("cpu")
def test_packing_changes_nothing(files, record_errors):
    """All pairs in one batch, packed or not, are the same step."""
    commands = []
    for packing in ("false", "true"):
        (files / "packed.yaml").write_text("")
        commands.append(["train", files / "packed.yaml", *words_of([
            *run_settings(files, f"packed-{packing}", files / "margins.jsonl",
                          [f"model.path={files / 'llama'}", "tuning.kind=full"]),
            f"data.packing={packing}", "run.global_batch=12", "run.steps=3", "run.micro_batch=2"])])
    result = run_many(2, commands)
    assert result.returncode == 0, failure_text(result)
    apart, packed = (log_of(files / "out" / f"packed-{packing}") for packing in ("false", "true"))
    assert len(apart) == len(packed) == 3
    errors = {"loss": max(relative(a["loss"], b["loss"]) for a, b in zip(apart, packed))}
    record_errors(errors)
    assert_within(errors, {"loss": LAYOUT["loss"]})
    assert math.isfinite(errors["loss"])
