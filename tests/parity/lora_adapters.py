"""Adapters of tiny models as PEFT makes them, of every family and in both of its namings of experts, with the gradients
that PEFT gets: what lora_test.py compares the program with. Asserts nothing itself."""
import collections
import json

import peft
import torch
import transformers
from safetensors.torch import save_file

import tiny_models
from gradients import Reference

ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
LATENT = ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]
LINEAR = [*ATTENTION, "gate_proj", "up_proj", "down_proj"]
EXPERTS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
# Gate and up in one tensor: twice the rank keeps an adapter for each.
TWICE = dict(rank_pattern={r".*\.gate_up_proj": 6}, alpha_pattern={r".*\.gate_up_proj": 10})
# name, family, changes of the model, what PEFT is told
ADAPTERS = {
    "all-linear": ("llama3", {}, dict(r=4, lora_alpha=8, target_modules=LINEAR,
                                      modules_to_save=["lm_head", "input_layernorm"])),
    # Rows have the padding token, whose embedding then gets a gradient from the tied head alone.
    "rslora": ("qwen2", dict(pad_token_id=tiny_models.PADDING), dict(r=6, lora_alpha=5, target_modules=["q_proj", "v_proj", "down_proj"], use_rslora=True,
                                   modules_to_save=["embed_tokens"], ensure_weight_tying=True)),
    "patterns": ("qwen3", {}, dict(r=4, lora_alpha=8, target_modules=LINEAR,
                                   rank_pattern={"q_proj": 2, "layers.1.mlp.up_proj": 7},
                                   alpha_pattern={"q_proj": 3, "layers.1.mlp.up_proj": 20})),
    "dora": ("qwen2", {}, dict(r=4, lora_alpha=8, target_modules=[word for word in LINEAR if word != "k_proj"], use_dora=True)),
    "dora of latents": ("deepseek_v3", {}, dict(r=3, lora_alpha=5, target_modules=LATENT, use_dora=True)),
    "dora of one qkv": ("phi3", {}, dict(r=3, lora_alpha=5, target_modules=["qkv_proj", "o_proj"], use_dora=True)),
    "phi3": ("phi3", {}, dict(r=3, lora_alpha=5, target_modules=["qkv_proj", "o_proj", "gate_up_proj", "down_proj"])),
    "mistral": ("mistral", {}, dict(r=3, lora_alpha=5, target_modules=LINEAR)),
    "granite": ("granite", {}, dict(r=3, lora_alpha=5, target_modules=LINEAR)),
    "olmo2": ("olmo2", {}, dict(r=3, lora_alpha=5, target_modules=LINEAR, modules_to_save=["post_attention_layernorm"])),
    "glm4": ("glm4", {}, dict(r=3, lora_alpha=5, target_modules=[*ATTENTION, "gate_up_proj", "down_proj"])),
    "ernie4_5": ("ernie4_5", {}, dict(r=3, lora_alpha=5, target_modules=LINEAR)),
    "gemma2": ("gemma2", {}, dict(r=3, lora_alpha=5, target_modules=LINEAR)),
    "gemma3": ("gemma3", {}, dict(r=3, lora_alpha=5, target_modules=LINEAR)),
    "hunyuan": ("hunyuan", {}, dict(r=3, lora_alpha=5, target_modules=LINEAR)),
    "internlm2": ("internlm2", {}, dict(r=3, lora_alpha=5, target_modules=["wqkv", "wo", "w1", "w2", "w3"],
                                        modules_to_save=["tok_embeddings", "output"])),
    "baichuan": ("baichuan", {}, dict(r=3, lora_alpha=5, target_modules=["W_pack", "o_proj", "gate_proj"],
                                      modules_to_save=["lm_head"])),
    "minicpm3": ("minicpm3", {}, dict(r=3, lora_alpha=5, target_modules=[*LATENT, "down_proj"])),
    "olmo3": ("olmo3", {}, dict(r=3, lora_alpha=5, target_modules=LINEAR)),
    "glm4_moe": ("glm4_moe", {}, dict(r=3, lora_alpha=5, target_modules=ATTENTION, target_parameters=EXPERTS, **TWICE)),
    "ernie4_5_moe": ("ernie4_5_moe", {}, dict(
        r=3, lora_alpha=5, target_modules=ATTENTION, target_parameters=EXPERTS, **TWICE)),
    "minimax_m2": ("minimax_m2", {}, dict(
        r=3, lora_alpha=5, target_modules=ATTENTION, target_parameters=EXPERTS, **TWICE)),
    "gpt_oss": ("gpt_oss", {}, dict(r=3, lora_alpha=5, target_modules=ATTENTION, modules_to_save=["post_attention_layernorm"])),
    "hunyuan_moe": ("hunyuan_moe", {}, dict(
        r=3, lora_alpha=5, target_modules=ATTENTION, target_parameters=EXPERTS, **TWICE)),
    "qwen3_moe": ("qwen3_moe", dict(mlp_only_layers=[]), dict(
        r=3, lora_alpha=5, target_modules=ATTENTION, target_parameters=[*EXPERTS, "gate.weight"], **TWICE)),
    "deepseek_v3": ("deepseek_v3", {}, dict(
        r=3, lora_alpha=5, target_modules=LATENT, target_parameters=EXPERTS, **TWICE)),
    "qwen2_moe": ("qwen2_moe", {}, dict(
        r=3, lora_alpha=5, target_parameters=EXPERTS, **TWICE,
        target_modules=[*ATTENTION, *(f"shared_expert.{word}" for word in LINEAR[4:]), "shared_expert_gate"])),
    "qwen3_next": ("qwen3_next", dict(mlp_only_layers=[]), dict(
        r=3, lora_alpha=5, target_parameters=EXPERTS, **TWICE,
        target_modules=[*ATTENTION, "in_proj_qkvz", "in_proj_ba", "out_proj"])),
    # Small adapters: large ones make decays whose gradients fp32 rounds by 5e-5, here and in transformers, one up, one down.
    "qwen3_5": ("qwen3_5", {}, dict(r=3, lora_alpha=1, target_modules=[
        *LINEAR, "in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj"])),
    "mixtral": ("mixtral", {}, dict(r=3, lora_alpha=5, target_modules=ATTENTION, target_parameters=EXPERTS, **TWICE)),
}
ROWS = tiny_models.with_padding(tiny_models.make_rows())


def make_model(folder, family, changes):
    return tiny_models.write_model(tiny_models.config_of(family, **{"num_hidden_layers": 3, **changes}), folder)


def randomise(tuned, seed=3):
    """A and B that matter both; B of gate and up as two blocks, for the program keeps an adapter for each."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in tuned.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter) * 0.2)
            if is_gate_up(name, parameter, tuned) and "lora_B" in name:
                parameter.mul_(two_blocks(parameter, experts_of(tuned)))


def experts_of(tuned):
    config = tuned.config
    return next(getattr(config, key) for key in ("num_local_experts", "num_experts", "n_routed_experts")
                if hasattr(config, key))


def is_gate_up(name, tensor, tuned):
    """Whether it is of the experts' fused gate and up; the other one's A reads, its B makes another size."""
    if ".experts." not in name:
        return False
    hidden = tuned.config.hidden_size
    return tensor.shape[1] == hidden if "lora_A" in name else tensor.shape[0] != hidden


def two_blocks(b, experts):
    """1 where a half of the outputs meets its half of the ranks; B is [out, rank, experts]."""
    mask = torch.zeros(b.shape[0], b.shape[1] // experts, experts)
    rows, ranks = mask.shape[0] // 2, mask.shape[1] // 2
    mask[:rows, :ranks] = mask[rows:, ranks:] = 1
    return mask.reshape(b.shape)


def in_adapter(name, tensor, tuned):
    """A tensor of PEFT's as the program names it: experts one by one."""
    for word in (".default", ".modules_to_save"):
        name = name.replace(word, "")
    kind = tuned.config.model_type
    block, words = tiny_models.EXPERT_NAMES.get(kind, ("mlp", dict(gate="gate_proj", up="up_proj", down="down_proj")))
    name = tiny_models.published_name(name, kind).replace(".mlp.", f".{block}.").replace("lora_magnitude_vector.weight", "lora_magnitude_vector")
    if ".experts." not in name:
        return {name: tensor}
    stem, matrix = name.split(".experts.")[0] + ".experts", "lora_A" if "lora_A" in name else "lora_B"
    experts, gate_up = experts_of(tuned), is_gate_up(name, tensor, tuned)
    found = {}
    for expert in range(experts):
        own = (tensor.reshape(experts, -1, tensor.shape[1])[expert] if matrix == "lora_A"
               else tensor.reshape(tensor.shape[0], -1, experts)[:, :, expert])
        parts = {"down": own}
        if gate_up:
            halves = own.chunk(2)
            parts = dict(zip(("gate", "up"), halves if matrix == "lora_A" else
                             (half.chunk(2, dim=1)[index] for index, half in enumerate(halves))))
        for part, value in parts.items():
            found[f"{stem}.{expert}.{words[part]}.{matrix}.weight"] = value.contiguous()
    return found


def gradients(tuned):
    found = {}
    for name, parameter in tuned.named_parameters():
        if parameter.requires_grad:
            found |= in_adapter(name, parameter.grad, tuned)
    return found


def write_one_by_one(tuned, settings, folder):
    """The adapter with each expert's matrices by themselves, as PEFT wrote it before transformers 5."""
    folder.mkdir()
    tensors = {}
    for name, parameter in tuned.named_parameters():
        if parameter.requires_grad:
            tensors |= in_adapter(name, parameter.detach(), tuned)
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    words = sorted({name.split(".lora_")[0].rsplit(".", 1)[1] for name in tensors if ".lora_" in name})
    config = dict(peft_type="LORA", task_type="CAUSAL_LM", target_modules=words, r=settings["r"],
                  lora_alpha=settings["lora_alpha"], lora_dropout=0.0, bias="none")
    (folder / "adapter_config.json").write_text(json.dumps(config))


Adapted = collections.namedtuple("Adapted", "model adapter fused reference")


def make_adapted(folder, family, changes, settings):
    folder.mkdir()
    model = make_model(folder / "model", family, changes)
    tuned = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **settings))
    randomise(tuned)
    tuned.save_pretrained(folder / "fused")
    one_by_one = "target_parameters" in settings or family in tiny_models.OTHER_NAMES
    if one_by_one:
        write_one_by_one(tuned, settings, folder / "one-by-one")
    loss, tokens = tiny_models.backward(tuned, ROWS)
    wanted = gradients(tuned)
    reference = Reference(None, None, loss, tokens, tiny_models.norm_of(wanted.values()), wanted)
    return Adapted(folder / "model", folder / ("one-by-one" if one_by_one else "fused"), folder / "fused", reference)


def load_tuned(adapted, trainable=True):
    base = transformers.AutoModelForCausalLM.from_pretrained(adapted.model, dtype=torch.float32)
    tuned = peft.PeftModel.from_pretrained(base, adapted.adapter, is_trainable=trainable)
    for name, parameter in tuned.named_parameters():
        if is_gate_up(name, parameter, tuned) and "lora_B" in name and trainable:
            mask = two_blocks(parameter, experts_of(tuned))
            parameter.register_hook(lambda gradient, mask=mask: gradient * mask)
    return tuned


def load_frozen(adapted):
    model = transformers.AutoModelForCausalLM.from_pretrained(adapted.model, dtype=torch.float32)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name == "lm_head.weight" or "layers.1." in name or "layers.2." in name
    return model
