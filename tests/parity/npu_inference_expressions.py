"""Operators of inference: attention over a prompt and over a cache, logits to sample from, quantised matmuls. Each is
paired with its meaning on the CPU, for npu_operators_test (see npu_expressions)."""

# Two query heads per key head, heads of 16: the prompt's own 5 tokens, the rows' lengths 3 and 5. `to` is the dim order.
PROMPT = ("x = torch.linspace(-2, 2, 2 * 4 * 5 * 16, device=device).sin().view(2, 4, 5, 16).bfloat16(); "
          "k = torch.linspace(-3, 2, 2 * 2 * 5 * 16, device=device).cos().view(2, 2, 5, 16).bfloat16(); "
          "ahead = torch.arange(5, device=device) - torch.arange(5, device=device).unsqueeze(1); "
          "odd = (torch.arange(10, device=device).view(2, 1, 1, 5) % 3 == 1) & (ahead != 0); ")
LARGE = "torch.ones(2048, 2048, device=device, dtype=torch.bool).triu(1)"
ORDERS = {"BNSD": "t", "BSND": "t.transpose(1, 2).contiguous()", "BSH": "t.transpose(1, 2).flatten(2).contiguous()"}


def seen_by_cpu(seen, order, queries="x"):
    return (f"to = lambda t: {order}; to(F.scaled_dot_product_attention(*(t.float() for t in ({queries}, k.repeat_interleave(2, 1), "
            f"(k * 2).repeat_interleave(2, 1))), attn_mask={seen}, scale=0.4).bfloat16())")


def prompt(more, seen, layout="BNSD", out=None):
    order = ORDERS[layout]
    npu = (f"{PROMPT}to = lambda t: {order}; torch_npu.npu_prompt_flash_attention(to(x), to(k), to(k * 2), num_heads=4, "
           f"num_key_value_heads=2, input_layout='{out or layout}', scale_value=0.4{more})")
    return npu, PROMPT + seen_by_cpu(seen, ORDERS[(out or layout)[-4:]])


ATTENTION = [prompt("", "None", layout) for layout in ORDERS] + [
    prompt("", "None", "BNSD", "BNSD_BSND"),
    prompt(f", atten_mask={LARGE}, sparse_mode=2", "ahead <= 0"), prompt(f", atten_mask={LARGE}, sparse_mode=3", "ahead <= 0", "BSH"),
    prompt(f", atten_mask={LARGE}, sparse_mode=4, pre_tokens=2, next_tokens=1", "(ahead <= 1) & (ahead >= -2)"),
    prompt(", atten_mask=odd, sparse_mode=1", "~odd"), prompt(", atten_mask=odd[:, 0], sparse_mode=1", "~odd"),
    prompt(", atten_mask=odd[1, 0], sparse_mode=1", "~odd[1]"), prompt(", atten_mask=odd[:1], sparse_mode=1", "~odd[:1]"),
    prompt(", atten_mask=odd, next_tokens=1, pre_tokens=2", "~odd & (ahead <= 1) & (ahead >= -2)")]
# rows of 3 and 5 tokens: what is past a row's end is not seen, and zero
ATTENTION += [(PROMPT + f"torch_npu.npu_prompt_flash_attention(x, k, k * 2, num_heads=4, num_key_value_heads=2, input_layout='BNSD', "
               f"scale_value=0.4, actual_seq_lengths=[3, 5], actual_seq_lengths_kv=[3, 5], atten_mask={LARGE}, sparse_mode=3)",
               PROMPT + seen_by_cpu("ahead <= 0", "t") + " * torch.cat([torch.arange(5).view(1, 1, 5, 1) < n for n in (3, 5)])")]
# one new token over 3 and 5 cached ones
ONE = "x[:, :, :1]"
LENGTHS = "torch.arange(5).view(1, 1, 1, 5) < torch.tensor([3, 5]).view(2, 1, 1, 1)"
ATTENTION += [(f"{PROMPT}to = lambda t: {order}; torch_npu.npu_incre_flash_attention(to({ONE}.contiguous()), to(k), to(k * 2), num_heads=4, "
               f"num_key_value_heads=2, input_layout='{layout}', scale_value=0.4{more})", PROMPT + seen_by_cpu(seen, order, ONE))
              for layout, order in ORDERS.items() for more, seen in [
                  ("", "None"), (", actual_seq_lengths=[3, 5]", LENGTHS), (", atten_mask=odd[:, 0, 1]", "~odd[:, :, 1:2]")]]
# over blocks of 16 tokens by a table
BLOCKS = ("x = torch.linspace(-1, 1, 2 * 4 * 16, device=device).view(2, 4, 1, 16).bfloat16(); "
          "c = torch.linspace(-2, 3, 6 * 16 * 32, device=device).sin().view(6, 16, 32).bfloat16(); "
          "t = torch.tensor([[5, 2, 0], [1, 0, 3]], dtype=torch.int32, device=device); ")
ATTENTION += [(BLOCKS + "torch_npu.npu_incre_flash_attention(x.transpose(1, 2).flatten(2), c, c * 2, num_heads=4, num_key_value_heads=2, "
               "input_layout='BSH', scale_value=0.4, actual_seq_lengths=[20, 35], block_table=t, block_size=16)",
               BLOCKS + "torch.cat([F.scaled_dot_product_attention(*(s.float() for s in (x[r:r + 1], *(k[t[r].long()].flatten(0, 1)"
               ".unflatten(1, (2, 16)).transpose(0, 1)[None, :, :n].repeat_interleave(2, 1) for k in (c, c * 2)))), scale=0.4).bfloat16() "
               "for r, n in ((0, 20), (1, 35))]).transpose(1, 2).flatten(2)")]
# the fused form takes a mask of its own, also for one token
ATTENTION += [(PROMPT + f"torch_npu.npu_fused_infer_attention_score({query}.contiguous(), k, k * 2, num_heads=4, num_key_value_heads=2, "
               f"input_layout='BNSD', scale=0.4, atten_mask={mask})[0]", PROMPT + seen_by_cpu(f"~{mask}", "t", query))
              for query, mask in [("x", "odd"), (ONE, "odd[:, :, 1:2]")]]

LOGITS = ("l = torch.stack([row, row.flip(0), row * 2, row * 0.1]); top = torch.tensor([1, 3, 6, 2], device=device); "
          "mass = torch.tensor([0.5, 0.9, 0.6, 1.0], device=device); ")
BY_COUNT = "s, i = l.sort(dim=1, stable=True); s = s.masked_fill(s < s.gather(1, 6 - top[:, None]), -torch.inf); "
BY_MASS = "h = s.softmax(1).cumsum(1) <= 1 - mass[:, None]; h[:, -1] = False; s = s.masked_fill(h, -torch.inf); "
SAMPLING = [(LOGITS + f"torch_npu.npu_top_k_top_p(l, {p}, {k})", LOGITS + how + "torch.zeros_like(l).scatter(1, i, s)") for p, k, how in [
    ("mass", "top.int()", BY_COUNT + BY_MASS), ("None", "top.int()", BY_COUNT), ("mass", "None", "s, i = l.sort(dim=1, stable=True); " + BY_MASS)]]

# int8 operands, scales that 19 bits hold
BYTES = ("x = (a * 40).round().clamp(-128, 127).char(); y = (w * 40).round().clamp(-128, 127).char(); "
         "s = torch.tensor([0.5, 0.25, 0.125, 2, 0.0625], device=device); b = torch.tensor([3, -4, 500, 0, 9], dtype=torch.int32, device=device); ")
SUMS = "z = x.int() @ y.int(); "
MATMULS = [(BYTES + "torch_npu.npu_quant_matmul(x, y, " + npu + ")", BYTES + SUMS + cpu) for npu, cpu in [
    ("s, output_dtype=torch.float16", "(z * s).half()"),
    ("s.bfloat16(), output_dtype=torch.bfloat16", "(z * s).bfloat16()"),
    ("s, bias=b, output_dtype=torch.float16", "((z + b) * s).half()"),
    ("s, pertoken_scale=p[:, 0].contiguous(), output_dtype=torch.float16", "(z * s * p[:, :1]).half()"),
    ("s, pertoken_scale=p[:, 0].contiguous(), bias=row[:5].contiguous(), output_dtype=torch.bfloat16",
     "(z * s * p[:, :1] + row[:5]).bfloat16()"),
    ("s / 64, offset=row[:5].contiguous() * 20", "(z * s / 64 + (row[:5] * 20).round()).round().clamp(-128, 127).char()"),
    ("torch_npu.npu_trans_quant_param(s / 64)", "(z * s / 64).round().clamp(-128, 127).char()"),
    ("torch_npu.npu_trans_quant_param(s / 64, row[:5].contiguous() * 20)",
     "(z * s / 64 + (row[:5] * 20).round()).round().clamp(-128, 127).char()")]]
CUT = "(row.view(torch.int32){} & -8192).long() & 0xFFFFFFFF | 1 << 46"  # 19 of 32 bits, and a bit that says so
MATMULS += [
    ("torch_npu.npu_trans_quant_param(row)", CUT.format("")),
    ("torch_npu.npu_trans_quant_param(row, None, 1)", CUT.format(" + 4095 + (row.view(torch.int32) >> 13 & 1)")),
    ("torch_npu.npu_trans_quant_param(row, row * 200)",
     f"({CUT.format('')}) | ((row * 200).round().clamp(-256, 255).long() & 511) << 37"),
]
# weights of int8 or int4 beside activations of 16 bits
HALVES = BYTES + "h = a.half(); s = s.half(); o = torch.tensor([1, -2, 3, 0, 8], device=device).half(); "
WIDE = "h.float() @ ((y.float() + {}) * {})"
MATMULS += [(HALVES + "torch_npu.npu_weight_quant_batchmatmul(h, y, " + npu + ")", HALVES + cpu) for npu, cpu in [
    ("s", f"({WIDE.format('0', 's.float()')}).half()"),
    ("s, o, bias=row[:5].half()", f"({WIDE.format('o.float()', 's.float()')} + row[:5].half().float()).half()"),
    ("s[:1], o[:1]", f"({WIDE.format('o[:1].float()', 's[:1].float()')}).half()"),
    ("s, inner_precise=1", f"({WIDE.format('0', 's.float()')}).half()"),
    ("s, None, s.float() / 64, None", f"({WIDE.format('0', 's.float()')} * s.float() / 64).round().clamp(-128, 127).char()")]]
GROUPED = ("h = torch.linspace(-1, 1, 4 * 96, device=device).view(4, 96).bfloat16(); y = (torch.arange(96 * 16) * 7 % 16 - 8).view(96, 16); "
           "s = torch.linspace(0.5, 1, 48, device=device).view(3, 16).bfloat16(); o = (s * 8).round(); "
           "four = ((y & 15).view(96, 2, 8) << torch.arange(0, 32, 4)).sum(2).int().to(device); "
           "across = ((y.t() & 15).reshape(16, 12, 8) << torch.arange(0, 32, 4)).sum(2).int().to(device).t(); y = y.to(device); ")
SPREAD = "(h.float() @ ((y.float() + o.float().repeat_interleave(32, 0)) * s.float().repeat_interleave(32, 0))).bfloat16()"
MATMULS += [(GROUPED + f"torch_npu.npu_weight_quant_batchmatmul(h, {y}, s, o, antiquant_group_size=32)", GROUPED + SPREAD)
            for y in ("y.char()", "four", "across")]

TOKENS = "t = torch.linspace(-3, 2, 4 * 16, device=device).sin().view(4, 16).half(); m = torch.linspace(0.5, 2, 16, device=device).half(); "
SYMMETRIC = "s = t.abs().amax(1, keepdim=True) / 127; (t / s).round().char(), s[:, 0]"
TOKEN_PAIRS = [
    ("torch_npu.npu_dynamic_quant(t)", f"t = t.float(); {SYMMETRIC}"),
    ("torch_npu.npu_dynamic_quant(t, smooth_scales=m)", f"t = t.float() * m.float(); {SYMMETRIC}"),
    ("torch_npu.npu_dynamic_quant(t, smooth_scales=torch.stack([m, m * 2]), group_index=torch.tensor([1, 4], dtype=torch.int32, device=device))",
     f"t = t.float() * m.float() * torch.tensor([[1], [2], [2], [2]]); {SYMMETRIC}"),
    ("torch_npu.npu_dynamic_quant_asymmetric(t)",
     "t = t.float(); s = (t.amax(1, keepdim=True) - t.amin(1, keepdim=True)) / 255; o = 127 - t.amax(1, keepdim=True) / s; "
     "(t / s + o).round().clamp(-128, 127).char(), s[:, 0], o[:, 0]")]
TOKEN_PAIRS = [(TOKENS + npu, TOKENS + cpu) for npu, cpu in TOKEN_PAIRS]

INFERENCE = ATTENTION + SAMPLING + MATMULS + TOKEN_PAIRS
