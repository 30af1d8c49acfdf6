"""The program on device npu: ten training steps as on the cpu, memory that runs out, and set-ups that are refused. The
cpu's run is the reference here; it is itself compared with transformers elsewhere."""
import json
import os
import subprocess
import sys

import pytest

import support_cells
from gradients import assert_within
from program import BUILD, Launches, failure_text, run_many, run_well, start, words_of

STEPS, LIMITS = 10, {"loss": 1e-5, "grad_norm": 1e-4}
RUN = "examples/bytes/run.yaml"
COMMON = [f"run.steps={STEPS}", "log.every=1"]
# ranks, settings; all of one number of ranks in one launch
RUNS = [
    (1, []), (1, ["memory.recompute=full", "run.micro_batch=3"]), (1, ["memory.offload_optimizer=true"]),
    (2, ["parallel.tensor=2"]), (2, ["parallel.pipeline=2", "parallel.schedule=zero_bubble"]), (2, ["parallel.zero=0"]),
    (2, ["parallel.zero=2"]), (2, ["parallel.zero=3", "memory.recompute=selective"]),
    (2, ["parallel.zero=3", "memory.recompute=full", "memory.offload_activations=true", "memory.offload_parameters=true",
         "memory.offload_optimizer=true"]),
    (4, ["parallel.tensor=2", "parallel.pipeline=2", "parallel.schedule=dualpipev"]),
    (4, ["parallel.tensor=2", "parallel.zero=3"]),
]


def read_log(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def on_cpu(folder):
    run_well(None, ["train", RUN], [*COMMON, f"run.output={folder / 'cpu'}"])
    return read_log(folder / "cpu")


def launch(ranks, cases, folder):
    """The output of each case, and how the launch ended."""
    outputs = [folder / f"npu-{ranks}-{index}" for index in range(len(cases))]
    result = run_many(ranks, [["train", RUN, *words_of(["device=npu", *COMMON, f"run.output={output}", *settings])]
                              for (_, settings), output in zip(cases, outputs)])
    assert result.returncode == 0, failure_text(result)
    return outputs


@pytest.fixture(scope="module")
def launches(selected, folder):
    return Launches(selected(test_ten_steps), lambda case: case[0], lambda ranks, cases: launch(ranks, cases, folder))


@pytest.mark.parametrize("case", RUNS, ids=lambda case: f"{case[0]} ranks {' '.join(case[1])}".strip())
def test_ten_steps(case, launches, on_cpu, record_errors):
    log = read_log(launches.of(case))
    assert len(log) == len(on_cpu) == STEPS
    errors = {key: max(abs(a[key] - b[key]) / abs(b[key]) for a, b in zip(log, on_cpu)) for key in LIMITS}
    record_errors(errors)
    assert_within(errors, LIMITS)
    assert all(0 < line["memory_gib"] < 1 for line in log), "the allocator's memory is logged"


@pytest.fixture(scope="module")
def cells(selected, folder):
    """Of the table of docs/support.md those that cover what its other rows combine, on both devices; scripts/support runs all."""
    runs = support_cells.Cells(folder / "cells", selected(test_cell))
    failed = runs.run("cpu")
    return runs, {**failed, **runs.run("npu")}


@pytest.mark.parametrize("case", [cell for cell in support_cells.CELLS if cell.covering], ids=lambda cell: f"cell {cell.feature}")
def test_cell(case, cells, record_errors):
    runs, why = cells
    found = runs.compare(case, "npu", why)
    if "8 bits" in case.feature:
        assert found.why.startswith("refused: ") and "optimizer.moments" in found.why, found
        return
    assert found.worst is not None, found.why
    record_errors({"loss": found.worst})
    assert_within({"loss": found.worst}, {"loss": case.limit})


class Policies(support_cells.Cells):
    """Stages that train on completions, evaluated in the middle; a reward model two steps old is the start of a value model."""
    EVALUATED = [f"data.valid=[{support_cells.ROOT / 'examples/rl/days.jsonl'}]", "eval.every=3", "eval.records=4",
                 "eval.completions=2", "eval.temperature=1"]
    CELLS = [
        support_cells.Cell("rloo", ["stage=rloo", *support_cells.PROMPTS, *support_cells.FULL, *EVALUATED]),
        support_cells.Cell("ppo, value model", ["stage=ppo", *support_cells.PROMPTS, *support_cells.FULL, *EVALUATED,
                                                "rl.value_model={folder}/rm/final"]),
        support_cells.Cell("gkd", ["stage=gkd", *support_cells.FULL, *EVALUATED, "distillation.teacher={folder}/teacher/final",
                                   "rl.max_new_tokens=6", 'rl.rewards=["program:python3 {folder}/judge.py"]']),
    ]
    LIMITS = {"loss": 1e-4, "reward": 1e-4, "eval_reward": 1e-4, "eval_best@2": 1e-4, "grad_norm": 1e-3, "value/grad_norm": 1e-3}

    def models(self):
        rm = ["stage=rm", *support_cells.PAIRS, *support_cells.FULL, "run.steps=2", f"run.output={self.folder / 'rm'}"]
        return [*super().models(), ["train", self.folder / "run.yaml", *words_of(["device=cpu", *rm])]]


@pytest.fixture(scope="module")
def policies(selected, folder):
    runs = Policies(folder / "policies", selected(test_policies))
    failed = runs.run("cpu")
    return runs, {**failed, **runs.run("npu")}


@pytest.mark.parametrize("case", Policies.CELLS, ids=lambda cell: cell.feature)
def test_policies(case, policies, record_errors):
    """Losses, rewards, norms of both models, and what evaluations say."""
    runs, why = policies
    assert case.feature not in why, why[case.feature]
    cpu, npu = runs.log(case, "cpu"), runs.log(case, "npu")
    errors = {key: max(abs(one[key] - two[key]) / max(abs(two[key]), 0.1) for one, two in zip(npu, cpu, strict=True) if key in two)
              for key in Policies.LIMITS if any(key in line for line in cpu)}
    assert {"loss", "grad_norm", "eval_reward", "eval_best@2"} <= errors.keys() and ("value/grad_norm" in errors) == ("ppo" in case.feature)
    record_errors(errors)
    assert_within(errors, {key: Policies.LIMITS[key] for key in errors})


def test_memory_runs_out(folder):
    settings = ["device=npu", f"run.output={folder / 'small'}", "parallel.zero=0", "comm.buffer_mb=1", *COMMON]
    result = start(2, [BUILD / "trireme", "train", RUN, *words_of(settings)],
                   variables={"TWIN_DEVICE_MEMORY_GB": "0.015"})
    assert result.returncode == 1, failure_text(result)
    for wanted in ("rank", "out of memory", "Tried to allocate", "MiB", "memory.recompute"):
        assert wanted in result.stderr
    assert "Exception raised from" not in result.stderr and "frame #" not in result.stderr, "a stack trace"


def assert_refused(result, *wanted):
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1 and not result.stdout, failure_text(result)
    for word in wanted:
        assert word in result.stderr


def check_on_npu(variables=(), ranks=None, prefix=()):
    command = [*prefix, BUILD / "trireme", "check", "--set", "device=npu"]
    return start(ranks, command, variables=dict(variables))


def test_another_version_of_torch_npu_is_refused(folder):
    info = folder / "other" / "torch_npu-2.9.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-npu\nVersion: 2.9.0\n")
    assert_refused(check_on_npu({"PYTHONPATH": str(info.parent)}),
                   "2.9.0, which is built for another torch", "wanted 2.7.1 or a 2.7.1.postN", "PYTHONPATH")


def fake_torch_npu(folder, code):
    """A torch_npu of a coming version, as far as Python sees."""
    package = folder / "torch_npu"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(code)
    info = folder / "torch_npu-2.7.1.post99.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-npu\nVersion: 2.7.1.post99\n")
    return {"PYTHONPATH": str(folder)}


def test_torch_npu_that_wants_more_of_cann_is_refused(folder):
    code = "raise ImportError('libtorch_npu.so: undefined symbol: aclrtOfTheFuture')"
    result = check_on_npu(fake_torch_npu(folder / "needs", code))
    assert_refused(result, "torch_npu 2.7.1.post99 needs aclrtOfTheFuture", "twin/lib", "torch_npu==2.7.1")


def test_torch_npu_without_what_the_program_calls_is_refused(folder):
    """By symbol: libtorch_npu is loaded under its name and has none of them."""
    library = folder / "libtorch_npu.so"
    subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-Wl,-soname,libtorch_npu.so", "-o", library], check=True)
    code = (f"import ctypes, types, torch\nctypes.CDLL({str(library)!r}, ctypes.RTLD_GLOBAL)\n"
            "torch.npu = types.SimpleNamespace(set_compile_mode=lambda **_: None)\n")
    result = check_on_npu(fake_torch_npu(folder / "lacks", code))
    assert_refused(result, "torch_npu 2.7.1.post99 does not have ", "npu", "torch_npu==2.7.1")


def hidden(path, folder):
    """A start in a mount namespace of its own, where an empty file covers this one."""
    cover = folder / "empty"
    cover.write_text("")
    return ["unshare", "-m", "sh", "-c", f"mount --bind {cover} {os.path.realpath(path)} && exec \"$@\"", "sh"]


def test_cann_without_libopapi_is_refused(folder):
    result = check_on_npu(prefix=hidden(BUILD / "twin/lib/libopapi.so", folder))
    assert_refused(result, "libopapi.so", "twin/lib", "set_env.sh")


def test_missing_libpython_is_refused(folder):
    name = f"libpython3.{sys.version_info.minor}.so.1.0"
    known = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    path = next(line.split("=> ")[1] for line in known.splitlines() if name in line)
    assert_refused(check_on_npu(prefix=hidden(path, folder)), name, "apt-get install", "LD_LIBRARY_PATH")


def test_more_ranks_than_devices_are_refused():
    assert_refused(check_on_npu({"ASCEND_RT_VISIBLE_DEVICES": "3"}, ranks=2), "local rank 1", "this host has 1", "TWIN_DEVICES")


def test_check():
    result = start(None, [BUILD / "trireme", "check", "--set", "device=npu", "--json"])
    assert result.returncode == 0, failure_text(result)
    wheel = os.path.basename(os.environ.get("TRIREME_TORCH_NPU", ".torch_npu-2.7.1")).removeprefix(".torch_npu-")
    assert json.loads(result.stdout)["npu"]["software"] == f"torch_npu {wheel}"


def test_check_npu_ops():
    facts = json.loads(start(None, [BUILD / "trireme", "check", "--npu-ops", "--json"]).stdout)
    assert facts["there"] >= 431 and facts["used"] > 40 and facts["missing"] == [], str({**facts, "operators": "..."})
