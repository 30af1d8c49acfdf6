"""The example that sees, as a user runs it: pictures are drawn, a model is trained under tensor parallelism, and transformers
asks the model that was written for the colours of pictures that it has not seen. The program's own answers are the same, in
files of conversations and in a chat."""
import json
import pathlib
import subprocess
import sys

import PIL.Image
import torch
import transformers
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor

from program import BUILD, failure_text, run_well, start

EXAMPLE = pathlib.Path("examples/pictures")
PROMPT = "<|im_start|>user\n<|vision_start|>{}<|vision_end|>Which colour?<|im_end|>\n<|im_start|>assistant\n"


def test_colours(folder):
    subprocess.run([sys.executable, EXAMPLE / "draw.py", folder], check=True)
    output = folder / "run"
    run_well(2, ["train", EXAMPLE / "run.yaml"], ["parallel.tensor=2", f"data.train=[{folder / 'train.jsonl'}]",
                                                  f"data.valid=[{folder / 'unseen.jsonl'}]", f"run.output={output}",
                                                  f"data.cache={folder / 'cache'}"])
    model = transformers.AutoModelForImageTextToText.from_pretrained(output / "final", dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(output / "final")
    images = Qwen2VLImageProcessor.from_pretrained(output / "final")
    answers, records = [], [json.loads(line) for line in (folder / "unseen.jsonl").read_text().splitlines()]
    for record in records:
        seen = images(PIL.Image.open(folder / record["images"][0]), return_tensors="pt")
        tokens = int(seen["image_grid_thw"].prod()) // images.merge_size ** 2
        ids = tokenizer(PROMPT.format("<|image_pad|>" * tokens), return_tensors="pt", add_special_tokens=False)["input_ids"]
        drawn = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **seen, max_new_tokens=8, do_sample=False,
                               mm_token_type_ids=(ids == model.config.image_token_id).int())
        answers.append(tokenizer.decode(drawn[0, ids.shape[1]:], skip_special_tokens=True))
    compare_generation(folder, output / "final", records, answers)
    right = sum(answer == record["messages"][1]["content"] for record, answer in zip(records, answers))
    assert right >= 0.95 * len(records), f"{right} of {len(records)}"


def compare_generation(folder, model, records, answers):
    asked = folder / "asked.jsonl"
    asked.write_text("".join(json.dumps({**record, "messages": record["messages"][:1]}) + "\n" for record in records))
    lines = run_well(None, ["generate", "--model", model, "--messages", asked, "--max-new-tokens", 8],
                     ["model.dtype=fp32"]).stdout.splitlines()
    assert [json.loads(line)["text"] for line in lines] == answers
    other = next(index for index, answer in enumerate(answers) if answer != answers[0])
    said = f"Which colour?\n/new\n/image {folder / 'missing.png'}\n/image {folder / records[other]['images'][0]}\nWhich colour?\n"
    chat = start(None, [BUILD / "trireme", "generate", "--model", model, "--chat", "--max-new-tokens", 8, "--set", "model.dtype=fp32",
                        "--image", folder / records[0]["images"][0]], stdin=said)
    assert chat.stdout.splitlines() == [answers[0], answers[other]] and "missing.png" in chat.stderr, failure_text(chat)
