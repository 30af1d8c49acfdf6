"""`trireme generate --beams` against transformers' generate(num_beams=N, do_sample=False), in fp32: the same tokens, whatever the length
penalty, the way to stop and the layout."""
import collections
import itertools
import json

import pytest
import torch

import tiny_models
from decoding import NEW, likeliest
from program import BUILD, failure_text, run_many, start, words_of

FP32 = ["model.dtype=fp32"]
ROWS = 5
Case = collections.namedtuple("Case", "beams penalty stopping ranks settings", defaults=[1, ()])
CASES = [Case(beams, penalty, stopping) for (beams, penalty), stopping in itertools.product(
    [(2, 1.0), (4, 0.0), (5, 2.0), (3, -1.5)], ["false", "true", "never"])]
CASES += [Case(4, 1.0, "false", 2, ("parallel.tensor=2",)), Case(3, 1.0, "true", 2, ("parallel.pipeline=2",)),
          Case(3, 1.5, "never", 2)]  # data parallel


@pytest.fixture(scope="module")
def model(folder):
    """Of all tokens every fortieth ends a text, so that hypotheses finish at different lengths."""
    made = tiny_models.write_model(tiny_models.config_of("qwen3", num_hidden_layers=3, initializer_range=0.2), folder / "model")
    rows = [row["input_ids"] for row in tiny_models.make_rows(ROWS, shortest=3, longest=40, seed=9)]
    tiny_models.write_rows(folder / "rows.jsonl", [{"input_ids": ids} for ids in rows])
    ends = list(range(5, tiny_models.VOCABULARY, 40))
    (folder / "model" / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    return made, rows, ends


def best_of(model, ids, ends, case):
    given = torch.tensor([ids])
    stopping = {"true": True, "false": False}.get(case.stopping, case.stopping)
    out = model.generate(given, attention_mask=torch.ones_like(given), do_sample=False, max_new_tokens=NEW, num_beams=case.beams,
                         length_penalty=case.penalty, early_stopping=stopping, eos_token_id=ends, pad_token_id=0)
    return out[0, len(ids):].tolist()


@pytest.fixture(scope="module")
def written(folder, model):
    lines = {}
    for ranks in (1, 2):
        cases = [case for case in CASES if case.ranks == ranks]
        commands = [["generate", "--model", folder / "model", "--rows", folder / "rows.jsonl", "--max-new-tokens", NEW, "--beams", case.beams,
                     "--length-penalty", case.penalty, "--early-stopping", case.stopping, *words_of([*FP32, *case.settings])]
                    for case in cases]
        result = run_many(ranks, commands)
        found = result.stdout.splitlines()
        assert len(found) == ROWS * len(cases), failure_text(result)[-3000:]
        lines |= {case: found[number * ROWS:(number + 1) * ROWS] for number, case in enumerate(cases)}
    return lines


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case)))
def test_tokens(case, model, written):
    made, rows, ends = model
    assert [json.loads(line)["output_ids"] for line in written[case]] == [best_of(made, ids, ends, case) for ids in rows]


def test_cases_differ(model, written):
    """From greedy decoding, and among each other: otherwise they would prove nothing."""
    made, rows, ends = model
    greedy = [likeliest(made, ids, ends=ends)[0] for ids in rows]
    all_tokens = {json.dumps([json.loads(line)["output_ids"] for line in lines]) for lines in written.values()}
    assert json.dumps(greedy) not in all_tokens and len(all_tokens) >= 4


@pytest.mark.parametrize("words, text", [
    (["--beams", 2, "--temperature", 1], "--temperature with --beams 2"), (["--beams", 2, "--stream"], "--stream with --beams 2"),
    (["--beams", 60], "take fewer beams"), (["--length-penalty", 2], "add --beams N"), (["--beams", 2, "--early-stopping", "soon"], "never")])
def test_refusals(words, text, folder, model):
    result = start(None, [BUILD / "trireme", "generate", "--model", folder / "model", "--rows", folder / "rows.jsonl", *words])
    assert result.returncode == 2 and text in result.stderr, failure_text(result)
