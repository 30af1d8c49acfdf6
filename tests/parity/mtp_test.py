"""Multi-token prediction, against layers of transformers: losses of all depths and every gradient under each kind of
layout, packed or not; then runs that train it, save, resume elsewhere and export; and what is refused."""
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

import mtp_model
import tiny_models
from gradients import LIMITS, assert_equals, assert_within, largest_error, relative
from program import Launches, failure_text, run, run_grads, run_well, words_of

OPTIONS = ("device",)
WEIGHT, BALANCE = 0.3, 0.2
ROWS = tiny_models.make_rows(8)  # some shorter than a depth reaches
TP, PP, CP, EP = (f"parallel.{axis}=2" for axis in ("tensor", "pipeline", "context", "expert"))
FULL, SELECTIVE, WHOLE = "memory.recompute=full", "memory.recompute=selective", "parallel.sequence=false"
MB2, ZERO2, ZERO3 = "run.micro_batch=2", "parallel.zero=2", "parallel.zero=3"
V, INTERLEAVED = (["parallel.virtual_stages=2", f"parallel.schedule={name}"] for name in ("dualpipev", "interleaved"))
ZERO_BUBBLE = "parallel.schedule=zero_bubble"
BALANCED = f"experts.balance_coefficient={BALANCE}"  # over each row, or document
# model, depths, packed, ranks, layout
CASES = [
    ("plain", 1, False, 1, []), ("plain", 2, False, 1, [MB2]), ("plain", 2, False, 1, [FULL]),
    ("plain", 2, True, 1, [SELECTIVE]), ("tied", 2, False, 1, [MB2]), ("balanced", 2, True, 1, [BALANCED]),
    ("plain", 1, False, 2, [TP]), ("plain", 2, False, 2, [TP, WHOLE, MB2]), ("plain", 1, False, 2, [PP]),
    ("plain", 2, True, 2, [PP, FULL]), ("plain", 2, False, 2, [EP]), ("plain", 1, True, 2, [CP]),
    ("plain", 2, False, 2, [CP, MB2]), ("plain", 2, False, 2, [ZERO3, FULL]), ("plain", 2, False, 2, [PP, *V]),
    ("plain", 2, False, 2, [PP, *INTERLEAVED]), ("plain", 2, False, 2, [PP, ZERO_BUBBLE, SELECTIVE]),
    ("tied", 2, False, 2, [PP]), ("tied", 1, False, 2, [ZERO3]),
    ("plain", 2, False, 4, [PP, TP, FULL]), ("plain", 2, True, 4, [CP, PP, EP]), ("plain", 1, False, 4, [PP, ZERO3]),
    ("plain", 2, False, 4, [TP, EP, ZERO2]), ("balanced", 2, False, 4, [BALANCED, CP, PP, FULL]),
]


@pytest.fixture(scope="module")
def references(folder):
    """By model and depths."""
    made = {}
    for name, changes in (("plain", {}), ("tied", {"tie_word_embeddings": True}), ("balanced", {})):
        place = folder / name
        place.mkdir()
        model, depths = mtp_model.write_model(place / "model", **changes)
        tiny_models.write_rows(place / "rows.jsonl", ROWS)
        tiny_models.write_rows(place / "packed.jsonl", tiny_models.pack(ROWS, 3))
        for count in {depths for model, depths, *_ in CASES if model == name}:
            balance = BALANCE if name == "balanced" else 0.0
            made[name, count] = mtp_model.reference(model, depths[:count], ROWS, WEIGHT, place, balance)
    return made


def launch(ranks, cases, references, folder, device):
    commands = []
    for number, (model, depths, packed, _, layout) in enumerate(cases):
        reference = references[model, depths].reference
        commands.append(["grads", "--model", reference.model, "--out", folder / f"{ranks}-{number}.safetensors",
                         "--rows", reference.rows.parent / "packed.jsonl" if packed else reference.rows,
                         *words_of([f"device={device}", f"multi_token_prediction.depths={depths}",
                                    f"multi_token_prediction.loss_weight={WEIGHT}", *layout])])
    return run_grads(ranks if ranks > 1 else None, commands)


@pytest.fixture(scope="module")
def launches(selected, references, folder, device):
    return Launches(selected(test_gradients), lambda case: case[3],
                    lambda ranks, cases: launch(ranks, cases, references, folder, device))


def name_of(case):
    model, depths, packed, ranks, layout = case
    return f"{model} depths {depths} {'packed ' if packed else ''}{ranks} ranks {' '.join(layout)}"


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_gradients(case, launches, references, record_errors):
    outcome, reference = launches.of(case), references[case[0], case[1]]
    assert_equals(outcome, reference.reference, record_errors)
    further = max(relative(found, loss) for found, loss in zip(outcome.line["mtp_loss"], reference.mtp_loss, strict=True))
    record_errors({"mtp_loss": further})
    assert_within({"mtp_loss": further}, {"mtp_loss": LIMITS["loss"]})


LESS = "tuning.hidden_dropout=0.1"
# ranks, layout; the first is what the others are compared with
DROPPING = [(1, []), (1, [LESS]), (1, [FULL]), (2, [TP]), (2, [PP]), (2, [CP])]


def launch_dropping(ranks, cases, references, folder):
    reference = references["plain", 2].reference
    return run_grads(ranks if ranks > 1 else None, [
        ["grads", "--model", reference.model, "--rows", reference.rows, "--out",
         folder / f"dropout-{ranks}-{number}.safetensors",
         *words_of(["multi_token_prediction.depths=2", "tuning.hidden_dropout=0.3", *layout])]
        for number, (_, layout) in enumerate(cases)])


@pytest.fixture(scope="module")
def dropping(references, folder):
    """Gradients of each case of DROPPING."""
    launches = Launches(DROPPING, lambda case: case[0],
                        lambda ranks, cases: launch_dropping(ranks, cases, references, folder))

    def gradients(case):
        outcome = launches.of(case)
        assert outcome.line is not None, failure_text(outcome.result)
        return load_file(outcome.out)
    return gradients


@pytest.mark.devices("cpu")
@pytest.mark.parametrize("case", DROPPING[1:], ids=lambda case: f"{case[0]} ranks {' '.join(case[1])}")
def test_hidden_dropout(case, dropping, record_errors):
    """Hidden values of these layers are dropped as those of all others are: by the token alone, under any layout."""
    error = largest_error(dropping(case), dropping(DROPPING[0]))
    if LESS in case[1]:
        assert error > 1e-2, f"another share dropped changes gradients by {error:.1e}, wanted more than 1e-2"
    else:
        record_errors({"gradient": error})
        assert_within({"gradient": error}, {"gradient": 1e-4})


def train(place, ranks, output, steps, *settings):
    """A run's log, and its stderr."""
    yaml = place / "run.yaml"
    yaml.write_text("{}\n")
    rows = [row for row in ROWS if tiny_models.trained_tokens([row])]
    tiny_models.write_rows(place / "trained.jsonl", rows)
    given = ["device=cpu", f"model.path={place / 'model'}", "model.dtype=fp32", "tuning.kind=full",
             f"data.train=[{place / 'trained.jsonl'}]", "data.packing=false", f"run.steps={steps}",
             f"run.global_batch={len(rows)}", "optimizer.schedule=constant", f"run.output={output}",
             f"multi_token_prediction.loss_weight={WEIGHT}", *settings]
    result = run_well(ranks if ranks > 1 else None, ["train", yaml], given)
    return [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()], result.stderr


def positions(k):
    """Those of the trained rows that have a token k further on."""
    return sum(max(len(row["input_ids"]) - k, 0) for row in ROWS if tiny_models.trained_tokens([row]))


def weights(folder):
    return {name: tensor for file in folder.glob("*.safetensors") for name, tensor in load_file(file).items()}


def same(found, wanted):
    return found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)


@pytest.fixture(scope="module")
def still(references, folder):
    """A run of one depth that learns nothing, at rate 0: its log, stderr and output."""
    place = folder / "plain"
    log, text = train(place, 2, folder / "still", 1, "multi_token_prediction.depths=1", "optimizer.lr=0", PP,
                      f"data.valid=[{place / 'trained.jsonl'}]", "eval.every=1")
    return log, text, folder / "still"


@pytest.mark.devices("cpu")
class TestRunWithoutLearning:
    def test_losses_are_logged(self, still, references):
        error = relative(still[0][0]["mtp_loss"], references["plain", 1].mtp_loss)
        assert_within({"mtp_loss": error}, {"mtp_loss": LIMITS["loss"]})

    def test_experts_meet_the_tokens_of_their_depth(self, still):
        routed = sum(still[0][0]["experts"]["tokens_per_expert"]["mtp.1"])
        assert routed == 2 * positions(1)

    def test_evaluation_is_of_the_model_alone(self, still):
        line = still[0][0]
        assert_within({"eval_loss": relative(line["eval_loss"], line["loss"])}, {"eval_loss": LIMITS["loss"]})

    def test_export_has_the_bytes_of_its_source(self, still, folder):
        """All but the depth that was not asked for, which is said."""
        source = weights(folder / "plain/model")
        left_out = {name for name in source if name.startswith("model.layers.5.")}
        assert same(weights(still[2] / "final"), {name: source[name] for name in source.keys() - left_out})
        assert f" {len(left_out)} tensors of model.layers.5. are not trained" in still[1], still[1]


@pytest.mark.devices("cpu")
def test_run_learns_and_resumes_under_another_layout(references, folder):
    place, learn = folder / "plain", ["optimizer.lr=1e-3", "multi_token_prediction.depths=2", "save.every=1"]
    whole, _ = train(place, 1, folder / "whole", 3, *learn)
    first, last = whole[0]["mtp_loss"][1], whole[-1]["mtp_loss"][1]
    assert last < first - 0.01, f"the loss of the second depth went from {first} to {last}"
    again, _ = train(place, 2, folder / "again", 3, *learn, TP, f"run.resume={folder / 'whole/checkpoint-1'}")
    error = relative([line["mtp_loss"] for line in again], [line["mtp_loss"] for line in whole[1:]])
    assert_within({"mtp_loss": error}, {"mtp_loss": 2e-5})


REFUSED = [
    ("plain", ["multi_token_prediction.depths=3"], "model has 2 MTP layers"),
    ("llama", ["multi_token_prediction.depths=1"], "model has 0 MTP layers"),
    ("plain", ["multi_token_prediction.depths=1", "tuning.kind=lora"], "with tuning.kind lora"),
    ("plain", ["multi_token_prediction.depths=1", "experts.balance=pooled", "experts.balance_coefficient=1"],
     "experts.balance pooled"),
    ("plain", ["multi_token_prediction.depths=-1"], "multi_token_prediction.depths"),
]


@pytest.mark.devices("cpu")
@pytest.mark.parametrize("model, settings, why", REFUSED, ids=[f"{model} {' '.join(words)}" for model, words, _ in REFUSED])
def test_refused(model, settings, why, references, folder):
    if not (folder / "llama").exists():
        tiny_models.write_model(tiny_models.config_of("llama"), folder / "llama")
    path = folder / "llama" if model == "llama" else folder / "plain/model"
    words = ["grads", "--model", path, "--rows", folder / "plain/rows.jsonl", "--out", folder / "none.safetensors"]
    result = run(None, words, settings)
    said = result.stderr.strip().splitlines()
    assert result.returncode == 2 and len(said) == 1 and why in said[0], failure_text(result)


@pytest.mark.devices("cpu")
def test_copy_that_differs_is_reported_and_not_used(references, folder):
    """Last: it changes the model's files."""
    reference = references["plain", 1]
    model = reference.reference.model
    changed = weights(model)
    changed["model.layers.4.embed_tokens.weight"] += 1
    save_file(changed, model / "model.safetensors")
    result = run_well(None, ["grads", "--model", model, "--rows", reference.reference.rows, "--out",
                             folder / "unequal.safetensors"], ["multi_token_prediction.depths=1"])
    assert "'model.layers.4.embed_tokens.weight' differs from 'model.embed_tokens.weight'" in result.stderr, result.stderr
    error = relative(json.loads(result.stdout)["mtp_loss"], reference.mtp_loss)
    assert_within({"mtp_loss": error}, {"mtp_loss": LIMITS["loss"]})
