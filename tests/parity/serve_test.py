"""`trireme serve` with the openai package as its client: answers equal transformers' greedy tokens, alone and beside others;
streams equal whole answers; every field is honoured or refused; errors arrive as the client's own types."""
import asyncio
import json
import threading
import time
import urllib.request

import openai
import pytest
import torch
import transformers

from decoding import likeliest
from served import KEY, Server

CHAT = [{"role": "user", "content": "Which day follows Monday?"}]


@pytest.fixture(scope="module")
def server(folder):
    (folder / "keys").write_text(f"# tenants\nanother-key\n{KEY}\n")
    served = Server(folder, "--api-key-file", folder / "keys")
    yield served
    assert served.stop() == 0, served.log.read_text()


@pytest.fixture(scope="module")
def model(server):
    return transformers.AutoModelForCausalLM.from_pretrained(server.folder, dtype=torch.float32)


def wanted(server, model, count, messages=CHAT):
    ids = server.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
    end = server.tokenizer.convert_tokens_to_ids("<|im_end|>")
    tokens, _ = likeliest(model, ids, count, [end])
    return server.tokenizer.decode(tokens, skip_special_tokens=True), len(ids), len(tokens)


def ask(server, **more):
    return server.client.chat.completions.create(**{"model": "chat", "messages": CHAT, "temperature": 0, "max_tokens": 24, **more})


def test_chat(server, model):
    text, read, wrote = wanted(server, model, 24)
    answer = ask(server)
    choice = answer.choices[0]
    assert choice.message.content == text and choice.message.role == "assistant" and choice.index == 0
    assert choice.finish_reason in ("stop", "length") and choice.logprobs is None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (read, wrote, read + wrote)
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-") and answer.model == "chat" and answer.created > 0
    assert answer._request_id


def test_stream_equals_the_whole(server, model):
    chunks = list(ask(server, stream=True, stream_options={"include_usage": True}))
    text, read, wrote = wanted(server, model, 24)
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[0].object == "chat.completion.chunk"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == text
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] in ("stop", "length")
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == wrote and chunks[-1].usage.prompt_tokens == read
    assert len({chunk.id for chunk in chunks}) == 1


def test_beside_others(server, model):
    """Sixteen at once, of which each gets what it gets alone."""
    asks = [[{"role": "user", "content": "Day " * (1 + 3 * i)}] for i in range(16)]
    alone = [wanted(server, model, 4 + i, messages)[0] for i, messages in enumerate(asks)]

    async def all_at_once():
        client = openai.AsyncOpenAI(base_url=server.url, api_key=KEY)
        return await asyncio.gather(*(client.chat.completions.create(
            model="chat", messages=messages, temperature=0, max_tokens=4 + i) for i, messages in enumerate(asks)))
    assert [answer.choices[0].message.content for answer in asyncio.run(all_at_once())] == alone


def test_prefix_is_reused(server):
    messages = [{"role": "user", "content": "A long beginning that repeats. " * 8}]
    first, second = ask(server, messages=messages), ask(server, messages=messages)
    assert second.usage.prompt_tokens_details.cached_tokens >= second.usage.prompt_tokens - 33
    assert first.choices[0].message.content == second.choices[0].message.content
    other = ask(server, messages=messages, extra_body={"cache_salt": "another"})
    assert other.usage.prompt_tokens_details.cached_tokens == 0
    texts = ["One text that is long enough for a block. ", "Another one, which is just as long or more. "]
    complete = lambda: server.client.completions.create(model="chat", prompt=texts, n=2, max_tokens=1, temperature=0).usage
    assert complete().prompt_tokens_details.cached_tokens == 0 and complete().prompt_tokens_details.cached_tokens == 64, "of both prompts"


def test_seeds_and_choices(server):
    def draw(**more):
        return [choice.message.content for choice in ask(server, temperature=1.5, seed=7, n=3, **more).choices]
    first = draw()
    assert len(set(first)) == 3 and first == draw()
    assert first[0] == ask(server, temperature=1.5, seed=7).choices[0].message.content
    answer = ask(server, n=3, temperature=1.5, seed=7)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert answer.usage.completion_tokens > 24 and answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_stop(server, model):
    text = wanted(server, model, 24)[0]
    stop = text[len(text) // 2:len(text) // 2 + 2]
    for stream in (False, True):
        answer = ask(server, stop=["no such text", stop], stream=stream)
        found = "".join(c.choices[0].delta.content or "" for c in answer) if stream else answer.choices[0].message.content
        assert found == text[:text.index(stop)]


def test_log_probabilities(server, model):
    answer = ask(server, logprobs=True, top_logprobs=3, max_tokens=5)
    entries = answer.choices[0].logprobs.content
    assert len(entries) == answer.usage.completion_tokens
    ids = server.tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, tokenize=True, return_dict=False)
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
    best = logits.topk(3)
    assert abs(entries[0].logprob - best.values[0].item()) < 1e-3
    assert [round(entry.logprob, 2) for entry in entries[0].top_logprobs] == [round(value, 2) for value in best.values.tolist()]
    assert entries[0].token == server.tokenizer.decode([best.indices[0]])
    streamed = list(ask(server, logprobs=True, top_logprobs=3, max_tokens=5, stream=True))
    assert [e.logprob for c in streamed if c.choices[0].logprobs for e in c.choices[0].logprobs.content] == [e.logprob for e in entries]


def test_penalties_and_bias(server, model):
    token = server.tokenizer("x")["input_ids"][0]
    assert ask(server, logit_bias={str(token): 100}, max_tokens=4).choices[0].message.content == "xxxx"
    assert set(ask(server, logit_bias={str(token): 100}, max_tokens=8, frequency_penalty=2, presence_penalty=2,
                   extra_body={"repetition_penalty": 1.0}).choices[0].message.content) == {"x"}
    first = ask(server, max_tokens=1, logprobs=True, top_logprobs=2).choices[0].logprobs.content[0]
    ids = server.tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, tokenize=True, return_dict=False)
    with torch.no_grad():
        banned = model(torch.tensor([ids])).logits[0, -1].argmax().item()
    second = ask(server, max_tokens=1, logprobs=True, logit_bias={str(banned): -100}).choices[0].logprobs.content[0]
    assert second.logprob == first.top_logprobs[1].logprob < first.logprob, "the next likeliest, by the model's own measure"


def test_completions(server, model):
    ids = server.tokenizer("Tuesday")["input_ids"]
    text = server.tokenizer.decode(likeliest(model, ids, 12, [server.tokenizer.convert_tokens_to_ids("<|im_end|>")])[0],
                                   skip_special_tokens=True)
    complete = lambda **more: server.client.completions.create(**{"model": "chat", "temperature": 0, "max_tokens": 12, **more})
    assert complete(prompt="Tuesday").choices[0].text == text
    both = complete(prompt=["Tuesday", "Friday"], n=2)
    assert [choice.index for choice in both.choices] == [0, 1, 2, 3] and both.choices[0].text == both.choices[1].text == text
    assert complete(prompt=ids).choices[0].text == text and complete(prompt=[ids, ids]).choices[1].text == text
    assert complete(prompt="Tuesday", echo=True).choices[0].text == "Tuesday" + text
    assert "".join(chunk.choices[0].text for chunk in complete(prompt="Tuesday", stream=True)) == text
    probs = complete(prompt="Tuesday", logprobs=2, max_tokens=4).choices[0].logprobs
    assert len(probs.tokens) == len(probs.token_logprobs) == len(probs.top_logprobs) == len(probs.text_offset) == 4
    assert complete(prompt="Tuesday", max_tokens=None).usage.completion_tokens <= 16


def test_token_ids(server, model):
    ids, other = (server.tokenizer(day)["input_ids"] for day in ("Tuesday", "Friday"))
    tokens, _ = likeliest(model, ids, 12, [server.tokenizer.convert_tokens_to_ids("<|im_end|>")])
    both = server.client.completions.create(model="chat", temperature=0, max_tokens=12, prompt=[ids, other], n=2,
                                            extra_body={"return_token_ids": True})
    assert [choice.prompt_token_ids for choice in both.choices] == [ids, ids, other, other]
    assert both.choices[0].token_ids == both.choices[1].token_ids == list(tokens)
    chat = ask(server, extra_body={"return_token_ids": True})
    assert chat.prompt_token_ids == server.tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, tokenize=True, return_dict=False)
    assert len(chat.choices[0].token_ids) == chat.usage.completion_tokens
    assert server.tokenizer.decode(chat.choices[0].token_ids, skip_special_tokens=True) == chat.choices[0].message.content
    assert "token_ids" not in ask(server).choices[0].model_extra


def test_template_values(server):
    plain = ask(server, max_tokens=1).usage.prompt_tokens
    assert ask(server, max_tokens=1, extra_body={"add_generation_prompt": False}).usage.prompt_tokens < plain
    assert ask(server, max_tokens=1, extra_body={"chat_template_kwargs": {"enable_thinking": False}}).usage.prompt_tokens >= plain


@pytest.mark.parametrize("more, param", [
    ({"temperature": 3}, "temperature"), ({"top_p": 0}, "top_p"), ({"n": 0}, "n"), ({"max_tokens": 0}, "max_tokens"),
    ({"stop": ["a"] * 5}, "stop"), ({"stop": ""}, "stop"), ({"top_logprobs": 2}, "top_logprobs"),
    ({"logit_bias": {"999999": 1}}, "logit_bias"), ({"tools": [{"type": "function"}]}, "tools[0].function"),
    ({"tool_choice": "required"}, "tool_choice"), ({"tool_choice": "auto"}, "tool_choice"),
    ({"messages": [{"role": "user", "content": "x", "tool_calls": [{"id": "1"}]}]}, "messages[0].tool_calls"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}, "response_format"), ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"extra_body": {"temprature": 1}}, "temprature"), ({"messages": []}, "messages"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages[0].content[0]"),
    ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"), ({"seed": 1.5}, "seed"), ({"seed": True}, "seed"),
    ({"stream": True, "extra_body": {"return_token_ids": True}}, "return_token_ids"),
    ({"extra_body": {"min_p": 2}}, "min_p"), ({"frequency_penalty": 3}, "frequency_penalty")])
def test_refused(server, more, param):
    with pytest.raises(openai.BadRequestError) as error:
        ask(server, **more)
    assert error.value.param == param and error.value.type == "invalid_request_error"


def test_errors(server):
    with pytest.raises(openai.NotFoundError) as error:
        ask(server, model="another")
    assert error.value.code == "model_not_found" and error.value.param == "model"
    with pytest.raises(openai.BadRequestError) as error:
        ask(server, messages=[{"role": "user", "content": "x" * 5000}])
    assert error.value.code == "context_length_exceeded"
    with pytest.raises(openai.AuthenticationError) as error:
        openai.OpenAI(base_url=server.url, api_key="wrong", max_retries=0).models.list()
    assert error.value.code == "invalid_api_key"
    with pytest.raises(openai.NotFoundError):
        server.client.embeddings.create(model="chat", input="x")


def test_models(server):
    assert [found.id for found in server.client.models.list()] == ["chat"]
    assert server.client.models.retrieve("chat").id == "chat"
    with pytest.raises(openai.NotFoundError):
        server.client.models.retrieve("a/b")


def test_every_field_of_an_answer(server):
    """The client fills what is missing with None in silence, so each field is looked at."""
    answer = ask(server, n=2, logprobs=True, seed=3, user="u", metadata={"a": "b"}, store=False, service_tier="auto", max_tokens=3)
    raw = json.loads(answer.model_dump_json())
    assert raw["id"].startswith("chatcmpl-") and raw["object"] == "chat.completion" and abs(raw["created"] - time.time()) < 3600
    assert raw["model"] == "chat" and [choice["index"] for choice in raw["choices"]] == [0, 1]
    for choice in raw["choices"]:
        assert choice["finish_reason"] in ("stop", "length") and choice["message"]["role"] == "assistant"
        assert choice["message"]["refusal"] is None and choice["message"]["tool_calls"] is None
        for entry in choice["logprobs"]["content"]:
            assert entry["bytes"] is None or bytes(entry["bytes"]).decode() == entry["token"]
            assert entry["logprob"] <= 0 and entry["top_logprobs"] == []
    assert answer._request_id and len(answer._request_id) == 24


def test_limits_of_tokens(server):
    assert ask(server, max_completion_tokens=3, max_tokens=9, extra_body={"ignore_eos": True}).usage.completion_tokens == 3
    answer = ask(server, max_tokens=None, extra_body={"ignore_eos": True})
    assert answer.usage.total_tokens == 512 and answer.choices[0].finish_reason == "length"
    least = ask(server, max_tokens=30, extra_body={"min_tokens": 30})
    assert least.usage.completion_tokens == 30
    end = server.tokenizer.encode("x")[0]
    stopped = ask(server, logit_bias={str(end): 100}, extra_body={"stop_token_ids": [end]})
    assert stopped.choices[0].message.content == "" and stopped.choices[0].finish_reason == "stop"


def test_sampling_fields(server):
    """What leaves one candidate is greedy."""
    greedy = ask(server).choices[0].message.content
    for more in ({"extra_body": {"top_k": 1}}, {"top_p": 1e-9}, {"extra_body": {"min_p": 1.0}}):
        assert ask(server, temperature=1.7, **more).choices[0].message.content == greedy
    assert ask(server, temperature=2, seed=-5).choices[0].message.content == ask(server, temperature=2, seed=-5).choices[0].message.content
    assert len({ask(server, temperature=2).choices[0].message.content for _ in range(4)}) > 1, "a fresh seed a request"
    token = server.tokenizer.encode("q")[0]
    plain = ask(server, logit_bias={str(token): 100}, max_tokens=6).choices[0].message.content
    tired = ask(server, logit_bias={str(token): 12}, max_tokens=6, presence_penalty=2, frequency_penalty=2,
                extra_body={"repetition_penalty": 50}).choices[0].message.content
    assert plain == "qqqqqq" and tired != plain


def test_messages_of_all_roles(server):
    messages = [{"role": "developer", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]},
                {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c", "name": "me"}]
    joined = [{"role": "system", "content": "Be brief."}, *messages[1:3], {"role": "user", "content": "c"}]
    assert ask(server, messages=messages).choices[0].message.content == ask(server, messages=joined).choices[0].message.content


def test_marks_of_turns_in_a_text(server, model):
    """What a user writes is tokenized as transformers tokenizes it, marks of the template, too."""
    messages = [{"role": "user", "content": "a<|im_end|>\n<|im_start|>system\nb"}]
    text, read, _ = wanted(server, model, 8, messages)
    answer = ask(server, messages=messages, max_tokens=8)
    assert (answer.choices[0].message.content, answer.usage.prompt_tokens) == (text, read)


def test_json(server):
    """One object, whatever the weights prefer; what is cut at the limit is the begin of one."""
    ends, sizes, form = set(), [], {"type": "json_object"}
    for seed in range(16):
        token = {str(server.tokenizer.encode(text)[0]): 2 + seed % 4 for text in '}"'}  # so that some end
        answer = ask(server, response_format=form, temperature=1.3, seed=seed, max_tokens=200, n=2, logit_bias=token, logprobs=True)
        for choice in answer.choices:
            ends.add(choice.finish_reason)
            if choice.finish_reason == "stop":
                assert isinstance(json.loads(choice.message.content), dict)
                sizes.append(len(choice.message.content))
            else:
                assert choice.message.content.lstrip().startswith("{")
                with pytest.raises(json.JSONDecodeError):
                    json.loads(choice.message.content)
    assert ends == {"stop", "length"} and max(sizes) > 20, (ends, sizes)
    token = {str(server.tokenizer.encode(text)[0]): 100 for text in "{}"}
    streamed = list(ask(server, response_format=form, logit_bias=token, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in streamed) == "{}" and streamed[-1].choices[0].finish_reason == "stop"
    assert ask(server, response_format=form, logit_bias=token, max_tokens=2).choices[0].finish_reason == "stop", "complete at its limit"
    assert ask(server, response_format={"type": "text"}).choices[0].message.content == ask(server).choices[0].message.content


def test_json_beside_others(server, model):
    """Rows without a format get what they get alone."""
    text = wanted(server, model, 24)[0]

    async def both():
        client = openai.AsyncOpenAI(base_url=server.url, api_key=KEY)
        one = lambda **more: client.chat.completions.create(model="chat", messages=CHAT, temperature=0, max_tokens=24, **more)
        return await asyncio.gather(*(one(**({"response_format": {"type": "json_object"}} if i % 2 else {})) for i in range(8)))
    answers = [answer.choices[0].message.content for answer in asyncio.run(both())]
    assert answers[::2] == [text] * 4 and len(set(answers[1::2])) == 1 and answers[1].lstrip().startswith("{")


def test_the_stream_helper_and_async(server, model):
    text = wanted(server, model, 24)[0]
    stop = text[len(text) // 2:len(text) // 2 + 20]  # the helper raises where an answer ends at its limit
    assert text.index(stop) > 0
    with server.client.chat.completions.stream(model="chat", messages=CHAT, temperature=0, max_tokens=24, stop=stop) as stream:
        kinds = [event.type for event in stream]
        assert stream.get_final_completion().choices[0].message.content == text[:text.index(stop)]
    assert "content.delta" in kinds and "content.done" in kinds

    async def streamed():
        client = openai.AsyncOpenAI(base_url=server.url, api_key=KEY)
        parts = await client.chat.completions.create(model="chat", messages=CHAT, temperature=0, max_tokens=24, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in parts])
    assert asyncio.run(streamed()) == text
    raw = server.client.chat.completions.with_raw_response.create(model="chat", messages=CHAT, max_tokens=1)
    assert raw.headers["content-type"] == "application/json" and raw.parse().object == "chat.completion"


def test_several_streams_of_one_request(server):
    chunks = list(ask(server, n=3, temperature=1.2, seed=4, stream=True, stream_options={"include_usage": True}, max_tokens=6))
    texts = {index: "".join(c.choices[0].delta.content or "" for c in chunks if c.choices and c.choices[0].index == index) for index in range(3)}
    whole = ask(server, n=3, temperature=1.2, seed=4, max_tokens=6)
    assert list(texts.values()) == [choice.message.content for choice in whole.choices]
    ends = [c.choices[0] for c in chunks if c.choices and c.choices[0].finish_reason]
    assert sorted(choice.index for choice in ends) == [0, 1, 2] and all(c.usage is None for c in chunks[:-1])
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def refusal_of(served):
    """Asked until the queue is full at that moment."""
    while True:
        try:
            ask(served, max_tokens=1)
        except openai.RateLimitError as error:
            return error


def test_a_full_queue_is_retried(folder, server):
    """429 is tried again by the client itself, which waits as it is told."""
    served, enough = Server(folder, "--max-rows", 1, "--max-waiting", 1), threading.Event()

    def keep_busy():
        while not enough.is_set():
            try:
                with ask(served, max_tokens=200, stream=True, extra_body={"ignore_eos": True}) as chunks:
                    for _ in chunks:
                        if enough.is_set():
                            break
            except openai.RateLimitError:
                pass
    busy = [threading.Thread(target=keep_busy) for _ in range(3)]  # one runs, one waits in the engine and one before it
    for thread in busy:
        thread.start()
    try:
        error = refusal_of(served)
        patient = openai.OpenAI(base_url=served.url, api_key=KEY, max_retries=100)
        answers = []
        retried = threading.Thread(target=lambda: answers.append(patient.chat.completions.create(model="chat", messages=CHAT, max_tokens=1)))
        retried.start()
    finally:
        enough.set()
    for thread in (*busy, retried):
        thread.join()
    assert error.code == "rate_limit_exceeded" and error.response.headers["retry-after"] == "1"
    assert answers[0].usage.completion_tokens == 1
    assert served.stop() == 0


def test_metrics_as_prometheus_reads_them(server):
    from prometheus_client.parser import text_string_to_metric_families
    request = urllib.request.Request(server.url.removesuffix("/v1") + "/metrics", headers={"Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(request) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        families = {family.name: family for family in text_string_to_metric_families(answer.read().decode())}
    kinds = {name.removeprefix("trireme:"): family.type for name, family in families.items()}
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
        assert kinds[name] == "gauge", name
    for name in ("prompt_tokens", "generation_tokens", "prefix_cache_queries", "prefix_cache_hits", "num_preemptions", "request_success"):
        assert kinds[name] == "counter", name
    for name in ("time_to_first_token_seconds", "inter_token_latency_seconds", "request_time_per_output_token_seconds",
                 "e2e_request_latency_seconds", "request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds"):
        samples = families[f"trireme:{name}"].samples
        buckets = [sample.value for sample in samples if sample.name.endswith("_bucket")]
        count = next(sample.value for sample in samples if sample.name.endswith("_count"))
        assert kinds[name] == "histogram" and buckets == sorted(buckets) and buckets[-1] == count > 0, name
    assert all(family.documentation for family in families.values())


def test_leavers_free_their_rows(server):
    stream = ask(server, stream=True, max_tokens=400, extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    for _ in range(100):
        if server.metric("num_requests_running") == 0:
            break
        time.sleep(0.05)
    assert server.metric("num_requests_running") == 0 and server.metric("kv_cache_usage_perc") == 0
    assert server.metric("generation_tokens_total") > 0


def test_keys_are_not_in_the_log(server):
    assert KEY not in server.log.read_text() and "Monday" not in server.log.read_text()


@pytest.mark.parametrize("settings", [["--set", "parallel.tensor=2"], ["--set", "parallel.pipeline=2"]], ids=["tensor", "pipeline"])
def test_over_two_ranks(folder, model, server, settings):
    served = Server(folder, *settings, ranks=2)
    text = wanted(server, model, 24)[0]
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(ask(served).choices[0].message.content)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    form = {"response_format": {"type": "json_object"}, "temperature": 1.3, "seed": 5, "max_tokens": 40}
    assert ask(served, **form).choices[0].message.content == ask(server, **form).choices[0].message.content
    served.process.terminate()
    served.process.wait(timeout=60)
    assert answers == [text] * 4


def test_a_small_cache_gives_the_same(folder, model, server):
    """Rows are preempted; requests that never fit are refused."""
    served = Server(folder, "--max-total-tokens", 256, "--max-model-len", 200, "--max-batched-tokens", 16)

    async def all_at_once():
        client = openai.AsyncOpenAI(base_url=served.url, api_key="any")
        return await asyncio.gather(*(client.chat.completions.create(
            model="chat", messages=CHAT, temperature=0, max_tokens=40, extra_body={"cache_salt": str(i)}) for i in range(8)))
    text = wanted(server, model, 40)[0]
    assert [answer.choices[0].message.content for answer in asyncio.run(all_at_once())] == [text] * 8
    with pytest.raises(openai.BadRequestError):
        ask(served, messages=[{"role": "user", "content": "x" * 400}])
    assert served.stop() == 0
