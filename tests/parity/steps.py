"""Ten steps of training by transformers with torch's AdamW and clip_grad_norm_: the log that they would write, and how a
run's log is compared with it."""
import math

import torch

import tiny_models
from gradients import assert_within

STEPS, BATCH, EPOCH = 10, 4, 12  # EPOCH: rows that train something; steps take them in turn and start over
# Seed 5 has an embedding element whose gradient is all rounding: AdamW turns its sign into a whole step, and norms part
# by 2e-4 under another order of sums. With seed 7 fp32 stays within 2e-6 of fp64 for all three families.
SEED = 7
# Measured on transformers: fp32 strays from fp64 by 1e-7 (loss) and 8e-7 (norm). What is to be caught: decay of norms
# and biases 2.4e-4, an eps of 1e-6 1.9e-4, a beta2 of 0.951 2.5e-5.
LIMITS = {"loss": 2e-5, "grad_norm": 1e-4, "learning_rate": 1e-6, "tokens": 0}
# Measured: transformers in bf16, with gradient sums and the optimizer in fp32, strays by 1e-3 (loss), 8e-3 (norm).
BF16_LIMITS = {"loss": 5e-3, "grad_norm": 5e-2, "learning_rate": 1e-6, "tokens": 0}
LOGGED = {"step", "loss", "grad_norm", "learning_rate", "tokens", "tokens_per_second", "step_seconds", "mfu",
          "memory_gib", "epoch", "elapsed_seconds", "remaining_seconds"}
ADAMW = dict(beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1)
# The norms are 2 to 6: every step is clipped, some are, none is.
COSINE = dict(lr=1e-3, min_lr=1e-4, schedule="cosine", warmup=0.2, clip=1.0)


def learning_rate(optimizer, step):
    """Of step 1, 2, …: a straight rise to lr, then as Hugging Face's schedules fall: the step after the last would have
    min_lr."""
    rise, low, high = round(optimizer["warmup"] * STEPS), optimizer["min_lr"], optimizer["lr"]
    if optimizer["schedule"] == "relative_step":
        return min(high, step ** -0.5)
    if step <= rise:
        return high * step / rise
    way = (step - 1 - rise) / (STEPS - rise)
    fall = {"constant": 0.0, "linear": way, "cosine": (1 - math.cos(math.pi * way)) / 2}[optimizer["schedule"]]
    return high - (high - low) * fall


def parameter_groups(model):
    """Decay spares what has one dim: norms and biases."""
    return [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": ADAMW["weight_decay"]},
            {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0}]


def reference(model, rows, optimizer, adamw=None, parts=tiny_models.loss_parts, after_step=lambda model: None, batches=None):
    """The log that transformers and torch would write. adamw: an optimizer of the model's parameters, whose groups'
    rates keep their proportions. parts(model, rows): what is summed to the loss. batches: the rows of each step, if they
    are not BATCH in turn."""
    if adamw is None:
        adamw = torch.optim.AdamW(parameter_groups(model), lr=optimizer["lr"], betas=(ADAMW["beta1"], ADAMW["beta2"]),
                                  eps=ADAMW["eps"])
    shares = [group["lr"] / optimizer["lr"] for group in adamw.param_groups]
    log = []
    for step in range(1, STEPS + 1):
        for group, share in zip(adamw.param_groups, shares):
            group["lr"] = share * learning_rate(optimizer, step)
        batch = batches[step - 1] if batches else [rows[((step - 1) * BATCH + index) % len(rows)] for index in range(BATCH)]
        loss, tokens = tiny_models.backward(model, batch, parts)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), optimizer["clip"] or math.inf).item()
        adamw.step()
        adamw.zero_grad()
        after_step(model)
        log.append({"step": step, "loss": loss, "grad_norm": norm, "tokens": tokens,
                    "learning_rate": learning_rate(optimizer, step)})
    return log


def assert_curve(log, wanted, limits, record_errors):
    """Steps, fields, and the largest relative error of each field."""
    steps = [line.get("step") for line in log]
    assert steps == [line["step"] for line in wanted]
    missing = sorted(LOGGED - set.intersection(*(set(line) for line in log)))
    assert not missing, f"a line of the log lacks {missing}"
    errors = {}
    for field in limits:
        each = [abs(line[field] - right[field]) / abs(right[field]) for line, right in zip(log, wanted)]
        errors[field] = max(error if math.isfinite(error) else 1e9 for error in each)
    record_errors(errors)
    assert_within(errors, limits)
