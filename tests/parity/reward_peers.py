"""TRL's RewardTrainer made a deterministic peer, reward models of transformers to start from, and the scores that
transformers gives. Asserts nothing itself."""
import datasets
import peft
import torch
import transformers
import trl

import preference_peers
import tiny_models

CLASSIFIER = transformers.AutoModelForSequenceClassification
LORA = dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"], modules_to_save=["score"], task_type="SEQ_CLS")
SPECIAL = dict(pad_token_id=0, eos_token_id=1, bos_token_id=1)


def pairs(margins):
    """Whole sides, as RewardTrainer takes them; their prompts in them."""
    rows = [{f"{side}_ids": row["prompt_ids"] + row[f"{side}_ids"] for side in ("chosen", "rejected")}
            for row in preference_peers.answers()]
    return [{**row, "margin": (index % 5) / 4 - 0.25} for index, row in enumerate(rows)] if margins else rows


def write_reward_model(family, folder, **changes):
    """With a head that tells answers apart: the first of transformers' would leave all scores near 0."""
    config = tiny_models.config_of(family, num_labels=1, **SPECIAL, **changes)
    torch.manual_seed(12)
    model = CLASSIFIER.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
    return model


def write_adapter(model, folder):
    return save_adapter(CLASSIFIER.from_pretrained(model, dtype=torch.float32, num_labels=1), LORA, folder)


def save_adapter(model, lora, folder):
    """An adapter whose pairs both matter."""
    tuned = peft.get_peft_model(model, peft.LoraConfig(**lora))
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in tuned.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.05)
    tuned.save_pretrained(folder)
    return tuned


def train(model, rows, folder, **more):
    """The log of each step and the gradients of step 1."""
    torch.manual_seed(0)
    gradients = preference_peers.FirstGradients()
    trainer = trl.RewardTrainer(model=model, processing_class=preference_peers.tokenizer(), callbacks=[gradients],
                                args=trl.RewardConfig(**preference_peers.settings(folder, **more)),
                                train_dataset=datasets.Dataset.from_list(rows))
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    return [line for line in trainer.state.log_history if "loss" in line], gradients.found


def load(folder):
    return CLASSIFIER.from_pretrained(folder, dtype=torch.float32)


@torch.no_grad()
def scores(model, texts):
    """Row by row, so that nothing is padded."""
    model.eval()
    return [model(torch.tensor([ids])).logits.item() for ids in texts]
