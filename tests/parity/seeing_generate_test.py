"""Generation and serving with images against transformers' greedy generate, in fp32: the same tokens from the same patches, under
each kind of layout, alone and beside prompts of text; two images behind one prompt never share a cached prefix; a server with the
openai package as its client, and what it refuses. With --device npu: the tokens alone, there."""
import base64
import collections
import io
import json
import pathlib
import random
import shutil

import openai
import PIL.Image
import pytest
import torch
import transformers
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor

import seeing_models
from decoding import CLEAR, NEW
from program import Launches, failure_text, run, run_many, words_of
from served import Server

OPTIONS = ("device",)
FP32 = ["model.dtype=fp32"]
Case = collections.namedtuple("Case", "family ranks batch settings words", defaults=[()])
# Steps that cut images, and a cache that two rows fill: some are preempted and computed again.
SMALL = ("--max-batched-tokens", "11", "--max-total-tokens", "128")
CASES = [
    *(Case(family, 1, 1, []) for family in ("qwen2_5_vl", "qwen3_vl", "qwen3_5", "internvl")),  # one after another: prefixes are found
    *(Case(family, 1, 4, [], SMALL) for family in ("qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "internvl")),
    *(Case(family, 2, 3, ["parallel.tensor=2"]) for family in ("qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "internvl")),
    *(Case(family, 2, 4, ["parallel.pipeline=2"]) for family in ("qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe")),
    Case("qwen3_vl_moe", 2, 2, ["parallel.expert=2"]),
    Case("qwen3_vl", 2, 2, ["parallel.zero=3"]),  # data parallel: a rank without images meets one with
    Case("qwen3_vl_moe", 4, 3, ["parallel.tensor=2", "parallel.pipeline=2"], SMALL),
]
Reference = collections.namedtuple("Reference", "model rows wanted")


def text_of(case):
    return " ".join([case.family, f"{case.ranks} ranks", *case.settings, f"batch {case.batch}", *case.words])


def make_rows(family):
    """Some of the gradients' test and a long one, then this one again with other patches, and as it is: more than a block."""
    tiled = seeing_models.is_tiled(family)
    some = seeing_models.make_rows(tiled=tiled)
    rows = [some[index] for index in (0, 1, 3, 4, 6)] + seeing_models.make_rows([[(1, 10, 14), 30]], seed=3, tiled=tiled)
    long = rows[-1]
    return [*rows, {**long, "patches": torch.randn_like(long["patches"])}, long]


def generated(model, row):
    """The new tokens by transformers, and by how much the least clear of them won."""
    given = torch.tensor([row["input_ids"]])
    types = {} if model.config.model_type == "internvl" else dict(mm_token_type_ids=torch.zeros_like(given))
    more = types | seeing_models.images_of(row)
    out = model.generate(given, attention_mask=torch.ones_like(given), do_sample=False, max_new_tokens=NEW, eos_token_id=None,
                         pad_token_id=0, return_dict_in_generate=True, output_logits=True, **more)
    best = torch.stack(out.logits)[:, 0].topk(2).values
    return out.sequences[0, given.shape[1]:].tolist(), (best[:, 0] - best[:, 1]).min().item()


def make_reference(folder, family):
    folder.mkdir()
    make, text, vision, root = seeing_models.MODELS[family]
    text = {**seeing_models.TEXT, "num_hidden_layers": 4, "initializer_range": 0.2, "eos_token_id": None, **text}
    tokens = dict(image_token_id=seeing_models.IMAGE) if seeing_models.is_tiled(family) else seeing_models.TOKENS
    config = make(text_config=text, vision_config=vision, **tokens, **{**root, "tie_word_embeddings": False})
    model = seeing_models.write_model(config, folder / "model").eval()
    (folder / "model" / "generation_config.json").write_text("{}")
    written = [(row, *generated(model, row)) for row in make_rows(family)]
    clear = [(row, tokens) for row, tokens, margin in written if margin > CLEAR]
    assert len(clear) >= 5 and any(not row["image_grid_thw"] for row, _ in clear), "too few rows that rounding cannot change"
    assert sum(len(set(tokens)) > 4 for _, tokens in clear) >= 3, "rows that repeat a token"
    alike = [tokens for row, tokens, _ in written if row["input_ids"] == written[-1][0]["input_ids"]]
    assert len(alike) == 3 and alike[0] == alike[2] != alike[1], "images that make no difference"
    seeing_models.write_rows(folder / "rows.jsonl", [row for row, _ in clear])
    return Reference(folder / "model", folder / "rows.jsonl", [tokens for _, tokens in clear])


@pytest.fixture(scope="module")
def references(folder):
    made = {}

    def reference(family):
        if family not in made:
            made[family] = make_reference(folder / family, family)
        return made[family]
    return reference


def launch(ranks, cases, references, device):
    commands = [["generate", "--model", references(case.family).model, "--rows", references(case.family).rows, "--max-new-tokens",
                 NEW, "--batch", case.batch, *case.words, *words_of([f"device={device}", *FP32, *case.settings])] for case in cases]
    result = run_many(ranks, commands)
    lines = iter(result.stdout.splitlines())
    return [([next(lines, "{}") for _ in references(case.family).wanted], result) for case in cases]


@pytest.fixture(scope="module")
def launches(selected, references, device):
    return Launches(selected(test_tokens), lambda case: case.ranks, lambda ranks, cases: launch(ranks, cases, references, device))


@pytest.mark.parametrize("case", sorted(CASES, key=lambda case: case.ranks), ids=text_of)
def test_tokens(case, launches, references):
    lines, result = launches.of(case)
    assert [json.loads(line).get("output_ids") for line in lines] == references(case.family).wanted, failure_text(result)


@pytest.mark.devices("cpu")
def test_beams(references):
    """One beam search over a prompt with an image: as transformers', with the placeholders of the prompt alone as images."""
    reference = references("qwen2_5_vl")
    row = next(json.loads(line) for line in reference.rows.read_text().splitlines() if "pixel_values" in line)
    one = reference.rows.parent / "one.jsonl"
    one.write_text(json.dumps(row) + "\n")
    result = run(None, ["generate", "--model", reference.model, "--rows", one, "--max-new-tokens", 4, "--beams", 3], FP32)
    assert result.returncode == 0, failure_text(result)
    model = transformers.AutoModelForImageTextToText.from_pretrained(reference.model, dtype=torch.float32)
    patches = seeing_models.load_patches(one.parent / row["pixel_values"])
    given = torch.tensor([row["input_ids"]])
    out = model.generate(given, attention_mask=torch.ones_like(given), do_sample=False, num_beams=3, max_new_tokens=4,
                         eos_token_id=None, pad_token_id=0, **seeing_models.images_of({**row, "patches": patches}))
    assert json.loads(result.stdout)["output_ids"] == out[0, given.shape[1]:].tolist()


@pytest.mark.devices("cpu")
def test_refused(references, folder):
    """Before any weights are read, with what is wrong."""
    reference = references("qwen2_5_vl")
    row = next(json.loads(line) for line in reference.rows.read_text().splitlines() if "pixel_values" in line)
    rows = reference.rows.parent / "refused.jsonl"

    def refused(words, text):
        result = run(None, ["generate", "--model", reference.model, *words], FP32)
        assert result.returncode == 2 and text in result.stderr, failure_text(result)
    rows.write_text(json.dumps({"input_ids": row["input_ids"]}) + "\n")
    refused(["--rows", rows], "the row's images end before it")
    refused(["--rows", reference.rows, "--image", "a.png"], "is for chats")


# A server

def picture(seed, width, height):
    numbers = random.Random(seed)
    return PIL.Image.frombytes("RGB", (width, height), bytes(numbers.randrange(256) for _ in range(3 * width * height)))


def url_of(image, kind="PNG"):
    out = io.BytesIO()
    image.save(out, kind)
    return f"data:image/{kind.lower()};base64," + base64.b64encode(out.getvalue()).decode()


def content(*parts):
    return [{"type": "text", "text": part} if isinstance(part, str) else
            {"type": "image_url", "image_url": {"url": url_of(part)}} for part in parts]


@pytest.fixture(scope="module")
def server(folder):
    """Qwen2.5-VL with a tokenizer of bytes, random weights that write different tokens, over two ranks."""
    target = folder / "pictures"
    example = pathlib.Path("examples/pictures")
    config = transformers.AutoConfig.from_pretrained(example)
    config.text_config.initializer_range = 0.3
    config.tie_word_embeddings = config.text_config.tie_word_embeddings = False
    seeing_models.write_model(config, target)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "preprocessor_config.json"):
        shutil.copy(example / name, target / name)
    served = Server(folder, "--max-images", "3", "--max-image-pixels", "40000", "--set", "parallel.tensor=2", ranks=2, model=target)
    yield served
    served.stop()  # mpirun's status after a signal is its own


@pytest.fixture(scope="module")
def peer(server):
    model = transformers.AutoModelForImageTextToText.from_pretrained(server.folder, dtype=torch.float32).eval()
    images = Qwen2VLImageProcessor.from_pretrained(server.folder)

    def ask(parts, count=12):
        """The answer's text, and the tokens of the prompt."""
        pictures = [part for part in parts if not isinstance(part, str)]
        seen = images(pictures, return_tensors="pt") if pictures else {}
        tokens = [int(grid.prod()) // images.merge_size ** 2 for grid in seen.get("image_grid_thw", [])]
        text = "".join(part if isinstance(part, str) else
                       f"<|vision_start|>{'<|image_pad|>' * tokens.pop(0)}<|vision_end|>" for part in parts)
        ids = server.tokenizer(f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n", return_tensors="pt",
                               add_special_tokens=False)["input_ids"]
        drawn = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **seen, max_new_tokens=count, do_sample=False,
                               mm_token_type_ids=(ids == model.config.image_token_id).int(), eos_token_id=258, pad_token_id=0)
        return server.tokenizer.decode(drawn[0, ids.shape[1]:], skip_special_tokens=True), ids[0].tolist()
    return ask


def ask(server, parts, **more):
    return server.client.chat.completions.create(**{"model": "pictures", "messages": [{"role": "user", "content": parts}],
                                                    "temperature": 0, "max_tokens": 12, **more})


QUESTIONS = [[picture(1, 84, 56), "Which colour?"], [picture(2, 84, 56), "Which colour?"],
             ["Before ", picture(3, 60, 140), " between ", picture(4, 56, 56), " after"], ["No picture at all."]]


@pytest.mark.devices("cpu")
def test_served_answers(server, peer):
    for parts in QUESTIONS:
        text, ids = peer(parts)
        answer = ask(server, content(*parts))
        assert answer.choices[0].message.content == text and answer.usage.prompt_tokens == len(ids)
        chunks = ask(server, content(*parts), stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == text
        request = server.client.post("/tokenize", body={"messages": [{"role": "user", "content": content(*parts)}]}, cast_to=object)
        assert request["tokens"] == ids


@pytest.mark.devices("cpu")
def test_images_tell_prefixes_apart(server):
    """The same tokens: what another image left in the cache is not this one's."""
    first, second = (picture(seed, 168, 168) for seed in (5, 6))  # 36 tokens: more than a block

    def look(image):
        answer = ask(server, content(image, "?"), logprobs=True, top_logprobs=5, max_tokens=1)
        return [entry.logprob for entry in answer.choices[0].logprobs.content[0].top_logprobs], answer.usage.prompt_tokens_details.cached_tokens
    (one, cached), (other, found), (again, reused) = look(first), look(second), look(first)
    assert (cached, found) == (0, 0) and reused == 32
    assert max(abs(a - b) for a, b in zip(one, other)) > 0.01 and max(abs(a - b) for a, b in zip(one, again)) < 1e-4
    choices = ask(server, content(first, "?"), n=2, max_tokens=4).choices
    assert choices[0].message.content == choices[1].message.content


@pytest.mark.devices("cpu")
def test_served_refusals(server):
    def refused(part, param, text):
        with pytest.raises(openai.BadRequestError) as caught:
            ask(server, part)
        assert caught.value.param == param and text in caught.value.message, caught.value

    def image(url):
        return [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": url}}]
    where = "messages[0].content[1].image_url"
    for url in ("http://127.0.0.1:1/a.png", "file:///etc/passwd", "/etc/passwd"):
        refused(image(url), where + ".url", "opens no files")
    refused(image("data:image/png;base64,AAAA"), where, "none of JPEG")
    refused(image("data:image/png;base64,%%"), where, "not base64")
    whole = url_of(picture(7, 56, 56))
    refused(image(whole[:len(whole) // 2]), where, "PNG")
    refused(image(url_of(picture(8, 201, 200))), where, "more than 40000")
    refused(image(url_of(PIL.Image.new("RGB", (56 * 250, 2)))), where, "200 times")
    refused(content(*[picture(9, 56, 56)] * 4), "messages[0].content[3]", "takes 3 per request")
    refused([{"type": "text", "text": "<|image_pad|>"}], "messages", "without an image")
    refused(content("<|image_pad|>", picture(9, 56, 56)), "messages", "image placeholders")
    with pytest.raises(openai.BadRequestError):
        server.client.completions.create(model="pictures", prompt=[261, 5], max_tokens=1)
    assert ask(server, "Are you there?").choices[0].message.content
