"""Training runs of tiny models that see, for several tests: pictures in files, rows that name them, the run's file, and the
patches that transformers' processor makes of them. Asserts nothing."""
import json

import PIL.Image
import torch
from transformers.models.got_ocr2.image_processing_got_ocr2 import GotOcr2ImageProcessor
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor

import seeing_models
import steps
from program import words_of

PROCESSOR = dict(patch_size=seeing_models.PATCH, temporal_patch_size=2, merge_size=seeing_models.MERGE,
                 size=dict(shortest_edge=64, longest_edge=10 ** 6))
# As many rows as an epoch of steps.py; some share an image's size.
PARTS = [*seeing_models.PARTS, [4, (1, 4, 6), 9], [13], [8, (1, 2, 4), 5, (1, 6, 6), 4], [7, (1, 4, 2), 6]]


TILES = dict(size=dict(height=seeing_models.TILE * seeing_models.PATCH, width=seeing_models.TILE * seeing_models.PATCH),
             image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225])


def tile_patches(pixels):
    return seeing_models.patches_of(GotOcr2ImageProcessor(**TILES)([pixels], crop_to_patches=True, return_tensors="pt")["pixel_values"])


def write_data(model, folder):
    """Adds the processor's settings to the model; writes rows.jsonl and its pictures. Returns the rows with their patches."""
    tiled = seeing_models.is_tiled(model.name)
    settings = dict(image_processor_type="GotOcr2ImageProcessor", **TILES) if tiled else dict(
        image_processor_type="Qwen2VLImageProcessor", **PROCESSOR)
    (model / "preprocessor_config.json").write_text(json.dumps(settings))
    processor, rows = Qwen2VLImageProcessor(**PROCESSOR), seeing_models.make_rows(PARTS, tiled=tiled)
    lines = []
    for number, row in enumerate(rows):
        names, patches = [], []
        for index, (tiles, height, width) in enumerate(row["image_grid_thw"]):
            width *= max(tiles - 1, 1)  # all but the one of the whole image
            pixels = torch.randint(256, (height * seeing_models.PATCH, width * seeing_models.PATCH, 3), dtype=torch.uint8)
            names.append(f"{number}-{index}.png")
            PIL.Image.fromarray(pixels.numpy()).save(folder / names[-1])
            pixels = pixels.permute(2, 0, 1)
            patches.append(tile_patches(pixels) if tiled else processor([pixels], return_tensors="pt")["pixel_values"])
        row["patches"] = torch.cat(patches) if patches else row["patches"]
        images = dict(images=names) if names else {}
        lines.append(json.dumps(dict(input_ids=row["input_ids"], labels=row["labels"], **images)) + "\n")
    (folder / "rows.jsonl").write_text("".join(lines))
    return rows


def train_words(model, data, output, settings):
    """A run in fp32 over rows in their order."""
    sections = {
        "device": "cpu", "model": {"path": str(model), "dtype": "fp32"},
        "data": {"train": [str(data / "rows.jsonl")], "shuffle": False, "packing": False, "max_length": 128,
                 "cache": str(output.parent / "cache")},
        "optimizer": {**steps.COSINE, **steps.ADAMW},
        "run": {"steps": steps.STEPS, "global_batch": steps.BATCH, "micro_batch": 1, "output": str(output)},
        "save": {"every": 0}, "log": {"every": 1},
    }
    path = output.parent / f"{output.name}.yaml"
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items()))
    return ["train", path, *words_of(settings)]


def read_log(output):
    return [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
