"""Rows that are hard for the fused attention of device npu, through the whole program, against the cpu: documents of one
token, ten thousand in a row, lengths that differ by rank, heads that the operator does not take; and documents without
tokens, which are refused."""
import pytest
from safetensors.torch import load_file

import tiny_models
from gradients import assert_within, largest_error, relative
from program import failure_text, run, run_grads, words_of

LIMITS = {"loss": 1e-5, "gradient": 1e-4}
MANY = 10_000


def row_of(tokens, starts=None):
    ids = [(7 * index + 3) % 1000 for index in range(tokens)]
    return {"input_ids": ids, "labels": ids} | ({} if starts is None else {"starts": starts})


# model, ranks, rows
CASES = {
    "documents of one token": ("usual", 1, [row_of(40, [0, 1, 2, 20, 21, 39]), row_of(16, list(range(16)))]),
    "ten thousand documents": ("usual", 1, [row_of(MANY + 50, [0, *range(51, MANY + 50)])]),
    "heads beyond the operator's": ("large heads", 1, [row_of(24, [0, 9])]),
    "lengths that differ by rank": ("usual", 2, [row_of(300), row_of(2), row_of(1), row_of(77), row_of(129), row_of(5)]),
}


@pytest.fixture(scope="module")
def models(folder):
    """Of one layer; heads of 784 where the operator takes 768."""
    for name, sizes in (("usual", {}), ("large heads", dict(head_dim=784))):
        tiny_models.write_model(
            tiny_models.config_of("qwen3", num_hidden_layers=1, max_position_embeddings=MANY + 64, **sizes), folder / name)
    return folder


@pytest.fixture(scope="module")
def outcomes(models):
    """By device and case; all cases of one number of ranks and one device in one launch."""
    found = {}
    for device in ("cpu", "npu"):
        for ranks in (1, 2):
            names = [name for name, case in CASES.items() if case[1] == ranks]
            commands = []
            for name in names:
                tiny_models.write_rows(models / f"{name}.jsonl", CASES[name][2])
                commands.append(["grads", "--model", models / CASES[name][0], "--rows", models / f"{name}.jsonl", "--out",
                                 models / f"{name} {device}.safetensors", *words_of([f"device={device}", "model.dtype=fp32"])])
            found |= {(device, name): outcome for name, outcome in zip(names, run_grads(ranks, commands))}
    return found


@pytest.mark.parametrize("name", CASES)
def test_as_on_the_cpu(name, outcomes, record_errors):
    cpu, npu = outcomes["cpu", name], outcomes["npu", name]
    for outcome in (cpu, npu):
        assert outcome.line is not None, failure_text(outcome.result)
    errors = {"loss": relative(npu.line["loss"], cpu.line["loss"]),
              "gradient": largest_error(load_file(npu.out), load_file(cpu.out))}
    record_errors(errors)
    assert_within(errors, LIMITS)


def test_a_document_without_tokens_is_refused(models):
    tiny_models.write_rows(models / "empty.jsonl", [row_of(9, [0, 4, 4])])
    result = run(None, ["grads", "--model", models / "usual", "--rows", models / "empty.jsonl", "--out", models / "none",
                        *words_of(["device=npu"])])
    assert result.returncode == 2 and "starts[2] = 4" in result.stderr, failure_text(result)
