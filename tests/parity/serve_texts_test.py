"""`trireme serve` of models of vectors, scores and labels: /v1/embeddings with the openai package against
sentence-transformers on the directory that it wrote, /v1/rerank and /classify against transformers; alone, beside others and
over ranks. What cannot be served is refused by name, with what the model serves instead."""
import asyncio
import base64
import json
import urllib.error
import urllib.request

import numpy
import openai
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules

import tiny_models
from program import failure_text, run
from served import KEY, Server, add_tokenizer

TEXTS = ["Which day follows Monday?", "It is Tuesday.", "a", "Days of the week are seven, äöü. " * 6]
QUERY, DOCUMENTS = "Which day follows Monday?", ["It is Friday.", "Tuesday", "The answer is Tuesday, the second day.", "a b c"]
PROMPTS = {"query": "Find: ", "document": ""}
YES, NO = "y", "n"  # of a tokenizer of bytes
TEMPLATE = "Is it an answer? {query} | {document} | y or n:"
CLASSIFIER = transformers.AutoModelForSequenceClassification
LIMIT = 2e-5


def config_of(**changes):
    config = json.loads(open("examples/chat/config.json").read())
    return transformers.Qwen3Config(**{**config, "num_hidden_layers": 2, "initializer_range": 0.1, "pad_token_id": 0, **changes})


def write_classifier(folder, **changes):
    torch.manual_seed(5)
    model = CLASSIFIER.from_config(config_of(**changes), dtype=torch.float32)
    with torch.no_grad():
        model.score.weight.normal_(0, 0.5)
    model.save_pretrained(folder)
    add_tokenizer(folder)
    return model.eval()


@pytest.fixture(scope="module")
def models(folder):
    torch.set_num_threads(1)
    tiny_models.write_model(config_of(matryoshka_dimensions=[16, 64]), folder / "causal")
    add_tokenizer(folder / "causal")
    (folder / "causal" / "chat_template.jinja").unlink()  # sentence-transformers would put each text into it
    transformer = modules.Transformer(str(folder / "causal"))
    vectors = SentenceTransformer(modules=[transformer, modules.Pooling(128, pooling_mode="mean"), modules.Normalize()],
                                  prompts=PROMPTS, device="cpu")
    vectors.save(str(folder / "vectors"))
    return {"vectors": vectors, "causal": transformers.AutoModelForCausalLM.from_pretrained(folder / "causal", dtype=torch.float32).eval(),
            "scores": write_classifier(folder / "scores", num_labels=1),
            "labels": write_classifier(folder / "labels", id2label={0: "bad", 1: "fair", 2: "good"},
                                       problem_type="single_label_classification"),
            "several": write_classifier(folder / "several", id2label={0: "a", 1: "b"}, problem_type="multi_label_classification")}


def served(folder, name, *words, ranks=None):
    return Server(folder, *words, model=folder / name, ranks=ranks)


@pytest.fixture(scope="module")
def vectors(models, folder):
    server = served(folder, "vectors")
    yield server
    assert server.stop() == 0, server.log.read_text()


def embed(server, texts, **more):
    return server.client.embeddings.create(model=server.folder.name, input=texts, **more)


def found_of(answer):
    assert [one.index for one in answer.data] == list(range(len(answer.data)))
    return numpy.array([one.embedding for one in answer.data], dtype=numpy.float32)


def difference(found, wanted):
    return float(numpy.abs(numpy.asarray(found) - numpy.asarray(wanted)).max())


def post(server, path, body):
    """Status and JSON of what has no method in the client."""
    request = urllib.request.Request(server.url.removesuffix("/v1") + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_embeddings(vectors, models, record_errors):
    judge, tokenizer = models["vectors"], vectors.tokenizer
    wanted = judge.encode(TEXTS)
    answer = embed(vectors, TEXTS)  # in base64, which the client asks for unasked
    errors = {"base64": difference(found_of(answer), wanted),
              "float": difference(found_of(embed(vectors, TEXTS, encoding_format="float", user="someone")), wanted),
              "one text": difference(found_of(embed(vectors, TEXTS[0])), wanted[:1])}
    ids = [tokenizer(text)["input_ids"] for text in TEXTS]
    errors["tokens"] = difference(found_of(embed(vectors, ids)), wanted)
    errors["one of tokens"] = difference(found_of(embed(vectors, ids[1])), wanted[1:2])
    for size in (16, 64, 128):
        cut = judge.encode(TEXTS, truncate_dim=size, normalize_embeddings=True)
        found = found_of(embed(vectors, TEXTS, dimensions=size))
        assert found.shape == (len(TEXTS), size)
        errors[f"{size} numbers"] = difference(found, cut)
    for more in ({"prompt_name": "query"}, {"input_type": "search_query"}):
        errors[str(more)] = difference(found_of(embed(vectors, TEXTS, extra_body=more)), judge.encode(TEXTS, prompt_name="query"))
    assert difference(wanted, judge.encode(TEXTS, prompt_name="query")) > 1e-3, "a prompt matters"
    record_errors(errors)
    assert max(errors.values()) < LIMIT, errors
    count = sum(map(len, ids))
    assert (answer.object, answer.model, answer.data[0].object) == ("list", "vectors", "embedding")
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (count, count)
    raw = post(vectors, "/v1/embeddings", {"model": "vectors", "input": TEXTS[0], "encoding_format": "base64"})[1]
    assert difference(numpy.frombuffer(base64.b64decode(raw["data"][0]["embedding"]), "<f4"), wanted[0]) < LIMIT


def test_beside_others(vectors, models):
    """Twenty at once, of which each gets what it gets alone; then metrics know of them."""
    asks = [[f"{text} {number}" for text in TEXTS[: 1 + number % 4]] for number in range(20)]
    before = vectors.metric("prompt_tokens_total")

    async def all_at_once():
        client = openai.AsyncOpenAI(base_url=vectors.url, api_key=KEY)
        return await asyncio.gather(*(client.embeddings.create(model="vectors", input=texts) for texts in asks))
    answers = asyncio.run(all_at_once())
    for texts, answer in zip(asks, answers):
        assert difference(found_of(answer), models["vectors"].encode(texts)) < LIMIT
    assert vectors.metric("prompt_tokens_total") - before == sum(answer.usage.prompt_tokens for answer in answers)
    assert vectors.metric("num_requests_queued") == 0


@pytest.mark.parametrize("body, param, code", [
    ({"input": ""}, "input", "invalid_value"), ({"input": []}, "input", "invalid_value"), ({"input": ["a", " "]}, "input[1]", "invalid_value"),
    ({"input": [[]]}, "input[0]", "invalid_value"), ({"input": [1, 999]}, "input", "invalid_value"), ({"input": [["a"]]}, "input[0]", "invalid_value"),
    ({"input": {"a": 1}}, "input", "invalid_value"), ({}, "input", "invalid_value"), ({"input": ["a"] * 2049}, "input", "invalid_value"),
    ({"input": ["a", "x" * 600]}, "input[1]", "context_length_exceeded"), ({"input": "x" * 200000}, "input", "context_length_exceeded"),
    ({"input": "a", "dimensions": 17}, "dimensions", "invalid_value"), ({"input": "a", "encoding_format": "int8"}, "encoding_format", "invalid_value"),
    ({"input": "a", "prompt_name": "other"}, "prompt_name", "invalid_value"), ({"input": "a", "input_type": "other"}, "input_type", "invalid_value"),
    ({"input": [1, 2], "prompt_name": "query"}, "input", "invalid_value"), ({"input": "a", "truncate_prompt_tokens": 0}, "truncate_prompt_tokens", "invalid_value"),
    ({"input": "a", "dimension": 16}, "dimension", "unknown_parameter"), ({"input": "a", "model": "other"}, "model", "model_not_found")])
def test_refused(vectors, body, param, code):
    status, answer = post(vectors, "/v1/embeddings", {"model": "vectors", **body})
    assert status == (404 if code == "model_not_found" else 400), answer
    error = answer["error"]
    assert (error["param"], error["code"], error["type"]) == (param, code, "invalid_request_error") and error["message"]


def test_long_texts(vectors, models):
    long = "x" * 600
    status, answer = post(vectors, "/v1/embeddings", {"model": "vectors", "input": long, "truncate_prompt_tokens": -1})
    assert status == 200 and answer["usage"]["prompt_tokens"] == 512
    assert difference(answer["data"][0]["embedding"], models["vectors"].encode(long)) < LIMIT, "sentence-transformers cuts there, too"
    with pytest.raises(openai.BadRequestError) as error:
        embed(vectors, long)
    assert error.value.code == "context_length_exceeded" and "600" in error.value.message


def test_what_is_served(vectors):
    assert [model.id for model in vectors.client.models.list()] == ["vectors"]
    for ask in (lambda: vectors.client.chat.completions.create(model="vectors", messages=[{"role": "user", "content": "a"}]),
                lambda: vectors.client.completions.create(model="vectors", prompt="a")):
        with pytest.raises(openai.NotFoundError) as error:
            ask()
        assert error.value.code == "not_offered" and "vectors of texts: use /v1/embeddings" in error.value.message
    for path in ("/v1/rerank", "/classify"):
        status, answer = post(vectors, path, {"model": "vectors"})
        assert status == 404 and "use /v1/embeddings" in answer["error"]["message"]


@pytest.mark.parametrize("ranks, words", [
    (None, ["--max-batched-tokens", "40"]), (2, ["--set", "parallel.tensor=2"]), (2, ["--max-batched-tokens", "300"]),
    (2, ["--set", "parallel.pipeline=2"])], ids=["small passes", "tensor", "data", "pipeline"])
def test_layouts(ranks, words, models, folder, record_errors):
    server = served(folder, "vectors", *words, ranks=ranks)
    texts = [f"{text} {number}" for number in range(3) for text in TEXTS]
    errors = {"vectors": difference(found_of(embed(server, texts)), models["vectors"].encode(texts))}
    record_errors(errors)
    assert max(errors.values()) < LIMIT
    assert server.stop() == 0 or ranks, server.log.read_text()  # mpirun kills its ranks at the signal (scripts/serve.sh)


def scores_of(model, tokenizer, texts):
    with torch.no_grad():
        return torch.cat([model(input_ids=torch.tensor([tokenizer(text)["input_ids"]])).logits for text in texts])


def reranked(server, wanted):
    """Its answers equal these scores, from the highest on."""
    body = {"model": server.folder.name, "query": QUERY, "documents": DOCUMENTS}
    status, answer = post(server, "/v1/rerank", body)
    assert status == 200, answer
    results = answer["results"]
    assert [one["index"] for one in results] == sorted(range(len(DOCUMENTS)), key=lambda index: -wanted[index])
    assert answer["usage"]["total_tokens"] > 0 and answer["id"].startswith("rerank-") and "document" not in results[0]
    raw = post(server, "/rerank", {**body, "documents": [{"text": text} for text in DOCUMENTS], "use_activation": False})[1]["results"]
    best = post(server, "/v1/rerank", {**body, "top_n": 2, "return_documents": True})[1]["results"]
    assert [one["index"] for one in best] == [one["index"] for one in results[:2]]
    assert [one["document"]["text"] for one in best] == [DOCUMENTS[one["index"]] for one in best]
    return {"score": max(abs(one["relevance_score"] - torch.tensor(wanted[one["index"]]).sigmoid().item()) for one in results),
            "raw": max(abs(one["relevance_score"] - wanted[one["index"]]) for one in raw) / max(map(abs, wanted))}


def test_rerank(models, folder, record_errors):
    server = served(folder, "scores")
    wanted = scores_of(models["scores"], server.tokenizer, [f"{QUERY}\n{text}" for text in DOCUMENTS])[:, 0].tolist()
    errors = reranked(server, wanted)
    record_errors(errors)
    assert max(errors.values()) < LIMIT, errors
    for body, param in [({"documents": []}, "documents"), ({"documents": ["a", ""]}, "documents[1]"), ({"query": " "}, "query"),
                        ({"documents": "a"}, "documents"), ({"documents": ["x" * 600]}, "documents[0]"), ({"top_n": -1}, "top_n"),
                        ({"documents": [{"title": "a"}]}, "documents[0]"), ({"rank_fields": ["a"]}, "rank_fields")]:
        status, answer = post(server, "/v1/rerank", {"model": "scores", "query": QUERY, "documents": DOCUMENTS, **body})
        assert status == 400 and answer["error"]["param"] == param, answer
    with pytest.raises(openai.NotFoundError, match="scores of documents for a query: use /v1/rerank"):
        server.client.embeddings.create(model="scores", input="a")
    assert server.stop() == 0, server.log.read_text()


def test_generative_rerank(models, folder, record_errors):
    """As Qwen3-Reranker is used: the logit of yes above that of no, after the model's own template."""
    settings = ["stage=reranker", "retrieval.generative=true", f"retrieval.positive_token={YES}", f"retrieval.negative_token={NO}",
                f"retrieval.pair_template={json.dumps(TEMPLATE)}"]
    server = served(folder, "causal", *[word for setting in settings for word in ("--set", setting)])
    texts = [TEMPLATE.replace("{query}", QUERY).replace("{document}", text) for text in DOCUMENTS]
    with torch.no_grad():
        logits = torch.stack([models["causal"](input_ids=torch.tensor([server.tokenizer(text)["input_ids"]])).logits[0, -1] for text in texts])
    yes, no = (server.tokenizer(word)["input_ids"][0] for word in (YES, NO))
    errors = reranked(server, (logits[:, yes] - logits[:, no]).tolist())
    record_errors(errors)
    assert max(errors.values()) < LIMIT, errors
    assert server.stop() == 0, server.log.read_text()


@pytest.mark.parametrize("name", ["labels", "several"])
def test_classify(name, models, folder, record_errors):
    server = served(folder, name)
    model = models[name]
    scores = scores_of(model, server.tokenizer, TEXTS)
    wanted = scores.softmax(-1) if name == "labels" else scores.sigmoid()
    status, answer = post(server, "/classify", {"model": name, "input": TEXTS})
    assert status == 200 and answer["object"] == "list" and answer["usage"]["prompt_tokens"] > 0, answer
    assert [one["label"] for one in answer["data"]] == [model.config.id2label[int(index)] for index in wanted.argmax(-1)]
    assert [one["num_classes"] for one in answer["data"]] == [wanted.shape[1]] * len(TEXTS)
    raw = post(server, "/v1/classify", {"model": name, "input": TEXTS[0], "use_activation": False})[1]["data"]
    errors = {"probs": difference([one["probs"] for one in answer["data"]], wanted), "raw": difference(raw[0]["probs"], scores[0]) / float(scores[0].abs().max())}
    record_errors(errors)
    assert max(errors.values()) < LIMIT, errors
    status, answer = post(server, "/v1/chat/completions", {"model": name, "messages": []})
    assert status == 404 and "labels of texts: use /v1/classify" in answer["error"]["message"]
    assert server.stop() == 0, server.log.read_text()


def test_refused_before_the_start(models, folder):
    (folder / "dense").mkdir()
    for file in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / "dense" / file).write_bytes((folder / "vectors" / file).read_bytes())
    listed = json.loads((folder / "vectors" / "modules.json").read_text())
    (folder / "dense" / "modules.json").write_text(json.dumps([*listed[:1], {"path": "1_Dense", "type": "sentence_transformers.models.Dense"}]))
    (folder / "chats").mkdir()
    for file in (folder / "vectors").rglob("*.json"):
        (folder / "chats" / file.relative_to(folder / "vectors")).parent.mkdir(exist_ok=True)
        (folder / "chats" / file.relative_to(folder / "vectors")).write_bytes(file.read_bytes())
    (folder / "chats" / "sentence_bert_config.json").write_text(json.dumps({"modality_config": {"text": {}, "message": {}}}))
    for model, words, wanted in [("chats", [], "modality_config has message"), ("dense", [], "has the module Dense; supported are Transformer, Pooling and Normalize"),
                                 ("vectors", ["--kv-cache-gib", "1"], "--kv-cache-gib: is for models that write text"),
                                 ("vectors", ["--adapters", "a=b"], "--adapters: of stage embedding one model is served"),
                                 ("vectors", ["--max-model-len", "4096"], "the model supports 512"),
                                 ("vectors", ["--set", "retrieval.matryoshka=[4096]"], "the model's vectors have 128 numbers")]:
        result = run(None, ["serve", "--model", folder / model, "--port", "0", *words])
        assert result.returncode == 2 and wanted in result.stderr, failure_text(result)
