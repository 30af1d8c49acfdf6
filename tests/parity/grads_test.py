"""The law of equality, against transformers in fp32: loss, trained tokens, gradient of every parameter and norm of them
all, for each family under every kind of layout. By default a few cases in which all pairs of settings meet."""
import concurrent.futures
import json

import pytest

import layouts
import tiny_models
from gradients import assert_equals, make_reference
from program import Launches, Outcome, failure_text, run, run_grads, words_of

OPTIONS = ("full", "strength", "where", "device", "ranks", "jobs")
MOST_RANKS = {"cpu": layouts.MOST_RANKS, "npu": 4, "cuda": 1}


def cases_of(config):
    wanted = [condition.split("=") for condition in config.getoption("where")]
    device = config.getoption("device")
    most = config.getoption("ranks") or MOST_RANKS[device]
    possible = [case for case in layouts.all_cases()
                if layouts.ranks(case) <= most and all(str(case[key]) == value for key, value in wanted)]
    return possible if config.getoption("full") else layouts.chosen_cases(possible, config.getoption("strength"), device)


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", cases_of(metafunc.config), ids=lambda case: " ".join(layouts.text(case).split()))


class References:
    """Made when first asked for, one for each model and rows."""

    def __init__(self, folder):
        self.folder, self.made = folder, {}

    def of(self, case):
        rows = tiny_models.rows_of(case)
        given = tiny_models.program_rows(case, rows)
        key = (case["model"], layouts.layers(case), json.dumps(rows), json.dumps(given))
        if key not in self.made:
            self.made[key] = make_reference(self.folder / str(len(self.made)), key[0], key[1], rows, given)
        return self.made[key]


@pytest.fixture(scope="module")
def references(folder):
    return References(folder)


def words_for(reference, out):
    return ["grads", "--model", reference.model, "--rows", reference.rows, "--out", out]


def run_alone(case, reference, out):
    """A launch of its own, as users start it."""
    result = run(layouts.ranks(case) if layouts.ranks(case) > 1 else None, words_for(reference, out),
                 layouts.settings(case))
    return Outcome(json.loads(result.stdout) if result.returncode == 0 and out.exists() else None, out, result)


class Alone:
    """Every case in a launch of its own, some at a time, in the order of the cases."""

    def __init__(self, pool, cases, references, folder):
        self.running = {id(case): pool.submit(run_alone, case, references.of(case), folder / f"{number}.safetensors")
                        for number, case in enumerate(cases)}

    def of(self, case):
        return self.running[id(case)].result()


def launch_together(ranks, cases, references, folder, device):
    """All cases of as many ranks in one launch. Its last command lists the operators that ran, on device npu."""
    commands = [[*words_for(references.of(case), folder / f"{ranks}-{number}.safetensors"),
                 *words_of([f"device={device}", *layouts.settings(case)])] for number, case in enumerate(cases)]
    last = ["check", "--npu-ops", "--json"] if device == "npu" else ["--version"]
    queue = {"TASK_QUEUE_ENABLE": str(ranks % 3)}  # torch_npu's own: off, on, and with more in it
    return run_grads(ranks if ranks > 1 else None, [*commands, last], queue)


@pytest.fixture(scope="module")
def outcomes(request, selected, references, folder, device):
    cases = selected(test_gradients)
    if device != "cpu":
        yield Launches(cases, layouts.ranks,
                       lambda ranks, group: launch_together(ranks, group, references, folder, device))
        return
    with concurrent.futures.ThreadPoolExecutor(request.config.getoption("jobs")) as pool:
        yield Alone(pool, cases, references, folder)


def test_gradients(case, outcomes, references, record_errors):
    outcome = outcomes.of(case)
    assert_equals(outcome, references.of(case), record_errors)
    outcome.out.unlink()


@pytest.mark.devices("npu", "cuda")
def test_launches_exit_with_0(outcomes):
    for ranks, left in outcomes.left.items():
        assert left[0].result.returncode == 0, f"{ranks} ranks: {failure_text(left[0].result)}"


@pytest.mark.devices("npu")
def test_operators_that_ran_are_listed(outcomes):
    for left in outcomes.left.values():
        operators = json.loads(left[0].result.stdout.splitlines()[-1])["operators"]
        unknown = [entry["name"] for entry in operators if entry["calls"] > 0 and not entry["used"]]
        assert not unknown, f"called, but not in core/npu/used_operators.inc: {unknown}"
