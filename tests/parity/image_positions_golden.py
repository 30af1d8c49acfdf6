#!/usr/bin/env python3
"""Writes tests/parallel/pass/image_positions.golden: positions of M-RoPE by transformers, for rows drawn at random.

A line is a case: merge size; the row's tokens as runs (t N: N tokens of text; i H W: an image of H x W patches); and a digest of
Qwen2.5-VL's and Qwen3-VL's positions, which agree: the sum of position x (index + 1) modulo 2^32 over [3, tokens], and
the largest. Run again only where the pinned transformers changes.
"""
import random
import sys
import types

import torch
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel


def positions(cls, merge, types_, grids):
    config = types.SimpleNamespace(vision_config=types.SimpleNamespace(spatial_merge_size=merge, tokens_per_second=2))
    model = types.SimpleNamespace(config=config)
    model.get_vision_position_ids = types.MethodType(cls.get_vision_position_ids, model)
    ids = torch.zeros(1, len(types_), dtype=torch.long)
    grid = torch.tensor(grids) if grids else None
    return cls.get_rope_index(model, ids, torch.tensor([types_]), image_grid_thw=grid)[0][:, 0]


def main():
    draw = random.Random(7)
    for case in range(60):
        merge = draw.choice([1, 2, 2, 2, 3])
        runs, kinds, grids = [], [], []
        for _ in range(draw.randint(1, 6)):
            n = draw.randint(1, 9)
            runs.append(f"t {n}")
            kinds += [0] * n
            if draw.random() < 0.7:
                h, w = merge * draw.randint(1, 8), merge * draw.randint(1, 8)
                runs.append(f"i {h} {w}")
                kinds += [1] * (h * w // merge**2)
                grids.append([1, h, w])
        if case % 5 == 0 and len(runs) > 1:  # a row that begins with an image
            n = int(runs[0].split()[1])
            if runs[1][0] == "i":
                runs, kinds = runs[1:], kinds[n:]
        found = [positions(cls, merge, kinds, grids) for cls in (Qwen2_5_VLModel, Qwen3VLModel)]
        assert torch.equal(*found)
        flat = found[0].flatten()
        total = sum(int(p) * (i + 1) for i, p in enumerate(flat)) % 2**32
        print(f"{merge} | {' '.join(runs)} | {total} {int(flat.max())}")


if __name__ == "__main__":
    sys.exit(main())
