"""Options of training, ten steps each under several layouts, against what defines them: torch's SGD and averaged weights,
Muon's published rule, transformers' Adafactor and label smoothing, bitsandbytes' 8-bit AdamW, the rule of TRL's DFT loss, Megatron's batch ramp-up,
groups of parameters with rates of their own. Runs of one number of ranks share a launch. NEFTune, whose noise is our own, is
compared between layouts; its rule is in tests/parallel."""
import json
import re
import shutil

import bitsandbytes
import pytest
import safetensors.torch
import torch
import transformers
from megatron.core.num_microbatches_calculator import RampupBatchsizeNumMicroBatchesCalculator
from transformers.optimization import Adafactor
from transformers.trainer_pt_utils import LabelSmoother
from trl.trainer.utils import selective_log_softmax

import steps
import tiny_models
from program import Launches, failure_text, run, run_many, words_of
from steps import COSINE, LIMITS

FAST = dict(COSINE, lr=5e-2, min_lr=0)  # plain gradients are small
RELATIVE = dict(COSINE, lr=1e-2, min_lr=0, schedule="relative_step", warmup=0.0)
SMOOTHING, Z = 0.1, 1e-2
EMA = 0.7
RATES = {r"embed_tokens": 0.1, r"layers\.[0-2]\..*down_proj": 3.0}  # the first that matches decides
LAYOUTS = {1: [[]], 2: [["parallel.tensor=2"], ["parallel.pipeline=2"], ["parallel.zero=3"]],
           4: [["parallel.tensor=2", "parallel.zero=2"]]}


class Muon(torch.optim.Optimizer):
    """As published, in fp32, with updates of AdamW's size (match_rms_adamw)."""

    def __init__(self, matrices, lr, momentum):
        super().__init__([{"params": matrices}], dict(lr=lr, momentum=momentum, weight_decay=steps.ADAMW["weight_decay"]))

    @staticmethod
    def orthogonal(x):
        a, b, c = 3.4445, -4.7750, 2.0315
        tall = x.shape[0] > x.shape[1]
        x = x.mT if tall else x
        x = x / x.norm().clamp(min=1e-7)
        for _ in range(5):
            gram = x @ x.mT
            x = a * x + (b * gram + c * gram @ gram) @ x
        return x.mT if tall else x

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                momentum = self.state[p].setdefault("momentum", torch.zeros_like(p))
                momentum.lerp_(p.grad, 1 - group["momentum"])
                update = self.orthogonal(p.grad.lerp(momentum, group["momentum"]))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update, alpha=-group["lr"] * 0.2 * max(p.shape) ** 0.5)


class Both(torch.optim.Optimizer):
    """Two optimizers as one."""

    def __init__(self, *several):
        self.several = several

    param_groups = property(lambda self: [group for one in self.several for group in one.param_groups])

    def step(self):
        for one in self.several:
            one.step()

    def zero_grad(self):
        for one in self.several:
            one.zero_grad()


def adamw(groups, lr):
    return torch.optim.AdamW(groups, lr=lr, betas=(steps.ADAMW["beta1"], steps.ADAMW["beta2"]), eps=steps.ADAMW["eps"])


def muon(momentum):
    def make(model):
        named = dict(model.named_parameters())
        matrices = {name for name, p in named.items() if p.dim() == 2 and "embed_tokens" not in name and "lm_head" not in name}
        others = [{"params": [p], "weight_decay": steps.ADAMW["weight_decay"] if p.dim() > 1 else 0.0}
                  for name, p in named.items() if name not in matrices]
        return Both(Muon([named[name] for name in sorted(matrices)], COSINE["lr"], momentum), adamw(others, COSINE["lr"]))
    return make


def by_name(model):
    groups = []
    for name, p in model.named_parameters():
        factor = next((factor for pattern, factor in RATES.items() if re.search(pattern, name)), 1.0)
        groups.append({"params": [p], "lr": COSINE["lr"] * factor,
                       "weight_decay": steps.ADAMW["weight_decay"] if p.dim() > 1 else 0.0})
    return adamw(groups, COSINE["lr"])


def smoothed(model, rows):
    """transformers' smoother means over a row's trained tokens."""
    tokens = tiny_models.trained_tokens(rows)
    for row in rows:
        if tiny_models.trained_tokens([row]) == 0:
            continue
        outputs = model(input_ids=torch.tensor([row["input_ids"]]))
        mean = LabelSmoother(epsilon=SMOOTHING)(outputs, torch.tensor([row["labels"]]), shift_labels=True)
        yield mean * (tiny_models.trained_tokens([row]) / tokens)


def with_z_loss(model, rows):
    tokens = tiny_models.trained_tokens(rows)
    for row, part in zip([row for row in rows if tiny_models.trained_tokens([row])], tiny_models.loss_parts(model, rows)):
        trained = torch.tensor(row["labels"][1:]) != -100
        logits = model(input_ids=torch.tensor([row["input_ids"]])).logits[0, :-1][trained].float()
        yield part + Z * logits.logsumexp(-1).square().sum() / tokens


def dft(model, rows):
    """The rule of TRL's loss_type dft, which is part of its trainer, with TRL's log-probabilities."""
    tokens = tiny_models.trained_tokens(rows)
    for row in [row for row in rows if tiny_models.trained_tokens([row])]:
        labels = torch.tensor(row["labels"][1:])
        trained = labels != -100
        logits = model(input_ids=torch.tensor([row["input_ids"]])).logits[0, :-1][trained].float()
        log_probs = selective_log_softmax(logits, labels[trained])
        yield -(log_probs * log_probs.exp().detach()).sum() / tokens


def adafactor(scale, relative=False, decay=0.8):
    def make(model):
        made = Adafactor(steps.parameter_groups(model), lr=None if relative else COSINE["lr"], relative_step=relative,
                         scale_parameter=scale, warmup_init=False, decay_rate=-decay)
        for group in made.param_groups:
            group["lr"] = RELATIVE["lr"] if relative else group["lr"]  # which the relative step does not read
        return made
    return make


def adam_8bit(model):
    return bitsandbytes.optim.AdamW8bit(steps.parameter_groups(model), lr=COSINE["lr"], eps=steps.ADAMW["eps"],
                                        betas=(steps.ADAMW["beta1"], steps.ADAMW["beta2"]))


def sgd(momentum):
    return lambda model: torch.optim.SGD(steps.parameter_groups(model), lr=FAST["lr"], momentum=momentum)


# name: family, schedule, settings, the peer's optimizer (None: AdamW), what its loss sums
OPTIONS_TRIED = {
    "sgd": ("qwen2", FAST, ["optimizer.name=sgd"], sgd(0), tiny_models.loss_parts),
    "sgd_momentum": ("qwen2", FAST, ["optimizer.name=sgd_momentum", "optimizer.sgd_momentum=0.8"], sgd(0.8),
                     tiny_models.loss_parts),
    "muon": ("qwen2", COSINE, ["optimizer.name=muon"], muon(0.95), tiny_models.loss_parts),
    "muon_momentum": ("qwen2", COSINE, ["optimizer.name=muon", "optimizer.muon_momentum=0.8"], muon(0.8), tiny_models.loss_parts),
    "adafactor": ("qwen2", COSINE, ["optimizer.name=adafactor"], adafactor(scale=False), tiny_models.loss_parts),
    "adafactor relative": ("qwen2", RELATIVE, ["optimizer.name=adafactor", "optimizer.adafactor_scale_parameter=true",
                                                "optimizer.adafactor_decay=0.6"], adafactor(scale=True, relative=True, decay=0.6), tiny_models.loss_parts),
    "8bit": ("qwen2", COSINE, ["optimizer.moments=8bit"], adam_8bit, tiny_models.loss_parts),
    "lr_by_name": ("qwen2", COSINE, [f"optimizer.lr_by_name={json.dumps([f'{k}={v}' for k, v in RATES.items()])}"], by_name,
                   tiny_models.loss_parts),
    "label_smoothing": ("qwen2", COSINE, [f"loss.label_smoothing={SMOOTHING}"], None, smoothed),
    "label_smoothing soft cap": ("gemma2", COSINE, [f"loss.label_smoothing={SMOOTHING}"], None, smoothed),
    "z_loss": ("qwen2", COSINE, [f"loss.z_coefficient={Z}"], None, with_z_loss),
    "dft": ("qwen2", COSINE, ["loss.kind=dft"], None, dft),
    "recompute_every": ("qwen2", COSINE, ["memory.recompute=full", "memory.recompute_every=2"], None, tiny_models.loss_parts),
}
OF_WHOLE_TENSORS = ["muon", "adafactor", "8bit"]
# A moment between two of the 256 values may become either of them.
LIMITS_OF = {"8bit": {**LIMITS, "loss": 2e-4, "grad_norm": 1e-2}}
FEW = {"gemma2": [(1, []), (2, ["parallel.tensor=2"])]}  # families that run under some layouts only
CASES = [(name, ranks, layout) for name in OPTIONS_TRIED for ranks in LAYOUTS for layout in LAYOUTS[ranks]
         if (ranks, layout) in FEW.get(OPTIONS_TRIED[name][0], [(ranks, layout)]) and (ranks < 4 or name in OF_WHOLE_TENSORS)
         and (ranks == 1 or name != "muon_momentum")]
# Compared between layouts: noise of our own, and experts, which the peer stacks. A router that scales the chosen experts' weights
# to a sum of 1 gives the others rounding errors for gradients, which adafactor makes as large as all others.
EQUAL = {"neftune": ("qwen2", COSINE, ["tuning.neftune_alpha=5"]),
         "neftune packed": ("qwen2", COSINE, ["tuning.neftune_alpha=5", "data.packing=true"]),
         "muon with experts": ("qwen3_moe", COSINE, ["optimizer.name=muon"]),
         "adafactor with experts": ("qwen2_moe", COSINE, ["optimizer.name=adafactor"]),
         "8bit with experts": ("qwen3_moe", COSINE, ["optimizer.moments=8bit"])}
EQUAL_LAYOUTS = [(1, ["run.micro_batch=2"]), (2, ["parallel.tensor=2"]), (2, ["parallel.tensor=2", "parallel.sequence=false"]),
                 (2, ["parallel.context=2"]), (2, ["parallel.expert=2"]), (4, ["parallel.tensor=2", "parallel.expert=2"])]
EQUAL_CASES = [(name, ranks, layout) for name in EQUAL for ranks, layout in [(1, []), *EQUAL_LAYOUTS]
               if ("expert" in str(layout)) <= ("moe" in EQUAL[name][0])]


def write_run(path, folder, family, optimizer, output):
    sections = {
        "device": "cpu", "model": {"path": str(folder / family), "dtype": "fp32"}, "tuning": {"kind": "full"},
        "data": {"train": [str(folder / "rows.jsonl")], "shuffle": False, "packing": False, "max_length": 64},
        "optimizer": {**optimizer, **steps.ADAMW},
        "run": {"steps": steps.STEPS, "global_batch": steps.BATCH, "output": str(output)},
        "save": {"every": 0}, "log": {"every": 1},
    }
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items()))
    return path


@pytest.fixture(scope="module")
def rows(folder):
    written = tiny_models.make_rows(steps.EPOCH + 1, shortest=8, seed=steps.SEED)
    tiny_models.write_rows(folder / "rows.jsonl", written)
    for family in sorted({case[0] for case in [*OPTIONS_TRIED.values(), *EQUAL.values()]}):
        tiny_models.write_model(tiny_models.config_of(family), folder / family)
    return [row for row in written if tiny_models.trained_tokens([row]) > 0]


def launch(ranks, cases, folder):
    outputs, commands = [], []
    for name, _, layout in cases:
        family, optimizer, settings = (OPTIONS_TRIED | EQUAL)[name][:3]
        output = folder / f"{name} {ranks} {' '.join(layout)}".strip().replace(" ", "-")
        path = write_run(folder / f"{output.name}.yaml", folder, family, optimizer, output)
        commands.append(["train", path, *words_of([*settings, *layout])])
        outputs.append(output)
    result = run_many(ranks if ranks > 1 else None, commands)
    missing = [output.name for output in outputs if not (output / "final").exists()]
    assert not missing, f"{missing}\n{failure_text(result)}"
    return outputs


@pytest.fixture(scope="module")
def launches(folder, rows):
    return Launches([*CASES, *EQUAL_CASES], lambda case: case[1], lambda ranks, cases: launch(ranks, cases, folder))


@pytest.fixture(scope="module")
def references(rows, folder):
    made = {}

    def of(name):
        if name not in made:
            family, optimizer, _, peer, parts = OPTIONS_TRIED[name]
            model = transformers.AutoModelForCausalLM.from_pretrained(folder / family, dtype=torch.float32)
            made[name] = steps.reference(model, rows, optimizer, peer and peer(model), parts)
        return made[name]

    return of


def read_log(output):
    return [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]


def name_of(case):
    return f"{case[0]} {case[1]} {' '.join(case[2])}".strip()


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_ten_steps(case, launches, references, record_errors):
    steps.assert_curve(read_log(launches.of(case)), references(case[0]), LIMITS_OF.get(case[0], LIMITS), record_errors)


@pytest.mark.parametrize("case", [case for case in EQUAL_CASES if case[1:] != (1, [])], ids=name_of)
def test_equal_under_every_layout(case, launches, record_errors):
    alone = next(other for other in EQUAL_CASES if other[0] == case[0])
    steps.assert_curve(read_log(launches.of(case)), read_log(launches.of(alone)), LIMITS_OF.get(case[0].split()[0], LIMITS),
                       record_errors)


def test_noise_changes_the_losses(launches, rows, folder):
    noisy = read_log(launches.of(next(case for case in EQUAL_CASES if case[0] == "neftune")))
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "qwen2", dtype=torch.float32)
    plain = steps.reference(model, rows, COSINE)
    changes = [abs(ours["loss"] - theirs["loss"]) / theirs["loss"] for ours, theirs in zip(noisy, plain)]
    assert max(changes) < 0.5 and min(changes[0], max(changes)) > 1e-4, changes


@pytest.mark.parametrize("ranks", [1, 2])
def test_averaged_weights(ranks, rows, folder, record_errors):
    """final/ has the average, checkpoints the weights; a run that stops in between averages on."""
    output = folder / f"ema-{ranks}"
    path = write_run(output.with_suffix(".yaml"), folder, "qwen2", COSINE, output)
    settings = [f"optimizer.ema={EMA}", *(["parallel.tensor=2", "parallel.zero=2"] if ranks > 1 else [])]
    last = ["train", path, *words_of([*settings, "save.every=4"])]
    # Ten steps, then again from the fourth: checkpoints after it are moved away.
    result = run_many(ranks if ranks > 1 else None, [last])
    assert (output / "final").exists(), failure_text(result)
    first = safetensors.torch.load_file(output / "final/model.safetensors")
    for gone in ("final", "checkpoint-8", "checkpoint-10"):
        (output / gone).rename(output.with_name(f"{output.name}-{gone}"))
    result = run_many(ranks if ranks > 1 else None, [last])
    assert (output / "final").exists(), failure_text(result)
    resumed = safetensors.torch.load_file(output / "final/model.safetensors")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "qwen2", dtype=torch.float32)
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(EMA))
    steps.reference(model, rows, COSINE, after_step=average.update_parameters)
    wanted, plain = average.module.state_dict(), model.state_dict()
    worst = max((first[name] - wanted[name]).abs().max().item() for name in first)
    record_errors({"weights": worst})
    assert worst < 2e-5, worst
    assert max((first[name] - plain[name]).abs().max().item() for name in first) > 2e-4, "the average is the weights"
    assert all(torch.equal(first[name], resumed[name]) for name in first), "another average after a stop"


RAMP = [1, 1, 6]  # to steps.BATCH


@pytest.fixture(scope="module")
def ramped(rows):
    """The rows of each step: as many as Megatron's calculator says, and at the end of an epoch what is left."""
    sizes = RampupBatchsizeNumMicroBatchesCalculator(steps.BATCH, 1, 1, False, 0, *RAMP)
    batches, consumed = [], 0
    for _ in range(steps.STEPS):
        sizes.update(consumed, consistency_check=False)
        begin = consumed % len(rows)
        batches.append(rows[begin:begin + sizes.get_current_global_batch_size()])
        consumed += len(batches[-1])
    assert len({len(batch) for batch in batches}) == steps.BATCH, "not every size occurs"
    return batches


# What a checkpoint has of it goes on under another layout. name: settings
RESUMED = {"adafactor": ["optimizer.name=adafactor"], "8bit": ["optimizer.moments=8bit"], "ramp": [f"run.batch_ramp={RAMP}"]}


@pytest.mark.parametrize("name", RESUMED)
def test_resumes(name, folder, ramped, references, rows, record_errors):
    """Ten steps under one layout, then again from the fourth under another. That of one layout has the same bits."""
    output = folder / f"resumed-{name}"
    path = write_run(output.with_suffix(".yaml"), folder, "qwen2", COSINE, output)
    words = ["train", path, *words_of([*RESUMED[name], "save.every=4"])]
    result = run(None, words)
    assert (output / "final").exists(), failure_text(result)
    first = safetensors.torch.load_file(output / "final/model.safetensors")
    for ranks in (1, 2):
        for gone in ("final", "checkpoint-8", "checkpoint-10"):
            shutil.rmtree(output / gone)
        result = run_many(ranks if ranks > 1 else None, [[*words, *words_of(["parallel.tensor=2"] if ranks > 1 else [])]])
        assert (output / "final").exists(), failure_text(result)
        if ranks == 1:
            again = safetensors.torch.load_file(output / "final/model.safetensors")
            assert all(torch.equal(first[key], again[key]) for key in first), "other weights after a stop"
    if name == "ramp":
        model = transformers.AutoModelForCausalLM.from_pretrained(folder / "qwen2", dtype=torch.float32)
        wanted = steps.reference(model, rows, COSINE, batches=ramped)
    else:
        wanted = references(name)
    steps.assert_curve(read_log(output), wanted, LIMITS_OF.get(name, LIMITS), record_errors)


REFUSED = [
    (["optimizer.name=muon", "optimizer.moments=8bit"], "optimizer.moments 8bit is for optimizer.name adamw"),
    (["device=npu", "optimizer.moments=8bit"], "optimizer.moments 8bit is for devices cpu and cuda"),
    (["optimizer.name=adafactor", "optimizer.moments=bf16"], "optimizer.moments = bf16 has no part in this run: optimizer.name is adafactor"),
    (["optimizer.name=adafactor", "memory.offload_optimizer=true"], "turn memory.offload_optimizer off"),
    (["optimizer.adafactor_clip=2"], "optimizer.adafactor_clip = 2.0 is for optimizer.name adafactor, not adamw"),
    (["run.batch_ramp=[2, 1]"], "run.batch_ramp has 2 numbers"),
    (["run.batch_ramp=[1, 2, 9]"], "does not lead to run.global_batch = 4"),
    (["run.batch_ramp=[1, 1, 9]", "stage=dpo"], "run.batch_ramp = [1, 1, 9] is for stages pt and sft, not dpo"),
    (["loss.kind=dft", "loss.z_coefficient=0.1"], "loss.z_coefficient = 0.1 is for loss.kind cross_entropy, not dft"),
    (["stage=dpo", "loss.label_smoothing=0.1"], "loss.label_smoothing = 0.1 is for stages pt and sft"),
    (["stage=dpo", "tuning.neftune_alpha=5"], "tuning.neftune_alpha = 5.0 is for stages pt and sft, not dpo"),
    (["memory.offload_activations=true"], "memory.offload_activations = true is for memory.recompute full, not none"),
    (["memory.offload_parameters=true"], "memory.offload_parameters = true is for parallel.zero 3, not 1"),
    (["memory.offload_parameters=true", "parallel.zero=3", "model.dtype=fp32"], "these weights are updated as they are"),
    (["memory.offload_parameters=true", "parallel.zero=3", "optimizer.masters=split"], "whose halves stay together"),
    (["parallel.replicas=2", "parallel.zero=0"], "does not divide the 1 data-parallel ranks"),
    (["memory.recompute_every=2"], "memory.recompute_every = 2 is for memory.recompute full"),
    (["optimizer.name=muon", "memory.offload_optimizer=true"], "optimizer.name muon gathers whole matrices"),
    (["optimizer.ema=0.9", "tuning.kind=lora"], "optimizer.ema = 0.9 is for tuning.kind full or freeze, not lora"),
    (["optimizer.lr_by_name=[nothing=2]"], "'nothing=2' is the first match of no trained parameter"),
    (["optimizer.lr_by_name=[embed_tokens]"], "is not REGEX=FACTOR"),
    (["optimizer.lr_by_name=['(=2']"], "is not a regular expression"),
    (["optimizer.lr_by_name=[q_proj.weight=2]"], "but they are one parameter here"),
    (["eval.early_stopping=2"], "eval.early_stopping = 2 counts evaluations"),
    (["save.final_from=best"], "save.final_from: best is the checkpoint with the lowest evaluation loss"),
    (["eval.early_stopping_threshold=1"], "eval.early_stopping_threshold = 1.0 has no part in this run: eval.early_stopping is 0"),
    (["run.steps=0", "run.epochs=0"], "run.epochs = 0 trains nothing"),
    (["eval.every_epoch=true"], "eval.every_epoch has nothing to evaluate on"),
    (["tuning.exclude=[q_proj]"], "tuning.exclude = [q_proj] is for tuning.kind freeze or lora, not full"),
    (["tuning.kind=lora", "tuning.targets=['re:(']"], "is not a regular expression"),
    (["tuning.kind=lora", "tuning.targets=['re:q_proj']"], "matches the whole name of no module"),
    (["tuning.kind=lora", "tuning.exclude=[q_prj]"], "nearest: 'q_proj'"),
    (["tuning.kind=lora", "tuning.targets=[q_proj]", "tuning.exclude=[q_proj]"], "leaves no module"),
]


@pytest.mark.parametrize("settings, wanted", REFUSED, ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_refused(settings, wanted, rows, folder):
    output = folder / "refused"
    result = run(None, ["train", write_run(folder / "refused.yaml", folder, "qwen2", COSINE, output)], settings)
    assert result.returncode == 2 and wanted in result.stderr, failure_text(result)
    assert not output.exists()
