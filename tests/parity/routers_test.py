"""Routers, against transformers' own logits: balance losses of each kind, z-loss, capacity, all-gather dispatch, moved
correction biases and what the log says of experts, under several layouts."""
import json

import pytest
import torch
from safetensors.torch import load_file
from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func

import tiny_models
from gradients import Reference, assert_equals
from program import Launches, run_grads, run_well, words_of
from routers import Routers, choice_rates

ROWS = tiny_models.make_rows(8, shortest=6)
TOKENS = sum(len(row["input_ids"]) for row in ROWS)
BALANCE, Z = 0.3, 0.05  # large, so that a wrong one shows beside the model's loss
# What is asked of the routers: rows of one set of tokens, then the settings.
BATCH = ["experts.balance=batch", f"experts.balance_coefficient={BALANCE}"]
ASKS = {
    "sequence": (1, ["experts.balance=sequence", f"experts.balance_coefficient={BALANCE}"]),
    "packed": (1, ["experts.balance=sequence", f"experts.balance_coefficient={BALANCE}"]),
    "batch 1": (1, BATCH),
    "batch 2": (2, BATCH),
    "global 2": (2, ["experts.balance=global", f"experts.balance_coefficient={BALANCE}"]),
    "global 4": (4, ["experts.balance=global", f"experts.balance_coefficient={BALANCE}"]),
    "pooled": (8, ["experts.balance=pooled", f"experts.balance_coefficient={BALANCE}"]),
    "z": (1, [f"experts.z_coefficient={Z}"]),
    "drop": (4, ["experts.overflow=drop", "experts.capacity=0.75"]),
    "pad": (4, ["experts.overflow=pad", "experts.capacity=0.75"]),
    "gather": (1, ["experts.dispatch=all_gather"]),
    "plain": (1, []),
}
# Models at the edges: one expert a rank; very many; one that takes all tokens while the others get none. A single
# choice keeps its weight: normalised to 1, it would give the router no gradient.
QWEN, TRAITS = tiny_models.FAMILIES["qwen3_moe"]
DEEPSEEK, LATENT = tiny_models.FAMILIES["deepseek_v3"]
tiny_models.FAMILIES |= {
    "one_choice": (QWEN, {**TRAITS, "num_experts_per_tok": 1, "norm_topk_prob": False, "num_hidden_layers": 2}),
    "experts_256": (QWEN, {**TRAITS, "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 8,
                           "num_hidden_layers": 2}),
    "one_expert": (DEEPSEEK, {**LATENT, "num_experts_per_tok": 1, "n_group": 1, "topk_group": 1,
                              "norm_topk_prob": False, "num_hidden_layers": 2}),
}
TP, PP, CP = "parallel.tensor=2", "parallel.pipeline=2", "parallel.context=2"
EP, ETP, EP4 = "parallel.expert=2", "parallel.expert_tensor=2", "parallel.expert=4"
FULL, SELECTIVE, WHOLE = "memory.recompute=full", "memory.recompute=selective", "parallel.sequence=false"
MB2, MB4, MB8 = (f"run.micro_batch={count}" for count in (2, 4, 8))
# model, ask, ranks, layout
CASES = [
    ("qwen3_moe", "sequence", 1, []), ("deepseek_v3", "sequence", 1, [MB4]), ("mixtral", "sequence", 1, [FULL, MB2]),
    ("qwen3_moe", "packed", 1, []), ("qwen3_moe", "sequence", 2, [TP, MB2]), ("deepseek_v3", "packed", 2, [CP]),
    ("mixtral", "sequence", 2, [PP, SELECTIVE]), ("deepseek_v3", "sequence", 4, [TP, CP, EP, FULL]),
    ("qwen3_moe", "sequence", 4, [TP, WHOLE, EP, ETP]), ("mixtral", "sequence", 4, [PP, EP, "parallel.zero=3"]),
    ("qwen3_moe", "batch 1", 1, []), ("mixtral", "batch 2", 1, [MB2, FULL]), ("deepseek_v3", "batch 2", 2, [MB2, TP]),
    ("qwen3_moe", "batch 2", 2, [MB2, EP]), ("qwen3_moe", "batch 2", 4, [MB2, TP, CP, WHOLE]),
    ("mixtral", "global 2", 2, []), ("qwen3_moe", "global 2", 4, [TP, EP4]), ("deepseek_v3", "global 4", 4, [CP, MB2]),
    ("qwen3_moe", "global 2", 4, [PP]),
    ("qwen3_moe", "pooled", 1, [MB8]), ("mixtral", "pooled", 2, [MB8, TP, FULL]), ("qwen3_moe", "pooled", 2, [MB8, CP]),
    ("qwen3_moe", "z", 1, [FULL]), ("deepseek_v3", "z", 2, [TP]), ("mixtral", "z", 4, [PP, EP, MB2]),
    ("qwen3_moe", "drop", 1, [MB4]), ("deepseek_v3", "drop", 1, [MB4, FULL]), ("mixtral", "drop", 2, [MB4, TP]),
    ("qwen3_moe", "drop", 2, [MB4, CP, EP]), ("deepseek_v3", "drop", 4, [MB4, TP, WHOLE, EP, ETP]),
    ("qwen3_moe", "drop", 4, [MB4, PP, EP]),
    ("qwen3_moe", "pad", 1, [MB4]), ("mixtral", "pad", 2, [MB4, EP]), ("qwen3_moe", "pad", 4, [MB4, TP, EP, ETP]),
    ("deepseek_v3", "pad", 4, [MB4, CP, EP4, SELECTIVE]),
    ("qwen3_moe", "gather", 2, [EP]), ("mixtral", "gather", 2, [TP, ETP]), ("deepseek_v3", "gather", 4, [EP, ETP, MB2]),
    ("qwen3_moe", "gather", 4, [CP, EP4, SELECTIVE]), ("qwen2_moe", "gather", 4, [PP, EP, FULL, MB2]),
    ("one_expert", "plain", 1, []), ("one_expert", "plain", 4, [EP4]), ("one_expert", "gather", 4, [EP, ETP]),
    ("one_choice", "plain", 8, ["parallel.expert=8"]), ("experts_256", "plain", 8, ["parallel.expert=8", TP, CP]),
]


def balance_loss(passes, k, pooled):
    """passes: one list of layers for each row of a set of tokens that are looked at together."""
    experts = passes[0][0][0].shape[1]
    if pooled:
        logits = tuple(torch.cat([layers[i][0] for layers in passes]) for i in range(len(passes[0])))
        return load_balancing_loss_func(logits, experts, k)
    loss, tokens = 0.0, sum(len(layers[0][0]) for layers in passes)
    for i in range(len(passes[0])):
        rates = choice_rates(torch.cat([layers[i][2] for layers in passes]), experts).mean(0).detach()
        shares = torch.cat([layers[i][1] for layers in passes])
        loss = loss + experts / k * (shares * rates).sum() / tokens
    return loss * tokens / TOKENS


def cross_entropy(logits, row, tokens):
    labels = torch.tensor(row["labels"][1:])
    return torch.nn.functional.cross_entropy(logits[:-1].float(), labels, ignore_index=-100, reduction="sum") / tokens


def losses_of(model, ask, in_a_set):
    """Rows one by one; sets of them have their losses."""
    loss, tokens, passes = 0.0, tiny_models.trained_tokens(ROWS), []
    for row in ROWS:
        routers = Routers(model)
        loss = loss + cross_entropy(model(input_ids=torch.tensor([row["input_ids"]])).logits[0], row, tokens)
        routers.close()
        passes.append(routers.layers)
    k, extra = passes[0][0][2].shape[1], 0.0
    if ask == "z":
        extra = Z / TOKENS * sum(layer[0].logsumexp(-1).square().sum() for layers in passes for layer in layers)
    elif ask not in ("gather", "plain"):
        sets = [passes[begin:begin + in_a_set] for begin in range(0, len(passes), in_a_set)]
        extra = BALANCE * sum(balance_loss(one, k, ask == "pooled") for one in sets)
    (loss + extra).backward()
    return loss.item(), float(extra), 0


def losses_with_capacity(model, in_a_set):
    """Micro batches, padded: an expert's capacity counts them whole."""
    loss, tokens, dropped = 0.0, tiny_models.trained_tokens(ROWS), 0
    for begin in range(0, len(ROWS), in_a_set):
        rows = ROWS[begin:begin + in_a_set]
        longest = max(len(row["input_ids"]) for row in rows)
        ids = torch.tensor([row["input_ids"] + [0] * (longest - len(row["input_ids"])) for row in rows])
        real = torch.tensor([[i < len(row["input_ids"]) for i in range(longest)] for row in rows])
        routers = Routers(model, 0.75, real)
        logits = model(input_ids=ids, attention_mask=real.long()).logits
        routers.close()
        dropped += routers.dropped
        part = sum(cross_entropy(logits[i][:len(row["input_ids"])], row, tokens) for i, row in enumerate(rows))
        part.backward()
        loss += part.item()
    return loss, 0.0, dropped


def make_reference(folder, family, ask):
    folder.mkdir(parents=True)
    model = tiny_models.write_model(tiny_models.config_of(family), folder / "model")
    if family == "one_expert":
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer[5] += 100
        model.save_pretrained(folder / "model")
    tiny_models.write_rows(folder / "rows.jsonl", tiny_models.pack(ROWS, 3) if ask == "packed" else ROWS)
    in_a_set, _ = ASKS[ask]
    capacity = ask in ("drop", "pad")
    loss, extra, dropped = losses_with_capacity(model, in_a_set) if capacity else losses_of(model, ask, in_a_set)
    gradients = tiny_models.gradients(model)
    reference = Reference(folder / "model", folder / "rows.jsonl", loss, tiny_models.trained_tokens(ROWS),
                          tiny_models.norm_of(gradients.values()), gradients)
    return reference, extra, dropped


class References:
    """By family and ask, made when first asked for: the reference, the routers' loss, the choices that are dropped."""

    def __init__(self, folder):
        self.folder, self.made = folder, {}

    def of(self, family, ask):
        if (family, ask) not in self.made:
            self.made[family, ask] = make_reference(self.folder / f"{family}-{ask}".replace(" ", ""), family, ask)
        return self.made[family, ask]


@pytest.fixture(scope="module")
def references(folder):
    return References(folder)


def launch(ranks, cases, references, folder):
    commands = []
    for number, (family, ask, _, layout) in enumerate(cases):
        reference, _, _ = references.of(family, ask)
        commands.append(["grads", "--model", reference.model, "--rows", reference.rows, "--out",
                         folder / f"{ranks}-{number}.safetensors", *words_of([*ASKS[ask][1], *layout])])
    return run_grads(ranks if ranks > 1 else None, commands)


@pytest.fixture(scope="module")
def launches(selected, references, folder):
    return Launches(selected(test_routers), lambda case: case[2],
                    lambda ranks, cases: launch(ranks, cases, references, folder))


def assert_experts(found, ask, extra, dropped, choices):
    """What the program reports of its experts."""
    reported = found["z_loss"] if ask == "z" else found["balance_loss"]
    rows = sum(sum(layer) for layer in found["tokens_per_expert"].values())
    assert abs(reported - extra) <= 1e-5 * max(extra, 1), f"a router's loss of {reported}, wanted {extra} within 1e-5"
    assert rows + dropped == choices and abs(found["drop_rate"] - dropped / choices) <= 1e-6, \
        f"{rows} rows and a drop rate of {found['drop_rate']}, wanted {choices} of which {dropped} dropped"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]} {case[2]} ranks {' '.join(case[3])}")
def test_routers(case, launches, references, record_errors):
    family, ask, _, _ = case
    reference, extra, dropped = references.of(family, ask)
    outcome = launches.of(case)
    assert_equals(outcome, reference, record_errors)
    layers = sum(1 for name in reference.gradients if name.endswith("gate.weight") and "shared" not in name)
    choices = TOKENS * layers * tiny_models.config_of(family).num_experts_per_tok
    assert_experts(outcome.line["experts"], ask, extra, dropped, choices)


SPEED, STEPS = 0.01, 3


def moved_biases(model, rows):
    """Moves the model's biases as three steps do that change nothing else; tokens of each expert by step and layer."""
    biases = {name: buffer for name, buffer in model.named_buffers() if name.endswith("e_score_correction_bias")}
    counted = []
    for _ in range(STEPS):
        routers = Routers(model)
        with torch.no_grad():
            for row in rows:
                model(input_ids=torch.tensor([row["input_ids"]]))
        routers.close()
        each = [sum(choice_rates(routers.layers[i][2], 8).sum(0) for i in range(layer, len(routers.layers), len(biases)))
                for layer in range(len(biases))]
        counted.append(each)
        for bias, load in zip(biases.values(), each):
            bias += SPEED * torch.sign(load.mean() - load)
    return biases, counted


@pytest.fixture(scope="module")
def biases(folder):
    """Biases and counts by transformers; the output of the program's run."""
    folder = folder / "biases"
    folder.mkdir()
    model = tiny_models.write_model(tiny_models.config_of("deepseek_v3"), folder / "model")
    rows = [row for row in ROWS if tiny_models.trained_tokens([row])]
    tiny_models.write_rows(folder / "rows.jsonl", rows)
    (folder / "run.yaml").write_text("{}\n")
    settings = [f"model.path={folder / 'model'}", f"data.train=[{folder / 'rows.jsonl'}]", "tuning.kind=full",
                "data.packing=false", "model.dtype=fp32", f"run.steps={STEPS}", f"run.global_batch={len(rows)}",
                "optimizer.lr=0", f"experts.bias_speed={SPEED}", f"run.output={folder / 'out'}", "parallel.pipeline=2",
                "parallel.expert=2", "parallel.zero=3", "device=cpu"]
    moved, counted = moved_biases(model, rows)
    run_well(4, ["train", folder / "run.yaml"], settings)
    return moved, counted, folder / "out"


def test_biases_move(biases):
    moved, _, output = biases
    final = {name: tensor for file in (output / "final").glob("*.safetensors") for name, tensor in load_file(file).items()}
    wrong = [name for name, bias in moved.items() if not torch.allclose(final[name], bias, atol=1e-6)]
    assert moved and not wrong, f"differ by more than 1e-6: {wrong}"


def test_tokens_per_expert_are_logged(biases):
    _, counted, output = biases
    log = [json.loads(line)["experts"] for line in (output / "log.jsonl").read_text().splitlines()]
    found = [[torch.tensor(layer) for layer in line["tokens_per_expert"].values()] for line in log]
    assert len(found) == len(counted) and all(
        torch.equal(a.float(), b) for one, other in zip(found, counted) for a, b in zip(one, other, strict=True)), \
        f"tokens per expert {found}, wanted {counted}"


def test_heat_map_of_experts(biases):
    moved, _, output = biases
    cells = (output / "experts.svg").read_text().count("<title>")
    assert cells == len(moved) * 8, f"a heat map of {cells} cells"
