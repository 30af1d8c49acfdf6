"""Runs that stop and resume. Under the same layout the next ten steps have the same bits as a run that never stopped;
under any other layout the same losses and norms. Here: one run of a dense model and one with experts that change their
layout at every checkpoint, through all of them, and some that do not. `--full`: every layout to every layout."""
import errno
import functools
import json
import shutil
from collections import namedtuple

import pytest

import tiny_models
from gradients import assert_within
from program import BUILD, failure_text, start, words_of

OPTIONS = ("full",)
Layout = namedtuple("Layout", "name ranks settings")
LAYOUTS = [
    Layout("one", 1, []),
    Layout("tp2", 2, ["parallel.tensor=2"]),
    Layout("tp4", 4, ["parallel.tensor=4", "parallel.sequence=false"]),
    Layout("pp2-zb", 2, ["parallel.pipeline=2", "parallel.schedule=zero_bubble"]),
    Layout("dp2-z1", 2, ["parallel.zero=1"]),
    Layout("dp3-z3", 3, ["parallel.zero=3"]),
    Layout("tp2-dp2-z0", 4, ["parallel.tensor=2", "parallel.zero=0"]),
    Layout("tp2-pp2-v-dp2-z2", 8, ["parallel.tensor=2", "parallel.pipeline=2", "parallel.schedule=dualpipev",
                                   "parallel.virtual_stages=2", "parallel.zero=2"]),
]
EXPERT_LAYOUTS = [
    Layout("one", 1, []),
    Layout("ep2-z1", 2, ["parallel.expert=2", "parallel.zero=1"]),
    Layout("tp2-etp2", 2, ["parallel.tensor=2", "parallel.expert_tensor=2"]),
    Layout("cp2-ep2", 2, ["parallel.context=2", "parallel.expert=2"]),
    Layout("tp2-ep2-etp2", 4, ["parallel.tensor=2", "parallel.expert=2", "parallel.expert_tensor=2"]),
    Layout("ep4-z3", 4, ["parallel.expert=4", "parallel.zero=3"]),
    Layout("pp2-ep2-z2", 4, ["parallel.pipeline=2", "parallel.expert=2", "parallel.zero=2"]),
    Layout("ep2-r2-z3", 4, ["parallel.expert=2", "parallel.replicas=2", "parallel.zero=3"]),
]
SHIM = BUILD / "tests" / "checkpoint" / "libfault_shim.so"
SAVED, AFTER, BATCH = 3, 10, 6
# As a change of the layout without a checkpoint in between; moments that are lost or mixed up are 1e-2 and more.
LIMITS = {"loss": 2e-5, "grad_norm": 2e-4}


class Runs:
    """A model with rows, and runs of the program on it."""

    def __init__(self, folder, family="qwen2"):
        folder.mkdir()
        self.folder, self.count = folder, 0
        tiny_models.write_model(tiny_models.config_of(family), folder / "model")
        tiny_models.write_rows(folder / "rows.jsonl", tiny_models.make_rows(14, shortest=8))

    def start(self, layout, steps, output, dtype="fp32", more=(), variables=None):
        """A run of the program, up to step `steps` in all."""
        sections = {
            "device": "cpu", "model": {"path": str(self.folder / "model"), "dtype": dtype}, "tuning": {"kind": "full"},
            "data": {"train": [str(self.folder / "rows.jsonl")], "packing": False, "max_length": 64},
            "optimizer": {"lr": 1e-3, "schedule": "constant", "clip": 3.0},
            "run": {"steps": steps, "global_batch": BATCH, "deterministic": True, "output": str(output)},
            "save": {"every": SAVED, "keep": 0},
        }
        path = self.folder / "run.yaml"
        path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items()))
        command = [BUILD / "trireme", "train", path, *words_of([*layout.settings, *more])]
        return start(layout.ranks if layout.ranks > 1 else None, command, variables=variables)

    def train(self, layout, steps, output, **more):
        """The log of the whole run so far, every number as text."""
        result = self.start(layout, steps, output, **more)
        assert result.returncode == 0, failure_text(result)
        return [json.loads(line, parse_float=str) for line in (output / "log.jsonl").read_text().splitlines()]

    def fresh(self):
        self.count += 1
        return self.folder / f"output-{self.count}"


def assert_same_curve(log, wanted, record_errors, exact=False):
    """Steps, and losses and norms: within LIMITS, or `exact`, which is to the last digit."""
    assert [line["step"] for line in log] == [line["step"] for line in wanted]
    pairs = list(zip(log, wanted))
    errors = {field: max(abs(float(a[field]) - float(b[field])) / abs(float(b[field])) for a, b in pairs)
              for field in LIMITS}
    record_errors(errors)
    if exact:
        differ = [a["step"] for a, b in pairs if any(a[field] != b[field] for field in LIMITS)]
        assert not differ, f"other bits in steps {differ}; errors {errors}"
    assert_within(errors, LIMITS)


@pytest.fixture(scope="module")
def dense(folder):
    return Runs(folder / "dense")


@pytest.fixture(scope="module")
def experts(folder):
    return Runs(folder / "experts", "deepseek_v3")


class Chain:
    """One run whose layout changes at every checkpoint, hop by hop, and one that never stops, of the first layout."""

    def __init__(self, runs, order):
        self.runs, self.order, self.output, self.done = runs, order, runs.fresh(), 0
        self.wanted = runs.train(order[0], SAVED * len(order), runs.fresh())

    def log_after(self, hop):
        """The log after this hop; those before it are made first."""
        while self.done < hop:
            self.done += 1
            log = self.runs.train(self.order[self.done - 1], SAVED * self.done, self.output)
        return log


DENSE_ORDER = [LAYOUTS[i] for i in (0, 7, 1, 5, 2, 4, 3, 6, 7, 0)]
EXPERT_ORDER = [EXPERT_LAYOUTS[i] for i in (0, 5, 2, 6, 7, 3, 4, 1, 0)]
HOPS = [(kind, hop) for kind, order in (("dense", DENSE_ORDER), ("experts", EXPERT_ORDER))
        for hop in range(1, len(order) + 1)]
PAIRS = [(kind, source, target) for kind, layouts in (("dense", LAYOUTS), ("experts", EXPERT_LAYOUTS))
         for source in layouts for target in layouts]


def pytest_generate_tests(metafunc):
    """By default the chains and some more; with --full every layout to every layout."""
    if "hop" in metafunc.fixturenames:
        metafunc.parametrize("kind, hop", HOPS, ids=[
            f"{kind} steps to {SAVED * hop} under {(DENSE_ORDER if kind == 'dense' else EXPERT_ORDER)[hop - 1].name}"
            for kind, hop in HOPS])
    if "target" in metafunc.fixturenames:
        metafunc.parametrize("kind, source, target", PAIRS,
                             ids=[f"{kind} {source.name} to {target.name}" for kind, source, target in PAIRS])


@pytest.fixture(scope="module")
def chains(dense, experts):
    return functools.cache(lambda kind: Chain(dense, DENSE_ORDER) if kind == "dense" else Chain(experts, EXPERT_ORDER))


@pytest.mark.full(False)
def test_layout_changes_at_every_checkpoint(kind, hop, chains, record_errors):
    chain = chains(kind)
    assert_same_curve(chain.log_after(hop), chain.wanted[:SAVED * hop], record_errors)


@pytest.fixture(scope="module")
def sources(dense, experts):
    """The runs that save, by kind and layout: log and output."""
    @functools.cache
    def make(kind, name):
        runs, layouts = (dense, LAYOUTS) if kind == "dense" else (experts, EXPERT_LAYOUTS)
        output = runs.fresh()
        return runs.train(next(layout for layout in layouts if layout.name == name), SAVED + AFTER, output), output
    return make


@pytest.mark.full(True)
def test_every_layout_to_every_layout(kind, source, target, dense, experts, sources, record_errors):
    whole, output = sources(kind, source.name)
    runs = dense if kind == "dense" else experts
    resume = [f"run.resume={output / f'checkpoint-{SAVED}'}", "save.every=0"]
    log = runs.train(target, SAVED + AFTER, runs.fresh(), more=resume)
    assert_same_curve(log, whole[SAVED:], record_errors, exact=source is target)


@pytest.fixture(scope="module")
def never_failed(dense):
    return dense.train(LAYOUTS[1], 3 * SAVED, dense.fresh())


@pytest.mark.full(False)
@pytest.mark.parametrize("fault, at", [(str(errno.ENOSPC), 3), ("kill", 5)], ids=["a full disk", "a kill"])
def test_failed_save(fault, at, dense, never_failed, record_errors):
    """The second save fails or dies in one rank's thread: the run ends and says which file, and resumes from the first
    save as if nothing had been."""
    output = dense.fresh()
    result = dense.start(LAYOUTS[1], 3 * SAVED, output, variables={
        "LD_PRELOAD": str(SHIM), "FAULT_UNDER": f"checkpoint-{2 * SAVED}.part", "FAULT_AT": str(at), "FAULT_WITH": fault,
        "FAULT_RANK": "1"})
    left = sorted(path.name for path in output.glob("checkpoint-*[0-9]"))
    assert result.returncode != 0 and left == [f"checkpoint-{SAVED}"], f"left {left}: {failure_text(result)}"
    assert fault == "kill" or f"checkpoint-{2 * SAVED}.part/rank-00001.h5" in failure_text(result), failure_text(result)
    assert_same_curve(dense.train(LAYOUTS[1], 3 * SAVED, output), never_failed, record_errors, exact=True)


SAME = [(LAYOUTS[1], "bf16"), (Layout("dp2-z3", 2, ["parallel.zero=3"]), "bf16"), (LAYOUTS[3], "fp32")]


@pytest.mark.full(False)
@pytest.mark.parametrize("layout, dtype", SAME, ids=[f"{layout.name} {dtype}" for layout, dtype in SAME])
def test_the_same_bits(layout, dtype, dense, record_errors):
    """Saved, cut off as if killed, resumed: the log has the steps after the checkpoint once, with the same bits."""
    output = dense.fresh()
    whole = dense.train(layout, SAVED + AFTER, output, dtype=dtype)
    for late in output.glob("checkpoint-*"):
        if int(late.name.split("-")[1]) > SAVED:
            shutil.rmtree(late)
    assert_same_curve(dense.train(layout, SAVED + AFTER, output, dtype=dtype), whole, record_errors, exact=True)
