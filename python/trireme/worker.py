"""The process that runs a user's function beside the program: `python worker.py reward FILE.py:FUNCTION --seconds N`, or metric. The
program writes a JSON line for each sampling, or evaluation, and reads one. FILE may be a socket of a Python that has the function
already (callbacks.py). What the function prints goes to stderr. Imports nothing but Python's own library, and runs without Trireme
being installed in this Python."""
import argparse
import importlib.util
import json
import os
import pathlib
import socket
import stat
import sys
import threading
import time


def seconds_alive():
    """Of this process, of which Python's own start takes a part."""
    ticks = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


STARTED = time.monotonic() - seconds_alive()
if not __package__:  # run by its path: the package is around it, and nothing of it may hide the user's modules
    here = pathlib.Path(__file__).resolve().parent
    sys.path[:] = [folder for folder in sys.path if pathlib.Path(folder or ".").resolve() != here]
    spec = importlib.util.spec_from_file_location("trireme", here / "__init__.py", submodule_search_locations=[str(here)])
    sys.modules["trireme"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["trireme"])
from trireme.metric_functions import MetricFunction  # noqa: E402
from trireme.reward_functions import RewardFunction  # noqa: E402
from trireme.user_functions import FunctionError, where_in  # noqa: E402

KINDS = {"reward": RewardFunction, "metric": MetricFunction}
LIMITS = {"reward": "rl.reward_seconds = {:g}", "metric": "the {:g} s of a metric"}


def module_of(path):
    """The user's file as a module, importable by its name and with the modules beside it, as if Python had been started with it."""
    if not path.is_file():
        raise FunctionError(f"cannot be loaded: there is no file {path}")
    sys.path.insert(0, str(path.resolve().parent))
    found = importlib.util.spec_from_file_location(path.stem, path)
    if found is None:
        raise FunctionError(f"cannot be loaded: {path} is not a Python file")
    module = importlib.util.module_from_spec(found)
    sys.modules[path.stem] = module
    try:
        found.loader.exec_module(module)
    except BaseException as error:
        at = f" at {path.name}:{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else where_in(error)
        raise FunctionError(f"cannot be loaded: {type(error).__name__}: {getattr(error, 'msg', error)}{at}") from error
    return module


def function_in(path, name):
    module = module_of(path)
    if not hasattr(module, name):
        own = [key for key, value in vars(module).items() if callable(value) and getattr(value, "__module__", "") == module.__name__]
        raise FunctionError(f"is not in {path}; that has {', '.join(own) or 'no functions'}")
    return getattr(module, name)


def frame_text(thread, file):
    """Where a thread is now: the innermost line of the user's file, or of anything."""
    frame = sys._current_frames().get(thread)
    places = []
    while frame is not None:
        places.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    named = [place for place in places if os.path.basename(place[0]) == os.path.basename(file)] or places
    return f"it is at {os.path.basename(named[0][0])}:{named[0][1]}, in {named[0][2]}" if named else "it is nowhere"


def time_to_answer(seconds):
    """Less than the program waits, so that it hears why there is no answer."""
    return seconds - min(0.5, seconds / 5)


class Answers:
    """Lines for lines. `load` gives the function; it is called at the first line, so that its errors are answers, too."""

    def __init__(self, kind, name, load):
        self._make = lambda: KINDS[kind](load(), name)
        self._function = None

    def __call__(self, line):
        try:
            asked = json.loads(line)
            if self._function is None:
                self._function = self._make()
            return self._function.answer(asked)
        except FunctionError as error:
            return {"error": str(error), "cause": error.__cause__}


class Output:
    """Where answers go: one line per question, whoever has it first."""

    def __init__(self, file):
        self._file = file
        self._lock = threading.Lock()
        self._asked = 0
        self._answered = 0

    def ask(self):
        self._asked += 1
        return self._asked

    def answer(self, question, answer):
        """False: it has been answered already."""
        with self._lock:
            if question <= self._answered:
                return False
            self._answered = question
            self._file.write(json.dumps({key: value for key, value in answer.items() if key != "cause"}).encode() + b"\n")
            self._file.flush()
            return True


def own_output():
    """The program's end of this process; what the user's code prints is no answer and goes to stderr."""
    output = Output(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    return output


def serve(lines, output, answers, file, limit, end, started=None):
    """One question at a time. One that takes too long is answered with where it is, and end() is called: nothing ends a Python
    function but its process. `limit`: its kind, and the seconds that it has; `started`: when the first one began to wait."""
    kind, seconds = limit
    own, thread = os.getpid(), threading.get_ident()

    def give_up(question):
        if output.answer(question, {"error": f"took longer than {LIMITS[kind].format(seconds)}; {frame_text(thread, file)}"}):
            end()

    for line in lines:
        question = output.ask()
        begun, started = started or time.monotonic(), None
        watch = threading.Timer(max(begun + time_to_answer(seconds) - time.monotonic(), 0.01), give_up, [question])
        watch.daemon = True
        watch.start()
        answer = answers(line)
        if os.getpid() != own:  # the function has forked, and its child has come back out of it
            os._exit(0)
        watch.cancel()
        output.answer(question, answer)
        report(answer)


def report(answer):
    """The whole traceback of an error, for whoever reads the program's stderr."""
    if answer.get("cause") is not None:
        import traceback
        error = answer["cause"]
        traceback.print_exception(type(error), error, error.__traceback__)


def relay(path, kind, name, seconds, output):
    """Passes lines to the Python that has the function, and back."""
    with socket.socket(socket.AF_UNIX) as end:
        end.connect(str(path))
        stream = end.makefile("rwb")
        stream.write(json.dumps([kind, name, seconds]).encode() + b"\n")
        for line in sys.stdin.buffer:
            question = output.ask()
            stream.write(line)
            stream.flush()
            answer = stream.readline()
            if not answer:
                return "the Python that has the function has ended"
            output.answer(question, json.loads(answer))
    return 0


def main():
    parser = argparse.ArgumentParser("trireme.worker", description=__doc__)
    parser.add_argument("kind", choices=list(KINDS))
    parser.add_argument("function", metavar="FILE.py:FUNCTION")
    parser.add_argument("--seconds", type=float, default=60, help="for one question")
    options = parser.parse_args()
    file, _, name = options.function.rpartition(":")
    path = pathlib.Path(file)
    output = own_output()
    if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
        return relay(path, options.kind, name, options.seconds, output)
    answers = Answers(options.kind, name, lambda: function_in(path, name))
    serve(sys.stdin.buffer, output, answers, file, (options.kind, options.seconds), lambda: os._exit(1), STARTED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
