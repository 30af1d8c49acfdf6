"""The cells of docs/support.md: six steps of each feature on a device beside the same six on the cpu, all cells of one number of ranks
in one launch. scripts/support writes the table; npu_program_test.py runs the covering ones. Knows nothing of pytest or torch."""
import collections
import json
import pathlib
import re
import shutil

from program import failure_text, run_many, words_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 6
# feature as the table has it, settings, ranks, whether it is in the covering set, how large a difference counts as equal
Cell = collections.namedtuple("Cell", "feature settings ranks covering limit", defaults=(1, False, 1e-4))
# What a cell gave: its worst difference to the cpu, or why there is none ("refused: …", "fails: …").
Result = collections.namedtuple("Result", "worst why")

# What a completion is worth follows from its tokens alone: one that differs changes the reward.
JUDGE = """import json, sys
for line in sys.stdin:
    print(sum(json.loads(line)["completion_ids"]) % 7, flush=True)
"""
FULL, LORA = ["tuning.kind=full"], ["tuning.kind=lora", "tuning.rank=4", "tuning.dropout=0"]
PAIRS = [f"data.train=[{ROOT / 'examples/preference/polite.jsonl'}]"]
PROMPTS = [f"data.train=[{ROOT / 'examples/rl/days.jsonl'}]", "rl.group=4", "rl.max_new_tokens=6", 'rl.rewards=["program:python3 {folder}/judge.py"]', "run.global_batch=8"]
EXPERTS = ["model.path={folder}/moe", "model.init=random", *FULL]

CELLS = [
    Cell("pretraining (pt), in full", ["stage=pt", f"data.train=[{ROOT / 'examples/weekdays/text.txt'}]", *FULL]),
    Cell("sft, in full", FULL),
    Cell("sft, freeze", ["tuning.kind=freeze", "tuning.targets=[all]", "tuning.last_layers=1"]),
    Cell("sft, LoRA", LORA),
    Cell("sft, bf16", [*FULL, "model.dtype=bf16"], limit=5e-3),
    Cell("dropout of hidden states", [*FULL, "tuning.hidden_dropout=0.1"]),
    Cell("dpo, LoRA", ["stage=dpo", *PAIRS, *LORA], covering=True),
    Cell("dpo, in full", ["stage=dpo", *PAIRS, *FULL]),
    Cell("kto", ["stage=kto", "preference.loss=[kto]", *PAIRS, *LORA]),
    Cell("bco", ["stage=bco", *PAIRS, *LORA]),
    Cell("orpo", ["stage=orpo", *PAIRS, *FULL]),
    Cell("simpo", ["stage=simpo", *PAIRS, *FULL]),
    Cell("cpo", ["stage=cpo", *PAIRS, *FULL]),
    Cell("reward models (rm)", ["stage=rm", *PAIRS, *FULL], covering=True),
    Cell("grpo", ["stage=grpo", *PROMPTS, *FULL], covering=True),
    Cell("rloo", ["stage=rloo", *PROMPTS, *FULL]),
    Cell("reinforce_plus_plus", ["stage=reinforce_plus_plus", *PROMPTS, *FULL]),
    Cell("ppo, value head on the policy", ["stage=ppo", *PROMPTS, *FULL, "rl.value_model=policy"], covering=True),
    Cell("distillation (gkd), the student's answers", ["stage=gkd", *FULL, "distillation.teacher={folder}/teacher/final", "distillation.lambda=1",
                                                       "rl.max_new_tokens=6"], covering=True),
    Cell("Muon", [*FULL, "optimizer.name=muon"], covering=True),
    Cell("Adafactor", [*FULL, "optimizer.name=adafactor"], covering=True),
    Cell("SGD with momentum", [*FULL, "optimizer.name=sgd_momentum"]),
    Cell("moments in 8 bits", [*FULL, "optimizer.moments=8bit"], covering=True, limit=1e-3),
    Cell("averaged weights", [*FULL, "optimizer.ema=0.9"]),
    Cell("label smoothing, z-loss", [*FULL, "loss.label_smoothing=0.1", "loss.z_coefficient=1e-3"]),
    Cell("NEFTune", [*FULL, "tuning.neftune_alpha=5"]),
    Cell("LoRA+", [*LORA, "tuning.loraplus_lr_ratio=8"]),
    Cell("PiSSA", [*LORA, "tuning.init=pissa"]),
    Cell("OLoRA", [*LORA, "tuning.init=olora"]),
    Cell("DoRA", [*LORA, "tuning.dora=true"], covering=True),
    Cell("LoRA over nf4", [*LORA, "model.quantise=nf4"], covering=True),
    Cell("LoRA over fp4", [*LORA, "model.quantise=fp4"]),
    Cell("LoRA over int8", [*LORA, "model.quantise=int8"]),
    # A number between two codes goes to one or the other by the rounding of its sum; six updates carry that on.
    Cell("LoRA over FP8 products", [*LORA, "model.fp8=rows"], limit=5e-3),
    Cell("in full with FP8 products", [*FULL, "model.fp8=rows"], limit=5e-3),
    Cell("experts, balance losses, capacity", [*EXPERTS, "experts.balance_coefficient=0.01", "experts.z_coefficient=0.001", "experts.overflow=drop"]),
    Cell("recomputation in full", [*FULL, "memory.recompute=full"]),
    Cell("optimizer on the host", [*FULL, "memory.offload_optimizer=true"]),
    Cell("tensor 2", [*FULL, "parallel.tensor=2"], 2),
    Cell("pipeline 2, zero bubble", [*FULL, "parallel.pipeline=2", "parallel.schedule=zero_bubble"], 2),
    Cell("context 2", [*FULL, "parallel.context=2"], 2),
    Cell("data 2, zero 3", [*FULL, "parallel.zero=3"], 2),
    Cell("expert 2", [*EXPERTS, "parallel.expert=2"], 2),
    Cell("dpo, tensor 2", ["stage=dpo", *PAIRS, *FULL, "parallel.tensor=2"], 2),
    Cell("grpo, tensor 2", ["stage=grpo", *PROMPTS, *FULL, "parallel.tensor=2"], 2),
]


class Cells:
    """Runs cells in a folder of their own. A cell that is refused is a result, not a failure."""

    def __init__(self, folder, cells=CELLS):
        self.folder, self.cells = pathlib.Path(folder).resolve(), list(cells)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.write_inputs()

    def write_inputs(self):
        (self.folder / "run.yaml").write_text(
            f"model: {{path: {self.folder / 'base/final'}, dtype: fp32}}\n"
            f"data: {{train: [{ROOT / 'examples/chat/days.jsonl'}], max_length: 128, packing: true, cache: {self.folder / 'cache'}}}\n"
            "optimizer: {lr: 1.0e-3, schedule: constant}\n"
            f"run: {{steps: {STEPS}, global_batch: 4, micro_batch: 2}}\nsave: {{every: 0}}\nlog: {{every: 1}}\n")
        (self.folder / "judge.py").write_text(JUDGE)
        shutil.copytree(ROOT / "examples/chat", self.folder / "moe", dirs_exist_ok=True)
        config = json.loads((ROOT / "examples/weekdays/moe/config.json").read_text())
        own = json.loads((ROOT / "examples/chat/config.json").read_text())
        (self.folder / "moe" / "config.json").write_text(json.dumps({**config, "vocab_size": own["vocab_size"]}))

    def output(self, cell, device):
        return self.folder / device / re.sub(r"\W+", "-", cell.feature)

    def words(self, cell, device):
        settings = [setting.replace("{folder}", str(self.folder)) for setting in cell.settings]
        return ["train", self.folder / "run.yaml", *words_of([f"device={device}", f"run.output={self.output(cell, device)}", *settings])]

    def models(self):
        """What cells start from and learn from: both of random weights, a few steps old."""
        words = [["train", self.folder / "run.yaml", *words_of(["device=cpu", f"model.path={ROOT / 'examples/chat'}", "model.init=random", *FULL, "run.steps=2",
                                                               f"run.seed={seed}", f"run.output={self.folder / name}"])]
                 for seed, name in ((1, "base"), (2, "teacher"))]
        return [] if (self.folder / "teacher/final").exists() else words

    def run(self, device):
        """Why each cell without a log has none. One that fails ends its launch; the others go on in another."""
        why, before = {}, self.models() if device == "cpu" else []
        for ranks in sorted({cell.ranks for cell in self.cells}):
            left = [cell for cell in self.cells if cell.ranks == ranks]
            while left:
                options = ["--refusals"] if ranks == 1 else []
                result = run_many(None if ranks == 1 else ranks, [*before, *(self.words(cell, device) for cell in left)], options=options)
                before, refused = [], re.findall(r'^\{"refused":(.*)\}$', result.stdout, re.M)
                for number, cell in enumerate(left):
                    if len(self.log(cell, device)) == STEPS:
                        continue
                    if refused:
                        why[cell.feature] = f"refused: {json.loads(refused.pop(0))}"
                        continue
                    why[cell.feature] = f"fails: {failure_text(result)}"
                    break
                left = left[number + 1:] if result.returncode != 0 else []
        return why

    def log(self, cell, device):
        path = self.output(cell, device) / "log.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def compare(self, cell, device, why):
        if cell.feature in why:
            return Result(None, why[cell.feature])
        cpu, other = self.log(cell, "cpu"), self.log(cell, device)
        if len(cpu) != STEPS or len(other) != STEPS:
            return Result(None, "fails: no steps to compare")
        # A policy's loss is near 0: its reward counts, too.
        return Result(max(abs(one[key] - two[key]) / max(abs(two[key]), 0.1) for one, two in zip(other, cpu)
                          for key in ("loss", "reward") if key in two), "")
