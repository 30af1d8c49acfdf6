"""`trireme train` for ten steps, against transformers with torch's AdamW and clip_grad_norm_: loss, norm, learning
rate and trained tokens of every step, under several layouts; in bf16 close to the fp32 curve; the same bits twice. On
device cuda with --device cuda: the runs of one rank, or of as many as --ranks says."""
import functools
import json

import pytest

import steps
import tiny_models
from program import run_well
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


def write_run(folder, optimizer, dtype):
    """RUN.yaml; JSON is YAML."""
    sections = {
        "device": "cpu",
        "stage": "sft",
        "model": {"path": str(folder / "model"), "dtype": dtype},
        "tuning": {"kind": "full"},
        "data": {"train": [str(folder / "rows.jsonl")], "shuffle": False, "packing": False, "max_length": 64},
        "optimizer": {**optimizer, **steps.ADAMW},
        "run": {"steps": STEPS, "global_batch": steps.BATCH, "micro_batch": 1, "log_every": 1, "save_every": 0},
    }
    path = folder / "run.yaml"
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items()))
    return path


class Trainer:
    """A model of one family with its rows, and runs of the program on it, each in an output folder of its own."""

    def __init__(self, folder, family):
        folder.mkdir()
        self.folder, self.runs, self.references = folder, 0, {}
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

    def log(self, optimizer, ranks, settings, dtype, device, parse_float=float):
        """log.jsonl of a run."""
        self.runs += 1
        output = self.folder / f"output-{self.runs}"
        words = ["train", write_run(self.folder, optimizer, dtype)]
        run_well(ranks if ranks > 1 else None, words, [f"device={device}", f"run.output={output}", *settings])
        lines = (output / "log.jsonl").read_text().splitlines()
        return [json.loads(line, parse_float=parse_float) for line in lines]


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


def assert_curve(case, dtype, limits, trainers, device, record_errors):
    family, optimizer, ranks, settings = case
    log = trainers(family).log(optimizer, ranks, settings, dtype, device)
    steps.assert_curve(log, trainers(family).reference(optimizer), limits, record_errors)


def test_fp32(case, trainers, device, record_errors):
    assert_curve(case, "fp32", LIMITS, trainers, device, record_errors)


def test_bf16(case, trainers, device, record_errors):
    assert_curve(case, "bf16", BF16_LIMITS, trainers, device, record_errors)


def test_twice(case, trainers, device):
    """Losses and norms as text: the same to the last digit."""
    family, optimizer, ranks, settings = case
    first, second = ([(line["loss"], line["grad_norm"]) for line in trainers(family).log(
        optimizer, ranks, [*settings, "run.deterministic=true"], "bf16", device, parse_float=str)] for _ in range(2))
    assert len(first) == STEPS and first == second
