"""Tiny random models that see, written by transformers, with rows whose images are patches of noise, and what transformers
computes from them."""
import json
import random

import torch
import transformers
from safetensors.torch import load_file, save_file

import tiny_models
from gradients import Reference

IMAGE, VIDEO, START, END = 998, 999, 1000, 1001
TOKENS = dict(image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=START, vision_end_token_id=END)
PATCH, MERGE = 4, 2
ELEMENTS = 3 * 2 * PATCH * PATCH
TEXT = {**tiny_models.COMMON, "bos_token_id": 1, "eos_token_id": 2}
TEXT.pop("tie_word_embeddings")
TOWER = dict(depth=4, hidden_size=32, intermediate_size=40, num_heads=4, patch_size=PATCH, out_hidden_size=64)
# Windows of 2 x 2 tokens, which do not divide the images.
WINDOWS = dict(TOWER, window_size=16, fullatt_block_indexes=[1, 3])
# A table of positions smaller than some images and larger than others; two layers are tapped.
TABLE = dict(TOWER, num_position_embeddings=36, deepstack_visual_indexes=[0, 2])
CHUNKED = dict(rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[2, 3, 3]))
# Uneven, so that the last pairs are not dealt in turn.
INTERLEAVED = dict(head_dim=24, num_key_value_heads=1, rope_parameters=dict(
    rope_type="default", rope_theta=1e4, mrope_section=[5, 4, 3], mrope_interleaved=True))
EXPERTS = dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=40, mlp_only_layers=[1])
# Half of each head is rotated; no layer is tapped.
PARTLY = dict(num_key_value_heads=1, rope_parameters=dict(
    rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5, mrope_section=[3, 2, 1], mrope_interleaved=True))
UNTAPPED = {key: value for key, value in TABLE.items() if key != "deepstack_visual_indexes"}
# Images are tiles of 4 x 4 patches. InternViT-300M's kind of tower, and InternViT-6B's with a younger text model.
TILE, TILE_ELEMENTS = 4, 3 * PATCH * PATCH
TILES = dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40, patch_size=PATCH,
             image_size=TILE * PATCH, attention_bias=True)
NORMALISED = TILES | dict(attention_bias=False, norm_type="rms_norm", use_qk_norm=True)
TILED = dict(image_seq_length=TILE ** 2 // MERGE ** 2, tie_word_embeddings=False)
MODELS = {
    "internvl": (transformers.InternVLConfig, dict(model_type="qwen2"), TILES, TILED),
    "internvl_6b": (transformers.InternVLConfig, dict(model_type="qwen3", head_dim=24), NORMALISED, TILED),
    "qwen2_5_vl": (transformers.Qwen2_5_VLConfig, CHUNKED, WINDOWS, dict(tie_word_embeddings=True)),
    "qwen3_vl": (transformers.Qwen3VLConfig, INTERLEAVED, TABLE, dict(tie_word_embeddings=False)),
    "qwen3_5": (transformers.Qwen3_5Config, PARTLY | tiny_models.DELTA, UNTAPPED, dict(tie_word_embeddings=True)),
    "qwen3_5_moe": (transformers.Qwen3_5MoeConfig, PARTLY | tiny_models.DELTA | tiny_models.GATED_EXPERTS, UNTAPPED,
                    dict(tie_word_embeddings=False)),
    "qwen3_vl_moe": (transformers.Qwen3VLMoeConfig, INTERLEAVED | EXPERTS, TABLE, dict(tie_word_embeddings=False)),
}


def config_of(family, layers=5):
    make, text, vision, root = MODELS[family]
    tokens = dict(image_token_id=IMAGE) if is_tiled(family) else TOKENS
    return make(text_config={**TEXT, "num_hidden_layers": layers, **text}, vision_config=vision, **tokens, **root)


def is_tiled(family):
    return family.startswith("internvl")


def write_model(config, folder):
    """Random weights; norms, biases and tables too."""
    torch.manual_seed(11)
    model = transformers.AutoModelForImageTextToText.from_config(config, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
            elif name.endswith(("cls_token", "position_embeddings")):
                parameter.copy_(torch.randn_like(parameter) * 0.5)  # transformers starts them at 0
            elif ".visual." in name or ".vision_tower." in name:
                parameter.mul_(5)  # transformers starts towers at 0.02
            if name.endswith("A_log"):  # as tiny_models has them
                parameter.copy_(torch.rand_like(parameter) * 3 - 3)
    model.save_pretrained(folder)
    return model


# By row: its parts, a number of text tokens or an image's grid.
PARTS = [
    [5, (1, 6, 4), 7],
    [3, (1, 4, 10), (1, 2, 2), 6],      # adjacent images
    [(1, 10, 14), 4],                   # an image first, larger than the table of positions
    [19],                               # no image: alone on a data-parallel rank
    [6],
    [9, (1, 2, 8)],                     # an image last
    [2, (1, 4, 4), 3, (1, 6, 2), 5],
    [11, (1, 8, 6), 12],
]


def tiles_of(grid):
    """A number of tiles instead of an image's own grid: one, or a row of them and the whole image."""
    return (1, 3, 5)[grid[1] * grid[2] % 3], TILE, TILE


def make_rows(parts=None, seed=7, tiled=False):
    """Rows with their patches: {"input_ids", "labels", "patches", "image_grid_thw"}. Image tokens are never trained."""
    generator = random.Random(seed)
    torch.manual_seed(seed)
    rows = []
    for part in PARTS if parts is None else parts:
        ids, grids = [], []
        for piece in part:
            if isinstance(piece, int):
                ids += [generator.randrange(990) for _ in range(piece)]
            else:
                grid = tiles_of(piece) if tiled else piece
                ids += [START, *[IMAGE] * (grid[0] * grid[1] * grid[2] // MERGE ** 2), END]
                grids.append(list(grid))
        labels = [token if token != IMAGE and generator.random() < 0.7 else -100 for token in ids]
        rows.append({"input_ids": ids, "labels": labels, "image_grid_thw": grids,
                     "patches": torch.randn(sum(t * h * w for t, h, w in grids), TILE_ELEMENTS if tiled else ELEMENTS)})
    return rows


def pack(rows, count):
    """The same rows as documents of `count` rows, in turn."""
    packed = [{"input_ids": [], "labels": [], "starts": [], "image_grid_thw": [], "patches": []} for _ in range(count)]
    for index, row in enumerate(rows):
        into = packed[index % count]
        into["starts"].append(len(into["input_ids"]))
        for key in ("input_ids", "labels", "image_grid_thw"):
            into[key] = into[key] + row[key]
        into["patches"].append(row["patches"])
    return [{**row, "patches": torch.cat(row["patches"])} for row in packed]


def write_rows(path, rows):
    lines = []
    for index, row in enumerate(rows):
        given = {key: value for key, value in row.items() if key != "patches"}
        if row["image_grid_thw"]:
            given["pixel_values"] = f"{path.stem}-{index}.safetensors"
            save_file({"pixel_values": row["patches"].contiguous()}, path.parent / given["pixel_values"])
        else:
            given.pop("image_grid_thw")
        lines.append(json.dumps(given) + "\n")
    path.write_text("".join(lines))


def pixels_of(patches, side=TILE, patch=PATCH):
    """Tiles [tiles, 3, height, width] from patches in blocks of MERGE x MERGE."""
    blocks = patches.view(-1, side // MERGE, side // MERGE, MERGE, MERGE, 3, patch, patch)
    return blocks.permute(0, 5, 1, 3, 6, 2, 4, 7).reshape(-1, 3, side * patch, side * patch)


def load_patches(path):
    return load_file(path)["pixel_values"]


def patches_of(pixels, side=TILE, patch=PATCH):
    """The inverse."""
    blocks = pixels.view(-1, 3, side // MERGE, MERGE, patch, side // MERGE, MERGE, patch)
    return blocks.permute(0, 2, 5, 3, 6, 1, 4, 7).reshape(-1, 3 * patch * patch)


def images_of(row):
    """What transformers takes beside the tokens."""
    if not row["image_grid_thw"]:
        return {}
    if row["patches"].shape[1] == TILE_ELEMENTS:
        return dict(pixel_values=pixels_of(row["patches"]))
    return dict(pixel_values=row["patches"], image_grid_thw=torch.tensor(row["image_grid_thw"]),
                mm_token_type_ids=torch.tensor([[int(token == IMAGE) for token in row["input_ids"]]]))


def loss_parts(model, rows):
    tokens = tiny_models.trained_tokens(rows)
    for row in rows:
        labels = torch.tensor(row["labels"][1:])
        if (labels == -100).all():
            continue
        types = dict(mm_token_type_ids=torch.zeros(1, len(row["input_ids"]), dtype=torch.long))
        if is_tiled(model.config.model_type):
            types = {}
        logits = model(input_ids=torch.tensor([row["input_ids"]]), **(types | images_of(row))).logits[0, :-1].float()
        yield torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100, reduction="sum") / tokens


def disk_name(name, family):
    """Files of Qwen2.5-VL and InternVL have older names than the modules in memory."""
    if is_tiled(family):
        name = name.replace("model.language_model.", "language_model.model.").replace("lm_head.", "language_model.lm_head.")
        return name.removeprefix("model.")
    if family != "qwen2_5_vl":
        return name
    return name.replace("model.visual.", "visual.").replace("model.language_model.", "model.")


def gradients(model, family):
    found = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            continue
        if family == "qwen3_5_moe":
            found |= tiny_models.in_files(name, parameter.grad, family)
        else:
            stacked = ".experts." in name  # in files each expert's matrix is transposed
            found[disk_name(name, family)] = (parameter.grad.transpose(1, 2) if stacked else parameter.grad).contiguous()
    return found


def make_reference(folder, family, layers, rows, given):
    """What transformers computes from `rows`; the model and the rows `given` to the program are left in the folder."""
    folder.mkdir(parents=True)
    model = write_model(config_of(family, layers), folder / "model")
    write_rows(folder / "rows.jsonl", given)
    loss, tokens = tiny_models.backward(model, rows, loss_parts)
    found = gradients(model, family)
    return Reference(folder / "model", folder / "rows.jsonl", loss, tokens, tiny_models.norm_of(found.values()), found)
