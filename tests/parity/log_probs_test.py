"""Log-probabilities of given tokens, against log_softmax and gather of transformers in fp32: every label's value, the
weighted sum of them, and the gradient of every parameter, for each family under every kind of layout; every setting at
least once, packed rows and context parallelism among them. --full: all pairs of settings."""
import collections
import json
import random

import pytest
import torch
from safetensors.torch import load_file

import layouts
import tiny_models
from gradients import assert_within, largest_error, relative
from program import Launches, failure_text, run_grads, words_of

OPTIONS = ("full", "device")
LIMITS = {"loss": 1e-5, "log_probs": 1e-5, "gradient": 1e-4}
Peer = collections.namedtuple("Peer", "model rows loss log_probs gradients")


def weigh(rows):
    """A weight for each label, some negative, some zero."""
    generator = random.Random(9)
    return [{**row, "weights": [generator.choice([0.0, generator.uniform(-1, 1)]) for _ in row["labels"]]}
            for row in rows]


def pack_weights(rows, packed):
    """Weights and documents travel together: packing is by turns, as tiny_models.pack deals them."""
    for index, into in enumerate(packed):
        into["weights"] = [weight for row in rows[index::len(packed)] for weight in row["weights"]]
    return packed


def log_probs_of(model, row):
    """[labels - 1]: what the model gives each label, whether or not it is trained."""
    logits = model(input_ids=torch.tensor([row["input_ids"]])).logits[0, :-1].float()
    chosen = torch.tensor(row["input_ids"][1:]).where(torch.tensor(row["labels"][1:]) == -100,
                                                      torch.tensor(row["labels"][1:]))
    return logits.log_softmax(-1).gather(1, chosen[:, None])[:, 0]


def make_peer(folder, case):
    rows = weigh(tiny_models.rows_of(case))
    folder.mkdir(parents=True)
    model = tiny_models.write_model(tiny_models.config_of(case["model"], num_hidden_layers=layouts.layers(case)),
                                    folder / "model")
    given = tiny_models.program_rows(case, rows)
    tiny_models.write_rows(folder / "rows.jsonl", pack_weights(rows, given) if case["rows"] == "packed" else given)
    loss, values = 0.0, []
    for row in rows:
        found = log_probs_of(model, row) if len(row["labels"]) > 1 else torch.zeros(0)
        trained = torch.tensor(row["labels"][1:]) != -100
        part = -(torch.tensor(row["weights"][1:]) * found)[trained].sum()
        if trained.any():
            part.backward()
        loss += part.item()
        values.append([None, *(value if on else None for value, on in zip(found.tolist(), trained.tolist()))])
    order = [index for first in range(3) for index in range(first, len(rows), 3)]
    if case["rows"] == "packed":  # one list per packed row
        values = [[value for index in order if index % 3 == first for value in values[index]] for first in range(3)]
    return Peer(folder / "model", folder / "rows.jsonl", loss, values, tiny_models.gradients(model))


def cases_of(config):
    full = config.getoption("full")
    possible = [case for case in layouts.all_cases() if layouts.ranks(case) <= 4 and case["rows"] != "one"
                and (full or case["model"] not in layouts.NEAR_MODELS)]
    strength = 2 if full else 1
    kinds = ([case for case in possible if layouts.is_dense(case) == dense] for dense in (True, False))
    return [case for kind in kinds for case in layouts.covering(layouts.thinned(kind), strength)]


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", cases_of(metafunc.config), ids=lambda case: " ".join(layouts.text(case).split()))


def launch(ranks, cases, folder, device):
    """Peer and outcome of each case; one launch runs them all."""
    peers = [make_peer(folder / f"{ranks}-{number}", case) for number, case in enumerate(cases)]
    commands = [["grads", "--model", peer.model, "--rows", peer.rows, "--out", peer.rows.parent / "gradients.safetensors",
                 "--log-probs", peer.rows.parent / "log_probs.jsonl",
                 *words_of([f"device={device}", *layouts.settings(case)])] for case, peer in zip(cases, peers)]
    return list(zip(peers, run_grads(ranks, commands)))


@pytest.fixture(scope="module")
def launches(selected, folder, device):
    return Launches(selected(test_log_probs), layouts.ranks,
                    lambda ranks, cases: launch(ranks, cases, folder, device))


def test_log_probs(case, launches, record_errors):
    peer, outcome = launches.of(case)
    assert outcome.line is not None, failure_text(outcome.result)
    log_probs = [json.loads(text)["log_probs"] for text in (outcome.out.parent / "log_probs.jsonl").read_text().splitlines()]
    pattern, wanted = ([[value is None for value in row] for row in each] for each in (log_probs, peer.log_probs))
    assert pattern == wanted, "other labels have a value"
    found = load_file(outcome.out)
    assert found.keys() == peer.gradients.keys(), f"names differ: {sorted(found.keys() ^ peer.gradients.keys())}"
    flat, wanted = ([value for row in each for value in row if value is not None] for each in (log_probs, peer.log_probs))
    errors = {"loss": relative(outcome.line["loss"], peer.loss), "log_probs": relative(flat, wanted),
              "gradient": largest_error(found, peer.gradients)}
    record_errors(errors)
    assert_within(errors, LIMITS)


def test_launches_exit_with_0(launches):
    assert launches.left
    for ranks, left in launches.left.items():
        result = left[0][1].result
        assert result.returncode == 0, f"{ranks} ranks: {failure_text(result)}"
