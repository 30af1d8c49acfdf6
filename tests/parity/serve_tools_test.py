"""Tools of `trireme serve` with the openai package as its client, and of `generate`. A small model is trained to answer three questions with tool
calls in the forms of three families; each comes back as calls, streamed and not, and the prompt is transformers' own
rendering of tools and of calls in the history."""
import json

import openai
import pytest
import torch
import transformers

from decoding import likeliest
from program import BUILD, failure_text, start
from served import VOCABULARY, Server, add_tokenizer

TEMPLATE = """{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}{% for call in message.tool_calls or [] %}<tool_call>{{ call.function.name }}:{{ call.function.arguments | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
TOOLS = [{"type": "function", "function": {"name": "f", "description": "d"}}]
CALL, SEPARATOR = ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"), "<｜tool▁sep｜>"
# Question to answer, its content and its calls.
ANSWERS = {
    "hermes": ('Ok\n<tool_call>\n{"name": "f", "arguments": {"a": "ü"}}\n</tool_call>\n<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>',
               "Ok", [("f", {"a": "ü"}), ("g", {})]),
    "llama3_json": ('{"name": "f", "parameters": {"b": [1, 2]}}', None, [("f", {"b": [1, 2]})]),
    "deepseek_v3": (f"<｜tool▁calls▁begin｜>{CALL[0]}function{SEPARATOR}f\n```json\n{{}}\n```{CALL[1]}<｜tool▁calls▁end｜>", None, [("f", {})]),
    "broken": ('<tool_call>\n{"name": "f", "arg</tool_call> x', '<tool_call>\n{"name": "f", "arg</tool_call> x', []),
}


def question(word):
    return [{"role": "user", "content": word}]


@pytest.fixture(scope="module")
def trained(folder):
    """A model that has learnt the answers by heart, one of them also without tools in the prompt."""
    model_folder = folder / "chat"
    torch.manual_seed(1)
    config = transformers.Qwen3Config(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=128, num_hidden_layers=2, head_dim=16,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=False)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.save_pretrained(model_folder)
    add_tokenizer(model_folder)
    (model_folder / "chat_template.jinja").write_text(TEMPLATE)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    (model_folder / "generation_config.json").write_text(json.dumps({"eos_token_id": end}))
    rows = []
    for word, (answer, _, _) in ANSWERS.items():
        for tools in (TOOLS, None) if word == "hermes" else (TOOLS,):
            prompt = tokenizer.apply_chat_template(question(word), tools=tools, add_generation_prompt=True, tokenize=True, return_dict=False)
            text = tokenizer(answer, add_special_tokens=False)["input_ids"] + [end]
            rows.append((prompt + text, [-100] * len(prompt) + text))
    longest = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([ids + [0] * (longest - len(ids)) for ids, _ in rows])
    labels = torch.tensor([labels + [-100] * (longest - len(labels)) for _, labels in rows])
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for _ in range(400):
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if loss < 0.01:
            break
    assert loss < 0.02, loss
    model.save_pretrained(model_folder)
    return tokenizer


@pytest.fixture(scope="module")
def servers(folder, trained):
    started = {}

    def of(form):
        if form not in started:
            started[form] = Server(folder, *(() if form is None else ("--tool-call-parser", form)))
        return started[form]
    yield of
    for server in started.values():
        assert server.stop() == 0


def ask(server, word, **more):
    return server.client.chat.completions.create(**{"model": "chat", "messages": question(word), "temperature": 0, "tools": TOOLS, **more})


def calls_of(message):
    return [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or []]


@pytest.mark.parametrize("form", ["hermes", "llama3_json", "deepseek_v3"])
def test_calls(servers, form):
    server = servers(form)
    _, content, calls = ANSWERS[form]
    choice = ask(server, form, logprobs=True).choices[0]
    assert choice.message.content == content and calls_of(choice.message) == calls and choice.finish_reason == "tool_calls"
    assert all(call.type == "function" and call.id.startswith("call_") for call in choice.message.tool_calls)
    assert len({call.id for call in choice.message.tool_calls}) == len(calls)

    chunks = list(ask(server, form, stream=True))
    pieces = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert all(piece.index is not None for piece in pieces)
    first = {piece.index: piece for piece in reversed(pieces)}
    joined = {index: "".join(piece.function.arguments for piece in pieces if piece.index == index) for index in first}
    assert [(first[i].function.name, json.loads(joined[i])) for i in sorted(first)] == calls
    assert all(first[i].id and first[i].type == "function" and first[i].function.arguments == "" for i in first)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == (content or "")
    assert chunks[-1].choices[0].finish_reason == "tool_calls"

    with server.client.chat.completions.stream(model="chat", messages=question(form), temperature=0, tools=TOOLS) as stream:
        kinds = {event.type for event in stream}
        assert calls_of(stream.get_final_completion().choices[0].message) == calls
    assert "tool_calls.function.arguments.done" in kinds


def test_what_is_no_call_is_content(servers):
    choice = ask(servers("hermes"), "broken").choices[0]
    assert choice.message.content == ANSWERS["broken"][1] and choice.message.tool_calls is None and choice.finish_reason == "stop"
    streamed = list(ask(servers("hermes"), "broken", stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in streamed) == ANSWERS["broken"][1]


def test_choices_of_tools(servers):
    server = servers("hermes")
    assert calls_of(ask(server, "hermes", parallel_tool_calls=False).choices[0].message) == [("f", {"a": "ü"})]
    plain = ask(server, "hermes", tool_choice="none")
    assert plain.choices[0].message.tool_calls is None and plain.choices[0].message.content == ANSWERS["hermes"][0]
    assert plain.usage.prompt_tokens < ask(server, "hermes", tool_choice="auto").usage.prompt_tokens
    with pytest.raises(openai.BadRequestError) as error:
        ask(server, "hermes", tool_choice={"type": "function", "function": {"name": "f"}})
    assert error.value.param == "tool_choice"


def test_the_template_chooses_the_form(servers):
    assert calls_of(ask(servers(None), "hermes").choices[0].message) == ANSWERS["hermes"][2]


def test_the_prompt_is_transformers_own(servers, trained):
    """Tools, calls in the history and their results, rendered as transformers does it."""
    messages = [*question("hermes"),
                {"role": "assistant", "content": None, "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"b": 1, "a": "ü"}'}}]},
                {"role": "tool", "tool_call_id": "call_1", "content": "3"}]
    parsed = json.loads(json.dumps(messages))
    parsed[1]["tool_calls"][0]["function"]["arguments"] = {"b": 1, "a": "ü"}
    ids = trained.apply_chat_template(parsed, tools=TOOLS, add_generation_prompt=True, tokenize=True, return_dict=False)
    server = servers("hermes")
    assert ask(server, "", messages=messages, max_tokens=1).usage.prompt_tokens == len(ids)
    tokens = server.client.post("/tokenize", cast_to=object, body={"model": "chat", "messages": messages, "tools": TOOLS})
    assert tokens["tokens"] == ids


def generate(folder, *words, stdin=""):
    (folder / "tools.json").write_text(json.dumps(TOOLS))
    result = start(None, [BUILD / "trireme", "generate", "--model", folder / "chat", "--tools", folder / "tools.json", "--set", "model.dtype=fp32",
                          "--max-new-tokens", 150, *words], stdin=stdin)
    assert result.returncode == 0, failure_text(result)
    return result


def written(folder, tokenizer, messages, **variables):
    """What transformers writes, greedily."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "chat", dtype=torch.float32)
    ids = tokenizer.apply_chat_template(messages, tools=TOOLS, add_generation_prompt=True, tokenize=True, return_dict=False, **variables)
    tokens, _ = likeliest(model, ids, 150, [tokenizer.convert_tokens_to_ids("<|im_end|>")])
    return tokenizer.decode(tokens, skip_special_tokens=True)


def test_generate(folder, trained):
    lines = [{"messages": question("hermes")}, {"messages": question("broken")}, {"messages": question("hermes"), "tools": []}]
    (folder / "ask.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = [json.loads(line) for line in generate(folder, "--messages", folder / "ask.jsonl").stdout.splitlines()]
    assert [line["text"] for line in found] == [ANSWERS["hermes"][0], ANSWERS["broken"][0], ANSWERS["hermes"][0]]
    assert [(call["name"], call["arguments"]) for call in found[0]["tool_calls"]] == ANSWERS["hermes"][2]
    assert "tool_calls" not in found[1]


def test_chat(folder, trained):
    """Calls of an answer are calls in the history, and their results messages of the role tool, as transformers renders them."""
    answer, content, calls = ANSWERS["hermes"]
    messages = [*question("hermes"), {"role": "assistant", "content": content, "tool_calls": [
        {"type": "function", "function": {"name": name, "arguments": arguments}} for name, arguments in calls]},
        {"role": "tool", "content": "one"}, {"role": "tool", "content": "two"}]
    result = generate(folder, "--chat", stdin="/tool none\nhermes\n/tool one\n/tool two\n/quit\n")
    assert result.stdout == f"{answer}\n{written(folder, trained, messages)}\n", failure_text(result)
    assert "no call of a tool is open" in result.stderr and "1 result to go" in result.stderr


def test_tools_that_are_refused(folder, trained):
    wrong = {"text.json": '"f"', "empty.json": "[]", "nameless.json": '[{"type": "function"}]'}
    for name, text in wrong.items():
        (folder / name).write_text(text)
        result = start(None, [BUILD / "trireme", "generate", "--model", folder / "chat", "--chat", "--tools", folder / name])
        assert result.returncode == 2 and f"--tools {folder / name}: wanted a list of functions" in result.stderr, failure_text(result)
    result = start(None, [BUILD / "trireme", "generate", "--model", folder / "chat", "--prompt", "a", "--tools", folder / "tools.json"])
    assert result.returncode == 2 and "--tools is for conversations" in result.stderr, failure_text(result)


THINKS = """{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% endif %}{% endif %}"""


def test_thinking_and_system(folder, trained):
    """--template-value and data.template_values switch what --system and --tools are beside of."""
    (folder / "thinks.jinja").write_text(THINKS)
    (folder / "one.json").write_text(json.dumps(question("llama3_json")))
    messages = [{"role": "system", "content": "Be brief."}, *question("llama3_json")]
    common = ["--system", "Be brief.", "--set", f"data.template={folder / 'thinks.jinja'}"]
    texts = {value: written(folder, trained, messages, chat_template=THINKS, enable_thinking=value) for value in (True, False)}
    assert texts[True] != texts[False]
    for words, value in [([], True), (["--template-value", "enable_thinking=false"], False),
                         (["--set", "data.template_values=[enable_thinking=false]"], False),
                         (["--set", "data.template_values=[enable_thinking=false]", "--template-value", "enable_thinking=true"], True)]:
        assert generate(folder, *common, *words, "--messages", folder / "one.json").stdout == texts[value] + "\n", words
        assert generate(folder, *common, *words, "--chat", stdin="llama3_json\n").stdout == texts[value] + "\n", words
