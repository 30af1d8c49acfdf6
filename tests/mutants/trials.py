"""Runs tests with one mutant switched on, and says whether any of them noticed."""
import dataclasses
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import threading
import time

SKIPPED = 77


@dataclasses.dataclass
class Test:
    name: str
    command: list
    folder: str
    environment: dict

    def narrowed(self, arguments):
        command = self.command and self.command + arguments  # none: its program is not built
        return dataclasses.replace(self, name=" ".join([self.name, *arguments]), command=command)


def read_tests(build):
    """What ctest would run, by name: its command, folder and environment."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True,
                            text=True).stdout
    tests = {}
    for test in json.loads(listed)["tests"]:
        properties = {one["name"]: one["value"] for one in test.get("properties", [])}
        environment = dict(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", []) if "=" in pair)
        tests[test["name"]] = Test(test["name"], test.get("command", []), properties.get("WORKING_DIRECTORY", build),
                                   environment)
    return tests


def chosen(tests, patterns, among):
    """Pairs of a test's name and further arguments: those of the first pattern, then of the next one. Each once, and only
    tests whose names match `among`."""
    pairs = []
    for pattern in patterns:
        expression, *arguments = shlex.split(pattern.replace("\\", "\\\\"))
        found = [name for name in sorted(tests) if re.search(expression, name)]
        if not found:
            raise SystemExit(f"mutate: no test is called {expression}")
        pairs += [(name, arguments) for name in found if (name, arguments) not in pairs and re.search(among, name)]
    return pairs


def programs_of(names, build):
    """What builds these tests: the program in each one's command; for a script the whole program and what its own folder
    has. From CMake's own files, because ctest names no program that is not built yet."""
    known = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], check=True, capture_output=True,
                           text=True).stdout
    targets = {line.split(":")[0] for line in known.splitlines()}
    wanted = set()
    for file in pathlib.Path(build).rglob("CTestTestfile.cmake"):
        script = {"all", f"{file.parent.relative_to(build)}/all"}
        for name, command in re.findall(r"^add_test\(\[=*\[(.+?)\]=*\] (.*)\)$", file.read_text(), re.MULTILINE):
            if name in names:
                programs = {path.rsplit("/", 1)[-1] for path in re.findall(r'"([^"]+)"', command)} & targets
                wanted |= programs or script
    return sorted(wanted)


def run(test, log, mutant=0, reached="", limit_s=None):
    """The test's exit status; None: it did not end in time."""
    environment = {**os.environ, **test.environment, "TRIREME_MUTANT": str(mutant), "TRIREME_MUTANT_REACHED": reached,
                   "GTEST_FAIL_FAST": "1"}  # our scripts follow it as well
    with open(log, "ab") as output:
        process = subprocess.Popen(test.command, cwd=test.folder, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=output, start_new_session=True)
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        stop(process)
        return None


def stop(process):
    for number, patience_s in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):  # mpirun ends its ranks when asked to
        try:
            os.killpg(process.pid, number)
            process.wait(patience_s)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


class Baseline:
    """Which tests pass without a mutant, and how long each takes. A test is run when it is first needed; what passed since
    the last build passes."""

    def __init__(self, folder, build):
        self.folder, self.notes, self.lock = folder, folder / "baseline.json", threading.Lock()
        built = (build / ".ninja_log").stat().st_mtime
        fresh = self.notes.exists() and self.notes.stat().st_mtime > built
        self.seconds = json.loads(self.notes.read_text()) if fresh else {}
        self.failed, self.skipped = [], []

    def passes(self, test):
        with self.lock:
            if test.name not in self.seconds and test.name not in self.failed + self.skipped:
                self._run(test)
            return test.name in self.seconds

    def _run(self, test):
        start = time.monotonic()
        log = self.folder / (re.sub(r"[^\w.]+", "_", test.name) + ".log")
        status = run(test, log) if test.command else -1
        if status == 0:
            self.seconds[test.name] = time.monotonic() - start
            self.notes.write_text(json.dumps(self.seconds, indent=1))
        else:
            (self.skipped if status == SKIPPED else self.failed).append(test.name)


def try_mutant(mutant, tests, baseline):
    """{"verdict", "test", "seconds"}: killed, killed by time-out, survived, or not run: no test reached its location."""
    folder, start = baseline.folder, time.monotonic()
    mark, log = folder / f"{mutant.name}.reached", folder / f"{mutant.name}.log"
    for old in (mark, log):
        old.unlink(missing_ok=True)
    verdict, killer = "", ""
    for test in filter(baseline.passes, tests):
        status = run(test, log, mutant.number, str(mark), limit_s=60 + 10 * baseline.seconds[test.name])
        if status not in (0, SKIPPED):
            verdict, killer = "killed by time-out" if status is None else "killed", test.name
            break
    verdict = verdict or ("survived" if mark.exists() else "not run")
    return {"verdict": verdict, "test": killer, "seconds": round(time.monotonic() - start, 1)}
