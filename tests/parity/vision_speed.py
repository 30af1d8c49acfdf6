#!/usr/bin/env python3
"""Speed and memory of training steps on images, by hand: `trireme train` in turn with transformers (sdpa, its torchvision image
processor in a DataLoader, torch's fused AdamW), each in a process of its own with both cores, on the same files and tokens. A
step is all of it: waiting for images, forward, backward, update. Then what kept features save, and how long our steps wait for
images of 1500 x 1500."""
import argparse
import json
import pathlib
import random
import resource
import statistics
import sys
import tempfile
import time

import speed_runs

VOCABULARY, TEXT_TOKENS, IMAGES, ROWS, STEPS = 32000, 128, 2, 1, 4
IMAGE, VIDEO, START, END = 31998, 31999, 31996, 31997
PATCH, MERGE = 14, 2
HANG_SECONDS = 3000
TEXT = dict(hidden_size=768, num_hidden_layers=8, num_attention_heads=12, num_key_value_heads=4, intermediate_size=2304,
            vocab_size=VOCABULARY, max_position_embeddings=4096, bos_token_id=1, eos_token_id=2, pad_token_id=0,
            rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[8, 12, 12]))
TOWER = dict(depth=8, hidden_size=640, intermediate_size=1712, num_heads=8, patch_size=PATCH, out_hidden_size=768,
             window_size=112, fullatt_block_indexes=[3, 7])
# A tower and a text model so small that a step is short against reading its images.
SMALL_TEXT = dict(TEXT, hidden_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=512)
SMALL_TOWER = dict(TOWER, depth=2, hidden_size=160, intermediate_size=320, num_heads=4, out_hidden_size=256,
                   fullatt_block_indexes=[1])
FULL, LORA = ["tuning.kind=full"], ["tuning.kind=lora", "tuning.rank=8", "tuning.alpha=16", "tuning.dropout=0"]


def write_model(folder, text, tower, largest_side):
    import torch
    import transformers
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor
    torch.manual_seed(0)
    config = transformers.Qwen2_5_VLConfig(text_config=text, vision_config=tower, image_token_id=IMAGE, video_token_id=VIDEO,
                                           vision_start_token_id=START, vision_end_token_id=END, tie_word_embeddings=True)
    model = transformers.AutoModelForImageTextToText.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder / "model")
    Qwen2VLImageProcessor(min_pixels=3136, max_pixels=largest_side**2).save_pretrained(folder / "model")


def write_rows(folder, rows, file_side, side):
    """Rows of `IMAGES` JPEG files of their own and of text, which alone is trained; `side`: what the processor makes of one."""
    from drawn_images import encoded, rgb
    draw = random.Random(7)
    tokens = [START, *[IMAGE] * (side // PATCH // MERGE) ** 2, END]
    lines = []
    for row in range(rows):
        files = [f"{row}-{number}.jpg" for number in range(IMAGES)]
        for file in files:
            (folder / file).write_bytes(encoded(rgb(draw, (file_side, file_side)), "JPEG", quality=90))
        text = [draw.randrange(3, START) for _ in range(TEXT_TOKENS)]
        lines.append({"input_ids": tokens * IMAGES + text, "labels": [-100] * len(tokens) * IMAGES + text, "images": files})
    (folder / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def tokens_of_step(folder):
    lines = (folder / "rows.jsonl").read_text().splitlines()
    return sum(len(json.loads(line)["input_ids"]) for line in lines[:ROWS])


def peer(folder, options):
    """This process as the peer; prints seconds of the best step after the first and the peak of memory."""
    import PIL.Image
    import torch
    import transformers
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor
    torch.set_num_threads(2)
    torch.manual_seed(0)
    folder = pathlib.Path(folder)
    processor = Qwen2VLImageProcessor.from_pretrained(folder / "model")
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]

    def collate(rows):
        ids = torch.tensor([row["input_ids"] for row in rows])
        images = [PIL.Image.open(folder / file).convert("RGB") for row in rows for file in row["images"]]
        seen = processor(images, return_tensors="pt")
        return dict(input_ids=ids, labels=torch.tensor([row["labels"] for row in rows]),
                    mm_token_type_ids=(ids == IMAGE).int(), pixel_values=seen["pixel_values"].to(torch.bfloat16),
                    image_grid_thw=seen["image_grid_thw"])

    network = transformers.AutoModelForImageTextToText.from_pretrained(folder / "model", dtype=torch.bfloat16,
                                                                       attn_implementation="sdpa").train()
    if options["lora"]:
        import peft
        network = peft.get_peft_model(network, peft.LoraConfig(
            r=8, lora_alpha=16, target_modules=r".*language_model.*\.(q|k|v|o|gate|up|down)_proj"))
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    times, begin = [], time.perf_counter()
    for batch in torch.utils.data.DataLoader(rows, batch_size=ROWS, collate_fn=collate, num_workers=1):
        network(**batch, use_cache=False).loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - begin)
        begin = time.perf_counter()
    print(json.dumps({"seconds": min(times[1:]), "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}))


def run_ours(folder, settings):
    return speed_runs.run_ours(folder, [
        f"data.train=[{folder / 'rows.jsonl'}]", "data.packing=false", "data.max_length=8192", f"data.cache={folder / 'cache'}",
        f"run.global_batch={ROWS}", "data.image_cache_mb=1", *settings], HANG_SECONDS)


def best_step(log):
    return {"seconds": min(line["step_seconds"] for line in log[1:]), "gib": max(line["memory_gib"] for line in log)}


def best_of(rounds, contenders):
    found = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, measure in contenders.items():
            found[name].append(measure())
    return {name: {key: min(line[key] for line in lines) for key in ("seconds", "gib")} for name, lines in found.items()}


def compare(folder, rounds):
    write_model(folder, TEXT, TOWER, 448)
    write_rows(folder, ROWS * STEPS, 448, 448)
    tokens = tokens_of_step(folder)
    print(f"{'Qwen2.5-VL, images of 448 x 448':34}" + "".join(
        f"{word:>10}" for word in ("tokens/s", "theirs", "ratio", "GiB", "theirs", "ratio")), flush=True)
    for name, lora, settings in (("bf16, full", False, FULL), ("bf16, LoRA, tower frozen", True, LORA)):
        best = best_of(rounds, {
            "peer": lambda: speed_runs.run_peer(__file__, folder, dict(lora=lora)),
            "ours": lambda: best_step(run_ours(folder, [*settings, f"run.micro_batch={ROWS}"]))})
        ours, other = best["ours"], best["peer"]
        cells = (tokens / ours["seconds"], tokens / other["seconds"], other["seconds"] / ours["seconds"], ours["gib"],
                 other["gib"], ours["gib"] / other["gib"])
        print(f"{name:34}" + "".join(f"{cell:10.2f}" for cell in cells), flush=True)


def keep_features(folder):
    """Of compare's model: steps of an epoch in which every image's features are kept, beside those of the first."""
    log = run_ours(folder, [*LORA, f"run.micro_batch={ROWS}", f"run.steps={2 * STEPS}", "memory.vision_features_mb=64"])
    first, again = (min(line["step_seconds"] for line in part) for part in (log[1:STEPS], log[STEPS:]))
    print(f"LoRA, tower frozen, features kept: {again:.3f} s a step instead of {first:.3f} s ({first / again:.2f} x)", flush=True)


def wait_for_images(folder):
    """Large files that are shrunk, none of them kept, each row once."""
    write_model(folder, SMALL_TEXT, SMALL_TOWER, 448)
    write_rows(folder, ROWS * 3 * STEPS, 1500, 448)
    log = run_ours(folder, [*FULL, "run.epochs=1"])
    first, later = log[0], log[1:]
    print(f"images of 1500 x 1500: the first step waits {first['data_seconds']:.3f} s of {first['step_seconds']:.3f} s, the "
          f"{len(later)} after it {statistics.median(line['data_seconds'] for line in later):.4f} s of "
          f"{statistics.median(line['step_seconds'] for line in later):.3f} s (medians; most "
          f"{max(line['data_seconds'] for line in later):.4f} s)", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="how often each is measured, in turn")
    parser.add_argument("--waits", action="store_true", help="only how long steps wait for images")
    parser.add_argument("--peer", nargs=2, metavar=("FOLDER", "OPTIONS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        return peer(arguments.peer[0], json.loads(arguments.peer[1]))
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "speed").mkdir()
        (folder / "waits").mkdir()
        if not arguments.waits:
            compare(folder / "speed", arguments.rounds)
            keep_features(folder / "speed")
        wait_for_images(folder / "waits")
    return 0


if __name__ == "__main__":
    sys.exit(main())
