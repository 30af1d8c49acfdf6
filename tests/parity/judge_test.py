"""The judge itself, without peers: a session that it runs has the status, the words, the folder, the environment and the streams of
the one that asked, and ends with it; one whose imports would read other variables runs by itself."""
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

HERE = pathlib.Path(__file__).resolve().parent
JUDGE = "import sys; sys.path.insert(0, {!r}); import judge; judge.PEERS = ('pytest',); judge.main()".format(str(HERE))
SESSION = textwrap.dedent("""
    import os, pathlib, sys, time
    def test_told():
        print("told", os.getcwd(), os.environ["TOLD"], "judge" in sys.modules, file=sys.stderr)
    def test_wrong():
        assert False
    def test_slow():
        pathlib.Path(os.environ["TOLD"]).write_text(str(os.getpid()))
        time.sleep(600)
""")


@pytest.fixture
def session(tmp_path):
    (tmp_path / "session_test.py").write_text(SESSION)
    return tmp_path / "session_test.py"


def judged(folder, script, **variables):
    """What a shell script prints that runs below a judge; `ask WORDS` is a session."""
    ask = f'ask() {{ {sys.executable} -I {HERE}/ask_judge.py {sys.executable} -m pytest -p no:cacheprovider -s -q "$@"; }}\n'
    environment = {**{name: value for name, value in os.environ.items() if name != "TRIREME_JUDGE"}, "TOLD": "a word", **variables}
    return subprocess.run([sys.executable, "-c", JUDGE, "bash", "-c", ask + script], cwd=folder, env=environment,
                          capture_output=True, text=True)


def test_a_session_is_the_askers(tmp_path, session):
    (tmp_path / "elsewhere").mkdir()
    result = judged(tmp_path, f'cd elsewhere; TOLD="another word" ask {session} -k told; echo "status $?"; exit 7')
    assert f"told {tmp_path}/elsewhere another word True" in result.stderr, result.stderr
    assert "1 passed" in result.stdout and "status 0" in result.stdout and result.returncode == 7, result


def test_a_failure_is_told(tmp_path, session):
    result = judged(tmp_path, f'ask {session} -k wrong; echo "status $?"')
    assert "1 failed" in result.stdout and "status 1" in result.stdout and result.returncode == 0, result


def test_other_variables_of_imports_import_again(tmp_path, session):
    result = judged(tmp_path, f'HF_HOME=/nowhere ask {session} -k told; echo "status $?"')
    assert f"told {tmp_path} a word False" in result.stderr and "status 0" in result.stdout, result


def test_a_session_ends_with_its_asker(tmp_path, session):
    note = tmp_path / "process"
    slow = f"{sys.executable} -I {HERE}/ask_judge.py {sys.executable} -m pytest -p no:cacheprovider -q {session} -k slow"
    judged(tmp_path, f"""export TOLD={note}
                         {slow} & asker=$!
                         until [ -s {note} ]; do sleep 0.1; done
                         kill -9 $asker
                         while kill -0 "$(cat {note})" 2>/dev/null; do sleep 0.1; done
                         touch {note}.gone""")
    assert pathlib.Path(f"{note}.gone").exists()
