"""What all parity tests share: options, a temporary folder, cases of one launch, measured errors in the report. Imports
no torch: some tests set the twin up before they do."""
import json
import os
import pathlib
import sys
import tempfile
import time

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the peer; the program gets its own number (program.py)
DEFAULTS = {"full": False, "strength": 2, "where": [], "device": "cpu", "ranks": None, "jobs": 2}
EXIT_AT_ONCE = pytest.StashKey[bool]()  # past what modules do when the interpreter ends
STATUS = pytest.StashKey[int]()
IMPORTED = pytest.StashKey[float]()  # when all tests were collected


def pytest_addoption(parser):
    group = parser.getgroup("parity tests")
    group.addoption("--full", action="store_true", help="all cases instead of a set that covers their settings")
    group.addoption("--strength", type=int, default=2, help="how many settings must meet in every combination")
    group.addoption("--where", action="append", default=[], metavar="KEY=VALUE", help="only cases with this value")
    group.addoption("--device", default="cpu", choices=["cpu", "npu", "cuda"])
    group.addoption("--ranks", type=int, help="cases of at most so many ranks")
    group.addoption("--jobs", type=int, default=2, help="launches at a time")
    group.addoption("--list", action="store_true", help="print the cases and stop")


def pytest_configure(config):
    if config.getoption("list"):
        config.option.collectonly, config.option.verbose = True, -1


def pytest_collection_modifyitems(config, items):
    """An option that a file does not have is refused; tests of other options are deselected."""
    given = {name for name, default in DEFAULTS.items() if config.getoption(name) != default}
    for module in {item.module for item in items}:
        if unknown := given - set(getattr(module, "OPTIONS", ())):
            raise pytest.UsageError(f"{module.__name__} has no option --{', --'.join(sorted(unknown))}")
    left_out = [item for item in items if any(config.getoption("device") not in mark.args
                                              for mark in item.iter_markers("devices"))
                or any(config.getoption("full") not in mark.args for mark in item.iter_markers("full"))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def text_of(value):
    return f"{value:.1e}" if isinstance(value, float) else str(value)


def pytest_report_teststatus(report):
    """PASSED with what the test recorded, such as its errors."""
    if report.when == "call" and report.passed and report.user_properties:
        numbers = "  ".join(f"{name} {text_of(value)}" for name, value in report.user_properties)
        return "passed", ".", f"PASSED  {numbers}"
    return None


def pytest_terminal_summary(terminalreporter):
    """The largest of each error that was recorded."""
    worst = {}
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, value in report.user_properties:
            if report.when == "call" and isinstance(value, float):
                worst[name] = max(worst.get(name, (0.0, "")), (value, report.nodeid.split("::")[-1]))
    for name, (value, case) in sorted(worst.items()):
        terminalreporter.write_line(f"largest {name}: {value:.1e} in {case}")


def seconds_alive():
    """Since this process was started, or forked by the judge."""
    started = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")


def pytest_collection_finish(session):
    session.config.stash[IMPORTED] = seconds_alive()


def pytest_sessionfinish(session, exitstatus):
    """Notes where the time went, for scripts/test."""
    session.config.stash[STATUS] = int(exitstatus)
    launches = sys.modules["program"].LAUNCHES if "program" in sys.modules else []
    if folder := os.environ.get("TRIREME_TEST_TIMES"):
        with open(f"{folder}/sessions", "a") as file:
            file.write(json.dumps({"arguments": session.config.invocation_params.args, "seconds": seconds_alive(), "launched": sum(launches),
                                   "imports": session.config.stash.get(IMPORTED, 0.0), "launches": len(launches)}) + "\n")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    if config.stash.get(EXIT_AT_ONCE, False):
        sys.stdout.flush()
        os._exit(config.stash[STATUS])


@pytest.fixture(scope="session")
def exit_at_once(request):
    """For tests that leave an imported module unable to end."""
    request.config.stash[EXIT_AT_ONCE] = True


@pytest.fixture(scope="session")
def device(request):
    return request.config.getoption("device")


@pytest.fixture(scope="module")
def folder():
    """A temporary folder of the module."""
    with tempfile.TemporaryDirectory() as scratch:
        yield pathlib.Path(scratch)


@pytest.fixture(scope="session")
def selected(request):
    """selected(test_function): those of its cases that this session runs, which is what one launch has to cover."""
    def cases(function, parameter="case"):
        return [item.callspec.params[parameter] for item in request.session.items if item.function is function]
    return cases


@pytest.fixture
def record_errors(record_property):
    """Errors by name, for the report."""
    def record(errors):
        for name, error in errors.items():
            record_property(name, error)
    return record
