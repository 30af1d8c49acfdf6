"""What the scripts that compare speed by hand share: this script again as the peer's process, and one of our runs' log."""
import json
import os
import subprocess
import sys

from program import BUILD, failure_text, start, words_of


def run_peer(script, folder, options, *words):
    """The last line that `script --peer FOLDER OPTIONS` prints, in a process of its own with both cores."""
    command = [sys.executable, "-W", "ignore", script, "--peer", str(folder), json.dumps(options), *words]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "2"})
    if result.returncode != 0:
        raise SystemExit(failure_text(result)[-3000:])
    return json.loads(result.stdout.strip().splitlines()[-1])


def run_ours(folder, settings, hang_seconds, number=[0]):
    """The log of a training run with two threads, a line per step."""
    number[0] += 1
    output = folder / f"run-{number[0]}"
    (folder / "run.yaml").write_text("")
    result = start(None, [BUILD / "trireme", "train", folder / "run.yaml", *words_of(
        ["device=cpu", f"model.path={folder / 'model'}", "model.dtype=bf16", "run.micro_batch=1", "save.every=0",
         f"run.output={output}", *settings])], threads=2, hang_seconds=hang_seconds)
    if result.returncode != 0:
        raise SystemExit(failure_text(result)[-3000:])
    return [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
