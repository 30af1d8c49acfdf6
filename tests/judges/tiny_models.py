"""Tiny random models of each family, written by Hugging Face transformers itself, with rows to run them on."""
import json
import random

import torch
import transformers

COMMON = dict(vocab_size=1003, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=128, rms_norm_eps=1e-5, initializer_range=0.1)
LLAMA3_ROPE = dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=32)


def configs():
    """Family (with the trait it shows) to its transformers config."""
    return {
        "llama": transformers.LlamaConfig(**COMMON, tie_word_embeddings=False),
        "llama3": transformers.LlamaConfig(**COMMON, tie_word_embeddings=False, rope_parameters=LLAMA3_ROPE,
                                           attention_bias=True, mlp_bias=True),
        "qwen2": transformers.Qwen2Config(**COMMON, tie_word_embeddings=True),
        "qwen3": transformers.Qwen3Config(**COMMON, head_dim=24, tie_word_embeddings=False),
    }


def write_model(config, folder):
    """Random weights; norms and biases too, which transformers would start at one and zero."""
    torch.manual_seed(11)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
    return model


def write_rows(path, count=8, vocabulary=1003):
    """Rows of different length; some labels are not trained, one row not at all."""
    generator = random.Random(5)
    rows = []
    for index in range(count):
        ids = [generator.randrange(vocabulary) for _ in range(generator.randrange(2, 40))]
        labels = [-100 if generator.random() < 0.3 or index == 3 else token for token in ids]
        rows.append({"input_ids": ids, "labels": labels})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def reference(model, rows):
    """Loss, trained tokens and gradients as transformers computes them, row by row, in fp32."""
    model.zero_grad()
    tokens = sum(label != -100 for row in rows for label in row["labels"][1:])
    loss = 0.0
    for row in rows:
        ids, labels = torch.tensor([row["input_ids"]]), torch.tensor(row["labels"][1:])
        if (labels == -100).all():
            continue
        logits = model(input_ids=ids).logits[0, :-1]
        part = torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100, reduction="sum") / tokens
        part.backward()
        loss += part.item()
    return loss, tokens, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
