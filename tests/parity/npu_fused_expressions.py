"""Operators that only the NPU has, each paired with its meaning on the CPU, for npu_operators_test (see
npu_expressions)."""

# x and the operation on it, on the NPU and on the CPU
ON_X = [
    ("a", "torch_npu.npu_rms_norm(x, row, 1e-5)[0]", "F.rms_norm(x, (6,), row, 1e-5)"),
    ("a", "torch_npu.npu_rms_norm(x, row, 1e-5)[1]", "torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5)"),
    ("cube", "gradients(lambda t, g: torch_npu.npu_rms_norm(t, g, 1e-5)[0], x, row)",
     "gradients(lambda t, g: F.rms_norm(t, (6,), g, 1e-5), x, row)"),
    ("a + b", "torch_npu.npu_add_rms_norm(a, b, row, 1e-5)[::2]", "F.rms_norm(x, (6,), row, 1e-5), x"),
    ("a", "torch_npu.npu_swiglu(x)", "F.silu(x[:, :3]) * x[:, 3:]"),
    ("cube", "gradients(lambda t: torch_npu.npu_swiglu(t, 1), x)",
     "gradients(lambda t: F.silu(t[:, :2]) * t[:, 2:], x)"),
    ("a", "torch_npu.npu_gelu(x, approximate='tanh')", "F.gelu(x, approximate='tanh')"),
    ("a", "gradients(lambda t: torch_npu.npu_gelu(t, approximate='tanh'), x)",
     "gradients(lambda t: F.gelu(t, approximate='tanh'), x)"),
]

ANGLES = "x = big[..., :4]; c = row[:4].view(1, 1, 1, 4); s = row[2:].view(1, 1, 1, 4); "
HALF = "lambda t, c, s: t * c + torch.cat([-t[..., 2:], t[..., :2]], -1) * s"
ROTARY = [
    (ANGLES + "torch_npu.npu_rotary_mul(x, c, s)", f"{ANGLES}({HALF})(x, c, s)"),
    (ANGLES + "torch_npu.npu_rotary_mul(x, c, s, 'interleave')",
     ANGLES + "x * c + torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2) * s"),
    (ANGLES + "gradients(lambda t, c, s: torch_npu.npu_rotary_mul(t, c, s), x, c, s)",
     f"{ANGLES}gradients({HALF}, x, c, s)"),
]

# Attention: two functions of q, k and v, compared in value and gradients.
CAUSAL = "torch.ones(4, 4, device=device, dtype=torch.bool).triu(1)"
LARGE = "torch.ones(2048, 2048, device=device, dtype=torch.bool).triu(1)"  # the one mask of modes 2 to 4


def attention(setting, npu, cpu, shapes):
    """`setting` may define layout (to the NPU's dim order) and anything else the two use; both scale by 0.4."""
    npu = (f"{setting}f = lambda q, k, v: torch_npu.npu_fusion_attention(layout(q), layout(k), layout(v), {npu}, "
           "scale=0.4)[0]; ")
    cpu = f"{setting}f = lambda q, k, v: {cpu}; "
    return [(npu + call, cpu + call) for call in (f"f({shapes})", f"gradients(f, {shapes})")]


PLAIN = "layout = lambda t: t; "
EQUAL_HEADS = [pair for npu, cpu in [
    ("", ""), (f", atten_mask={CAUSAL}", "is_causal=True, "),
    (f", atten_mask={CAUSAL}, sparse_mode=2, next_tockens=0", "is_causal=True, "),
    (f", atten_mask={CAUSAL}, sparse_mode=3, next_tockens=0", "is_causal=True, ")]
    for pair in attention(PLAIN, "3, 'BNSD'" + npu, f"F.scaled_dot_product_attention(q, k, v, {cpu}scale=0.4)",
                          "big, big * 2, big + 1")]
# one key head for three query heads, in each dim order
SHARED = "layout(F.scaled_dot_product_attention(q, k.repeat_interleave(3, 1), v.repeat_interleave(3, 1), scale=0.4))"
LAYOUTS = [pair for name, order in [
    ("BNSD", "t"), ("BSND", "t.transpose(1, 2)"), ("BSH", "t.transpose(1, 2).flatten(2)"),
    ("SBH", "t.permute(2, 0, 1, 3).flatten(2)")]
    for pair in attention(f"layout = lambda t: {order}; ", f"3, '{name}'", SHARED, "big, big[:, :1], big[:, 1:2]")]
# fewer queries than keys, aligned at the end: how far a key is ahead of a query
AHEAD = PLAIN + "ahead = torch.arange(4, device=device) - torch.arange(1, 4, device=device).unsqueeze(1); "
BANDS = [pair for npu, seen in [
    ("sparse_mode=3, next_tockens=0", "ahead <= 0"),
    ("sparse_mode=4, pre_tockens=2, next_tockens=1", "(ahead <= 1) & (ahead >= -2)")]
    for pair in attention(AHEAD, f"3, 'BNSD', atten_mask={CAUSAL}, {npu}",
                          f"F.scaled_dot_product_attention(q, k, v, {seen}, scale=0.4)", "big[:, :, 1:], big, big")]
# packed sequences of 1 and 3 tokens, [tokens, heads, width], one key head for two query heads
PACKED = PLAIN + ("x = big.permute(2, 0, 1, 3).flatten(1, 2); sequences = (slice(0, 1), slice(1, 4)); "
                  "turn = lambda t, n: t.repeat_interleave(n, 1).transpose(0, 1); ")
PACKED_PAIRS = [pair for npu, cpu in [
    ("", ""), (f", atten_mask={CAUSAL}[:3, :3]", "is_causal=True, "),
    (f", atten_mask={LARGE}, sparse_mode=3, next_tockens=0", "is_causal=True, ")]
    for pair in attention(PACKED, "6, 'TND', actual_seq_qlen=[1, 4], actual_seq_kvlen=[1, 4]" + npu,
                          "torch.cat([F.scaled_dot_product_attention(turn(q[s], 1), turn(k[s], 2), turn(v[s], 2), "
                          f"{cpu}scale=0.4).transpose(0, 1) for s in sequences])", "x, x[:, :3], x[:, 3:]")]

# a position shift, added before scaling: for each row, for all rows, for all queries of a row; with a causal mask, too
SHIFTS = [pair for shift in ("big[..., :4]", "big[:1, ..., 1:]", "big[..., :1, :4]")
          for npu, cpu in [("", ""), (f", atten_mask={CAUSAL}", f".masked_fill({CAUSAL}, -torch.inf)")]
          for pair in attention(f"{PLAIN}s = {shift}; ", "3, 'BNSD', pse=s" + npu,
                                f"F.scaled_dot_product_attention(q, k, v, (s * 0.4).expand(2, 3, 4, 4){cpu}, scale=0.4)",
                                "big / 2, big, big / 2 + 1")]
SHIFTS += [(f"s = {shift}; gradients(lambda s: torch_npu.npu_fusion_attention(big, big, big + 1, 3, 'BNSD', pse=s, scale=0.4)[0], s)",
            f"s = {shift}; gradients(lambda s: F.scaled_dot_product_attention(big, big, big + 1, s * 0.4, scale=0.4), s)")
           for shift in ("big[..., :4]", "big[:1, ..., 1:]", "big[..., :1, :4]")]
# keys that every query sees, 2 of the first row's and 3 of the second's, beside the causal ones
PREFIX = AHEAD + "seen = torch.stack([(ahead <= 0) | (torch.arange(4, device=device) < n) for n in (2, 3)]).unsqueeze(1); "
TALL = ("torch.cat([torch.ones(2048, 2048, device=device).triu(1), torch.ones(1024, 2048, device=device).triu(-1023) "
        "* (torch.arange(2048, device=device) >= 1024)]).bool()")  # the one mask of mode 6
PREFIXES = [pair for npu in ("atten_mask=~seen, sparse_mode=5", f"atten_mask={TALL}, sparse_mode=6")
            for pair in attention(PREFIX, f"3, 'BNSD', {npu}, prefix=[2, 3]",
                                  "F.scaled_dot_product_attention(q, k, v, seen, scale=0.4)", "big[:, :, 1:], big, big + 1")]
PREFIXES += attention(PACKED, f"6, 'TND', actual_seq_qlen=[1, 4], actual_seq_kvlen=[1, 4], atten_mask={TALL}, sparse_mode=6, prefix=[0, 2]",
                      "torch.cat([F.scaled_dot_product_attention(turn(q[s], 1), turn(k[s], 2), turn(v[s], 2), m, scale=0.4).transpose(0, 1) "
                      "for s, m in zip(sequences, (torch.ones(1, 1).bool(), torch.tensor([[1, 1, 0], [1, 1, 0], [1, 1, 1]]).bool()))])",
                      "x, x[:, :3], x[:, 3:]")

# values of another size than the keys, as in latent attention: shorter and longer, in each dim order
OTHER_SIZES = [pair for name, order in [
    ("BNSD", "t"), ("BSND", "t.transpose(1, 2)"), ("BSH", "t.transpose(1, 2).flatten(2)"),
    ("SBH", "t.permute(2, 0, 1, 3).flatten(2)")] for shapes in ("big, big * 2, big[..., :3]", "big[..., :3], big[..., 2:], big")
    for pair in attention(f"layout = lambda t: {order}; ", f"3, '{name}'",
                          "layout(F.scaled_dot_product_attention(q, k, v, scale=0.4))", shapes)]
OTHER_SIZES += attention(PACKED, f"6, 'TND', actual_seq_qlen=[1, 4], actual_seq_kvlen=[1, 4], atten_mask={LARGE}, "
                         "sparse_mode=3, next_tockens=0",
                         "torch.cat([F.scaled_dot_product_attention(turn(q[s], 1), turn(k[s], 2), turn(v[s], 2), "
                         "is_causal=True, scale=0.4).transpose(0, 1) for s in sequences])", "x, x[:, :3], x[:, 3:, :2]")

# a block of a longer sequence, with the statistics of the whole: what the block adds to the gradients
BLOCK = ("x = big.permute(2, 0, 1, 3).flatten(1, 2); whole = torch.cat([x, x * 2]); g = x + 1; "
         "scores = torch.einsum('qnd,knd->nqk', x, whole) * 0.4; p = scores.softmax(-1)[..., :4]; "
         "out = torch.einsum('nqk,knd->qnd', scores.softmax(-1), whole); ")
BLOCKS = [(BLOCK + "m = scores.logsumexp(-1)[..., None].expand(6, 4, 8).contiguous().view(4, 6, 8); "
           "torch.ops.npu.npu_fusion_attention_grad(x, x, x, g, 6, 'TND', softmax_max=m, softmax_sum=torch.ones_like(m), "
           "attention_in=out, scale_value=0.4, actual_seq_qlen=[4], actual_seq_kvlen=[4])[:3]",
           BLOCK + "d = (torch.einsum('qnd,knd->nqk', g, x) - (g * out).sum(-1).T[..., None]) * p * 0.4; "
           "torch.einsum('nqk,knd->qnd', d, x), torch.einsum('nqk,qnd->knd', d, x), torch.einsum('nqk,qnd->knd', p, g)")]

# generation: rows with 2 and 3 keys, two query heads per key head, one new token or the last two
CACHED = ("x = torch.linspace(-1, 1, 2 * 4 * 2 * 16, device=device).view(2, 4, 2, 16).bfloat16(); "
          "c = torch.linspace(-2, 3, 2 * 2 * 5 * 16, device=device).view(2, 2, 5, 16).bfloat16(); ")
GENERATION = [(CACHED + f"torch_npu.npu_fused_infer_attention_score({query}.contiguous(), c, c * 2, num_heads=4, "
               f"num_key_value_heads=2, input_layout='BNSD', scale=0.4, actual_seq_lengths_kv=[2, 3]{more})[0]",
               CACHED + "torch.cat([F.scaled_dot_product_attention(*(t.float() for t in (q, "
               "c[r:r + 1, :, :n].repeat_interleave(2, 1), (c * 2)[r:r + 1, :, :n].repeat_interleave(2, 1))), "
               f"attn_mask=torch.ones({new}, n, dtype=torch.bool).tril(n - {new}), scale=0.4).bfloat16() "
               f"for r, n in ((0, 2), (1, 3)) for q in [{query}[r:r + 1]]])")
              for query, new, more in [("x[:, :, :1]", 1, ""),
                                       ("x", 2, f", actual_seq_lengths=[2, 2], atten_mask={LARGE}, sparse_mode=3")]]

# the same over blocks of 16 keys: rows of 20 and 35 keys by their tables, one new token each
PAGED = ("x = torch.linspace(-1, 1, 2 * 4 * 16, device=device).view(2, 4, 1, 16).bfloat16(); "
         "c = torch.linspace(-2, 3, 6 * 2 * 16 * 16, device=device).sin().view(6, 2, 16, 16).bfloat16(); "
         "t = torch.tensor([[5, 2, 0], [1, 0, 3]], dtype=torch.int32, device=device); ")
GENERATION += [(PAGED + "torch_npu.npu_fused_infer_attention_score(x, c, c * 2, num_heads=4, num_key_value_heads=2, "
                "input_layout='BNSD', scale=0.4, actual_seq_lengths_kv=[20, 35], block_table=t, block_size=16)[0]",
                PAGED + "torch.cat([F.scaled_dot_product_attention(*(s.float() for s in (x[r:r + 1], *(k[t[r].long()].transpose(0, 1)"
                ".flatten(1, 2)[None, :, :n].repeat_interleave(2, 1) for k in (c, c * 2)))), scale=0.4).bfloat16() "
                "for r, n in ((0, 20), (1, 35))])")]

# experts [4 tokens, 2 choices]; where a choice goes when all are sorted by expert; dropped ones go nowhere
ROUTE = ("e = torch.tensor([[2, 0], [1, 2], [0, 1], [2, 1]], device=device); order = e.flatten().argsort(stable=True); "
         "back = order.argsort(); x = a.repeat(2, 1)[:6]; weights = p[:, :2]; ")
BACK = "(torch.cat([x, x.new_zeros(2, 6)]).index_select(0, back).view(4, 2, 6) * w[..., None]).sum(1)"
ROUTING = [(ROUTE + npu, ROUTE + cpu) for npu, cpu in [
    ("torch_npu.npu_moe_token_permute(a, e)", "a[order // 2], back.int()"),
    ("torch_npu.npu_moe_token_permute(a, e, 6)", "a[order[:6] // 2], back.int()"),
    ("torch_npu.npu_moe_token_permute(a, e[:, 0])[0]", "a[e[:, 0].argsort(stable=True)]"),
    ("gradients(lambda t: torch_npu.npu_moe_token_permute(t, e, 6)[0], a)", "gradients(lambda t: t[order[:6] // 2], a)"),
    ("torch_npu.npu_moe_token_unpermute(a, order[::2].argsort().int())", "a[order[::2].argsort()]"),
    ("torch_npu.npu_moe_token_unpermute(x, back.int(), weights)", f"w = weights; {BACK}"),
    ("gradients(lambda x, w: torch_npu.npu_moe_token_unpermute(x, back.int(), w), x, weights)",
     f"gradients(lambda x, w: {BACK}, x, weights)")]]

GROUPS = "g = torch.tensor([1, 1, 4], device=device); "
PRODUCTS = [(f"{GROUPS}torch_npu.npu_grouped_matmul({npu})", cpu) for npu, cpu in [
    ("[a, b], [w, w * 2], group_type=-1, group_list=g[:0]", "[a @ w, b @ (w * 2)]"),
    ("[a], [cube2], group_type=0, split_item=3, group_list=g", "[torch.cat([a[:1] @ cube2[0], a[1:] @ cube2[2]])]"),
    ("[a], list(cube2), bias=list(cube[:, 0, :5]), group_type=0, split_item=3, group_list=g",
     "[torch.cat([a[:1] @ cube2[0] + cube[0, 0, :5], a[1:] @ cube2[2] + cube[2, 0, :5]])]"),
    ("[a], list(cube2), group_type=0, split_item=0, group_list=g", "[a[:1] @ cube2[0], a[1:1] @ w, a[1:] @ cube2[2]]"),
    ("[a], [cube2], group_type=0, split_item=2, group_list_type=1, group_list=torch.tensor([2, 0, 2], device=device)",
     "[torch.cat([a[:2] @ cube2[0], a[2:] @ cube2[2]])]"),
    ("[a], [w], group_type=2, split_item=3, group_list=torch.tensor([2, 6], device=device)",
     "[torch.stack([a[:, :2] @ w[:2], a[:, 2:] @ w[2:]])]")]]

# What programs call besides: gated activations, norms, rotary embeddings in place, losses.
OVER_HEADS = "c = row[:4].view(1, 1, 1, 4); s = row[2:].view(1, 1, 1, 4); q = big[..., :4].contiguous(); k = (big[..., 1:] * 2).contiguous(); "
NEIGHBOURS = ("x = torch.linspace(-1, 1, 512, device=device).view(2, 2, 2, 64).bfloat16(); "
              "c = torch.linspace(0, 1, 256, device=device).view(2, 1, 2, 64).bfloat16(); ")
LAYERS = [
    ("torch_npu.npu_geglu(a, -1, 1, True)[0]", "F.gelu(a[:, :3], approximate='tanh') * a[:, 3:]"),
    ("torch_npu.npu_geglu(a, -1, 0)", "a[:, :3] * F.gelu(a[:, 3:]), F.gelu(a[:, 3:])"),
    ("gradients(lambda t: torch_npu.npu_geglu(t, 1, 1)[0], cube)",
     "gradients(lambda t: t[:, :2] * F.gelu(t[:, 2:], approximate='tanh'), cube)"),
    ("torch_npu.npu_group_norm_silu(cube, row[:4], col[:, 0], 2, 1e-5)[0]",
     "F.silu(F.group_norm(cube, 2, row[:4], col[:, 0], 1e-5))"),
    ("torch_npu.npu_group_norm_silu(cube, row[:4], col[:, 0], 2, 1e-5)[1:]",
     "torch.native_group_norm(cube, row[:4], col[:, 0], 3, 4, 6, 2, 1e-5)[1:]"),
    ("torch_npu.npu_gemma_rms_norm(a, row, 1e-6)", "F.rms_norm(a, (6,), row + 1, 1e-6), torch.rsqrt((a * a).mean(1, keepdim=True) + 1e-6)"),
    (OVER_HEADS + "torch_npu.npu_apply_rotary_pos_emb(q, k, c, s, 'BSND')", f"{OVER_HEADS}f = {HALF}; f(q, c, s), f(k, c, s)"),
    (NEIGHBOURS + "torch_npu.npu_interleave_rope(x, c, c * 2)",
     NEIGHBOURS + "t = torch.cat([x[..., ::2], x[..., 1::2]], -1).float(); "
     "(t * c.float() + torch.cat([-t[..., 32:], t[..., :32]], -1) * c.float() * 2).bfloat16()"),
    ("torch_npu.npu_cross_entropy_loss(a, cls, row.abs(), 'mean', -100, 0.1)[:2]",
     "F.cross_entropy(a, cls, row.abs(), label_smoothing=0.1).view(1), a.log_softmax(1)"),
    ("torch_npu.npu_cross_entropy_loss(a, cls, None, 'none', 5)[0]", "F.cross_entropy(a, cls, reduction='none', ignore_index=5)"),
    ("gradients(lambda t: torch_npu.npu_cross_entropy_loss(t, cls, row.abs(), 'sum', 5, 0.1)[0], a)",
     "gradients(lambda t: F.cross_entropy(t, cls, row.abs(), reduction='sum', ignore_index=5, label_smoothing=0.1), a)"),
    ("gradients(lambda t: torch_npu.npu_cross_entropy_loss(t, cls)[0], a)", "gradients(lambda t: F.cross_entropy(t, cls), a)"),
    ("torch_npu.npu_scatter_nd_update(a, torch.tensor([[1, 2], [3, 0]], device=device), row[:2])",
     "a[[1, 3], [2, 0]] = row[:2]; a"),
    ("torch_npu.npu_scatter_nd_update_(a, torch.tensor([[1], [3]], device=device), b[:2])", "a[[1, 3]] = b[:2]; a"),
]

# Sums that are normed, masked softmax, feed-forward layers, and what the wheel asks for by older names.
HIDDEN = "hide = torch.tensor([[0, 1, 0, 0, 1], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 1, 0, 1, 1]], device=device).bool(); "
TRIANGLE = "torch.ones(4, 5, dtype=torch.bool).triu(1)"
DEEP = "lambda x, g, w, b: F.layer_norm(x * 0.3 + g, (6,), w, b, 1e-6)"
FEED = "x = a.half(); u = w.half(); v = cube[0, :, :5].t().half(); c = row[:5].half(); e = row[:4].half(); "
EXPERTS = "x = a.half(); u = cube2.half(); v = cube2.half().transpose(1, 2); c = cube2[:, 0].half(); "
LAYERS += [
    ("torch_npu.npu_add_layer_norm(a, b, row, row + 1, 1e-5, True)",
     "x = a + b; y = F.layer_norm(x, (6,), row, row + 1, 1e-5); y, x.mean(1, keepdim=True), torch.rsqrt(x.var(1, False, keepdim=True) + 1e-5), x"),
    ("gradients(lambda x, y, w, b: torch_npu.npu_add_layer_norm(x, y, w, b, 1e-5, True)[0], cube, cube * 2, row, row + 1)",
     "gradients(lambda x, y, w, b: F.layer_norm(x + y, (6,), w, b, 1e-5), cube, cube * 2, row, row + 1)"),
    ("gradients(lambda x, y: (lambda r: r[0] + r[3])(torch_npu.npu_add_layer_norm(x, y, row, row, 1e-5, True)), cube, cube * 2)",
     "gradients(lambda x, y: F.layer_norm(x + y, (6,), row, row, 1e-5) + x + y, cube, cube * 2)"),
    ("torch_npu.npu_deep_norm(a, b, row, row + 1)[2]", f"({DEEP})(a, b, row + 1, row)"),
    ("torch_npu.npu_deep_norm(a, b, row, row + 1)[:2]",
     "x = a * 0.3 + b; x.mean(1, keepdim=True), torch.rsqrt(x.var(1, False, keepdim=True) + 1e-6)"),
    ("gradients(lambda x, g, w, b: torch_npu.npu_deep_norm(x, g, b, w)[2], cube, cube * 2, row, row + 1)",
     f"gradients({DEEP}, cube, cube * 2, row, row + 1)"),
    (HIDDEN + "torch.ops.aten._masked_softmax(big, hide.expand(2, 3, 4, 5), -1, 2)", HIDDEN + "big.masked_fill(hide, -torch.inf).softmax(-1)"),
    (HIDDEN + "torch_npu.npu_scaled_masked_softmax(big, hide.expand(2, 1, 4, 5).contiguous(), 0.7)",
     HIDDEN + "(big * 0.7).masked_fill(hide, -torch.inf).softmax(-1)"),
    (HIDDEN + "torch_npu.npu_scaled_masked_softmax(big, hide.expand(2, 1, 4, 5).contiguous(), 0.7, True)",
     f"(big * 0.7).masked_fill({TRIANGLE}, -torch.inf).softmax(-1)"),
    (HIDDEN + "gradients(lambda t: torch_npu.npu_scaled_masked_softmax(t, hide.expand(2, 1, 4, 5).contiguous(), 0.7), big)",
     HIDDEN + "gradients(lambda t: (t * 0.7).masked_fill(hide, -torch.inf).softmax(-1), big)"),
    ("torch_npu.npu_fast_gelu(a)", "a * (1.702 * a).sigmoid()"), ("torch_npu.fast_gelu(h)", "(h.float() * (1.702 * h.float()).sigmoid()).half()"),
    ("gradients(torch_npu.fast_gelu, a)", "gradients(lambda t: t * (1.702 * t).sigmoid(), a)"),
    ("torch_npu.npu_mish(a)", "F.mish(a)"), ("gradients(torch_npu.npu_mish, a)", "gradients(F.mish, a)"),
    ("gradients(F.mish, a)", "gradients(F.mish, a)"),
    ("torch_npu.npu_confusion_transpose(cube, (0, 2, 1, 3), (3, 4, 2, 3), False)", "cube.view(3, 4, 2, 3).permute(0, 2, 1, 3)"),
    ("torch_npu.npu_confusion_transpose(big, (0, 2, 1, 3), (2, 4, 15), True)", "big.permute(0, 2, 1, 3).reshape(2, 4, 15)"),
    ("gradients(lambda t: torch_npu.npu_confusion_transpose(t, (0, 2, 1, 3), (3, 4, 2, 3), False) * cube.view(3, 2, 4, 3), cube)",
     "gradients(lambda t: t.view(3, 4, 2, 3).permute(0, 2, 1, 3) * cube.view(3, 2, 4, 3), cube)"),
    ("torch_npu.npu_one_hot(cls.int(), depth=4)", "(cls[:, None] == torch.arange(4)).float()"),
    ("torch_npu.npu_one_hot(rows.int(), -1, 5, 2.5, -1)", "torch.where(rows[:, None] == torch.arange(5), 2.5, -1.0)"),
    ("torch_npu.npu_apply_adam_w(0.81, 0.998, 0.1, 0.3, 0.9, 0.999, 1e-8, u, None, False, False, out=(a, b, p))",
     "m = b * 0.9 + u * 0.1; v = p * 0.999 + u * u * 0.001; "
     "a * (1 - 0.1 * 0.3) - 0.1 * m / (1 - 0.81 * 0.9) / ((v / (1 - 0.998 * 0.999)).sqrt() + 1e-8), m, v"),
    ("torch_npu.npu_apply_adam_w(0.9, 0.999, 0.1, 0.0, 0.9, 0.999, 1e-8, u, None, False, True, out=(a, b, p))[0]",
     "m = b * 0.9 - u * 0.1; v = p * 0.999 + u * u * 0.001; a - 0.1 * m / (1 - 0.81) / ((v / (1 - 0.999 ** 2)).sqrt() + 1e-8)"),
]
LAYERS += [(FEED + f"torch_npu.npu_ffn(x, u, v, '{name}', bias1=c, bias2=e)",
            FEED + f"(({how})(x.float() @ u.float() + c.float()) @ v.float() + e.float()).half()")
           for name, how in [("relu", "F.relu"), ("gelu", "F.gelu"), ("silu", "F.silu"), ("fastgelu", "lambda t: t * (1.702 * t).sigmoid()")]]
LAYERS += [("torch_npu.npu_ffn(a.half(), w[:, :4].half().contiguous(), w[:2].half(), 'swiglu')",
            "x = a.half().float() @ w[:, :4].half().float(); (F.silu(x[:, :2]) * x[:, 2:] @ w[:2].half().float()).half()")]
LAYERS += [(EXPERTS + f"torch_npu.npu_ffn(x, u, v.contiguous(), 'relu', {rows}, bias1=c)",
            EXPERTS + "torch.cat([(F.relu(x[b].float() @ u[n].float() + c[n].float()) @ v[n].float()).half() "
            "for n, b in enumerate((slice(0, 1), slice(1, 1), slice(1, 4)))])")
           for rows in ("expert_tokens=[1, 0, 3]", "expert_tokens_index=[1, 1, 4]")]
DISTANCES = [f"torch.cdist(cube, cube2.transpose(1, 2), p={p})" for p in (0.0, 1.0, 1.5, 2.0, 3.0, "torch.inf")]
DISTANCES += [f"gradients(lambda x, y: torch.cdist(x, y, p={p}), cube, cube2.transpose(1, 2).contiguous())" for p in (1.0, 1.5, 2.0, 3.0, "torch.inf")]
DISTANCES += ["gradients(lambda x: torch.cdist(x, x.detach(), p=1.0), a)"]
LAYERS += [(expression, expression) for expression in DISTANCES]

# Gating, routing by expert, and back.
CHOICES = "e = torch.tensor([[2, 0], [1, 2], [0, 1], [2, 1]], dtype=torch.int32, device=device); "
SORTED = CHOICES + ("order = e.flatten().argsort(stable=True); back = order.argsort().int(); "
                    "counts = e.flatten().bincount(minlength=3); ")
BY_COLUMN = CHOICES + "r = torch.arange(8, dtype=torch.int32, device=device).view(2, 4).t().contiguous(); "
GATE = "y = a.sigmoid(); r = (y + row).view(4, 3, 2); "
MOE = [
    ("torch_npu.npu_moe_gating_top_k_softmax(a, None, 2)",
     "v, i = a.softmax(1).topk(2); v, i.int(), torch.arange(8, dtype=torch.int32).view(2, 4).t()"),
    ("torch_npu.npu_moe_gating_top_k_softmax(a, m[:, 0], 1)[1]",
     "a.argmax(1, keepdim=True).masked_fill(m[:, :1], 6).int()"),
    ("torch_npu.npu_moe_gating_top_k(a, 2, bias=row, k_group=2, group_count=3, group_select_mode=1, norm_type=1, out_flag=True, "
     "routed_scaling_factor=2.5, eps=1e-20)",
     GATE + "g = r.sum(-1).topk(2).indices; r = r.masked_fill(torch.ones(4, 3, dtype=torch.bool).scatter(1, g, False)[..., None], -1e9); "
     "i = r.flatten(1).topk(2).indices; w = y.gather(1, i); w / w.sum(1, keepdim=True) * 2.5, i.int(), y"),
    ("torch_npu.npu_moe_gating_top_k(a, 3)[:2]", "v, i = a.softmax(1).topk(3); v, i.int()"),
    (BY_COLUMN + "torch_npu.npu_moe_init_routing(a, r, e, 4)",
     BY_COLUMN + "o = e.flatten().argsort(stable=True); w = r.flatten()[o].long(); a[w % 4], w.argsort().int(), e.flatten()[o]"),
    (SORTED + "torch_npu.npu_moe_init_routing_v2(a, e, active_num=8, expert_num=3, expert_tokens_num_type=1, "
     "expert_tokens_num_flag=True, quant_mode=-1, active_expert_range=[0, 3])[:3]", SORTED + "a[order // 2], back, counts"),
    (SORTED + "torch_npu.npu_moe_init_routing_v2(a, e, active_num=8, expert_num=3, expert_tokens_num_type=1, expert_tokens_num_flag=True, quant_mode=-1, "
     "active_expert_range=[1, 3], row_idx_type=1)[1:3]",
     SORTED + "torch.cat([order[2:], order.new_full((2,), -1)]).int(), counts[1:]"),
    (SORTED + "torch_npu.npu_moe_compute_expert_tokens(e.flatten().sort().values, 3)", SORTED + "counts.cumsum(0).int()"),
    (SORTED + "torch_npu.npu_moe_finalize_routing(torch.cat([a, b]), a, b, cube[:, 0], p[:, :2].contiguous(), back, e, 0)",
     SORTED + "t = torch.cat([a, b])[back.long()].view(2, 4, 6).transpose(0, 1); "
     "a + b + ((t + cube[:, 0][e.long()]) * p[:, :2, None]).sum(1)"),
    (SORTED + "torch_npu.npu_moe_finalize_routing(torch.cat([a, b]), None, None, None, p[:, :2].contiguous(), back, e, 2)",
     SORTED + "(torch.cat([a, b])[back.long()].view(4, 2, 6) * p[:, :2, None]).sum(1)"),
]
WIDE = ("x = torch.linspace(-1, 1, 4096, device=device).view(2, 2048); e = torch.tensor([[3, 1], [1, 0]], dtype=torch.int32, device=device); ")
MOE += [(WIDE + "torch_npu.npu_moe_init_routing_v2(x, e, active_num=4, expert_num=128, expert_tokens_num_type=1, "
         "expert_tokens_num_flag=True, quant_mode=-1, active_expert_range=[0, 128])[0]", WIDE + "x[[1, 0, 1, 0]]")]

FUSED = ([(f"x = {x}; {npu}", f"x = {x}; {cpu}") for x, npu, cpu in ON_X]
         + ROTARY + EQUAL_HEADS + LAYOUTS + BANDS + PACKED_PAIRS + SHIFTS + PREFIXES + OTHER_SIZES + BLOCKS + GENERATION + ROUTING + PRODUCTS
         + LAYERS + MOE)
