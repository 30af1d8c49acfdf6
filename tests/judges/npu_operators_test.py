#!/usr/bin/env python3
"""Operators on npu:0 against the same expressions on the CPU, through torch and the torch_npu wheel alone.

Each pair of expressions runs from the same inputs, one on each device. In the end every operator that the twin's
libopapi lists must have been called: a wrong argument list shows as a wrong value here, and an operator never called
fails too.
"""
import ctypes
import sys

import torch
import torch_npu

from npu_expressions import EXPRESSIONS, NOT_EQUAL_BY_NATURE

# The wheel checks whether they exist, then calls aclnnLogSigmoidForward and aclnnGroupedMatmulV5.
LOOKED_UP_ONLY = {"aclnnLogSigmoid", "aclnnGroupedMatmulV4"}
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
    """Gradients of the sum of squares of what the function returns."""
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


def difference(found, wanted):
    """Why the two differ, or None."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype} {list(found.shape)}; wanted {wanted.dtype} {list(wanted.shape)}"
    limit = LIMITS.get(wanted.dtype, 0)
    if not torch.allclose(found, wanted, rtol=limit, atol=limit, equal_nan=True):
        return f"worst difference {(found.double() - wanted.double()).abs().max():.2e}; at most {limit:.0e}"
    return None


def check(expression, on_cpu):
    try:
        found, wanted = run(expression, "npu:0"), run(on_cpu, "cpu")
    except Exception as error:  # continue: one failure must not hide the others
        return f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"
    if expression in NOT_EQUAL_BY_NATURE:
        return None
    if len(found) != len(wanted):
        return f"{len(found)} results; wanted {len(wanted)}"
    return next(filter(None, map(difference, found, wanted)), None)


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


def main():
    failed = 0
    for expression, on_cpu in EXPRESSIONS:
        problem = check(expression, on_cpu)
        if problem is not None:
            failed += 1
            print(f"FAILED: {expression}: {problem}")
            if "stream synchronize failed" in problem or "Inner error" in problem:
                print("FAILED: an operator's error stays with its stream or queue; the rest of the table was not run")
                break
    count, idle = never_called()
    if idle:
        print(f"FAILED: {len(idle)} of {count} operators were never called: {' '.join(idle)}")
    if not failed and not idle:
        print(f"ok: {len(EXPRESSIONS)} expressions are equal on npu:0 and the CPU; {count} operators called")
    return 1 if failed or idle else 0


if __name__ == "__main__":
    sys.exit(main())
