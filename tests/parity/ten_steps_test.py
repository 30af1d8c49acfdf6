"""`trireme train` for ten steps, against transformers with torch's AdamW and clip_grad_norm_: loss, norm, learning
rate and trained tokens of every step, under several layouts; in bf16 close to the fp32 curve; the same bits twice. On
device cuda with --device cuda: the runs of one rank, or of as many as --ranks says."""
import functools
import json

import pytest

import steps
import tiny_models
from program import Launches, failure_text, run_many, words_of
from steps import BF16_LIMITS, COSINE, EPOCH, LIMITS, SEED, STEPS

OPTIONS = ("device", "ranks")
LINEAR = dict(lr=1e-3, min_lr=1e-4, schedule="linear", warmup=0.0, clip=3.0)
CONSTANT = dict(lr=1e-3, min_lr=0, schedule="constant", warmup=0.3, clip=0.0)
# model, optimizer, ranks, settings; data parallel is what remains
RUNS = [
    ("qwen2", COSINE, 1, []),
    ("qwen2", CONSTANT, 1, ["run.micro_batch=4"]),
    ("qwen2", LINEAR, 1, ["memory.recompute=full", "run.micro_batch=3"]),
    ("qwen2", COSINE, 2, ["parallel.tensor=2"]),
    ("qwen2", COSINE, 2, ["parallel.pipeline=2"]),
    ("qwen2", COSINE, 2, ["parallel.pipeline=2", "parallel.schedule=zero_bubble", "memory.recompute=full"]),
    ("qwen2", COSINE, 2, ["parallel.zero=0"]),
    ("qwen2", COSINE, 2, ["parallel.zero=1"]),
    ("qwen2", COSINE, 2, ["parallel.zero=2"]),
    ("qwen2", COSINE, 2, ["parallel.zero=3", "memory.recompute=full"]),
    ("llama3", COSINE, 4, ["parallel.tensor=2", "parallel.zero=3"]),
    ("qwen2", COSINE, 4, ["parallel.replicas=2", "parallel.zero=3"]),
    ("qwen2", COSINE, 4, ["parallel.pipeline=2", "parallel.zero=2"]),
    ("qwen3", COSINE, 4, ["parallel.tensor=2", "parallel.pipeline=2", "parallel.schedule=dualpipev"]),
    ("qwen3_moe", COSINE, 2, ["parallel.expert=2", "experts.exchange=expected"]),
]
BF16_RUNS = [
    ("qwen2", COSINE, 1, []),
    ("qwen2", COSINE, 2, ["parallel.tensor=2"]),
    ("qwen2", COSINE, 2, ["parallel.zero=2"]),
]
TWICE = [("qwen2", COSINE, 2, ["parallel.tensor=2"]), ("qwen2", COSINE, 2, ["parallel.zero=3"]),
         ("qwen2", COSINE, 2, ["parallel.pipeline=2"])]


def write_run(path, model, optimizer, dtype):
    """RUN.yaml; JSON is YAML."""
    sections = {
        "device": "cpu",
        "stage": "sft",
        "model": {"path": str(model / "model"), "dtype": dtype},
        "tuning": {"kind": "full"},
        "data": {"train": [str(model / "rows.jsonl")], "shuffle": False, "packing": False, "max_length": 64},
        "optimizer": {**optimizer, **steps.ADAMW},
        "run": {"steps": STEPS, "global_batch": steps.BATCH, "micro_batch": 1},
        "save": {"every": 0}, "log": {"every": 1},
    }
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items()))
    return path


class Trainer:
    """A model of one family with its rows, and the curves of transformers on them."""

    def __init__(self, folder, family):
        folder.mkdir()
        self.folder, self.references = folder, {}
        self.config = tiny_models.config_of(family)
        # One of them trains no token: it is left out of a run.
        written = tiny_models.make_rows(EPOCH + 1, shortest=8, seed=SEED)
        self.rows = [row for row in written if tiny_models.trained_tokens([row]) > 0]
        assert len(self.rows) == EPOCH, len(self.rows)
        tiny_models.write_model(self.config, folder / "model")
        tiny_models.write_rows(folder / "rows.jsonl", written)

    def reference(self, optimizer):
        key = json.dumps(optimizer)
        if key not in self.references:
            model = tiny_models.write_model(self.config, self.folder / "again")  # the seed makes the same weights
            self.references[key] = steps.reference(model, self.rows, optimizer)
        return self.references[key]


@pytest.fixture(scope="module")
def trainers(folder):
    """By family."""
    return functools.cache(lambda family: Trainer(folder / family, family))


def name_of(case):
    family, optimizer, ranks, settings = case
    return f"{family} {optimizer['schedule']} {ranks} ranks {' '.join(settings)}".strip()


def pytest_generate_tests(metafunc):
    runs = {"test_fp32": RUNS, "test_bf16": BF16_RUNS, "test_twice": TWICE}[metafunc.function.__name__]
    most = metafunc.config.getoption("ranks") or {"cpu": 8, "cuda": 1}[metafunc.config.getoption("device")]
    metafunc.parametrize("case", [case for case in runs if case[2] <= most], ids=name_of)


def launch_all(kind, dtype, settings, trainers, folder, device):
    """launch(ranks, cases) that trains them all in one start of the program, and gives the paths of their logs."""

    def launch(ranks, cases):
        commands, logs = [], []
        for number, (family, optimizer, _, more) in enumerate(cases):
            output = folder / f"{kind}-{ranks}-{number}"
            path = write_run(folder / f"{output.name}.yaml", trainers(family).folder, optimizer, dtype)
            commands.append(["train", path, *words_of([f"device={device}", f"run.output={output}", *more, *settings])])
            logs.append(output / "log.jsonl")
        result = run_many(ranks if ranks > 1 else None, commands)
        assert result.returncode == 0, failure_text(result)
        return logs
    return launch


@pytest.fixture(scope="module")
def logs(selected, trainers, folder, device):
    """logs(case, KIND) is the path of what a run of that kind logged."""
    kinds = {"fp32": (test_fp32, "fp32", []), "bf16": (test_bf16, "bf16", []),
             "first": (test_twice, "bf16", ["run.deterministic=true"]),
             "second": (test_twice, "bf16", ["run.deterministic=true"])}
    launches = {kind: Launches(selected(test, "case"), lambda case: case[2],
                               launch_all(kind, dtype, settings, trainers, folder, device))
                for kind, (test, dtype, settings) in kinds.items()}
    return lambda case, kind: launches[kind].of(case)


def read_log(path, parse_float=float):
    return [json.loads(line, parse_float=parse_float) for line in path.read_text().splitlines()]


def test_fp32(case, logs, trainers, record_errors):
    steps.assert_curve(read_log(logs(case, "fp32")), trainers(case[0]).reference(case[1]), LIMITS, record_errors)


def test_bf16(case, logs, trainers, record_errors):
    steps.assert_curve(read_log(logs(case, "bf16")), trainers(case[0]).reference(case[1]), BF16_LIMITS, record_errors)


def test_twice(case, logs):
    """In two starts of the program. Losses and norms as text: the same to the last digit."""
    first, second = ([(line["loss"], line["grad_norm"]) for line in read_log(logs(case, kind), parse_float=str)]
                     for kind in ("first", "second"))
    assert len(first) == STEPS and first == second
