#!/usr/bin/env python3
"""The law of equality, against transformers in fp32: loss, trained tokens, the gradient of every parameter and their
norm, for each family under every kind of layout. By default a small set of cases that covers all pairs of settings."""
import argparse
import collections
import concurrent.futures
import json
import math
import pathlib
import sys
import tempfile
import time

import torch
from safetensors.torch import load_file

import layouts
import tiny_models
from program import failure_text, run, run_many, words_of

LARGEST_ERROR = 1e9
LIMITS = {"loss": 1e-5, "gradient": 1e-4, "grad_norm": 1e-4}
Judge = collections.namedtuple("Judge", "model rows loss tokens grad_norm gradients")


def rows_of(case):
    rows = tiny_models.make_rows()
    if case["rows"] == "one":
        return rows[:1]
    if case["rows"] == "silent":  # micro batches go to the data-parallel ranks in turn: the last rank trains none
        for index, row in enumerate(rows):
            if index // case["micro_batch"] % case["data"] == case["data"] - 1:
                row["labels"] = [-100] * len(row["labels"])
    return rows


def program_rows(case, rows):
    """What the program gets; transformers, without ranks and packing, always sees the rows one by one."""
    return tiny_models.pack(rows, 3) if case["rows"] == "packed" else rows


def make_judge(folder, family, layers, rows, given):
    """What transformers computes for `rows`; leaves the model and the rows `given` to the program in the folder."""
    folder.mkdir(parents=True)
    model = tiny_models.write_model(tiny_models.config_of(family, num_hidden_layers=layers), folder / "model")
    tiny_models.write_rows(folder / "rows.jsonl", given)
    loss, tokens = tiny_models.backward(model, rows)
    gradients = tiny_models.gradients(model)
    norm = tiny_models.norm_of(gradients.values())
    return Judge(folder / "model", folder / "rows.jsonl", loss, tokens, norm, gradients)


def relative(found, wanted):
    """Of numbers or tensors. Non-finite values, and non-zeros where all should be zero, count as the largest error."""
    found, wanted = (torch.as_tensor(value, dtype=torch.float64) for value in (found, wanted))
    difference, size = (found - wanted).norm().item(), wanted.norm().item()
    if difference == 0:
        return 0.0
    return min(difference / size, LARGEST_ERROR) if math.isfinite(difference) and size > 0 else LARGEST_ERROR


def compare(line, found, judge):
    """Errors by kind, the worst parameter, and any other mismatch."""
    if found.keys() != judge.gradients.keys():
        return {}, "", f"names differ: {sorted(found.keys() ^ judge.gradients.keys())}"
    for name, wanted in judge.gradients.items():
        has, wants = (f"{tensor.dtype} {list(tensor.shape)}" for tensor in (found[name], wanted))
        if has != wants:
            return {}, name, f"{name} is {has}; wanted {wants}"
    each = {name: relative(found[name], wanted) for name, wanted in judge.gradients.items()}
    worst = max(each, key=each.get)
    errors = {"loss": relative(line["loss"], judge.loss), "gradient": each[worst],
              "grad_norm": relative(line["grad_norm"], judge.grad_norm)}
    wrong = [kind for kind, limit in LIMITS.items() if errors[kind] > limit]
    if line["tokens"] != judge.tokens:
        wrong.append(f"tokens {line['tokens']}, wanted {judge.tokens}")
    return errors, worst, ", ".join(wrong)


def judge_case(case, judge, out):
    begin = time.monotonic()
    words = ["grads", "--model", judge.model, "--rows", judge.rows, "--out", out]
    result = run(layouts.ranks(case) if layouts.ranks(case) > 1 else None, words, layouts.settings(case))
    seconds = time.monotonic() - begin
    if result.returncode != 0:
        return {"case": case, "seconds": seconds, "errors": {}, "wrong": failure_text(result)}
    try:
        errors, worst, wrong = compare(json.loads(result.stdout), load_file(out), judge)
    except (ValueError, KeyError, OSError) as error:  # the JSON line, a field or the file is missing
        errors, worst, wrong = {}, "", f"{error!r}: {failure_text(result)}"
    out.unlink(missing_ok=True)
    return {"case": case, "seconds": seconds, "errors": errors, "worst": worst, "wrong": wrong}


class Judges:
    """Created on first use, one per model and rows."""

    def __init__(self, folder):
        self.folder, self.made = folder, {}

    def of(self, case):
        rows = rows_of(case)
        given = program_rows(case, rows)
        key = (case["model"], layouts.layers(case), json.dumps(rows), json.dumps(given))
        if key not in self.made:
            self.made[key] = make_judge(self.folder / str(len(self.made)), key[0], key[1], rows, given)
        return self.made[key]


def judge_all(cases, folder, jobs):
    """Yields one record per case, in order."""
    judges = Judges(folder)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(judge_case, case, judges.of(case), folder / f"{number}.safetensors")
                   for number, case in enumerate(cases)]
        for future in running:
            yield future.result()


def judge_together(cases, judges, folder, device):
    """Yields one record per case; all use the same number of ranks, and one launch of the program runs them in turn."""
    ranks, begin = layouts.ranks(cases[0]), time.monotonic()
    outs = [folder / f"{ranks}-{number}.safetensors" for number in range(len(cases))]
    commands = []
    for case, out in zip(cases, outs):
        judge, settings = judges.of(case), [f"device={device}", *layouts.settings(case)]
        commands.append(["grads", "--model", judge.model, "--rows", judge.rows, "--out", out, *words_of(settings)])
    queue = {"TASK_QUEUE_ENABLE": str(ranks % 3)}  # torch_npu's task queue: off, on, and its second mode
    last = ["check", "--npu-ops", "--json"] if device == "npu" else ["--version"]
    result = run_many(ranks if ranks > 1 else None, [*commands, last], variables=queue)
    lines = result.stdout.splitlines()
    for number, (case, out) in enumerate(zip(cases, outs)):
        record = {"case": case, "seconds": (time.monotonic() - begin) / len(cases), "errors": {}}
        if number < len(lines) and out.exists():
            errors, worst, wrong = compare(json.loads(lines[number]), load_file(out), judges.of(case))
            yield {**record, "errors": errors, "worst": worst, "wrong": wrong}
        else:
            yield {**record, "wrong": f"{failure_text(result)}"}
    if result.returncode != 0:
        raise SystemExit(f"FAILED at exit: {failure_text(result)}")
    if device != "npu":
        return
    operators = json.loads(lines[-1])["operators"]
    if unknown := [entry["name"] for entry in operators if entry["calls"] > 0 and not entry["used"]]:
        raise SystemExit(f"FAILED: called, but not in core/npu/used_operators.inc: {unknown}")


def judge_groups(cases, folder, device):
    judges = Judges(folder)
    for ranks in sorted({layouts.ranks(case) for case in cases}):
        yield from judge_together([case for case in cases if layouts.ranks(case) == ranks], judges, folder, device)


def print_record(record):
    numbers = "  ".join(f"{kind} {error:.1e}" for kind, error in record["errors"].items())
    print(f"{'FAILED' if record['wrong'] else 'ok'}: {layouts.text(record['case'])}  {numbers}  "
          f"({record.get('worst', '')}) {record['seconds']:.1f} s {record['wrong']}", flush=True)


def worst_table(records):
    """Worst gradient error per model and rank grid."""
    table = collections.defaultdict(dict)
    for record in records:
        case, error = record["case"], record["errors"].get("gradient", LARGEST_ERROR)
        grid = f"{case['tensor']}x{case['pipeline']}x{case['data']}x{case['context']}"
        table[grid][case["model"]] = max(error, table[grid].get(case["model"], 0.0))
    return dict(sorted(table.items()))


def print_table(table):
    models = layouts.FACTORS["model"]
    print("\nworst gradient error\ntp x pp x dp x cp  " + "  ".join(f"{model:>8}" for model in models))
    for grid, row in table.items():
        print(f"{grid:17}  " + "  ".join(f"{row[model]:8.1e}" if model in row else f"{'-':>8}" for model in models))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help=f"all {len(layouts.all_cases())} cases")
    parser.add_argument("--strength", type=int, default=2, help="cover all combinations of this many settings")
    parser.add_argument("--where", action="append", default=[], metavar="KEY=VALUE", help="only cases with this value")
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write every case and the table there too")
    parser.add_argument("--device", default="cpu", help="cpu, npu or cuda: the latter with one start per number of ranks")
    parser.add_argument("--ranks", type=int, help="at most this many; by default 8 on the cpu, 4 on npu, 1 on cuda")
    parser.add_argument("--jobs", type=int, default=2, help="concurrent cases")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    wanted = [condition.split("=") for condition in arguments.where]
    most = arguments.ranks or {"cpu": layouts.MOST_RANKS, "cuda": 1}.get(arguments.device, 4)
    possible = [case for case in layouts.all_cases()
                if layouts.ranks(case) <= most
                and all(str(case[key]) == value for key, value in wanted)]
    cases = possible if arguments.full else layouts.chosen_cases(possible, arguments.strength, arguments.device)
    if arguments.list:
        print("\n".join(map(layouts.text, cases)), f"{len(cases)} of {len(possible)} cases", sep="\n")
        return 0
    torch.set_num_threads(1)
    records, begin = [], time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for record in (judge_all(cases, folder, arguments.jobs) if arguments.device == "cpu"
                       else judge_groups(cases, folder, arguments.device)):
            print_record(record)
            records.append(record)
    failed = sum(bool(record["wrong"]) for record in records)
    print_table(worst_table(records))
    print(f"{len(records) - failed} of {len(records)} cases equal to transformers, {time.monotonic() - begin:.0f} s")
    if arguments.json:
        report = {"limits": LIMITS, "table": worst_table(records), "cases": records}
        arguments.json.write_text(json.dumps(report, indent=1))
    return 1 if failed or not records else 0


if __name__ == "__main__":
    sys.exit(main())
