"""Device npu as other programs use it: transformers and torch_npu train tiny models, nothing of ours is imported.

The loss curve on npu:0 is that of the CPU, and the trained model generates the same tokens. So is the curve of two
ranks under DistributedDataParallel over hccl, and their collectives give what they should. Run by tests/parity/npu_run,
which puts the twin's libraries and the torch_npu wheel in reach.
"""
import functools
import json
import os
import pathlib
import socket
import subprocess
import sys

import pytest

import npu_models
from gradients import assert_within
from npu_models import CONFIGS, STEPS

LIMITS = {"loss": 1e-4}


@pytest.fixture(scope="module")
def on_cpu():
    """Losses and tokens of each model, all before torch_npu is imported: nothing of it may change what is compared with."""
    return {name: npu_models.run(name, "cpu") for name in CONFIGS}


@pytest.fixture(scope="module")
def on_npu(on_cpu):
    import torch_npu  # noqa: F401  registers the device
    return functools.cache(lambda name: npu_models.run(name, "npu:0"))


def train_on_ranks(ranks):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    # The wheel's task queue in its other mode: what one process above has not used.
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TASK_QUEUE_ENABLE": "2"}
    command = [sys.executable, "-W", "ignore", pathlib.Path(npu_models.__file__)]
    processes = [subprocess.Popen([*command, str(rank), str(ranks)], env=environment, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True) for rank in range(ranks)]
    outputs = [process.communicate(timeout=800)[0] for process in processes]
    for rank, (process, output) in enumerate(zip(processes, outputs)):
        assert process.returncode == 0, f"rank {rank} ended with status {process.returncode}\n{output[-4000:]}"
    line = next(line for line in outputs[0].splitlines() if line.startswith("RESULT "))
    return json.loads(line.removeprefix("RESULT "))


def assert_same_curve(losses, wanted, record_errors, record_property):
    assert len(losses) == len(wanted) == STEPS
    assert wanted[-1] < 0.8 * wanted[0], "equal curves of a model that learns nothing would show little"
    record_property("losses", f"from {losses[0]:.5f} to {losses[-1]:.5f}")
    errors = {"loss": max(abs(a - b) / abs(b) for a, b in zip(losses, wanted))}
    record_errors(errors)
    assert_within(errors, LIMITS)


@pytest.mark.parametrize("name", CONFIGS)
def test_losses(name, on_cpu, on_npu, record_errors, record_property):
    assert_same_curve(on_npu(name)[0], on_cpu[name][0], record_errors, record_property)


@pytest.mark.parametrize("name", CONFIGS)
def test_tokens(name, on_cpu, on_npu):
    assert on_npu(name)[1] == on_cpu[name][1]


@pytest.fixture(scope="module")
def two_ranks(on_cpu):
    return train_on_ranks(2)


def test_two_ranks_over_hccl(two_ranks, on_cpu, record_errors, record_property):
    assert_same_curve(two_ranks["losses"], on_cpu["Qwen3"][0], record_errors, record_property)


def test_collectives_of_two_ranks(two_ranks, record_property):
    record_property("collectives", two_ranks["collectives"])
    assert two_ranks["collectives"] > 0


def test_batch_norms_of_two_ranks(two_ranks, record_property):
    record_property("values", two_ranks["batch_norms"])
    assert two_ranks["batch_norms"] > 0
