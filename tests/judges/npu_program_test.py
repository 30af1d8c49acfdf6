#!/usr/bin/env python3
"""The program on device npu: ten training steps as on the cpu, running out of memory, and set-ups that are refused. The
cpu's run is the reference here; it is itself compared with transformers elsewhere."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from expectations import expect, failures
from program import BUILD, failure_text, run, run_many, start, words_of

STEPS, LIMIT = 10, 1e-5
RUN = "examples/bytes/run.yaml"
COMMON = [f"run.steps={STEPS}", "run.log_every=1"]
# By number of ranks; all settings of one number share one launch of the program.
RUNS = {
    1: [[], ["memory.recompute=full", "run.micro_batch=3"], ["memory.offload_optimizer=true"]],
    2: [["parallel.tensor=2"], ["parallel.pipeline=2", "parallel.schedule=zero_bubble"], ["parallel.zero=0"],
        ["parallel.zero=2"], ["parallel.zero=3", "memory.recompute=selective"]],
    4: [["parallel.tensor=2", "parallel.pipeline=2", "parallel.schedule=dualpipev"],
        ["parallel.tensor=2", "parallel.zero=3"]],
}


def read_log(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def worst_difference(found, wanted, key):
    assert len(found) == len(wanted) == STEPS, (len(found), len(wanted))
    return max(abs(a[key] - b[key]) / abs(b[key]) for a, b in zip(found, wanted))


def ten_steps(scratch):
    result = run(None, ["train", RUN], [*COMMON, f"run.output={scratch / 'cpu'}"])
    expect(result.returncode == 0, "ten steps on the cpu", failure_text(result))
    wanted = read_log(scratch / "cpu")
    for ranks, runs in RUNS.items():
        outputs = [scratch / f"npu-{ranks}-{index}" for index in range(len(runs))]
        result = run_many(ranks, [
            ["train", RUN, *words_of(["device=npu", *COMMON, f"run.output={output}", *settings])]
            for settings, output in zip(runs, outputs)])
        expect(result.returncode == 0, f"{ranks} ranks train on device npu", failure_text(result))
        for settings, output in zip(runs, outputs):
            log = read_log(output)
            errors = {key: worst_difference(log, wanted, key) for key in ("loss", "grad_norm")}
            text = f"{ranks} ranks {' '.join(settings)}: " + ", ".join(f"{k} {e:.1e}" for k, e in errors.items())
            expect(errors["loss"] <= LIMIT and errors["grad_norm"] <= 10 * LIMIT, text)
            expect(all(0 < line["memory_gib"] < 1 for line in log), f"{ranks} ranks: the allocator's memory is logged")


def memory_runs_out(scratch):
    settings = ["device=npu", f"run.output={scratch / 'small'}", "parallel.zero=0", "comm.buffer_mb=1", *COMMON]
    result = start(2, [BUILD / "trireme", "train", RUN, *words_of(settings)],
                   variables={"TWIN_DEVICE_MEMORY_GB": "0.015"})
    text = result.stderr
    expect(result.returncode == 1, "running out of memory ends the run with status 1", failure_text(result))
    for wanted in ("rank", "out of memory", "Tried to allocate", "MiB", "memory.recompute"):
        expect(wanted in text, f"running out of memory: '{wanted}' is reported", text)
    expect("Exception raised from" not in text and "frame #" not in text, "running out of memory: no stack trace", text)


def refused(name, result, *wanted):
    lines = result.stderr.splitlines()
    expect(result.returncode == 2 and len(lines) == 1 and not result.stdout, f"{name}: status 2 and one line",
           failure_text(result))
    for word in wanted:
        expect(word in result.stderr, f"{name}: says '{word}'", result.stderr)


def check_on_npu(variables=(), ranks=None, prefix=()):
    command = [*prefix, BUILD / "trireme", "check", "--set", "device=npu"]
    return start(ranks, command, variables=dict(variables))


def other_version(scratch):
    info = scratch / "other" / "torch_npu-2.9.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-npu\nVersion: 2.9.0\n")
    refused("torch_npu of another version", check_on_npu({"PYTHONPATH": str(info.parent)}),
            "2.9.0", "2.7.1", "PYTHONPATH")


def hidden(path, scratch):
    """A command prefix that runs in its own mount namespace, where an empty file is mounted over this one."""
    cover = scratch / "empty"
    cover.write_text("")
    return ["unshare", "-m", "sh", "-c", f"mount --bind {cover} {os.path.realpath(path)} && exec \"$@\"", "sh"]


def half_of_cann(scratch):
    result = check_on_npu(prefix=hidden(BUILD / "twin/lib/libopapi.so", scratch))
    refused("CANN without libopapi", result, "libopapi.so", "twin/lib", "set_env.sh")


def no_libpython(scratch):
    name = f"libpython3.{sys.version_info.minor}.so.1.0"
    known = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    path = next(line.split("=> ")[1] for line in known.splitlines() if name in line)
    result = check_on_npu(prefix=hidden(path, scratch))
    refused("a missing libpython", result, name, "apt-get install", "LD_LIBRARY_PATH")


def too_few_devices(_):
    refused("more ranks than devices", check_on_npu({"ASCEND_RT_VISIBLE_DEVICES": "3"}, ranks=2), "local rank 1",
            "this host has 1", "TWIN_DEVICES")


def check_speaks(_):
    result = start(None, [BUILD / "trireme", "check", "--set", "device=npu", "--json"])
    expect(result.returncode == 0 and json.loads(result.stdout)["npu"]["software"] == "torch_npu 2.7.1", "check on device npu",
           failure_text(result))
    result = start(None, [BUILD / "trireme", "check", "--npu-ops", "--json"])
    facts = json.loads(result.stdout)
    expect(facts["there"] >= 431 and facts["used"] > 40 and facts["missing"] == [], "check --npu-ops",
           str({**facts, "operators": "..."}))


def main():
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        for part in (other_version, half_of_cann, no_libpython, too_few_devices, check_speaks, memory_runs_out,
                     ten_steps):
            if not sys.argv[1:] or part.__name__ in sys.argv[1:]:
                part(scratch)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
