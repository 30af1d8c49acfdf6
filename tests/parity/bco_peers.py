"""TRL's BCOTrainer, which its later versions do not have, made a deterministic peer: it trains on given token ids, on the CPU
in fp32, one micro batch per step. Run as a script, with that version first on the module path: bco_peers.py JOB.json
RESULTS.json. Asserts nothing itself."""
import json
import sys

import preference_peers as peers  # sets the environment up before trl is imported

import datasets
import torch
import transformers
from safetensors.torch import save_file


def tokens_of(row, **others):
    """As the trainer's own step would name them."""
    whole = row["prompt_ids"] + row["completion_ids"]
    return {"prompt_input_ids": row["prompt_ids"], "prompt_attention_mask": [1] * len(row["prompt_ids"]),
            "completion_input_ids": whole, "completion_attention_mask": [1] * len(whole),
            "completion_labels": [-100] * len(row["prompt_ids"]) + row["completion_ids"]}


def train(job):
    """The log of each step; the gradients of the first in a file."""
    import trl.experimental.bco.bco_trainer as module
    torch.set_num_threads(1)
    torch.manual_seed(0)
    module._tokenize = lambda batch, **others: {}
    module._process_tokens = tokens_of
    load = lambda path: transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    rows = [{**row, "prompt": "t2", "completion": "t3"} for row in peers.labelled(peers.answers())]
    gradients = peers.FirstGradients()
    arguments = module.BCOConfig(**peers.settings(job["output"], remove_unused_columns=False, **job["arguments"]))
    trainer = module.BCOTrainer(model=load(job["model"]), ref_model=load(job["reference"]), args=arguments,
                                processing_class=peers.tokenizer(), callbacks=[gradients],
                                train_dataset=datasets.Dataset.from_list(rows))
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    save_file(gradients.found, job["gradients"])
    return [line for line in trainer.state.log_history if "loss" in line]


if __name__ == "__main__":
    transformers.utils.logging.set_verbosity_error()
    jobs = json.load(open(sys.argv[1]))
    json.dump({name: train(job) for name, job in jobs.items()}, open(sys.argv[2], "w"))
