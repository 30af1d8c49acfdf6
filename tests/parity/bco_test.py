"""Stage bco against TRL 1.12's BCOTrainer, ten steps in fp32: loss, gradient norm, the running mean of rewards, rewards/* and
logps/* of every step, and every gradient of the first. Then layouts: the same as one rank; a run that stops and resumes: the
same bits, the mean's among them."""
import json
import os
import pathlib
import subprocess
import sys

import pytest
import torch
import transformers
from safetensors.torch import load_file

import bco_peers
import preference_peers as peers
from gradients import assert_within
from preference_test import LIMITS, compare_logs, gradient_error, log_of, run_settings, train_command
from program import failure_text, run_many, words_of

# Where scripts/setup --parity puts the version of TRL that has BCO.
TRL = pathlib.Path(__file__).resolve().parents[2] / ".venv-parity-trl-ppo"
NAMES = ("delta", "rewards/chosen", "rewards/rejected", "rewards/margins", "logps/chosen", "logps/rejected")
# name: our settings, TRL's
CASES = {"bco": ([], {}), "bco steep": (["preference.beta=0.4"], dict(beta=0.4))}
LAYOUTS = {"dp2": [], "tp2": ["parallel.tensor=2"], "pp2": ["parallel.pipeline=2"], "cp2": ["parallel.context=2"]}
SPLIT = ["run.micro_batch=2", "run.steps=4", "save.every=2", "run.deterministic=true"]


@pytest.fixture(scope="module")
def inputs(folder):
    """A model, another one as its reference, and labelled answers; the first four of them too."""
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    peers.write_models(folder, "llama")
    peers.write_answers(folder)
    return folder


def command(folder, name, more=()):
    return train_command(folder, name, run_settings(folder, name, "bco", more))


@pytest.fixture(scope="module")
def peer(inputs):
    """All cases in one process, whose TRL is another than this one's."""
    jobs = {name: dict(model=str(inputs / "model"), reference=str(inputs / "reference"), output=str(inputs / "trl"),
                       gradients=str(inputs / f"{name}-trl.safetensors"), arguments=theirs)
            for name, (_, theirs) in CASES.items()}
    (inputs / "jobs.json").write_text(json.dumps(jobs))
    path = os.pathsep.join([str(TRL), str(pathlib.Path(__file__).parent)])
    found = subprocess.run([sys.executable, "-W", "ignore", bco_peers.__file__, inputs / "jobs.json", inputs / "peer.json"],
                           env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr[-3000:]
    return json.loads((inputs / "peer.json").read_text())


@pytest.fixture(scope="module")
def launched(inputs):
    """One start of the program trains all cases, and gives the gradients of their first batches."""
    commands = []
    for name, (ours, _) in CASES.items():
        commands.append(command(inputs, name, ours))
        commands.append(["grads", "--model", inputs / "model", "--rows", peers.rows_of(inputs, "bco", "-4"), "--out",
                         inputs / f"{name}.safetensors",
                         *words_of(["device=cpu", "stage=bco", *peers.reference_of(inputs, "bco"), *ours])])
    return run_many(1, commands)


@pytest.mark.parametrize("name", CASES)
def test_ten_steps(name, inputs, launched, peer, record_errors):
    log = log_of(inputs, name, launched)
    errors = compare_logs(log, peer[name], NAMES)
    assert all(line["delta"] != 0 for line in log), "a mean that moves"
    errors["gradient"] = gradient_error(load_file(inputs / f"{name}.safetensors"), load_file(inputs / f"{name}-trl.safetensors"))
    record_errors(errors)
    assert_within(errors, LIMITS)


@pytest.fixture(scope="module")
def split(inputs):
    """Two ranks: four steps in each layout, and the same in two starts."""
    commands = [command(inputs, name, [*SPLIT, *layout]) for name, layout in LAYOUTS.items()]
    commands += [command(inputs, "resumed", [*SPLIT, "run.steps=2"]), command(inputs, "resumed", SPLIT)]
    result = run_many(2, commands)
    assert result.returncode == 0, failure_text(result)[-3000:]
    return result


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout, inputs, launched, split, record_errors):
    """The mean is that of the global batch, whichever rank has its answers."""
    errors = compare_logs(log_of(inputs, layout, split), log_of(inputs, "bco", launched)[:4], NAMES)
    record_errors(errors)
    assert_within(errors, {kind: LIMITS[kind] for kind in errors})


def test_a_resumed_run_has_the_same_bits(inputs, split):
    wanted, found = (log_of(inputs, name, split) for name in ("dp2", "resumed"))
    assert len(wanted) == len(found) == 4
    for mine, theirs in zip(found, wanted):
        assert [mine[key] for key in ("loss", "grad_norm", *NAMES)] == [theirs[key] for key in ("loss", "grad_norm", *NAMES)]
