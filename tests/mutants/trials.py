"""Runs tests with one mutant switched on, and says whether any of them noticed."""
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import time


@dataclasses.dataclass
class Test:
    name: str
    command: list
    folder: str
    environment: dict
    seconds: float = 0  # without a mutant


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
    """The names of the first pattern's tests, then of the next one's; each once, and only those that match `among`."""
    names = []
    for pattern in patterns:
        found = [name for name in sorted(tests) if re.search(pattern, name)]
        if not found:
            raise SystemExit(f"mutate: no test is called {pattern}")
        names += [name for name in found if name not in names and re.search(among, name)]
    return names


def programs_of(names, build):
    """What builds these tests: the program in each one's command; all, where a test is a script. From CMake's own files,
    for ctest names no program that is not built yet."""
    known = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], check=True, capture_output=True,
                           text=True).stdout
    targets = {line.split(":")[0] for line in known.splitlines()}
    programs = {}
    for file in pathlib.Path(build).rglob("CTestTestfile.cmake"):
        for name, command in re.findall(r"^add_test\(\[=*\[(.+?)\]=*\] (.*)\)$", file.read_text(), re.MULTILINE):
            programs[name] = {path.rsplit("/", 1)[-1] for path in re.findall(r'"([^"]+)"', command)} & targets
    wanted = {program for name in names for program in programs.get(name) or ["all"]}
    return sorted(wanted)


def run(test, log, mutant=0, reached="", limit_s=None):
    """The test's exit status; None: it did not end in time."""
    environment = {**os.environ, **test.environment, "TRIREME_MUTANT": str(mutant), "TRIREME_MUTANT_REACHED": reached,
                   "GTEST_FAIL_FAST": "1"}
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


def baseline(tests, folder, build):
    """All without a mutant: their times, or the names of those that fail. What passed since the last build passes."""
    notes, built = folder / "baseline.json", (build / ".ninja_log").stat().st_mtime
    passed = json.loads(notes.read_text()) if notes.exists() and notes.stat().st_mtime > built else {}
    failed = []
    for test in tests:
        if test.name not in passed:
            start = time.monotonic()
            if run(test, folder / f"{test.name}.log") != 0:
                failed.append(test.name)
                continue
            passed[test.name] = time.monotonic() - start
            notes.write_text(json.dumps(passed))
        test.seconds = passed[test.name]
    return failed


def try_mutant(mutant, tests, folder):
    """{"verdict", "test"}: killed, killed by time-out, survived, or not run: no test came past its place."""
    mark, log = folder / f"{mutant.name}.reached", folder / f"{mutant.name}.log"
    for old in (mark, log):
        old.unlink(missing_ok=True)
    for test in tests:
        status = run(test, log, mutant.number, str(mark), limit_s=60 + 10 * test.seconds)
        if status is None:
            return {"verdict": "killed by time-out", "test": test.name}
        if status not in (0, 77):
            return {"verdict": "killed", "test": test.name}
    return {"verdict": "survived" if mark.exists() else "not run", "test": ""}
