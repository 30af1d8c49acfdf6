"""Another torch_npu wheel than the one whose headers the program was compiled with: plain Python computes with it, and the
program trains with it as on the cpu. Run by tests/parity/npu_wheel, which names the wheel."""
import json
import os
import pathlib
import subprocess

from gradients import assert_within
from npu_program_test import LIMITS, RUN, read_log
from program import BUILD, failure_text, run_well, start

WHEEL = pathlib.Path(os.environ["TRIREME_TORCH_NPU"])
VERSION = WHEEL.name.removeprefix(".torch_npu-")
STEPS = ["run.steps=3", "log.every=1"]


def test_python_computes(folder):
    script = folder / "compute.py"
    script.write_text("import torch, torch_npu\nx = torch.arange(6.0).reshape(2, 3)\n"
                      "y = (x.npu() @ x.t().npu() + 1).cpu()\nassert torch.equal(y, x @ x.t() + 1), y\n"
                      "print(torch_npu.__version__, torch_npu.__file__)\n__main__ = 1\n")
    result = subprocess.run(["tests/parity/npu_run", script], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    version, file = result.stdout.splitlines()[-1].split()
    assert version.startswith(VERSION) and file.startswith(str(WHEEL)), result.stdout


def test_the_program_names_it():
    result = start(None, [BUILD / "trireme", "check", "--set", "device=npu", "--json"])
    assert result.returncode == 0, failure_text(result)
    assert json.loads(result.stdout)["npu"]["software"] == f"torch_npu {VERSION}"


def test_training_is_the_cpus(folder, record_errors):
    run_well(None, ["train", RUN], [*STEPS, f"run.output={folder / 'cpu'}"])
    run_well(2, ["train", RUN], [*STEPS, "device=npu", "parallel.tensor=2", f"run.output={folder / 'npu'}"])
    pairs = list(zip(read_log(folder / "npu"), read_log(folder / "cpu")))
    assert len(pairs) == 3
    errors = {key: max(abs(a[key] - b[key]) / abs(b[key]) for a, b in pairs) for key in LIMITS}
    record_errors(errors)
    assert_within(errors, LIMITS)
