"""Runs a client's script and leaves without Python's shutdown: remote_script.py SCRIPT WORDS... tinker 0.36.0 has a daemon
thread that, about once in fifty scripts on a busy machine, aborts a Python that has already ended its main program. That
status would say nothing about the server."""
import os
import runpy
import sys
import traceback

sys.argv.pop(0)
sys.path.insert(0, os.path.dirname(sys.argv[0]))
status = 0
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    status = end.code or 0
except BaseException:  # noqa: BLE001: the status says it
    traceback.print_exc()
    status = 1
sys.stdout.flush()
sys.stderr.flush()
os._exit(status)
