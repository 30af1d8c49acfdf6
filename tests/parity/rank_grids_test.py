"""The rank grids, against megatron-core's own rank generator: the groups of every axis for many layouts."""
import json
import random

import pytest
from megatron.core.parallel_state import RankGenerator

from program import run_well

DENSE = {"tp": "tp", "cp": "cp", "dp": "dp", "pp": "pp", "dp-cp": "dp-cp", "tp-cp": "tp-cp"}
EXPERT = {"etp": "tp", "ep": "ep", "edp": "dp"}


def layouts(count):
    """(world, tensor, context, pipeline, expert, expert tensor) that both grids can hold, worked examples first."""
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
    result = run_well(None, ["plan", "--json", "--world", world],
                      [f"parallel.{key}={value}" for key, value in settings.items()])
    return json.loads(result.stdout)["axes"]


LAYOUTS = list(layouts(50))
ORDER = "tp-cp-ep-dp-pp"


@pytest.mark.parametrize("layout", LAYOUTS, ids=[
    "world {} tp {} cp {} pp {} ep {} etp {}".format(*layout) for layout in LAYOUTS])
def test_groups(layout):
    world, tp, cp, pp, ep, etp = layout
    axes = ours(*layout)
    dense = RankGenerator(tp=tp, ep=1, dp=world // (tp * cp * pp), pp=pp, cp=cp, order=ORDER)
    expert = RankGenerator(tp=etp, ep=ep, dp=world // (etp * ep * pp), pp=pp, cp=1, order=ORDER)
    for generator, names in ((dense, DENSE), (expert, EXPERT)):
        for name, token in names.items():
            assert axes[name] == generator.get_ranks(token), f"groups of {name}"
