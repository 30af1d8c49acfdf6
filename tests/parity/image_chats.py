"""Conversations with images at random, each in one of the shapes that records have, and a tiny model directory that says how they
become tokens. The templates do what Qwen2.5-VL's and Qwen3-VL's do with texts and images: one placeholder between two markers
per image part; the former adds a system turn where there is none."""
import base64
import json

import tokenizers
import transformers

import drawn_images

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
# InternVL's: the template prints one of them and a newline per image, the processor puts the other two around it.
TILE_TOKENS = dict(start_image_token="<img>", end_image_token="</img>", context_image_token="<IMG_CONTEXT>", video_token="<video>")
TILE_PARTS = ("{%- if message.content is string -%}{{ message.content }}{%- else -%}{%- for part in message.content -%}"
              "{%- if part.type == 'image' -%}{{ '<IMG_CONTEXT>\\n' }}{%- else -%}{{ part.text }}{%- endif -%}{%- endfor -%}{%- endif -%}")
PARTS = ("{%- if message.content is string -%}{{ message.content }}{%- else -%}{%- for part in message.content -%}"
         "{%- if part.type == 'image' or 'image' in part or 'image_url' in part -%}"
         "{%- set seen.images = seen.images + 1 -%}{%- if add_vision_id -%}{{ 'Picture ' ~ seen.images ~ ': ' }}{%- endif -%}"
         "<|vision_start|><|image_pad|><|vision_end|>"
         "{%- elif 'text' in part -%}{{ part.text }}{%- endif -%}{%- endfor -%}{%- endif -%}")
DEFAULT_SYSTEM = ("{%- if loop.first and message.role != 'system' -%}"
                  "{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}{%- endif -%}")
WHOLE = ("{%- set seen = namespace(images=0) -%}{%- for message in messages -%}SYSTEM{{ '<|im_start|>' ~ message.role ~ '\\n' }}"
         "PARTS{{ '<|im_end|>\\n' }}{%- endfor -%}{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}")
TEMPLATES = {family: WHOLE.replace("SYSTEM", system).replace("PARTS", PARTS)
             for family, system in {"qwen2_5_vl": DEFAULT_SYSTEM, "qwen3_vl": ""}.items()}
TEMPLATES["internvl"] = WHOLE.replace("SYSTEM", "").replace("PARTS", TILE_PARTS)
WORDS = "the boat lies at its quay and three banks of oars wait for a drum — δύο, 三 and ½ of them\n<b>bold</b>".split(" ")


def tiny_tokenizer(more=None):
    """Bytes and a few merges, with the special tokens as added ones; `more`: by their names in the tokenizer's settings."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=400, special_tokens=[*SPECIAL, *(more or {}).values()], show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator([" ".join(WORDS)] * 3, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>",
                                                **({"extra_special_tokens": more} if more else {}))


def write_model(folder, family):
    """Adds to a directory with the processor's settings what tokenizing needs; the template as published directories have it."""
    if family == "internvl":
        return write_tiled(folder)
    tokenizer = tiny_tokenizer()
    tokenizer.save_pretrained(folder)
    if family == "qwen3_vl":
        (folder / "chat_template.jinja").write_text(TEMPLATES[family])
    else:
        (folder / "chat_template.json").write_text(json.dumps({"chat_template": TEMPLATES[family]}))
    config = {"model_type": family, "vision_config": {}, "image_token_id": tokenizer.convert_tokens_to_ids("<|image_pad|>")}
    (folder / "config.json").write_text(json.dumps(config))
    return tokenizer


def write_tiled(folder):
    """Beside a config.json that says how large tiles are."""
    tokenizer = tiny_tokenizer(TILE_TOKENS)
    tokenizer.chat_template = TEMPLATES["internvl"]
    tokenizer.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "internvl", "image_token_id": tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>")}
    (folder / "config.json").write_text(json.dumps(config))
    return tokenizer


def draw_turns(draw, files):
    """Messages whose contents are lists of texts and image paths."""
    def text():
        return " ".join(draw.choices(WORDS, k=draw.randint(1, 8)))
    turns = [("system", [text()])] if draw.random() < 0.3 else []
    for _ in range(draw.randint(1, 3)):
        parts = [text()]
        for _ in range(draw.choice([0, 1, 1, 2])):
            parts.insert(draw.randint(0, len(parts)), draw.choice(files))
        if draw.random() < 0.2:
            parts.append(text())
        turns += [("user", parts), ("assistant", [text()])]
    return turns


def url_of(draw, path):
    kind = draw.choice(["path", "file", "data"])
    if kind == "data":
        return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
    return f"file://{path}" if kind == "file" else str(path)


def as_record(draw, turns):
    """In one of the shapes; a text beside a text cannot be told from one in the shapes with marks, which is as it should be."""
    images = [part for _, parts in turns for part in parts if not isinstance(part, str)]
    marked = [(role, "".join(part if isinstance(part, str) else "<image>" for part in parts)) for role, parts in turns]
    shape = draw.choice(["swift", "sharegpt", "openai", "anthropic", "transformers", "bare parts"])
    if shape == "swift":
        return {"messages": [{"role": role, "content": text} for role, text in marked],
                "images": [draw.choice([path.name, str(path), {"path": path.name}]) for path in images]}
    if shape == "sharegpt":
        names = {"user": "human", "assistant": "gpt", "system": "system"}
        return {"conversations": [{"from": names[role], "value": text} for role, text in marked],
                "images": [path.name for path in images]}

    def part(value):
        if isinstance(value, str):
            return {"type": "text", "text": value}
        if shape == "openai":
            url = url_of(draw, value)
            return {"type": "image_url", "image_url": draw.choice([url, {"url": url}])}
        if shape == "anthropic":
            data = base64.b64encode(value.read_bytes()).decode()
            return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
        return {"type": "image"} if shape == "bare parts" else {"type": "image", draw.choice(["image", "path", "url"]): str(value)}
    record = {"messages": [{"role": role, "content": [part(value) for value in parts]} for role, parts in turns]}
    return {**record, "images": [str(path) for path in images]} if shape == "bare parts" else record


def as_peer(turns):
    return [{"role": role, "content": [{"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "path": str(part)}
                                       for part in parts]} for role, parts in turns]


def small_files(folder, count=40):
    folder.mkdir()
    return [path for path in drawn_images.draw_files(folder, count, seed=5) if path.suffix in (".jpg", ".png", ".webp")
            and path.name.split(".")[1] not in ("cmyk", "16")]
