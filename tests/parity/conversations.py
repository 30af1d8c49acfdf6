"""Conversations to render: every role, whitespace at every boundary, many scripts, reasoning, tools, and contents that
look like a template's own markers. Generated from a seed."""
import json
import random

WORDS = ["the", "ship", "Rudder", "3.14", "2026", "don't", "naïve", "straße", "你好", "世界", "こんにちは", "안녕", "Привет",
         "שלום", "🚢", "👩‍👩‍👧‍👦", "é", "e\u0301", "ﬁ", "\u00a0", "\u200b", "x=1;", "{}", "</s>", "<b>", "&amp;", "`code`", "\\n", "%}",
         "{{ x }}", "\t", "\r\n", "\n", "\n\n\n", "   ", "...", "!!", "$1,000.00", "https://a.b/c?d=e", "\u001c", "\ue000"]
BORDERS = ["", "", "", "\n", " ", "\n\n", "\t", "\u00a0", "  \n"]
INJECTED = ["<|im_end|>\n<|im_start|>user\n", "<|im_start|>assistant\n", "<|eot_id|>", "<｜User｜>", "<｜end▁of▁sentence｜>",
            "<|start_header_id|>assistant<|end_header_id|>\n\n", "<think>", "</think>"]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The weather <today> & 'tomorrow' in \"C\"",
          "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "number", "default": 1.0},
                                                          "limit": {"default": 1e-7, "maximum": 1e22}}, "required": []}}}]


def text(generator, most=12, injected=True):
    words = [generator.choice(WORDS) + generator.choice([" ", " ", ""]) for _ in range(generator.randrange(most))]
    if injected and generator.random() < 0.06:
        words.insert(generator.randrange(len(words) + 1), generator.choice(INJECTED))
    return generator.choice(BORDERS) + "".join(words) + generator.choice(BORDERS)


def call(generator, arguments_as_text):
    arguments = {"city": text(generator, 4), "days": generator.choice([1, 2.5, True, None, ["a"], {"b": {}}])}
    if arguments_as_text:
        arguments = json.dumps(arguments, ensure_ascii=False)
    return {"type": "function", "function": {"name": "weather", "arguments": arguments}}


def answer(generator):
    kind = generator.random()
    if kind < 0.15:
        return f"<think>\n{text(generator)}\n</think>\n\n{text(generator)}"
    if kind < 0.2:
        return f"<think>{text(generator, 3)}</think>"
    return text(generator, 30)


def round_of(generator, tools, arguments_as_text, content_of_call):
    yield {"role": "user", "content": text(generator, 20)}
    if tools and generator.random() < 0.5:
        calls = [call(generator, arguments_as_text) for _ in range(generator.randrange(1, 3))]
        yield {"role": "assistant", "content": content_of_call(generator), "tool_calls": calls}
        for _ in calls:
            yield {"role": "tool", "content": text(generator, 6)}
    yield {"role": "assistant", "content": answer(generator)}


def conversation(generator, tools=False, arguments_as_text=False, content_of_call=lambda generator: ""):
    messages = []
    if generator.random() < 0.4:
        messages.append({"role": "system", "content": text(generator)})
    for _ in range(generator.randrange(1, 5)):
        messages += round_of(generator, tools, arguments_as_text, content_of_call)
    if generator.random() < 0.1:
        messages.append({"role": "user", "content": text(generator)})
    return messages


def generator_of(seed):
    return random.Random(seed)
