"""Images from files to patches, and conversations with them as tokens, against transformers' processors: the same
grids, ids and bits, for generated files of every format that is read. The peer loads a file with its load_image, and with torchvision where that reads the format, too."""
import base64
import json
import os
import pathlib
import random

import numpy as np
import PIL.Image
import pytest
import torch
from transformers.image_utils import load_image, load_image_as_tensor
from transformers.models.got_ocr2.image_processing_got_ocr2 import GotOcr2ImageProcessor
from transformers.models.internvl.processing_internvl import InternVLProcessor
from transformers.models.internvl.video_processing_internvl import InternVLVideoProcessor
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor

import data_speed
import drawn_images
import image_chats
import program
import seeing_models
from transformers.models.qwen2_5_vl.processing_qwen2_5_vl import Qwen2_5_VLProcessor
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor
from transformers.models.qwen3_vl.processing_qwen3_vl import Qwen3VLProcessor
from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor

COUNT = 400
CLIP = dict(image_mean=[0.48145466, 0.4578275, 0.40821073], image_std=[0.26862954, 0.26130258, 0.27577711])
# As published; the limits of Qwen2.5-VL's are smaller here so that they are met by small files.
SETTINGS = {
    "qwen2_5_vl": dict(patch_size=14, temporal_patch_size=2, merge_size=2, min_pixels=3136, max_pixels=120000, **CLIP),
    "qwen3_vl": dict(patch_size=16, temporal_patch_size=2, merge_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3,
                     size={"shortest_edge": 65536, "longest_edge": 16777216}),
}
# Tiles of 8 x 8 patches, smaller than InternVL's, so that small files have several.
TILE, TILE_PATCH = 56, 7
TILES = dict(size={"height": TILE, "width": TILE}, min_patches=1, max_patches=12, crop_to_patches=False,
             image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225])
PATCHES = pathlib.Path(os.environ.get("TRIREME_IMAGE_PATCHES", program.BUILD / "tests/images/image_patches"))


def write_settings(folder, family):
    """Qwen2.5-VL's and InternVL's as published files have them, Qwen3-VL's as transformers 5 writes them."""
    folder.mkdir()
    if family == "internvl":
        settings = {"image_processor_type": "GotOcr2ImageProcessorFast", "resample": 3, "do_resize": True, **TILES}
        (folder / "preprocessor_config.json").write_text(json.dumps(settings))
        (folder / "config.json").write_text(json.dumps({"vision_config": {"patch_size": [TILE_PATCH] * 2, "image_size": [TILE] * 2}}))
        return folder
    settings = {"image_processor_type": "Qwen2VLImageProcessor", "resample": 3, "do_resize": True, **SETTINGS[family]}
    if family == "qwen3_vl":
        (folder / "processor_config.json").write_text(json.dumps({"image_processor": settings}))
    else:
        (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return folder


def ours(folder, model, names):
    """Per name the grid and patches, or the reason why there are none."""
    out = folder / "patches.bin"
    result = program.start(None, [PATCHES, model, out], stdin="".join(f"{name}\n" for name in names))
    assert result.returncode == 0, program.failure_text(result)
    floats = 3 * TILE_PATCH ** 2 if model.name == "internvl" else 3 * 2 * SETTINGS[model.name]["patch_size"] ** 2
    found = []
    with out.open("rb") as file:
        for line in result.stdout.splitlines():
            grid = np.fromfile(file, np.int64, 3)
            patches = np.fromfile(file, np.float32, grid.prod() * floats).reshape(-1, floats)
            found.append((tuple(grid.tolist()), patches) if line == "ok" else line)
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return drawn_images.draw_files(tmp_path_factory.mktemp("images"), COUNT)


@pytest.mark.parametrize("family", SETTINGS)
def test_patches_are_the_processors(family, files, tmp_path, record_property):
    model = write_settings(tmp_path / family, family)
    processor = Qwen2VLImageProcessor(**SETTINGS[family])
    compared = both = 0
    for path, found in zip(files, ours(tmp_path, model, files), strict=True):
        pixels = np.array(load_image(str(path)))
        tensor = torch.from_numpy(pixels).permute(2, 0, 1)
        if path.suffix in (".png", ".jpg", ".webp") and path.name.split(".")[1] not in ("cmyk", "16"):
            assert torch.equal(load_image_as_tensor(str(path)), tensor), f"{path.name}: the two loaders of the peer differ"
            both += 1
        wanted = processor([tensor], return_tensors="pt")
        assert not isinstance(found, str), found
        assert found[0] == tuple(wanted["image_grid_thw"][0].tolist()), path.name
        different = int((found[1] != wanted["pixel_values"].numpy()).sum())
        assert different == 0, f"{path.name} {pixels.shape}: {different} of {found[1].size} values differ"
        compared += 1
    record_property("images", compared)
    record_property("read by both loaders", both)


def test_tiles_are_the_processors(files, tmp_path, record_property):
    """InternVL's processor cuts tiles although the settings say crop_to_patches: false."""
    model = write_settings(tmp_path / "internvl", "internvl")
    processor, side, counts = GotOcr2ImageProcessor(**TILES), TILE // TILE_PATCH, set()
    for path, found in zip(files, ours(tmp_path, model, files), strict=True):
        tensor = torch.from_numpy(np.array(load_image(str(path)))).permute(2, 0, 1)
        wanted = processor([tensor], crop_to_patches=True, return_tensors="pt")["pixel_values"]
        assert not isinstance(found, str), found
        assert found[0] == (len(wanted), side, side), path.name
        assert torch.equal(seeing_models.pixels_of(torch.from_numpy(found[1]), side, TILE_PATCH), wanted), path.name
        counts.add(len(wanted))
    assert {1, 2 + 1, 4 + 1, 12 + 1} <= counts, counts
    record_property("images", len(files))


def test_a_data_url_is_its_file(files, tmp_path):
    model = write_settings(tmp_path / "qwen3_vl", "qwen3_vl")
    urls = ["data:image/png;base64," + base64.b64encode(path.read_bytes()).decode() for path in files[:12]]
    for of_file, of_url in zip(ours(tmp_path, model, files[:12]), ours(tmp_path, model, urls), strict=True):
        assert of_file[0] == of_url[0] and np.array_equal(of_file[1], of_url[1])


def test_what_cannot_be_used_is_named(files, tmp_path):
    model = write_settings(tmp_path / "qwen2_5_vl", "qwen2_5_vl")
    whole = {path.suffix: path for path in files if PIL.Image.open(path).size[0] > 60 and PIL.Image.open(path).size[1] > 60}
    names, wanted = [], []
    for suffix, path in whole.items():
        cut = tmp_path / f"cut{suffix}"
        cut.write_bytes(path.read_bytes()[:path.stat().st_size // 2])
        names.append(cut)
        wanted.append("truncated")
    thin = tmp_path / "thin.png"
    PIL.Image.new("RGB", (201, 1)).save(thin)
    bomb = tmp_path / "bomb.png"
    PIL.Image.new("1", (20000, 20000)).save(bomb)
    text, empty = tmp_path / "text.jpg", tmp_path / "empty.png"
    text.write_text("no image")
    empty.write_bytes(b"")
    names += [thin, bomb, text, empty, tmp_path / "missing.png", "https://example.com/a.png", "data:image/png,abc"]
    wanted += ["200 times", "20000 x 20000 pixels are more than 178956970", "none of JPEG", "empty", "missing.png",
               "not downloaded", "base64"]
    for name, found, text in zip(names, ours(tmp_path, model, names), wanted, strict=True):
        assert isinstance(found, str) and text in found and str(name).split(",")[0] in found, (name, found)


def tile_processor(model):
    tokenizer = image_chats.write_model(model, "internvl")
    return InternVLProcessor(GotOcr2ImageProcessor(**TILES), tokenizer, InternVLVideoProcessor(), chat_template=tokenizer.chat_template,
                             image_seq_length=(TILE // TILE_PATCH // 2) ** 2)


PROCESSORS = {"qwen2_5_vl": (Qwen2_5_VLProcessor, Qwen2VLVideoProcessor), "qwen3_vl": (Qwen3VLProcessor, Qwen3VLVideoProcessor)}
CONVERSATIONS = 150  # of each family


def chats_of(family, tmp_path):
    """A model's directory, the peer's processor of it, conversations, and a file of them as records."""
    model = write_settings(tmp_path / family, family)
    tokenizer = image_chats.write_model(model, family)
    kind, video = PROCESSORS[family]
    settings = {**SETTINGS[family], **({"size": {"shortest_edge": 4096, "longest_edge": 65536}} if family == "qwen3_vl" else {})}
    processor = kind(Qwen2VLImageProcessor(**settings), tokenizer, video(), chat_template=image_chats.TEMPLATES[family])
    draw, folder = random.Random(3), tmp_path / "files"
    files = image_chats.small_files(folder)
    turns = [image_chats.draw_turns(draw, files) for _ in range(CONVERSATIONS)]
    path = folder / "chats.jsonl"
    path.write_text("".join(json.dumps(image_chats.as_record(draw, one)) + "\n" for one in turns))
    return model, processor, turns, path


@pytest.mark.parametrize("family", SETTINGS)
def test_tokens_are_the_processors(family, tmp_path, record_property):
    model, processor, turns, path = chats_of(family, tmp_path)
    if family == "qwen3_vl":  # smaller than published, so that rows are short; and so min_pixels and max_pixels of a run are used
        text = (model / "processor_config.json").read_text()
        (model / "processor_config.json").write_text(text.replace("65536", "4096").replace("16777216", "65536"))
    rows, _ = data_speed.ours(model, path, tmp_path, packing=False, data={"max_length": 100000})
    assert len(rows) == len(turns)
    tokens = path.parent / "tokens.jsonl"  # the same as rows of tokens, for which the images are named beside them
    tokens.write_text("".join(json.dumps({"input_ids": row["input_ids"], "labels": row["labels"],
                                          "images": [str(part) for _, parts in one for part in parts if not isinstance(part, str)]})
                              + "\n" for row, one in zip(rows, turns, strict=True)))
    assert data_speed.ours(model, tokens, tmp_path, packing=False, data={"max_length": 100000})[0] == rows
    pad, images = processor.image_token_id, 0
    for row, one in zip(rows, turns, strict=True):
        wanted = processor.apply_chat_template(image_chats.as_peer(one), tokenize=True, return_dict=True, return_tensors="pt")
        assert row["input_ids"] == wanted["input_ids"][0].tolist(), one
        grids = wanted["image_grid_thw"].tolist() if "image_grid_thw" in wanted else []
        assert [image[1:] for image in row["images"]] == [grid[1:] for grid in grids]
        starts = [i for i, token in enumerate(row["input_ids"]) if token == pad and row["input_ids"][i - 1] != pad]
        assert [image[0] for image in row["images"]] == starts
        if grids:
            assert row["pixels"] == pytest.approx(float(wanted["pixel_values"].double().sum()), rel=1e-6, abs=1e-3)
        trained = [label for label in row["labels"] if label != -100]
        answers = "".join(text + "<|im_end|>\n" for role, (text, *_) in one if role == "assistant")
        assert processor.tokenizer.decode(trained) == answers and pad not in trained
        images += len(grids)
    record_property("conversations", len(rows))
    record_property("images", images)


def test_tokens_of_tiles_are_the_processors(tmp_path, record_property):
    model, folder, draw = write_settings(tmp_path / "internvl", "internvl"), tmp_path / "files", random.Random(4)
    processor, files = tile_processor(model), image_chats.small_files(folder)
    turns = [image_chats.draw_turns(draw, files) for _ in range(60)]
    path = folder / "chats.jsonl"
    path.write_text("".join(json.dumps(image_chats.as_record(draw, one)) + "\n" for one in turns))
    rows, _ = data_speed.ours(model, path, tmp_path, packing=False, data={"max_length": 100000})
    pad, images = processor.image_token_id, 0
    for row, one in zip(rows, turns, strict=True):
        wanted = processor.apply_chat_template(image_chats.as_peer(one), tokenize=True, return_dict=True, return_tensors="pt")
        assert row["input_ids"] == wanted["input_ids"][0].tolist(), one
        if row["images"]:
            assert row["pixels"] == pytest.approx(float(wanted["pixel_values"].double().sum()), rel=1e-6, abs=1e-3)
        assert all(row["input_ids"][first] == pad != row["input_ids"][first - 1] for first, *_ in row["images"])
        trained = [label for label in row["labels"] if label != -100]
        answers = "".join(text + "<|im_end|>\n" for role, (text, *_) in one if role == "assistant")
        assert processor.tokenizer.decode(trained) == answers and pad not in trained
        images += len(row["images"])
    record_property("conversations", len(rows))
    record_property("images", images)


def test_packing_counts_image_tokens(tmp_path):
    model, _, turns, path = chats_of("qwen2_5_vl", tmp_path)
    alone, _ = data_speed.ours(model, path, tmp_path, packing=False, data={"max_length": 1200})
    packed, _ = data_speed.ours(model, path, tmp_path, packing=True, data={"max_length": 1200})
    assert len(packed) < len(alone) <= len(turns)
    assert sum(len(row["input_ids"]) for row in packed) == sum(len(row["input_ids"]) for row in alone)
    found = []
    for row in packed:
        assert len(row["input_ids"]) <= 1200
        for begin, end in zip(row["starts"], [*row["starts"][1:], len(row["input_ids"])]):
            found.append((row["input_ids"][begin:end],
                          [[first - begin, *grid] for first, *grid in row["images"] if begin <= first < end]))
    assert sorted(found) == sorted((row["input_ids"], row["images"]) for row in alone)
    assert sum(row["pixels"] for row in packed) == pytest.approx(sum(row["pixels"] for row in alone))


def test_records_that_cannot_be_used(tmp_path):
    """Named by record and file before anything is trained; skipped and counted where asked."""
    model, processor, _, path = chats_of("qwen2_5_vl", tmp_path)
    folder, pad = path.parent, processor.image_token_id
    whole = next(one for one in sorted(folder.glob("*.png")) if one.stat().st_size > 300)
    (folder / "cut.png").write_bytes(whole.read_bytes()[:200])
    PIL.Image.new("1", (20000, 20000)).save(folder / "large.png")
    PIL.Image.new("RGB", (1, 1)).save(folder / "dot.png")
    PIL.Image.new("RGB", (500, 1)).save(folder / "thin.png")

    def record(text, *images):
        return {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "yes"}], "images": list(images)}
    good = [record("<image>a", "dot.png"), record("no image")]
    bad = [(record("<image>", "none.png"), "none.png"), (record("<image>", "cut.png"), "truncated"),
           (record("<image>", "large.png"), "more than 178956970"), (record("<image>", "thin.png"), "200 times"),
           (record("<image><image>", "dot.png"), "2 <image> marks and 1 images"), (record("a", "dot.png"), "0 <image> marks and 1"),
           (record("<image>"), "1 <image> marks and 0"), (record("<|image_pad|><image>", "dot.png"), "2 image placeholders"),
           (record("<image>", "http://a.b/c.png"), "not downloaded"), (record("<image>", 7), "'images' has 7"),
           ({"text": "<image>", "images": ["dot.png"]}, "images beside text"),
           ({"input_ids": [1, pad, 2], "labels": [1, pad, 2]}, "but no image"), ({**record("a"), "videos": ["a.mp4"]}, "video")]
    for number, (one, wanted) in enumerate(bad):
        file = folder / f"bad{number}.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in [good[0], one]))
        with pytest.raises(data_speed.subprocess.CalledProcessError) as error:
            data_speed.ours(model, file, tmp_path, packing=False)
        assert error.value.returncode == 2 and f"bad{number}.jsonl:2: " in error.value.stderr, error.value.stderr
        assert wanted in error.value.stderr, error.value.stderr
    file = folder / "mixed.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in [*good, *(one for one, _ in bad)]))
    rows, _ = data_speed.ours(model, file, tmp_path, packing=False, data={"on_error": "skip"})
    assert len(rows) == len(good) and [len(row["images"]) for row in rows] == [1, 0]
