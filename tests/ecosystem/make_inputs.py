"""make_inputs.py DIR: what the programs of scripts/ecosystem train, the same for all: a Qwen3 of 2 layers with random weights
and a tokenizer of bytes (DIR/model), and sums of two numbers with a right and a wrong result, in each program's own format.
Runs in either program's environment. Nothing is downloaded."""
import json
import pathlib
import random
import sys

import tokenizers
import torch
import transformers

ROWS = 64
CHAT = ("{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def make_tokenizer():
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    core = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = tokenizers.decoders.ByteLevel()
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>",
                                                additional_special_tokens=["<|im_start|>"])
    made.chat_template = CHAT
    return made


def make_model(tokenizer):
    torch.manual_seed(0)
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=1024, tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id, bos_token_id=None)).to(torch.float32)


def sums():
    """Question, right answer, wrong answer."""
    dice = random.Random(0)
    for _ in range(ROWS):
        a, b = dice.randrange(100), dice.randrange(100)
        yield f"{a} + {b} = ?", str(a + b), str(a + b + dice.randrange(1, 9))


def write_records(folder):
    swift, llama_factory = [], []
    for question, right, wrong in sums():
        said = [{"role": "user", "content": question}, {"role": "assistant", "content": right}]
        swift.append({"messages": said, "rejected_response": wrong})
        llama_factory.append({"instruction": question, "right": right, "wrong": wrong})
    (folder / "pairs.jsonl").write_text("".join(json.dumps(record) + "\n" for record in swift))
    (folder / "answers.jsonl").write_text("".join(json.dumps({"messages": each["messages"]}) + "\n" for each in swift))
    (folder / "sums.json").write_text(json.dumps(llama_factory))
    (folder / "dataset_info.json").write_text(json.dumps({
        "answers": {"file_name": "sums.json", "columns": {"prompt": "instruction", "response": "right"}},
        "pairs": {"file_name": "sums.json", "ranking": True,
                  "columns": {"prompt": "instruction", "chosen": "right", "rejected": "wrong"}}}))


def main():
    folder = pathlib.Path(sys.argv[1])
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(folder / "model")
    make_model(tokenizer).save_pretrained(folder / "model")
    write_records(folder)


main()
