"""Families near another one (layouts.py): files come back byte for byte from a checkpoint, on one rank and two, and
adapters have PEFT's gradients. Their gradients, tokens and keys are compared by the tests of all families."""
import collections
import functools

import pytest
import torch
import transformers
from safetensors.torch import load_file

import layouts
import tiny_models
from gradients import assert_equals
from lora_adapters import ATTENTION, EXPERTS, LATENT, LINEAR, ROWS, TWICE, make_adapted
from lora_runs import grads_words
from program import Launches, failure_text, run_grads, run_many, words_of

FAMILIES = layouts.NEAR_MODELS
OF_EXPERTS = dict(target_parameters=EXPERTS, **TWICE)
TARGETS = {"glm": [*ATTENTION, "gate_up_proj", "down_proj"], "glm4_moe_lite": LATENT, "bailing_moe": ["query_key_value", "o_proj"]}
Case = collections.namedtuple("Case", "family ranks settings")
CASES = [Case(family, *layout) for family in FAMILIES for layout in ((1, ()), (2, ("parallel.tensor=2",)))]


def adapter_of(family):
    of_experts = family in layouts.NEAR_EXPERTS["model"]
    targets = TARGETS.get(family, ATTENTION if of_experts else LINEAR)
    return dict(r=3, lora_alpha=5, target_modules=targets, **(OF_EXPERTS if of_experts else {}))


@pytest.fixture(scope="module")
def adapted(folder):
    """By family, made when first asked for."""
    tiny_models.write_rows(folder / "rows.jsonl", ROWS)
    return functools.cache(lambda family: make_adapted(folder / family, family, {}, adapter_of(family)))


@pytest.fixture(scope="module")
def launches(selected, adapted, folder):
    def launch(ranks, cases):
        return run_grads(None if ranks == 1 else ranks, [
            [*grads_words(one, folder / "rows.jsonl", folder / f"{case.family}-{ranks}.safetensors", one.adapter), *words_of(case.settings)]
            for case in cases for one in [adapted(case.family)]])
    return Launches(selected(test_lora_gradients), lambda case: case.ranks, launch)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.family} {case.ranks} ranks")
def test_lora_gradients(case, launches, adapted, record_errors):
    assert_equals(launches.of(case), adapted(case.family).reference, record_errors)


@pytest.fixture(scope="module")
def converted(selected, adapted, folder):
    """By number of ranks, the launch that converted every family's model to a checkpoint and back."""
    families = dict.fromkeys(selected(test_files_come_back_byte_for_byte, "family"))

    @functools.cache
    def convert(ranks):
        commands = []
        for family in families:
            stored, back = folder / f"{family}-stored-{ranks}", folder / f"{family}-back-{ranks}"
            commands += [["convert", "--from", adapted(family).model, "--to", stored], ["convert", "--from", stored, "--to", back]]
        return run_many(None if ranks == 1 else ranks, commands)
    return convert


def logits(directory):
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    with torch.no_grad():
        return model(torch.arange(20).unsqueeze(0)).logits


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("family", FAMILIES)
def test_files_come_back_byte_for_byte(family, ranks, converted, adapted, folder):
    result = converted(ranks)
    assert result.returncode == 0, failure_text(result)
    model, back = adapted(family).model, folder / f"{family}-back-{ranks}"
    wanted, found = ({name: tensor for file in place.glob("*.safetensors") for name, tensor in load_file(file).items()}
                     for place in (model, back))
    assert found.keys() == wanted.keys()
    assert all(found[name].dtype == tensor.dtype and torch.equal(found[name], tensor) for name, tensor in wanted.items())
    assert (back / "config.json").read_bytes() == (model / "config.json").read_bytes()
    assert torch.equal(logits(back), logits(model))
