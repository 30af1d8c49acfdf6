"""TRL made a deterministic peer: its trainers on given token ids, on the CPU in fp32, one micro batch per step. Gives the
log of every step and the gradients of the first. Asserts nothing itself."""
import random

import peers_environment  # noqa: F401, before the peers

import datasets
import tokenizers
import torch
import transformers
import trl
from trl.experimental import cpo, orpo

import tiny_models

datasets.disable_progress_bars()
STEPS, BATCH, EPOCH = 10, 4, 12
LR, ADAMW = 2e-4, dict(weight_decay=0.01, beta1=0.9, beta2=0.99, eps=1e-6)


def answers(seed=21, count=EPOCH):
    """Pairs of token ids; the last of them has sides of one token."""
    generator = random.Random(seed)

    def ids(least, most):
        return [generator.randrange(2, tiny_models.VOCABULARY) for _ in range(generator.randrange(least, most))]

    pairs = [{"prompt_ids": ids(1, 12), "chosen_ids": ids(2, 20), "rejected_ids": ids(2, 20)} for _ in range(count - 1)]
    return [*pairs, {"prompt_ids": ids(1, 12), "chosen_ids": [5], "rejected_ids": [6]}]


def labelled(pairs):
    """Single answers, good ones and bad ones in turn."""
    return [{"prompt_ids": pair["prompt_ids"], "completion_ids": pair["chosen_ids" if index % 3 else "rejected_ids"],
             "label": bool(index % 3)} for index, pair in enumerate(pairs)]


def write_models(folder, family, **changes):
    """A model, and as its reference one with other weights."""
    config = tiny_models.config_of(family, pad_token_id=0, eos_token_id=1, bos_token_id=1, **changes)
    tiny_models.write_model(config, folder / "model")
    other = tiny_models.write_model(config, folder / "reference")
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.01)
    other.save_pretrained(folder / "reference")


def model_folder(folder, family, layers):
    """The folder of both, written once."""
    path = folder / f"{family}-{layers}"
    if not path.exists():
        path.mkdir()
        write_models(path, family, num_hidden_layers=layers)
    return path


def write_answers(folder, pairs=None):
    """Pairs and labelled answers; of both also the first batch alone."""
    pairs = pairs or answers()
    for name, rows in (("pairs", pairs), ("labelled", labelled(pairs))):
        tiny_models.write_rows(folder / f"{name}.jsonl", rows)
        tiny_models.write_rows(folder / f"{name}-{BATCH}.jsonl", rows[:BATCH])


def rows_of(folder, stage, part=""):
    return folder / f"{'labelled' if stage in ('kto', 'bco') else 'pairs'}{part}.jsonl"


def reference_of(folder, stage):
    """The setting that names the reference, for stages that have one."""
    return [f"reference={folder / 'reference'}"] if stage in ("dpo", "kto", "bco") else []


def tokenizer():
    """Names its special tokens; nothing is encoded with it."""
    words = {f"t{index}": index for index in range(tiny_models.VOCABULARY)}
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="t2")))
    fast.pad_token, fast.eos_token, fast.bos_token = "t0", "t1", "t1"
    return fast


class FirstGradients(transformers.TrainerCallback):
    def __init__(self):
        self.found = {}

    def on_pre_optimizer_step(self, args, state, control, model=None, **others):
        if not self.found:
            self.found = {name: parameter.grad.clone() for name, parameter in model.named_parameters()
                          if parameter.grad is not None}


def settings(folder, **more):
    return dict(output_dir=str(folder), use_cpu=True, bf16=False, gradient_checkpointing=False,
                train_sampling_strategy="sequential", lr_scheduler_type="constant", learning_rate=LR,
                weight_decay=ADAMW["weight_decay"], adam_beta1=ADAMW["beta1"], adam_beta2=ADAMW["beta2"],
                adam_epsilon=ADAMW["eps"], max_grad_norm=0.0, logging_steps=1, save_strategy="no", report_to="none",
                disable_tqdm=True, dataloader_num_workers=0, seed=1, per_device_train_batch_size=BATCH,
                gradient_accumulation_steps=1, max_steps=STEPS, max_length=64, **more)


def rotated(rows):
    """The answer before, within each batch."""
    return [{**row, "KL_completion_ids": rows[index - 1 if index % BATCH else index - 1 + BATCH]["completion_ids"]}
            for index, row in enumerate(rows)]


def tokens_of(row):
    """As the older trainers' tokenize_row names them."""
    batch = {"prompt_input_ids": row["prompt_ids"], "prompt_attention_mask": [1] * len(row["prompt_ids"])}
    for side in ("chosen", "rejected"):
        whole = row["prompt_ids"] + row[f"{side}_ids"]
        batch |= {f"{side}_input_ids": whole, f"{side}_attention_mask": [1] * len(whole),
                  f"{side}_labels": [-100] * len(row["prompt_ids"]) + row[f"{side}_ids"]}
    return batch


def untouched(self, dataset, *others, **more):
    return dataset


def train(stage, model, reference, rows, folder, peft_model=None, **more):
    """The log of each step and the gradients of step 1. model, reference: folders; reference may be None."""
    torch.manual_seed(0)
    load = lambda path: transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    policy = peft_model if peft_model is not None else load(model)
    gradients = FirstGradients()
    common = dict(model=policy, processing_class=tokenizer(), callbacks=[gradients])
    if stage in ("dpo", "kto"):
        make, config = (trl.DPOTrainer, trl.DPOConfig) if stage == "dpo" else (trl.KTOTrainer, trl.KTOConfig)
        make._prepare_dataset = untouched
        data = datasets.Dataset.from_list(rotated(rows) if stage == "kto" else rows)
        extra = dict(ref_model=load(reference)) if reference else {}
        trainer = make(**common, **extra, args=config(**settings(folder, **more)), train_dataset=data)
    else:
        make, config = {"orpo": (orpo.ORPOTrainer, orpo.ORPOConfig)}.get(stage, (cpo.CPOTrainer, cpo.CPOConfig))
        make.tokenize_row = lambda self, feature, model=None: tokens_of(feature)
        texts = [{**row, "prompt": "t2", "chosen": "t3", "rejected": "t4"} for row in rows]
        trainer = make(**common, args=config(**settings(folder, remove_unused_columns=False, **more)),
                       train_dataset=datasets.Dataset.from_list(texts))
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    log = [line for line in trainer.state.log_history if "loss" in line]
    return log, gradients.found
