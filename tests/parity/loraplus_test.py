"""LoRA+: ten steps of `trireme train` with tuning.loraplus_lr_ratio against PEFT's create_loraplus_optimizer; and that it
is refused where there are no pairs."""
import peft.optimizers
import pytest
import torch

import steps
import tiny_models
from lora_adapters import load_tuned
from lora_runs import TRAINED, adapted, read_log, train_rows, train_words  # noqa: F401  fixtures
from program import failure_text, run, run_many

RATIO = 6.0
RUNS = {1: [], 2: ["parallel.tensor=2", "parallel.zero=1"]}  # settings by ranks


@pytest.fixture(scope="module")
def wanted(adapted):
    """PEFT's log, and that of the same rate for A and B."""
    rows = [row for row in TRAINED if tiny_models.trained_tokens([row]) > 0]
    tuned = load_tuned(adapted("patterns"))
    adamw = peft.optimizers.create_loraplus_optimizer(
        model=tuned, optimizer_cls=torch.optim.AdamW, lr=steps.COSINE["lr"], loraplus_lr_ratio=RATIO,
        betas=(steps.ADAMW["beta1"], steps.ADAMW["beta2"]), eps=steps.ADAMW["eps"],
        loraplus_weight_decay=steps.ADAMW["weight_decay"])
    return steps.reference(tuned, rows, steps.COSINE, adamw), steps.reference(load_tuned(adapted("patterns")), rows, steps.COSINE)


@pytest.mark.parametrize("ranks", RUNS)
def test_ten_steps(ranks, adapted, train_rows, wanted, record_errors):
    one, output = adapted("patterns"), train_rows.parent / f"loraplus-{ranks}"
    words = train_words(one, train_rows, output, [f"tuning.adapters={one.adapter}", f"tuning.loraplus_lr_ratio={RATIO}",
                                                  *RUNS[ranks]])
    result = run_many(ranks if ranks > 1 else None, [words])
    assert (output / "final").exists(), failure_text(result)
    steps.assert_curve(read_log(output), wanted[0], steps.LIMITS, record_errors)
    last, plain = read_log(output)[-1]["loss"], wanted[1][-1]["loss"]
    assert abs(last - plain) > 1e-3 * plain, "the ratio changes nothing that this test would notice"


def test_refused_without_pairs(adapted, train_rows):
    output = train_rows.parent / "refused"
    words = train_words(adapted("patterns"), train_rows, output, ["tuning.kind=full", "tuning.loraplus_lr_ratio=2"])
    result = run(None, words)
    assert result.returncode == 2 and "tuning.loraplus_lr_ratio = 2 is for tuning.kind lora" in result.stderr, \
        failure_text(result)
    assert not output.exists()
