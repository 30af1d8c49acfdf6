"""Exports a profile of the twin: the device measured nothing, so the timeline has a row without events, and its tables are empty.

torch_npu's export calls `msprof --export=on --output=PROF_…` and `msprof --analyze=on …`, waits for a table and puts what
torch recorded on the host beside the timeline. Not a profiler: what the host does, torch's own one shows."""
import argparse
import json
import pathlib
import sys


def main():
    command = argparse.ArgumentParser(prog="msprof", description=__doc__.splitlines()[0])
    command.add_argument("--export", choices=["on", "off"], default="off")
    command.add_argument("--analyze", choices=["on", "off"], default="off")
    command.add_argument("--output", type=pathlib.Path, required=True, help="the PROF_… folder")
    options = command.parse_args()
    if not (options.output / "host").is_dir():
        print(f"msprof: {options.output} is not the folder of a profile: it has no folder 'host'", file=sys.stderr)
        return 2
    if options.export == "on":
        made = options.output / "mindstudio_profiler_output"
        made.mkdir(exist_ok=True)
        # torch_npu appends to its trace what it finds here: with nothing, a comma at the end and no JSON.
        process = {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "Ascend Hardware"}}
        (made / "msprof_0.json").write_text(json.dumps([process]) + "\n")
        (made / "task_time_0.csv").write_text("Device_id,kernel_name,kernel_type\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
