#!/usr/bin/env python3
"""The rank grids against megatron-core's own rank generator: the groups of every axis for many layouts."""
import json
import os
import pathlib
import random
import subprocess
import sys

from megatron.core.parallel_state import RankGenerator

BUILD = pathlib.Path(os.environ.get("TRIREME_BUILD", "build"))
DENSE = {"tp": "tp", "cp": "cp", "dp": "dp", "pp": "pp", "dp-cp": "dp-cp", "tp-cp": "tp-cp"}
EXPERT = {"etp": "tp", "ep": "ep", "edp": "dp"}


def layouts(count):
    """(world, tensor, context, pipeline, expert, expert tensor) that both grids support, worked examples first."""
    yield (16, 2, 2, 2, 1, 1)
    yield (16, 2, 2, 2, 4, 1)
    yield (16, 2, 2, 2, 2, 2)
    generator = random.Random(3)
    sizes = [1, 2, 3, 4, 8]
    while count > 0:
        tp, cp, pp, ep, etp, rest = (generator.choice(sizes) for _ in range(6))
        world = tp * cp * pp * rest
        if world <= 256 and (world // pp) % (ep * etp) == 0:
            count -= 1
            yield (world, tp, cp, pp, ep, etp)


def ours(world, tp, cp, pp, ep, etp):
    settings = dict(tensor=tp, context=cp, pipeline=pp, expert=ep, expert_tensor=etp)
    command = [str(BUILD / "trireme"), "plan", "--json", "--world", str(world)]
    for key, value in settings.items():
        command += ["--set", f"parallel.{key}={value}"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    compared = 0
    for world, tp, cp, pp, ep, etp in layouts(50):
        axes = ours(world, tp, cp, pp, ep, etp)["axes"]
        dense = RankGenerator(tp=tp, ep=1, dp=world // (tp * cp * pp), pp=pp, cp=cp, order="tp-cp-ep-dp-pp")
        expert = RankGenerator(tp=etp, ep=ep, dp=world // (etp * ep * pp), pp=pp, cp=1, order="tp-cp-ep-dp-pp")
        for generator, names in ((dense, DENSE), (expert, EXPERT)):
            for our_name, token in names.items():
                wanted = generator.get_ranks(token)
                if axes[our_name] != wanted:
                    print(f"FAILED: world {world} tp {tp} cp {cp} pp {pp} ep {ep} etp {etp}: {our_name} is "
                          f"{axes[our_name]}; megatron-core has {wanted}")
                    return 1
                compared += 1
    print(f"ok: {compared} kinds of groups equal to megatron-core's")
    return 0 if compared > 400 else 1


if __name__ == "__main__":
    sys.exit(main())
