"""`trireme generate` against transformers' generate, in fp32: the same tokens for every family, whatever the layout and
however rows are batched; text, conversations and chats; what sampling draws from; bad input. On device npu with
--device npu: some families and layouts; on cuda with --device cuda: every family on one rank."""
import collections
import functools
import json
import math
import pathlib
import shutil

import pytest
import torch
import transformers

import layouts
import tiny_models
from decoding import CLEAR, NEW, likeliest
from program import BUILD, Launches, failure_text, run_many, start, words_of

OPTIONS = ("device",)
ROWS = 6
FP32 = ["model.dtype=fp32"]
Case = collections.namedtuple("Case", "family settings batch ranks words", defaults=[()])
NPU_CASES = [Case(family, ["parallel.tensor=2"], 4, 2) for family in ("qwen2", "deepseek_v3")]
LIKE = [*layouts.LIKE_MODELS, *layouts.LIKE_EXPERT_MODELS]  # their layers are those of others, up to a trait
NPU_CASES += [Case(family, [], 4, 1) for family in ("mistral", "qwen2_window")]
NPU_CASES += [Case("llama3", ["parallel.pipeline=2"], 4, 2), Case("mixtral", ["parallel.expert=2"], 2, 2)]
NPU_CASES += [Case(family, ["parallel.tensor=2"], 4, 2) for family in ("gpt_oss", "qwen3_next", "qwen3_5")]  # sinks, states
Reference = collections.namedtuple("Reference", "model rows wanted")


def clear_rows(model):
    """Rows of different length in which no token wins by a hair, for what rounding may turn over proves nothing, and
    that write as many different tokens as can be."""
    written = [(row, *likeliest(model, row["input_ids"]))
               for row in tiny_models.make_rows(count=2 * ROWS, shortest=1, longest=24)]
    clear = [(row, tokens) for row, tokens, margin in written if margin > CLEAR]
    found = sorted(clear, key=lambda pair: -len(set(pair[1])))[:ROWS]
    assert len({len(row["input_ids"]) for row, _ in found}) > 3, "rows of too few lengths"
    assert all(len(set(tokens)) > 4 for _, tokens in found), "rows that repeat a token"
    return found


# Of families whose random models would repeat a token: with norms at the end of branches, or a large embedding tied to
# the head.
LIVELY = {"olmo2": dict(initializer_range=0.5), "gemma2": dict(tie_word_embeddings=False),
          "gemma3": dict(tie_word_embeddings=False), "minicpm": dict(tie_word_embeddings=False),
          "minicpm3": dict(tie_word_embeddings=False)}


def make_reference(folder, family):
    """A token that the first row writes in the middle is made the end of text: rows end at different steps."""
    folder.mkdir()
    # Smaller ones repeat a token.
    config = tiny_models.config_of(family, **{"num_hidden_layers": 4, "initializer_range": 0.2, **LIVELY.get(family, {})})
    model = tiny_models.write_model(config, folder / "model")
    rows = clear_rows(model)
    tiny_models.write_rows(folder / "rows.jsonl", [row for row, _ in rows])
    end = rows[0][1][NEW // 2]
    (folder / "model" / "generation_config.json").write_text(json.dumps({"eos_token_id": [end]}))
    wanted = [likeliest(model, row["input_ids"], ends=[end])[0] for row, _ in rows]
    assert len(wanted[0]) <= NEW // 2 + 1 and max(map(len, wanted)) == NEW, "no row ends early, or all do"
    return Reference(folder / "model", folder / "rows.jsonl", wanted)


def layouts_of(family):
    """One rank, then two, then four."""
    if family not in LIKE:
        yield Case(family, [], 1, 1)
        yield Case(family, [], 4, 1)
    # Prompts in parts, and a cache that two rows fill: some are preempted and computed again.
    if family not in layouts.NEAR_MODELS:
        yield Case(family, [], 4, 1, ("--max-batched-tokens", "7", "--max-total-tokens", "96"))
    experts = ["parallel.expert=2"] if family in layouts.LIKE_EXPERT_MODELS else []
    yield Case(family, ["parallel.tensor=2", *experts], 3, 2)
    if family in LIKE:
        return
    yield Case(family, ["parallel.pipeline=2"], 4, 2)
    yield Case(family, ["parallel.tensor=2", "parallel.pipeline=2"], 5, 4)
    if family in layouts.EXPERTS:
        yield Case(family, ["parallel.expert=2"], 2, 2)
        yield Case(family, ["parallel.tensor=2", "parallel.expert=2"], 2, 4)


def cases_on(device):
    """Each family under each kind of layout."""
    if device == "npu":
        return NPU_CASES
    cases = [case for family in tiny_models.FAMILIES for case in layouts_of(family)]
    cases += [Case("qwen2", [], 2, 2),  # data parallel
              Case("qwen2", ["parallel.zero=3"], 1, 2),
              Case("mixtral", ["parallel.tensor=2", "parallel.expert_tensor=2"], 1, 2),
              Case("qwen2", ["parallel.pipeline=2", "parallel.schedule=dualpipev"], 1, 4),
              Case("qwen3", ["parallel.pipeline=2", "parallel.schedule=interleaved", "parallel.virtual_stages=2"], 2, 4)]
    most = {"cpu": 4, "cuda": 1}[device]
    return sorted((case for case in cases if case.ranks <= most), key=lambda case: case.ranks)


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", cases_on(metafunc.config.getoption("device")), ids=lambda case: " ".join(
            [case.family, f"{case.ranks} ranks", *case.settings, f"batch {case.batch}", *case.words]))


@pytest.fixture(scope="module")
def references(folder):
    """By family, made when first asked for."""
    made = {}

    def reference(family):
        if family not in made:
            made[family] = make_reference(folder / family, family)
        return made[family]
    return reference


Written = collections.namedtuple("Written", "lines result last")


def launch(ranks, cases, references, device):
    """All cases of one number of ranks in one launch, which prints a line per row; what its last command printed."""
    commands = []
    for case in cases:
        reference = references(case.family)
        commands.append(["generate", "--model", reference.model, "--rows", reference.rows, "--max-new-tokens", NEW,
                         "--batch", case.batch, *case.words, *words_of([f"device={device}", *FP32, *case.settings])])
    commands.append(["check", "--npu-ops", "--json"] if device == "npu" else ["--version"])
    result = run_many(None if (device, ranks) == ("cuda", 1) else ranks, commands)
    lines = result.stdout.splitlines()
    return [Written(lines[number * ROWS:(number + 1) * ROWS], result, lines[-1] if lines else "")
            for number in range(len(cases))]


@pytest.fixture(scope="module")
def launches(selected, references, device):
    return Launches(selected(test_tokens), lambda case: case.ranks,
                    lambda ranks, cases: launch(ranks, cases, references, device))


def test_tokens(case, launches, references):
    written, wanted = launches.of(case), references(case.family).wanted
    assert len(written.lines) == ROWS, failure_text(written.result)[-3000:]
    found = [json.loads(line) for line in written.lines]
    assert [line["output_ids"] for line in found] == wanted
    for line in found:
        assert line["finish_reason"] == ("length" if len(line["output_ids"]) == NEW else "stop"), line


def test_launches_exit_with_0(launches):
    assert launches.left
    for ranks, left in launches.left.items():
        assert left[0].result.returncode == 0, f"{ranks} ranks: {failure_text(left[0].result)[-3000:]}"


@pytest.mark.devices("npu")
def test_operators_that_ran_are_listed(launches):
    for left in launches.left.values():
        operators = json.loads(left[0].last)["operators"]
        unknown = [entry["name"] for entry in operators if entry["calls"] > 0 and not entry["used"]]
        assert not unknown, f"called, but not in core/npu/used_operators.inc: {unknown}"


class Writer:
    """A small model with a tokenizer of bytes and a chat template: `generate` and transformers side by side."""

    def __init__(self, folder):
        self.folder, config = folder / "chat", json.loads(pathlib.Path("examples/chat/config.json").read_text())
        config = transformers.Qwen3Config(**{**config, "num_hidden_layers": 2, "initializer_range": 0.3})
        self.model = tiny_models.write_model(config, self.folder)
        for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copy(f"examples/chat/{name}", self.folder / name)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder)
        self.end = self.tokenizer.convert_tokens_to_ids("<|im_end|>")
        (self.folder / "generation_config.json").write_text(json.dumps({"eos_token_id": self.end}))

    def run(self, *words, ranks=None, stdin="", settings=()):
        command = [BUILD / "trireme", "generate", "--model", self.folder, *words, *words_of([*FP32, *settings])]
        return start(ranks, command, stdin=stdin)

    def text_of(self, ids, count):
        tokens, _ = likeliest(self.model, ids, count, [self.end])
        return self.tokenizer.decode(tokens, skip_special_tokens=True), tokens

    def answer(self, messages, count):
        ids = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
        return self.text_of(ids, count)


@pytest.fixture(scope="module")
def writer(folder):
    return Writer(folder)


PROMPT, COUNT = "Montag, Dienstag — größer", 40


@pytest.fixture(scope="module")
def text(writer):
    """What transformers writes after PROMPT."""
    return writer.text_of(writer.tokenizer(PROMPT)["input_ids"], COUNT)[0]


PROMPTED = ["--prompt", PROMPT, "--max-new-tokens", COUNT]


@pytest.mark.devices("cpu")
class TestText:
    def test_prompt(self, writer, text):
        result = writer.run(*PROMPTED)
        assert result.returncode == 0 and result.stdout == text + "\n", f"{text!r} {failure_text(result)}"
        assert "tokens in" in result.stderr, f"the speed is not reported: {result.stderr}"
        assert any(ord(letter) > 127 for letter in text), f"no character of several tokens: {text}"

    def test_streamed(self, writer, text):
        result = writer.run(*PROMPTED, "--stream")
        assert result.stdout == text + "\n", failure_text(result)

    def test_standard_input_on_two_ranks(self, writer, text):
        result = writer.run("--max-new-tokens", COUNT, stdin=PROMPT + "\n", ranks=2, settings=["parallel.tensor=2"])
        assert result.stdout == text + "\n", failure_text(result)

    @pytest.mark.parametrize("more", [[], ["--stream"]], ids=["at once", "streamed"])
    def test_stop_word(self, writer, text, more):
        stop = text[len(text) // 2:len(text) // 2 + 2]
        result = writer.run(*PROMPTED, "--stop", "no such text", "--stop", stop, *more)
        assert result.stdout == text[:text.index(stop)] + "\n", f"stop word {stop!r}: {failure_text(result)}"

    def test_checkpoint(self, writer, text, folder):
        """A checkpoint is a model directory like any other."""
        start(None, [BUILD / "trireme", "convert", "--from", writer.folder, "--to", folder / "checkpoint-1"])
        result = start(None, [BUILD / "trireme", "generate", "--model", folder / "checkpoint-1", *PROMPTED,
                              *words_of(FP32)])
        assert result.stdout == text + "\n", failure_text(result)


CONVERSATIONS = [[{"role": "user", "content": "Which day follows Monday?"}],
                 [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                  {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Bye"}]]


@pytest.mark.devices("cpu")
def test_conversation(writer, folder):
    (folder / "one.json").write_text(json.dumps(CONVERSATIONS[0]))
    result = writer.run("--messages", folder / "one.json", "--max-new-tokens", 12)
    assert result.stdout == writer.answer(CONVERSATIONS[0], 12)[0] + "\n", failure_text(result)


@pytest.mark.devices("cpu")
def test_several_conversations(writer, folder):
    (folder / "both.json").write_text(json.dumps(CONVERSATIONS))
    result = writer.run("--messages", folder / "both.json", "--max-new-tokens", 12)
    found = [json.loads(line) for line in result.stdout.splitlines()]
    wanted = [writer.answer(messages, 12) for messages in CONVERSATIONS]
    assert [(line["text"], line["output_ids"]) for line in found] == wanted, failure_text(result)


@pytest.mark.devices("cpu")
def test_chat(writer):
    """Two turns, of which the second has the first before it, and a third in a new conversation."""
    def asks(*texts):
        messages = []
        for text in texts:
            messages.append({"role": "user", "content": text})
            messages.append({"role": "assistant", "content": writer.answer(messages, 8)[0]})
        return [message["content"] for message in messages if message["role"] == "assistant"]
    wanted = [*asks("Monday?", "And then?"), *asks("And then?")]
    result = writer.run("--chat", "--max-new-tokens", 8, ranks=2, settings=["parallel.pipeline=2"],
                        stdin="Monday?\n\nAnd then?\n/new\nAnd then?\n/quit\nunread\n")
    assert result.returncode == 0 and result.stdout == "".join(f"{text}\n" for text in wanted), \
        f"{wanted}\n{failure_text(result)}"


DRAWN = 600


@pytest.fixture(scope="module")
def equal_rows(writer, folder):
    """Many equal rows, and transformers' scores of their next token."""
    ids, path = writer.tokenizer("Tuesday")["input_ids"], folder / "equal.jsonl"
    path.write_text((json.dumps({"input_ids": ids}) + "\n") * DRAWN)
    with torch.no_grad():
        return path, ids, writer.model(torch.tensor([ids])).logits[:, -1]


def sample(writer, path, temperature, top_k, top_p):
    return writer.run("--rows", path, "--max-new-tokens", 1, "--batch", 64, "--temperature", temperature, "--top-k", top_k,
                      "--top-p", top_p, "--seed", 7)


@pytest.fixture(scope="module")
def samples(writer, equal_rows):
    """By temperature, top-k and top-p; each drawn once."""
    return functools.cache(lambda *filters: sample(writer, equal_rows[0], *filters))


@pytest.mark.devices("cpu")
@pytest.mark.parametrize("temperature, top_k, top_p", [(3.0, 0, 1.0), (3.0, 9, 1.0), (2.0, 0, 0.7), (2.5, 12, 0.8)])
def test_sampling(temperature, top_k, top_p, samples, equal_rows, record_property):
    """The first tokens of many equal rows are distributed as transformers' own filters say."""
    _, ids, scores = equal_rows
    filters = transformers.LogitsProcessorList([transformers.TemperatureLogitsWarper(temperature)])
    filters += [transformers.TopKLogitsWarper(top_k)] if top_k else []
    filters += [transformers.TopPLogitsWarper(top_p)] if top_p < 1 else []
    wanted = filters(torch.tensor([ids]), scores.clone()).softmax(-1)[0]
    result = samples(temperature, top_k, top_p)
    drawn = collections.Counter(json.loads(line)["output_ids"][0] for line in result.stdout.splitlines())
    assert sum(drawn.values()) == DRAWN, failure_text(result)[-500:]
    assert not [token for token in drawn if wanted[token] == 0], "tokens that the filters leave out were drawn"
    # Pearson's statistic is within five deviations of its mean; tokens of few expected draws count as one.
    expected = [DRAWN * share.item() for share in wanted]
    rare = [token for token, share in enumerate(expected) if 0 < share < 5]
    groups = [[token] for token, share in enumerate(expected) if share >= 5] + ([rare] if rare else [])
    pairs = [(sum(drawn[token] for token in group), sum(expected[token] for token in group)) for group in groups]
    statistic, freedom = sum((found - mean) ** 2 / mean for found, mean in pairs), max(len(pairs) - 1, 1)
    limit = freedom + 5 * math.sqrt(2 * freedom)
    record_property("statistic", f"{statistic:.1f} of {len(pairs)} groups")
    assert statistic < limit, f"statistic {statistic:.1f} of {len(pairs)} groups, tolerance {limit:.1f}"


@pytest.mark.devices("cpu")
def test_the_same_seed_draws_the_same(writer, samples, equal_rows):
    first, second = samples(2.5, 12, 0.8).stdout, sample(writer, equal_rows[0], 2.5, 12, 0.8).stdout
    assert first and first == second


EQUAL = ["--rows", "equal.jsonl"]
# words, in which files are of the test's folder; what the line must say
REFUSED = [
    (["--prompt", "a", *EQUAL], ["--prompt", "--rows", "keep one"]),
    (["--prompt", ""], ["no prompt", "--messages"]),
    (["--messages", "empty.json"], ["empty.json", "list of messages"]),
    (["--rows", "long.jsonl"], ["long.jsonl: row 1", "512", "max_position_embeddings"]),
    (["--rows", "bad.jsonl"], ["bad.jsonl:2", "260"]),
    (["--rows", "none.jsonl"], ["none.jsonl:1", "empty"]),
    ([*EQUAL, "--temperature", "-1"], ["--temperature -1", "at least 0"]),
    ([*EQUAL, "--top-p", "1.5"], ["--top-p 1.5", "up to 1"]),
    ([*EQUAL, "--top-p", "0"], ["--top-p 0", "above 0"]),
    ([*EQUAL, "--max-new-tokens", "0"], ["--max-new-tokens 0", "at least 1"]),
    ([*EQUAL, "--stop", ""], ["--stop", "empty"]),
    ([*EQUAL, "--adapters", "a"], ["adapter_config.json"]),
    ([*EQUAL, "--set", "parallel.context=2"], ["parallel.context = 2", "set it to 1"]),
    ([*EQUAL, "--model", "bare"], ["given twice"]),
]


@pytest.fixture(scope="module")
def inputs(writer, equal_rows, folder):
    """A folder with bad inputs."""
    (folder / "empty.json").write_text("[]")
    (folder / "long.jsonl").write_text(json.dumps({"input_ids": [1] * 512}) + "\n")
    (folder / "bad.jsonl").write_text('{"input_ids": [1]}\n{"input_ids": [1, 260]}\n')
    (folder / "none.jsonl").write_text('{"input_ids": []}\n')
    (folder / "bare").mkdir()
    shutil.copy(writer.folder / "config.json", folder / "bare")
    return folder


def assert_refused(result, wanted):
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1 and not result.stdout, failure_text(result)
    for word in wanted:
        assert word in result.stderr, f"{word!r} is not in: {result.stderr}"


@pytest.mark.devices("cpu")
@pytest.mark.parametrize("words, wanted", REFUSED, ids=[" ".join(words) for words, _ in REFUSED])
def test_refused(words, wanted, writer, inputs):
    files = [path.name for path in inputs.iterdir()]
    assert_refused(writer.run(*(inputs / word if word in files else word for word in words)), wanted)


@pytest.mark.devices("cpu")
def test_refused_without_a_tokenizer(inputs):
    assert_refused(start(None, [BUILD / "trireme", "generate", "--model", inputs / "bare", "--prompt", "a"]),
                   ["tokenizer.json"])


@pytest.mark.devices("cpu")
def test_refused_without_a_model(inputs):
    words = ["generate", "--model", inputs / "nothing", "--rows", inputs / "equal.jsonl"]
    assert_refused(start(None, [BUILD / "trireme", *words]), ["config.json"])


@pytest.mark.devices("cpu")
def test_refused_without_a_prompt_on_two_ranks(writer):
    assert_refused(writer.run(ranks=2, settings=["parallel.tensor=2"]), ["no prompt", "standard input"])
