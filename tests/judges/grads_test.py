#!/usr/bin/env python3
"""The law of equality, judged by transformers: loss and gradient of every parameter, for each family and layout."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file

from tiny_models import configs, reference, write_model, write_rows

BUILD = pathlib.Path(os.environ.get("TRIREME_BUILD", "build"))
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--quiet",
          "--mca", "mpi_yield_when_idle", "1"]
LOSS_LIMIT, GRADIENT_LIMIT = 1e-5, 1e-4
# ranks and settings; data parallel is what remains
LAYOUTS = [
    (1, []),
    (1, ["run.micro_batch=3"]),
    (2, ["parallel.tensor=2"]),
    (2, ["parallel.tensor=2", "parallel.sequence=false"]),
    (4, ["parallel.tensor=4"]),
    (3, []),
    (4, ["parallel.tensor=2", "run.micro_batch=2"]),
]


def run_grads(ranks, settings, model, rows, out):
    command = [str(BUILD / "trireme"), "grads", "--model", str(model), "--rows", str(rows), "--out", str(out)]
    for setting in settings:
        command += ["--set", setting]
    launch = command if ranks == 1 else [*MPIRUN, "-n", str(ranks), *command]
    result = subprocess.run(launch, capture_output=True, text=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(launch)}: status {result.returncode}\n{result.stdout}{result.stderr}")
    return json.loads(result.stdout), load_file(out)


def worst_error(found, wanted):
    assert found.keys() == wanted.keys(), f"names differ: {sorted(found.keys() ^ wanted.keys())}"
    errors = {name: ((found[name].double() - wanted[name].double()).norm() / wanted[name].double().norm()).item()
              for name in wanted}
    return max(errors.items(), key=lambda item: item[1])


def main():
    torch.set_num_threads(1)
    failed = 0
    for family, config in configs().items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            model = write_model(config, folder / "model")
            rows = write_rows(folder / "rows.jsonl")
            loss, tokens, gradients = reference(model, rows)
            for ranks, settings in LAYOUTS:
                line, found = run_grads(ranks, settings, folder / "model", folder / "rows.jsonl", folder / "out.safetensors")
                loss_error = abs(line["loss"] - loss) / abs(loss)
                name, gradient_error = worst_error(found, gradients)
                bad = loss_error > LOSS_LIMIT or gradient_error > GRADIENT_LIMIT or line["tokens"] != tokens
                failed += bad
                print(f"{'FAILED' if bad else 'ok'}: {family:7} {ranks} ranks {' '.join(settings) or '-':45} "
                      f"loss {loss_error:.1e}  worst gradient {gradient_error:.1e} ({name})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
