"""Operators on npu:0 against the same expressions on the CPU, through torch and the torch_npu wheel alone.

Each pair of expressions runs from the same inputs, one on each device. At the end every operator that the twin's
libopapi lists has been called: a wrong argument list shows as a wrong value here, and one that nothing calls shows too.
"""
import ctypes

import pytest
import torch
import torch_npu

from npu_expressions import EXPRESSIONS, NOT_EQUAL_BY_NATURE

# The wheel asks whether they are there, then calls aclnnLogSigmoidForward, aclnnGroupedMatmulV5, aclnnMoeFinalizeRoutingV2,
# aclnnApplyRotaryPosEmbV2 and aclnnDynamicQuantV2. Only later wheels call aclnnSvd.
LOOKED_UP_ONLY = {"aclnnLogSigmoid", "aclnnGroupedMatmulV4", "aclnnMoeFinalizeRouting", "aclnnApplyRotaryPosEmb", "aclnnDynamicQuant",
                  "aclnnSvd"}
LIMITS = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.complex64: 1e-5}


def inputs(device):
    """Names that expressions use. Fresh for every expression, which may write into them."""
    g = torch.Generator().manual_seed(1)
    values = {
        "a": torch.randn(4, 6, generator=g), "b": torch.randn(4, 6, generator=g),  # any sign
        "p": torch.rand(4, 6, generator=g) + 0.1, "q": torch.rand(4, 6, generator=g) + 0.1,  # positive
        "u": torch.rand(4, 6, generator=g) * 1.8 - 0.9,  # inside (-1, 1)
        "row": torch.randn(6, generator=g), "col": torch.randn(4, 1, generator=g), "one": torch.randn((), generator=g),
        "w": torch.randn(6, 5, generator=g), "cube": torch.randn(3, 4, 6, generator=g),
        "cube2": torch.randn(3, 6, 5, generator=g), "big": torch.randn(2, 3, 4, 5, generator=g),
        "i": torch.randint(1, 9, (4, 6), generator=g), "j": torch.randint(1, 9, (4, 6), generator=g),
        "k": torch.randint(-9, 9, (4, 6), generator=g, dtype=torch.int32),
        "rows": torch.tensor([2, 0, 3]), "cols": torch.tensor([5, 1, 1]), "cls": torch.tensor([1, 0, 5, 2]),
        "where": torch.randint(0, 4, (2, 6), generator=g),
        "m": torch.rand(4, 6, generator=g) < 0.5, "n": torch.rand(4, 6, generator=g) < 0.5,
        "h": torch.randn(4, 6, generator=g).half(), "bf": torch.randn(4, 6, generator=g).bfloat16(),
        "odd": torch.tensor([1.0, float("inf"), -float("inf"), float("nan"), -2.5, 0.0]),
    }
    return {name: value.to(device) for name, value in values.items()} | {
        "torch": torch, "torch_npu": torch_npu, "F": torch.nn.functional, "device": device, "gradients": gradients}


def gradients(function, *tensors):
    """Of the sum of squares of what the function returns."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    return torch.autograd.grad((function(*leaves) ** 2).sum(), leaves)


def flatten(value):
    if isinstance(value, torch.Tensor):
        return [value.detach().cpu()]
    if isinstance(value, (tuple, list)):
        return [part for item in value for part in flatten(item)]
    return [torch.tensor(value)]


def run(expression, device):
    names = inputs(device)
    *statements, result = expression.split("; ")
    for statement in statements:
        exec(statement, names)
    return flatten(eval(result, names))


def assert_same(found, wanted):
    assert found.shape == wanted.shape and found.dtype == wanted.dtype, \
        f"{found.dtype} {list(found.shape)}; wanted {wanted.dtype} {list(wanted.shape)}"
    limit = LIMITS.get(wanted.dtype, 0)
    assert torch.allclose(found, wanted, rtol=limit, atol=limit, equal_nan=True), \
        f"worst difference {(found.double() - wanted.double()).abs().max():.2e}, tolerance {limit:.0e}"


@pytest.mark.parametrize("expression, on_cpu", EXPRESSIONS, ids=[expression for expression, _ in EXPRESSIONS])
def test_expression(expression, on_cpu):
    try:
        found, wanted = run(expression, "npu:0"), run(on_cpu, "cpu")
    except Exception as error:
        if "stream synchronize failed" in str(error) or "Inner error" in str(error):
            pytest.exit(f"{expression}: {error}\nan operator's error stays with its stream or queue; the rest was not run", 1)
        raise
    if expression in NOT_EQUAL_BY_NATURE:
        return
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted):
        assert_same(one, other)


# What 2.7.1.post11 computes by other operators than 2.7.1.
REPLACED_LATER = {"aclnnAddV3", "aclnnInplaceBitwiseOrScalar", "aclnnInplaceBitwiseOrTensor", "aclnnInplaceRound",
                  "aclnnInplaceTrunc", "aclnnSplitWithSize"}


def never_called():
    library = ctypes.CDLL("libopapi.so")
    library.twinOperatorName.restype = ctypes.c_char_p
    library.twinOperatorCalls.restype = ctypes.c_uint64
    count, idle = 0, []
    while (name := library.twinOperatorName(ctypes.c_size_t(count))) is not None:
        if library.twinOperatorCalls(ctypes.c_size_t(count)) == 0 and name.decode() not in LOOKED_UP_ONLY:
            idle.append(name.decode())
        count += 1
    return count, idle


def test_every_operator_was_called(record_property):
    """Last: by the expressions above."""
    count, idle = never_called()
    record_property("operators", count)
    if torch_npu.__version__ != "2.7.1":
        idle = [name for name in idle if name not in REPLACED_LATER]
    assert count > 0 and not idle, f"{len(idle)} of {count} operators were never called"
