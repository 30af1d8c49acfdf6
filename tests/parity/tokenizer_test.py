"""Our tokenizer and chat templates against Hugging Face's, for the real tokenizers of four families: ids, text, streamed
text, rendered conversations, their tokens and which of them are trained. A thousand conversations per template.

transformers reports what an assistant wrote only where a template marks it with {% generation %}. The real templates do
not: chat_marks.py puts the marks in, and every conversation shows that this changes nothing of the text.
"""
import json
import pathlib
import subprocess
import tempfile

import pytest
import tokenizers
import transformers

from chat_marks import marked
from conversations import TOOLS, conversation, generator_of, text
from program import BUILD, run_well
from real_tokenizers import INTEGRITY, directory_of

CONVERSATIONS, TEXTS = 1000, 400


def ask(folder, requests, template=""):
    probe = BUILD / "tests" / "text" / "tokenizer_probe"
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    words = [str(probe), str(folder), str(template)] if template else [str(probe), str(folder)]
    result = subprocess.run(words, input=lines, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.split("\n")[:-1]]


def requests_of(name, count, seed):
    """Qwen's templates take tools and arguments as objects, DeepSeek's a text; the stored Llama template has no tools."""
    generator = generator_of(seed)
    for number in range(count):
        tools = name.startswith("qwen") and number % 4 == 0
        said = (lambda generator: generator.choice(["", "", text(generator, 5)]))
        messages = conversation(generator, tools, content_of_call=said)
        prompt = number % 5 == 0
        request = {"messages": messages, "add_generation_prompt": prompt}
        if tools and number % 8 == 0:
            request["tools"] = TOOLS
        if name == "qwen3" and number % 10 == 0:
            request["variables"] = {"enable_thinking": False}
        yield request


@pytest.fixture(scope="module", params=INTEGRITY)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def directory(name):
    return directory_of(name)


def test_texts(name, directory, record_property):
    theirs = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    generator = generator_of(3)
    texts = [text(generator, 60) for _ in range(TEXTS)] + ["", "\ufffd", "a" * 3000, " " * 50 + "\n" * 50]
    texts.append(pathlib.Path(__file__).read_text())
    wanted = [theirs.encode(item, add_special_tokens=False).ids for item in texts]
    random_ids = [[generator.randrange(theirs.get_vocab_size()) for _ in range(40)] for _ in range(100)]
    answers = ask(directory, [{"encode": item} for item in texts] + [{"decode": ids} for ids in wanted + random_ids])
    for item, ids, answer in zip(texts, wanted, answers):
        assert answer["ids"] == ids, f"{name}: {item!r}: {answer['ids']}, wanted {ids}"
    half = 0
    for ids, answer in zip(wanted + random_ids, answers[len(texts):]):
        whole = theirs.decode(ids, skip_special_tokens=False)
        assert answer["text"] == whole and "".join(answer["pieces"]) == whole, f"{name}: {ids}: {answer}, wanted {whole!r}"
        half += sum(piece == "" for piece in answer["pieces"][:-1])
    assert half > 100, f"{name}: only {half} tokens were held back; the stream was not tried"
    record_property("texts", f"{len(texts)}, {len(wanted + random_ids)} decoded, {half} pieces held back")


def test_bytes(name, directory):
    """Those of a text's tokens are the text's; those of any tokens decode to what transformers decodes."""
    theirs = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    generator = generator_of(9)
    special = {id for id, token in theirs.get_added_tokens_decoder().items() if token.special}
    texts = [text(generator, 60) for _ in range(100)]
    rows = [[id for id in theirs.encode(each, add_special_tokens=False).ids if id not in special] for each in texts]
    whole = [id for id in range(theirs.get_vocab_size()) if theirs.id_to_token(id) is not None and id not in special]
    rows += [[generator.choice(whole) for _ in range(40)] for _ in range(100)]
    for ids, answer in zip(rows, ask(directory, [{"bytes": ids} for ids in rows])):
        found = bytes(answer["bytes"]).decode(errors="replace")
        assert found == theirs.decode(ids, skip_special_tokens=False), f"{name}: {ids}"
    assert ask(directory, [{"bytes": sorted(special)}])[0]["bytes"] == [-1] * len(special)


def test_conversations(name, directory, record_property):
    theirs = transformers.PreTrainedTokenizerFast.from_pretrained(directory)
    source = theirs.chat_template
    with_marks = marked(name, source)
    requests = list(requests_of(name, CONVERSATIONS, seed=17))
    answers = ask(directory, requests)
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as file:
        file.write(with_marks)
        file.flush()
        answers_with_marks = ask(directory, requests, file.name)
    trained = 0
    for request, answer, answer_with_marks in zip(requests, answers, answers_with_marks):
        variables = request.get("variables", {})
        options = dict(tools=request.get("tools"), add_generation_prompt=request["add_generation_prompt"], **variables)
        rendered = theirs.apply_chat_template(request["messages"], tokenize=False, **options)
        tokens = theirs.apply_chat_template(request["messages"], chat_template=with_marks, tokenize=True, return_dict=True,
                                            return_assistant_tokens_mask=True, **options)
        plain = theirs.apply_chat_template(request["messages"], tokenize=True, return_dict=True, **options)["input_ids"]
        assert tokens["input_ids"] == plain, f"{name}: the marks change {request}"
        wanted = {"text": rendered, "ids": plain, "mask": tokens["assistant_masks"], "lost": []}
        for key, value in wanted.items():
            for kind, found in (("found", answer), ("marked", answer_with_marks)):
                assert found.get(key) == value, \
                    f"{name}, {kind}: {key} of {json.dumps(request, ensure_ascii=False)}:\n{found.get(key, found)}\nwanted\n{value}\n{rendered!r}"
        trained += sum(wanted["mask"])
    record_property("conversations", f"{len(requests)}, {trained} tokens trained")
    assert trained > 10 * CONVERSATIONS


def test_message_that_the_template_does_not_render(name, directory, record_property):
    """A role that the template does not know is found, where its words are not in the text that transformers renders."""
    theirs = transformers.PreTrainedTokenizerFast.from_pretrained(directory)
    messages = [{"role": "developer", "content": "Only rhymes."}, {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Bye"}]
    there = "Only rhymes." in theirs.apply_chat_template(messages, tokenize=False)
    answer = ask(directory, [{"messages": messages}])[0]
    assert answer["lost"] == ([] if there else [0]), f"{name}: {answer}"
    assert there or name != "llama3_1", f"{name}: the template was thought to write every role"
    record_property("message", "rendered" if there else "lost, and found to be")


def test_training(folder, record_property):
    """A tokenizer trained on a text has the tokens and merges that `tokenizers` finds in it, and a chat template."""
    source = pathlib.Path("README.md")
    trained = folder / "trained"
    run_well(None, ["tokenizer", "--text", source, "--vocabulary", 700, "--to", trained])
    ours, chat = json.loads((trained / "tokenizer.json").read_text()), transformers.AutoTokenizer.from_pretrained(trained)
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=700, show_progress=False, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    theirs.train_from_iterator(source.read_text().splitlines(keepends=True), trainer)
    wanted = json.loads(theirs.to_str())
    for part in ("vocab", "merges"):
        assert ours["model"][part] == wanted["model"][part], f"trained: {part} differ"
    said = [{"role": "user", "content": "Grüße, 你好"}, {"role": "assistant", "content": "ok"}]
    rendered = chat.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
    assert rendered == ("<|im_start|>user\nGrüße, 你好<|im_end|>\n<|im_start|>assistant\nok<|im_end|>\n"
                        "<|im_start|>assistant\n"), rendered
    assert chat.decode(chat(rendered).input_ids) == rendered and chat.eos_token == "<|im_end|>"
    record_property("tokens", len(wanted["model"]["vocab"]))
