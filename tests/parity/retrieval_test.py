"""Stages embedding, reranker and classification against sentence-transformers' losses and transformers' classifiers, in fp32:
the loss and every gradient of one batch, with PEFT's adapters, too. Then layouts, micro batches and device npu: the same as
one rank of the cpu. Then a run of each stage whose final/ these libraries load and `trireme evaluate` evaluates."""
import json

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses, modules

import tiny_models
from gradients import assert_within, relative
from lora_adapters import LINEAR, randomise
from lora_adapters import gradients as adapter_gradients
from program import failure_text, run, run_grads, run_many, words_of

LIMITS = {"loss": 1e-5, "gradient": 1e-4}
CLASSIFIER = transformers.AutoModelForSequenceClassification
SPECIAL = dict(pad_token_id=0, eos_token_id=1, bos_token_id=1)
FAMILY = "qwen3"
SIZES, WEIGHTS = [16, 64], [0.5, 1.0]
YES, NO = 17, 41


def ids(seed, length):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(2, tiny_models.VOCABULARY, (length,), generator=generator).tolist()


# Six records of different lengths: an anchor, its positive, two negatives.
GROUPS = [[ids(10 * record + text, 3 + (record + 2 * text) % 7) for text in range(4)] for record in range(6)]
SCORES = [0.9, 0.1, 0.5, 0.7, 0.0, 1.0]
LABELS = [1, 0, 1, 0, 0, 1]
CLASSES = [2, 0, 1, 2, 2, 0]
SEVERAL = [[0], [1, 2], [], [0, 1, 2], [2], [1]]
NUMBERS = [0.5, -1.0, 2.0, 0.25, 1.5, -0.5]
ANCHORS = [{"text_ids": group} for group in GROUPS]
SCORED = [{"text_ids": group[:2], "score": score} for group, score in zip(GROUPS, SCORES)]
JUDGED = [{"text_ids": group[:2], "label": label} for group, label in zip(GROUPS, LABELS)]
RANKED = [{"text_ids": group[1:], "labels": [1, 0, 0]} for group in GROUPS]
TEXTS = [group[0] for group in GROUPS]


def pooled(hidden, pooling):
    return {"last": hidden[-1], "first": hidden[0], "mean": hidden.mean(0)}[pooling]


def vectors(model, lists, pooling="last"):
    """Each text by itself: no padding has a part in it."""
    return torch.stack([pooled(model.model(input_ids=torch.tensor([text])).last_hidden_state[0], pooling) for text in lists])


def columns(model, count, pooling="last"):
    return [vectors(model, [group[text] for group in GROUPS], pooling) for text in range(count)]


def of_anchors(make, pooling="last", count=4):
    return lambda model: make(columns(model, count, pooling))


def of_pairs(loss, values):
    return lambda model: loss.compute_loss_from_embeddings(columns(model, 2), torch.tensor(values))


def ranking(embeddings, **more):
    return losses.MultipleNegativesRankingLoss(None, **more).compute_loss_from_embeddings(embeddings, None)


def matryoshka(embeddings):
    return sum(weight * ranking([each[:, :size] for each in embeddings]) for size, weight in zip(SIZES, WEIGHTS))


def scored(model, lists):
    """Of a model with a head of its own."""
    return torch.cat([model(input_ids=torch.tensor([text])).logits for text in lists])


def pointwise(scores, labels):
    return torch.nn.functional.binary_cross_entropy_with_logits(scores, torch.tensor(labels, dtype=torch.float32))


def documents():
    return [text for group in GROUPS for text in group[1:]]


def listwise(model):
    scores = scored(model, documents()).view(6, 3) / 0.5
    return torch.nn.functional.cross_entropy(scores, torch.zeros(6, dtype=torch.long))


def generative(model):
    """As Qwen3-Reranker is used: the logit of yes above that of no."""
    logits = torch.stack([model(input_ids=torch.tensor([text])).logits[0, -1] for text in documents()])
    return pointwise(logits[:, YES] - logits[:, NO], [1, 0, 0] * 6)


def classified(labels, dtype):
    """transformers' own loss of the model's problem_type, over texts of one length at a time: the mean over all texts."""
    def loss(model):
        total = 0
        for text, label in zip(TEXTS, labels):
            total = total + model(input_ids=torch.tensor([text]), labels=torch.tensor([label], dtype=dtype)).loss
        return total / len(TEXTS)
    return loss


# name: model, rows, settings, the judge's loss
CASES = {
    "infonce": ("causal", ANCHORS, [], of_anchors(ranking)),
    "mean": ("causal", ANCHORS, ["retrieval.pooling=mean", "retrieval.temperature=0.1"],
             of_anchors(lambda found: ranking(found, scale=10.0), "mean")),
    "queries": ("causal", ANCHORS, ["retrieval.query_query=true"],
                of_anchors(lambda found: ranking(found, directions=("query_to_doc", "query_to_query")))),
    "matryoshka": ("causal", ANCHORS, [f"retrieval.matryoshka={SIZES}", f"retrieval.matryoshka_weights={WEIGHTS}"],
                   of_anchors(matryoshka)),
    "cosine": ("causal", SCORED, ["retrieval.loss=cosine_similarity"], of_pairs(losses.CosineSimilarityLoss(None), SCORES)),
    "cosent": ("causal", SCORED, ["retrieval.loss=cosent"], of_pairs(losses.CoSENTLoss(None), SCORES)),
    "contrastive": ("causal", JUDGED, ["retrieval.loss=contrastive"], of_pairs(losses.ContrastiveLoss(None), LABELS)),
    "online": ("causal", JUDGED, ["retrieval.loss=online_contrastive", "retrieval.margin=0.9"],
               of_pairs(losses.OnlineContrastiveLoss(None, margin=0.9), LABELS)),
    "pointwise": ("reranker", RANKED, ["stage=reranker"],
                  lambda model: pointwise(scored(model, documents())[:, 0], [1, 0, 0] * 6)),
    "listwise": ("reranker", RANKED, ["stage=reranker", "retrieval.ranking=listwise", "retrieval.temperature=0.5"], listwise),
    "generative": ("causal", RANKED, ["stage=reranker", "retrieval.generative=true"], generative),
    "single": ("single", [{"input_ids": text, "label": label} for text, label in zip(TEXTS, CLASSES)],
               ["stage=classification"], classified(CLASSES, torch.long)),
    "multi": ("multi", [{"input_ids": text, "label": label} for text, label in zip(TEXTS, SEVERAL)],
              ["stage=classification", "retrieval.problem=multi_label"],
              classified([[float(k in label) for k in range(3)] for label in SEVERAL], torch.float32)),
    "regression": ("regression", [{"input_ids": text, "label": label} for text, label in zip(TEXTS, NUMBERS)],
                   ["stage=classification", "retrieval.problem=regression"], classified(NUMBERS, torch.float32)),
}
LAYOUTS = {"micro": (1, ["run.micro_batch=2"]), "dp2": (2, ["run.micro_batch=2"]), "tp2": (2, ["parallel.tensor=2"]),
           "cp2": (2, ["parallel.context=2", "run.micro_batch=3"]), "pp2": (2, ["parallel.pipeline=2"]),
           "zero3": (2, ["parallel.zero=3"]), "dp4": (4, []), "npu": (1, ["device=npu"])}
SPLIT = ("infonce", "mean", "generative", "listwise", "single")
KINDS = {"reranker": dict(num_labels=1), "single": dict(num_labels=3, problem_type="single_label_classification"),
         "multi": dict(num_labels=3, problem_type="multi_label_classification"),
         "regression": dict(num_labels=1, problem_type="regression")}


def write_classifier(folder, **changes):
    torch.manual_seed(12)
    model = CLASSIFIER.from_config(tiny_models.config_of(FAMILY, **SPECIAL, **changes), dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
        model.score.weight.normal_(0, 0.5)
    model.save_pretrained(folder)
    return model


@pytest.fixture(scope="module")
def models(folder):
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    found = {"causal": tiny_models.write_model(tiny_models.config_of(FAMILY, **SPECIAL), folder / "causal")}
    for kind, changes in KINDS.items():
        found[kind] = write_classifier(folder / kind, **changes)
    write_words(folder / "causal")
    for name, (_, rows, _, _) in CASES.items():
        tiny_models.write_rows(folder / f"{name}.jsonl", rows)
    return found


def write_words(folder):
    """A tokenizer whose token n is the word wN; 17 is yes and 41 no."""
    words = {f"w{number}": number for number in range(tiny_models.VOCABULARY)}
    for word, number in (("yes", YES), ("no", NO)):
        del words[f"w{number}"]
        words[word] = number
    from tokenizers import Tokenizer, models, pre_tokenizers
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w2"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="w2", pad_token="w0",
                                         eos_token="w1").save_pretrained(folder)


def grads_command(folder, name, out, more=()):
    model, _, settings, _ = CASES[name]
    return ["grads", "--model", folder / model, "--rows", folder / f"{name}.jsonl", "--out", folder / out,
            *words_of(["device=cpu", "stage=embedding", *settings, *more])]


@pytest.fixture(scope="module")
def found(models, folder):
    """All batches on one rank in one launch; then each layout's in one."""
    outcomes = {}
    launches = {(1, False): [(name, "", []) for name in CASES]}
    for layout, (ranks, settings) in LAYOUTS.items():  # npu in a process of its own: torch asks for devices once
        launches.setdefault((ranks, layout == "npu"), []).extend((name, layout, settings) for name in SPLIT)
    for (ranks, _), commands in launches.items():
        words = [grads_command(folder, name, f"{name}-{layout}.safetensors", more) for name, layout, more in commands]
        for (name, layout, _), outcome in zip(commands, run_grads(ranks, words)):
            outcomes[name, layout] = outcome
    return outcomes


@pytest.mark.parametrize("case", CASES)
def test_a_batch(case, models, found, record_errors):
    kind, _, _, judge = CASES[case]
    model = models[kind]
    model.zero_grad()
    loss = judge(model)
    loss.backward()
    outcome = found[case, ""]
    assert outcome.line is not None, failure_text(outcome.result)
    gradients = load_file(outcome.out)
    wanted = {name: gradient for name, gradient in tiny_models.gradients(model).items()
              if case == "generative" or not name.startswith("lm_head")}
    assert gradients.keys() == wanted.keys(), sorted(gradients.keys() ^ wanted.keys())
    scale = max(gradient.norm().item() for gradient in wanted.values())
    errors = {"loss": relative(outcome.line["loss"], loss.item()),
              "gradient": max((gradients[name] - gradient).norm().item() / max(gradient.norm().item(), 1e-3 * scale)
                              for name, gradient in wanted.items())}
    record_errors(errors)
    assert_within(errors, LIMITS)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_changes_nothing(layout, found, record_errors):
    for case in SPLIT:
        one, other = found[case, ""], found[case, layout]
        assert other.line is not None, failure_text(other.result)
        first, second = load_file(one.out), load_file(other.out)
        scale = max(gradient.norm().item() for gradient in first.values())
        errors = {"loss": relative(other.line["loss"], one.line["loss"]),
                  "gradient": max((second[name] - first[name]).norm().item() / max(first[name].norm().item(), 1e-3 * scale)
                                  for name in first)}
        record_errors(errors)
        assert_within(errors, LIMITS, f"{case} {layout}")


def padded(lists):
    length = max(map(len, lists))
    rows = lambda value: torch.tensor([value(text) + [0] * (length - len(text)) for text in lists])
    return {"input_ids": rows(lambda text: text), "attention_mask": rows(lambda text: [1] * len(text))}


def test_lora(models, folder, record_errors):
    """sentence-transformers' own pooling and loss over a model that PEFT has adapted."""
    judge = SentenceTransformer(modules=[modules.Transformer(str(folder / "causal")), modules.Pooling(64, pooling_mode="mean")], device="cpu")
    judge.save(str(folder / "vectors"))
    settings = peft.LoraConfig(task_type="FEATURE_EXTRACTION", r=4, lora_alpha=8, target_modules=LINEAR)
    tuned = peft.get_peft_model(judge[0].auto_model, settings)
    randomise(tuned)
    tuned.save_pretrained(folder / "adapter")
    loss = ranking([judge(padded([group[text] for group in GROUPS]))["sentence_embedding"] for text in range(4)])
    loss.backward()
    command = ["grads", "--model", folder / "vectors", "--adapters", folder / "adapter", "--rows", folder / "mean.jsonl",
               "--out", folder / "lora.safetensors", *words_of(["device=cpu", "stage=embedding", "retrieval.pooling=mean"])]
    outcome, = run_grads(1, [command])
    assert outcome.line is not None, failure_text(outcome.result)
    gradients, wanted = load_file(outcome.out), adapter_gradients(tuned)
    assert gradients.keys() == wanted.keys(), sorted(gradients.keys() ^ wanted.keys())
    errors = {"loss": relative(outcome.line["loss"], loss.item()),
              "gradient": max(relative(gradients[name], gradient) for name, gradient in wanted.items())}
    record_errors(errors)
    assert_within(errors, LIMITS)


def words(text):
    named = {YES: "yes", NO: "no"}
    return " ".join(named.get(token, f"w{token}") for token in text)


RUNS = {"embedding": [{"anchor": words(group[0]), "positive": words(group[1]), "negative": words(group[2])} for group in GROUPS],
        "reranker": [{"query": words(group[0]), "positive": words(group[1]), "negatives": [words(group[2])]} for group in GROUPS],
        "classification": [{"text": words(group[0]), "label": "ab"[number % 2]} for number, group in enumerate(GROUPS)]}


def run_words(folder, stage):
    """The run's file, which is empty, and its settings."""
    data = folder / f"{stage}-texts.jsonl"
    metric = "accuracy" if stage == "classification" else "ndcg@10"
    more = ["retrieval.label_names=[a,b]"] if stage == "classification" else []
    return [folder / f"{stage}.yaml", *words_of([
        "device=cpu", f"stage={stage}", f"model.path={folder / 'causal'}", "model.dtype=fp32", "tuning.kind=full",
        f"data.train=[{data}]", f"data.valid=[{data}]", f"data.cache={folder / 'cache'}", "data.max_length=32",
        "run.steps=3", "run.global_batch=6", "run.micro_batch=3", "eval.every=3", f"eval.metric={metric}",
        "save.every=0", f"run.output={folder / 'out' / stage}", *more])]


@pytest.fixture(scope="module")
def runs(models, folder):
    commands = []
    for stage, rows in RUNS.items():
        tiny_models.write_rows(folder / f"{stage}-texts.jsonl", rows)
        (folder / f"{stage}.yaml").write_text("")
        commands.append(["train", *run_words(folder, stage)])
    result = run_many(1, commands)
    assert result.returncode == 0, failure_text(result)
    return folder / "out"


def evaluation(runs, stage):
    return [json.loads(line) for line in (runs / stage / "log.jsonl").read_text().splitlines()][-1]


def test_sentence_transformers_loads_vectors(runs, record_errors):
    final = runs / "embedding" / "final"
    model = SentenceTransformer(str(final), device="cpu")
    anchors = torch.tensor(model.encode([row["anchor"] for row in RUNS["embedding"]]))
    assert (anchors.norm(dim=1) - 1).abs().max() < 1e-5, "2_Normalize is a module"
    positives = torch.tensor(model.encode([row["positive"] for row in RUNS["embedding"]]))
    negatives = torch.tensor(model.encode([row["negative"] for row in RUNS["embedding"]]))
    loss = ranking([anchors, positives, negatives]).item()
    log = evaluation(runs, "embedding")
    errors = {"loss": relative(log["eval_loss"], loss)}
    record_errors(errors)
    assert_within(errors, {"loss": 1e-4})
    assert {"eval_ndcg@10", "eval_mrr@10", "eval_recall@1", "eval_recall@10"} <= log.keys()


@pytest.mark.parametrize("stage", ["reranker", "classification"])
def test_transformers_loads_scores(stage, runs, record_errors):
    final = runs / stage / "final"
    model = CLASSIFIER.from_pretrained(final, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(final)
    log = evaluation(runs, stage)
    if stage == "classification":
        assert model.config.id2label == {0: "a", 1: "b"} and model.config.problem_type == "single_label_classification"
        total = sum(model(**tokenizer(row["text"], return_tensors="pt"), labels=torch.tensor(["ab".index(row["label"])])).loss.item()
                    for row in RUNS[stage])
        loss = total / len(RUNS[stage])
        assert {"eval_accuracy", "eval_f1"} <= log.keys()
    else:
        pairs = [(f"{row['query']}\n{text}", label) for row in RUNS[stage]
                 for text, label in ((row["positive"], 1), (row["negatives"][0], 0))]
        scores = torch.cat([model(**tokenizer(text, return_tensors="pt")).logits[:, 0] for text, _ in pairs])
        loss = pointwise(scores, [label for _, label in pairs]).item()
        assert {"eval_ndcg@10", "eval_mrr@10"} <= log.keys()
    errors = {"loss": relative(log["eval_loss"], loss)}
    record_errors(errors)
    assert_within(errors, {"loss": 1e-4})


def test_evaluate(runs, folder, record_errors):
    """Given the run, or the directory that it left, on one rank or two: what the run logged at its end."""
    given = ["device=cpu", "model.dtype=fp32", f"data.cache={folder / 'cache'}", "data.max_length=32", "run.global_batch=6"]
    errors = {}
    for ranks in (1, 2):
        commands = [["evaluate", *run_words(folder, stage)] for stage in RUNS]
        commands += [["evaluate", "--model", runs / stage / "final", "--data", folder / f"{stage}-texts.jsonl", *words_of(given)]
                     for stage in RUNS]
        result = run_many(ranks, commands)
        assert result.returncode == 0, failure_text(result)
        lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
        assert len(lines) == len(commands), result.stdout
        for number, (stage, line) in enumerate(zip([*RUNS, *RUNS], lines)):
            logged = {name.removeprefix("eval_"): value for name, value in evaluation(runs, stage).items() if name.startswith("eval_")}
            compared = logged.keys() & line.keys()
            assert {"loss"} < compared and line["records"] == len(RUNS[stage]), (logged, line)
            errors[f"{stage} {number // 3} {ranks}"] = max(abs(line[name] - logged[name]) for name in compared)
    record_errors(errors)
    assert max(errors.values()) < 1e-5, errors


def test_memory_of_many_negatives(runs, folder):
    """The plan takes as many texts as the longest record has."""
    def planned(negatives):
        rows = [{"text_ids": [GROUPS[0][0], GROUPS[0][1], *([GROUPS[0][2]] * negatives)]}]
        tiny_models.write_rows(folder / "many.jsonl", rows)
        result = run(None, ["train", *run_words(folder, "embedding"), "--dry-run", "--set", f"data.train=[{folder / 'many.jsonl'}]"])
        assert result.returncode == 0, failure_text(result)
        head, line = result.stdout[result.stdout.index("\nmemory per rank"):].splitlines()[2:4]
        return float(line.split()[head.split().index("device")])
    assert planned(400) > 1.5 * planned(1)


def test_evaluate_refuses_answers(runs, folder):
    result = run(None, ["evaluate", *run_words(folder, "embedding"), "--generate"])
    assert result.returncode == 2 and "--generate: stage embedding writes no answers" in result.stderr, failure_text(result)
