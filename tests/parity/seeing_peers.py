"""TRL's trainers on records with images: a tiny Qwen2.5-VL with a tokenizer, a chat template and an image processor, pictures in
files, and the records as TRL takes them. Gives the log of every step and the gradients of the first. Asserts nothing itself."""
import json
import random

import policy_peers
import preference_peers as peers  # sets the environment up before trl is imported

import datasets
import peft
import PIL.Image
import torch
import transformers
import trl
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor

import image_chats
import seeing_models
import seeing_runs

STEPS, BATCH = 3, 4
LR = 1e-3
SIZES = [(24, 16), (16, 40), (8, 8), (40, 56), (8, 32), (16, 16)]  # height and width in pixels
ADAPTER = dict(r=4, lora_alpha=8, lora_dropout=0.0, bias="none",
                      target_modules=r".*language_model.*\.(q_proj|v_proj|down_proj)")


def write_model(folder):
    """As a user has it: weights, tokenizer, chat template, the image processor's settings."""
    tokenizer = image_chats.tiny_tokenizer()
    tokenizer.chat_template = image_chats.TEMPLATES["qwen3_vl"]
    config = seeing_models.config_of("qwen2_5_vl", layers=3)
    names = dict(image_token_id="<|image_pad|>", video_token_id="<|video_pad|>", vision_start_token_id="<|vision_start|>",
                 vision_end_token_id="<|vision_end|>")
    for key, name in names.items():
        setattr(config, key, tokenizer.convert_tokens_to_ids(name))
    for part in (config, config.text_config):
        part.eos_token_id, part.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
    seeing_models.write_model(config, folder)
    tokenizer.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(
        dict(image_processor_type="Qwen2VLImageProcessor", **seeing_runs.PROCESSOR)))


def processor_of(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, padding_side="left")  # as TRL pads prompts
    return transformers.Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(**seeing_runs.PROCESSOR), tokenizer=tokenizer,
        video_processor=transformers.Qwen2VLVideoProcessor(), chat_template=image_chats.TEMPLATES["qwen3_vl"])


def load(folder):
    return transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


def draw_pictures(folder, seed=3):
    """By name."""
    generator = torch.Generator().manual_seed(seed)
    pictures = {}
    for number, (height, width) in enumerate(SIZES):
        values = torch.randint(256, (height, width, 3), dtype=torch.uint8, generator=generator)
        pictures[f"{number}.png"] = PIL.Image.fromarray(values.numpy())
        pictures[f"{number}.png"].save(folder / f"{number}.png")
    return pictures


def draw_questions(count, seed=9):
    """Texts and names of pictures in turn: of each question a list of both, one of them without a picture."""
    draw = random.Random(seed)
    text = lambda: " ".join(draw.choices(image_chats.WORDS, k=draw.randint(1, 5)))
    questions = []
    for number in range(count):
        parts = [text()]
        for _ in range((1, 2, 0, 1)[number % 4]):
            parts.insert(draw.randint(0, len(parts)), f"{draw.randrange(len(SIZES))}.png")
        questions.append({"parts": parts, "good": text() + " good", "bad": "bad " + text()})
    return questions


def is_picture(part):
    return part.endswith(".png")


def parts_of(question):
    return [{"type": "image"} if is_picture(part) else {"type": "text", "text": part} for part in question["parts"]]


def pictures_of(question):
    return [part for part in question["parts"] if is_picture(part)]


def marked(question):
    return "".join("<image>" if is_picture(part) else part for part in question["parts"])


def as_trl(question, **answers):
    prompt = [{"role": "user", "content": parts_of(question)}]
    said = {key: [{"role": "assistant", "content": [{"type": "text", "text": text}]}] for key, text in answers.items()}
    return {"prompt": prompt, **said, "images": pictures_of(question)}


def pair_in(question, number):
    """In one of the shapes that preference records with images have."""
    good, bad, images = question["good"], question["bad"], dict(images=pictures_of(question))
    shape = number % 4
    if shape == 0:
        return as_trl(question, chosen=good, rejected=bad)
    if shape == 1:  # ms-swift
        return {"messages": [{"role": "user", "content": marked(question)}, {"role": "assistant", "content": good}],
                "rejected_response": bad, **images}
    if shape == 2:  # LLaMA-Factory's ShareGPT
        return {"conversations": [{"from": "human", "value": marked(question)}], "chosen": {"from": "gpt", "value": good},
                "rejected": {"from": "gpt", "value": bad}, **images}
    return {"instruction": marked(question), "chosen": good, "rejected": bad, **images}  # and Alpaca's


def judged_in(question, number):
    good = number % 3 != 1
    answer, images = question["good" if good else "bad"], dict(images=pictures_of(question))
    if number % 2:
        return {"conversations": [{"from": "human", "value": marked(question)}, {"from": "gpt", "value": answer}],
                "kto_tag": good, **images}
    return {**as_trl(question, completion=answer), "label": good}


def data_set(records, pictures):
    """As TRL takes it, with the pictures themselves."""
    return datasets.Dataset.from_list([{**record, "images": [pictures[name] for name in record["images"]]}
                                       for record in records])


def settings(folder, **more):
    return peers.settings(folder) | dict(max_steps=STEPS, max_length=None, learning_rate=LR,
                                         per_device_train_batch_size=BATCH) | more


def train(stage, model, questions, pictures, folder, lora=False):
    """The log of each step and the gradients of step 1, by the names in files."""
    torch.manual_seed(0)
    make, config = (trl.DPOTrainer, trl.DPOConfig) if stage == "dpo" else (trl.KTOTrainer, trl.KTOConfig)
    records = [as_trl(one, chosen=one["good"], rejected=one["bad"]) if stage == "dpo" else
               {**as_trl(one, completion=one["good" if number % 3 != 1 else "bad"]), "label": number % 3 != 1}
               for number, one in enumerate(questions)]
    gradients = peers.FirstGradients()
    policy = load(model)
    if lora:
        policy = adapted(policy)
    trainer = make(model=policy, processing_class=processor_of(model), callbacks=[gradients], ref_model=load(model),
                   args=config(**settings(folder)), train_dataset=data_set(records, pictures))
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    found = {name if lora else seeing_models.disk_name(name, "qwen2_5_vl"): tensor
             for name, tensor in gradients.found.items()}
    return [line for line in trainer.state.log_history if "loss" in line], found


def adapted(policy):
    """With an adapter of the language model that is not the identity."""
    torch.manual_seed(5)
    model = peft.get_peft_model(policy, peft.LoraConfig(**ADAPTER))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05)
    return model


GROUP, POLICY_BATCH, LONGEST = 4, 8, 10


def draw_rollouts(questions, model, seed=13):
    """Groups of completions of each question with rewards, as rollouts.jsonl has them; paths are relative to it."""
    draw, processor, lines = random.Random(seed), processor_of(model), []
    end = processor.tokenizer.eos_token_id
    for group, question in enumerate(questions):
        prompt = prompt_ids(question, processor, model.parent)
        for index in range(GROUP):
            completion = [draw.randrange(10, 390) for _ in range(draw.randint(2, LONGEST))] + ([end] if index % 3 else [])
            lines.append({"step": 1, "group": group, "prompt_ids": prompt, "completion_ids": completion,
                          "rewards": {"first": round(draw.uniform(-1, 1), 3)},
                          **({"images": pictures_of(question)} if pictures_of(question) else {})})
    return lines


def prompt_ids(question, processor, folder):
    """With as many placeholders as the images have tokens."""
    asked = processor.apply_chat_template([{"role": "user", "content": parts_of(question)}], add_generation_prompt=True)
    images = [PIL.Image.open(folder / name) for name in pictures_of(question)]
    return list(processor(text=[asked], images=images or None)["input_ids"][0])


def train_policy(model, questions, lines, pictures, folder, frozen=False, **more):
    """GRPO on given completions: the log of each update. frozen: the tower is not trained."""
    torch.manual_seed(0)
    records = [{"prompt": as_trl(one)["prompt"], "images": pictures_of(one)} for one in questions]
    key = lambda prompt: tuple(part.get("text") or "<image>" for part in prompt[0]["content"])
    numbers = {key(record["prompt"]): str(number) for number, record in enumerate(records)}
    assert len(numbers) == len(records), "two questions are alike"
    replay = policy_peers.replay([{**line, "logprobs": [0.0] * len(line["completion_ids"])} for line in lines])
    arguments = trl.GRPOConfig(**policy_peers.settings(folder, per_device_train_batch_size=POLICY_BATCH, num_generations=GROUP,
                                                       max_completion_length=LONGEST + 1, **more))
    policy = load(model)
    if frozen:
        policy.model.visual.requires_grad_(False)
    trainer = trl.GRPOTrainer(model=policy, processing_class=processor_of(model), args=arguments,
                              train_dataset=data_set(records, pictures), reward_funcs=[policy_peers.reward("first", lines)],
                              rollout_func=lambda prompts, trainer: replay([numbers[key(prompt)] for prompt in prompts], trainer))
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    return [line for line in trainer.state.log_history if "loss" in line]
