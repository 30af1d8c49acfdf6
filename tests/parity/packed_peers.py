"""What the parity tests of packed weights share: storages, bitsandbytes' decoded weights in a model, PEFT over them and over its
Linear4bit and Linear8bitLt."""
import functools

import bitsandbytes.functional as bits
import peft
import pytest
import torch
import transformers
from bitsandbytes.nn import Linear4bit

from lora_adapters import ADAPTERS, experts_of, is_gate_up, make_adapted, two_blocks

FP8, FP8_IN_FULL = "fp8", "fp8 in full"  # in STORAGES: products in e4m3, not bitsandbytes' codes; in full: no adapter
NF4 = dict(quant_type="nf4", blocksize=64, compress_statistics=True)
# What the program is told, and bitsandbytes.
STORAGES = {
    "nf4": (["model.quantise=nf4"], NF4),
    "flat nf4": (["model.quantise=nf4", "model.quantise_nested=false"], dict(NF4, compress_statistics=False)),
    "fp4": (["model.quantise=fp4", "model.quantise_block=32"], dict(NF4, quant_type="fp4", blocksize=32)),
    "int8": (["model.quantise=int8"], None),
    "fp8": (["model.fp8=rows"], FP8),
    "fp8 in full": (["model.fp8=rows", "tuning.kind=full"], FP8_IN_FULL),
}


# Rows of whole blocks, for the library's own loops for AVX-512 decode others with scales of their neighbours. By name: family, adapter.
WHOLE_BLOCKS = {"linear4bit": ("llama3", "all-linear"), "linear8bit": ("llama3", "all-linear"), "files": ("phi3", "phi3")}


@pytest.fixture(scope="module")
def whole(folder):
    """By name of the above, made when first asked for."""
    return functools.cache(lambda name: make_adapted(folder / name, WHOLE_BLOCKS[name][0], dict(intermediate_size=128),
                                                     ADAPTERS[WHOLE_BLOCKS[name][1]][2]))


def decoded(matrix, storage):
    """By the rule, not by the library's loops; storage None: LLM.int8's."""
    if storage is None:
        codes, scales, _ = bits.int8_vectorwise_quant(matrix.half())
        return bits.int8_vectorwise_dequant(codes, scales)
    codes, state = bits.quantize_4bit(matrix.contiguous(), **storage)
    scales = bits.dequantize_blockwise(state.absmax, state.state2) + state.offset if state.nested else state.absmax
    pairs = torch.stack([codes.flatten() >> 4, codes.flatten() & 15], 1).flatten()[:matrix.numel()]
    values = bits.get_4bit_type(storage["quant_type"], device="cpu")[pairs.long()]
    return (values * scales.repeat_interleave(storage["blocksize"])[:matrix.numel()]).view_as(matrix)


@torch.no_grad()
def pack_base(model, storage):
    """Every matrix that the program packs becomes what its packed form stands for."""
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and ".layers." in name and not name.endswith("shared_expert_gate"):
            module.weight.copy_(decoded(module.weight, storage))
    for name, stack in model.named_parameters():
        if name.endswith((".experts.gate_up_proj", ".experts.down_proj")):
            for matrix in stack:
                for part in matrix.chunk(2 if "gate_up" in name else 1):
                    part.copy_(decoded(part, storage))


def tuned_over(base, adapter):
    tuned = peft.PeftModel.from_pretrained(base, adapter, is_trainable=True)
    for name, parameter in tuned.named_parameters():
        if is_gate_up(name, parameter, tuned) and "lora_B" in name:
            parameter.register_hook(lambda gradient, mask=two_blocks(parameter, experts_of(tuned)): gradient * mask)
    return tuned


def fp8_rows(matrix):
    """What rows of e4m3 stand for, each under the smallest power of two with which it stays within 448, and those scales."""
    largest = matrix.abs().amax(1, keepdim=True).double().clamp_min(1e-12)
    scales = torch.exp2(torch.ceil(torch.log2(largest / 448))).float()
    return (matrix / scales).to(torch.float8_e4m3fn).float() * scales, scales


class Fp8Product(torch.autograd.Function):
    """x Wᵀ of rounded rows; the gradient of y has W's scales in it when it is rounded for x's, and is as it is for W's."""
    @staticmethod
    def forward(context, x, weight):
        rounded, scales = fp8_rows(weight)
        context.save_for_backward(rounded, scales.T, x)
        return fp8_rows(x)[0] @ rounded.T

    @staticmethod
    def backward(context, gradient):
        rounded, scales, x = context.saved_tensors
        return fp8_rows(gradient * scales)[0] / scales @ rounded, gradient.T @ x if context.needs_input_grad[1] else None


def multiply_in_fp8(model):
    """Every product of the layers but those of routers and experts."""
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and ".layers." in name and not name.endswith("shared_expert_gate"):
            def forward(x, module=module):
                y = Fp8Product.apply(x.flatten(0, -2), module.weight).unflatten(0, x.shape[:-1])
                return y if module.bias is None else y + module.bias
            module.forward = forward


def load_packed(one, storage):
    base = transformers.AutoModelForCausalLM.from_pretrained(one.model, dtype=torch.float32)
    if storage == FP8:
        multiply_in_fp8(base)
        return tuned_over(base, one.fused)
    if storage == FP8_IN_FULL:
        multiply_in_fp8(base)
        return base
    pack_base(base, storage)
    return tuned_over(base, one.fused)


def load_linear8bit(model, packs=True):
    """In training mode: so bitsandbytes decodes and multiplies on a CPU, instead of rounding the inputs to 8 bits, too."""
    how = dict(quantization_config=transformers.BitsAndBytesConfig(load_in_8bit=True)) if packs else {}
    return transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, device_map="cpu", **how).train()


def load_linear4bit(model, packs=True):
    """packs: transformers does; otherwise the directory's weights are packed."""
    how = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                                          bnb_4bit_compute_dtype=torch.float32)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, device_map="cpu",
                                                               **(dict(quantization_config=how) if packs else {}))
    for module in loaded.modules():
        if isinstance(module, Linear4bit):
            module.support_avx512bf16_for_cpu = False  # without gradients it would round to bf16, and wants whole blocks in rows
    return loaded
