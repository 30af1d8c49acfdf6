#!/usr/bin/env python3
"""Routers against transformers' own logits: balance losses of each kind, z-loss, capacity, all-gather dispatch, updated
correction biases and the expert statistics in the log, under several layouts."""
import json
import math
import pathlib
import sys
import tempfile

import torch
from safetensors.torch import load_file
from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func

import tiny_models
from grads_test import Judge, compare
from program import failure_text, run, run_many, words_of

ROWS = tiny_models.make_rows(8, shortest=6)
TOKENS = sum(len(row["input_ids"]) for row in ROWS)
BALANCE, Z = 0.3, 0.05  # large, so that an error shows next to the model's loss
# What is requested of the routers: how many rows form one set of tokens, then the settings.
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
# Edge cases: one expert per rank; very many; one that takes all tokens while the others get none. A single choice keeps
# its weight: normalised to 1, it would give the router no gradient.
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


class Routers:
    """Records a model's routers while it runs: logits and choices of each layer, one entry per forward pass. With a
    capacity, choices beyond it lose their weight."""

    def __init__(self, model, capacity=None, real=None):
        self.layers, self.capacity, self.real, self.dropped = [], capacity, real, 0
        found = [module for module in model.modules() if type(module).__name__.endswith("Router")]
        self.hooks = [module.register_forward_hook(self.see) for module in found]

    def see(self, module, inputs, outputs):
        logits, weights, chosen = outputs
        sigmoid = hasattr(module, "e_score_correction_bias")
        scores = logits.float().sigmoid() if sigmoid else logits.float().softmax(-1)
        self.layers.append((logits.float(), scores / scores.sum(-1, keepdim=True), chosen))
        if self.capacity is None:
            return None
        kept = self.within_capacity(weights.detach(), chosen, logits.shape[1])
        return logits, weights * kept, chosen

    def within_capacity(self, weights, chosen, experts):
        kept = self.real.reshape(-1, 1).expand_as(chosen).clone()
        capacity = math.ceil(self.capacity * kept.sum().item() / experts)
        for expert in range(experts):
            of_expert = ((chosen == expert) & kept).nonzero().tolist()
            of_expert.sort(key=lambda place: -weights[place[0], place[1]].item())
            for token, choice in of_expert[capacity:]:
                kept[token, choice] = False
                self.dropped += 1
        return kept

    def close(self):
        for hook in self.hooks:
            hook.remove()


def choice_rates(chosen, experts):
    return torch.nn.functional.one_hot(chosen, experts).sum(1).float()  # [tokens, experts]


def balance_loss(passes, k, pooled):
    """passes: one list of layers per row of a set of tokens that are considered together."""
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


def judge_losses(model, ask, in_a_set):
    """Rows one by one; each set of rows has its own losses."""
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


def judge_capacity(model, in_a_set):
    """Micro batches, padded: an expert's capacity counts all of their tokens."""
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


def make_judge(folder, family, ask):
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
    loss, extra, dropped = judge_capacity(model, in_a_set) if capacity else judge_losses(model, ask, in_a_set)
    gradients = tiny_models.gradients(model)
    judge = Judge(folder / "model", folder / "rows.jsonl", loss, tiny_models.trained_tokens(ROWS),
                  tiny_models.norm_of(gradients.values()), gradients)
    return judge, extra, dropped


def judge_experts(found, ask, extra, dropped, judge_rows):
    """Compares the program's expert statistics."""
    spoken = found["z_loss"] if ask == "z" else found["balance_loss"]
    rows = sum(sum(layer) for layer in found["tokens_per_expert"].values())
    if abs(spoken - extra) > 1e-5 * max(extra, 1):
        return f"a router's loss of {spoken}, wanted {extra}"
    if rows + dropped != judge_rows or abs(found["drop_rate"] - dropped / judge_rows) > 1e-6:
        return f"{rows} rows and a drop rate of {found['drop_rate']}, wanted {judge_rows} of which {dropped} dropped"
    return ""


def run_cases(cases, judges, folder, ranks):
    commands, outs = [], []
    for number, (family, ask, _, layout) in enumerate(cases):
        judge, _, _ = judges[family, ask]
        outs.append(folder / f"{ranks}-{number}.safetensors")
        commands.append(["grads", "--model", judge.model, "--rows", judge.rows, "--out", outs[-1],
                         *words_of([*ASKS[ask][1], *layout])])
    result = run_many(ranks if ranks > 1 else None, commands)
    return result, result.stdout.splitlines(), outs


def judge_group(cases, judges, folder, ranks):
    result, lines, outs = run_cases(cases, judges, folder, ranks)
    failed = 0
    for number, (family, ask, _, layout) in enumerate(cases):
        judge, extra, dropped = judges[family, ask]
        if number >= len(lines) or not outs[number].exists():
            print(f"FAILED: {family} {ask} {ranks} ranks {layout}: {failure_text(result)}")
            return failed + 1
        line = json.loads(lines[number])
        errors, worst, wrong = compare(line, load_file(outs[number]), judge)
        config = tiny_models.config_of(family)
        layers = sum(1 for name in judge.gradients if name.endswith("gate.weight") and "shared" not in name)
        wrong = wrong or judge_experts(line["experts"], ask, extra, dropped,
                                       TOKENS * layers * config.num_experts_per_tok)
        numbers = "  ".join(f"{kind} {error:.1e}" for kind, error in errors.items())
        print(f"{'FAILED' if wrong else 'ok'}: {family:11} {ask:8} {ranks} ranks {' '.join(layout):60} {numbers} "
              f"({worst}) {wrong}", flush=True)
        failed += bool(wrong)
    return failed


def judge_gradients(folder):
    wanted = {(family, ask) for family, ask, _, _ in CASES}
    judges = {key: make_judge(folder / f"{key[0]}-{key[1]}".replace(" ", ""), *key) for key in sorted(wanted)}
    return sum(judge_group([case for case in CASES if case[2] == ranks], judges, folder, ranks)
               for ranks in sorted({case[2] for case in CASES}))


def judge_biases(folder):
    """Three steps that change only the biases; tokens per expert in the log; the heat map."""
    speed, steps, folder = 0.01, 3, folder / "biases"
    folder.mkdir()
    model = tiny_models.write_model(tiny_models.config_of("deepseek_v3"), folder / "model")
    rows = [row for row in ROWS if tiny_models.trained_tokens([row])]
    tiny_models.write_rows(folder / "rows.jsonl", rows)
    biases = {name: buffer for name, buffer in model.named_buffers() if name.endswith("e_score_correction_bias")}
    counted = []
    for _ in range(steps):
        routers = Routers(model)
        with torch.no_grad():
            for row in rows:
                model(input_ids=torch.tensor([row["input_ids"]]))
        routers.close()
        each = [sum(choice_rates(routers.layers[i][2], 8).sum(0) for i in range(layer, len(routers.layers), len(biases)))
                for layer in range(len(biases))]
        counted.append(each)
        for bias, load in zip(biases.values(), each):
            bias += speed * torch.sign(load.mean() - load)
    settings = [f"model.path={folder / 'model'}", f"data.train=[{folder / 'rows.jsonl'}]", "tuning.kind=full",
                "data.packing=false", "model.dtype=fp32", f"run.steps={steps}", f"run.global_batch={len(rows)}",
                "optimizer.lr=0", f"experts.bias_speed={speed}", f"run.output={folder / 'out'}", "parallel.pipeline=2",
                "parallel.expert=2", "parallel.zero=3", "device=cpu"]
    (folder / "run.yaml").write_text("{}\n")
    result = run(4, ["train", folder / "run.yaml"], settings)
    if result.returncode:
        print("FAILED: biases:", failure_text(result))
        return 1
    final = {name: tensor for file in (folder / "out/final").glob("*.safetensors")
             for name, tensor in load_file(file).items()}
    wrong = [name for name, bias in biases.items() if not torch.allclose(final[name], bias, atol=1e-6)]
    log = [json.loads(line)["experts"] for line in (folder / "out/log.jsonl").read_text().splitlines()]
    found = [[torch.tensor(layer) for layer in line["tokens_per_expert"].values()] for line in log]
    if any(not torch.equal(a.float(), b) for one, other in zip(found, counted) for a, b in zip(one, other)):
        wrong.append(f"tokens per expert {found}, wanted {counted}")
    cells = (folder / "out/experts.svg").read_text().count("<title>")
    if cells != len(biases) * 8:
        wrong.append(f"a heat map of {cells} cells")
    print(f"{'FAILED' if wrong else 'ok'}: biases updated, experts counted and drawn {wrong}")
    return bool(wrong)


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        failed = judge_gradients(pathlib.Path(scratch)) + judge_biases(pathlib.Path(scratch))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
