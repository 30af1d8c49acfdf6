"""Expressions for npu_operators_test: statements and a result, separated by "; ". See its inputs() for the names.

EXPRESSIONS is a list of pairs: one to run on the NPU, one on the CPU. Here they are the same.
"""
from npu_fused_expressions import FUSED
from npu_inference_expressions import INFERENCE
from npu_vision_expressions import VISION


def each(pattern, words):
    return [pattern.replace("@", word) for word in words.split()]


UNARY = (
    each("torch.@(a)",
    "abs ceil cos cosh erf erfc exp exp2 expm1 floor frac neg round sigmoid sign signbit sin sinc sinh "
         "tan tanh trunc relu atan asinh isneginf isposinf isfinite isnan reciprocal logical_not square")
    + each("torch.@(p)", "log log10 log1p log2 rsqrt sqrt")
    + each("torch.@(u)", "acos asin atanh erfinv")
    + ["torch.acosh(p + 1)", "torch.acosh_(p + 1)", "F.silu(a)", "F.mish(a)", "F.mish(a, inplace=True)",
       "F.hardsigmoid(a)", "F.hardswish(a)", "F.hardsigmoid(a, inplace=True)", "F.hardswish(a, inplace=True)",
       "torch.bitwise_not(i)", "torch.round(a, decimals=1)", "a.round_(decimals=1)", "torch.nan_to_num(odd)",
       "odd.nan_to_num_(1.0, 2.0, 3.0)", "~m", "-i", "torch.isfinite(odd)", "torch.exp(i)", "torch.sqrt(h)",
       "torch.exp(bf)"]
    + each("torch.@_(a)", "ceil cos cosh erf erfc exp exp2 expm1 floor frac round sigmoid sin sinc sinh tan tanh "
           "trunc relu atan asinh reciprocal neg abs")
    + each("torch.@_(p)", "log log10 log1p log2 rsqrt sqrt")
    + each("torch.@_(u)", "acos asin atanh") + ["u.erfinv_(); u", "i.logical_not_(); i"])

COMPARE = each("torch.@(i, j)", "eq ne lt le gt ge") + each("torch.@(i, 4)", "eq ne lt le gt ge") + each(
    "i.@_(j)", "eq_ ne_ lt_ le_ gt_ ge_".replace("_", "")) + each("i.@_(4)", "eq ne lt le gt ge")

BINARY = (
    each("a @ b", "+ - * /") + each("a @ 2.5", "+ - * / ** // %") + each("3 @ a", "+ - * /") + ["2 ** a", "3 % p",
    "p ** a"]
    + each("i @ j", "+ - * / // % & | ^") + each("i @ 3", "+ - * / // % & | ^ **")
    + each("a @= b; a", "+ - * /") + each("a @= 2; a", "+ - * / // %") + each("i @= j; i", "+ - * // % & | ^")
    + each("i @= 3; i", "+ - * // & | ^")
    + ["torch.add(a, b, alpha=2)", "torch.add(a, 3, alpha=2)", "a.add_(b, alpha=-1); a", "a.add_(3, alpha=2); a",
       "torch.sub(a, b, alpha=2)", "a.sub_(b, alpha=2); a", "a.sub_(1, alpha=2); a", "torch.rsub(a, b)",
       "torch.rsub(a, 2)",
       "torch.add(one, a)", "torch.add(2, a)", "torch.fmod(a, b)", "torch.fmod(a, 0.7)", "a.fmod_(b); a",
       "a.fmod_(0.7); a",
       "torch.remainder(a, b)", "torch.remainder(7, p)", "a.remainder_(b); a", "torch.pow(p, 2)", "p.pow_(a); p",
       "p.pow_(3); p",
       "torch.div(a, b, rounding_mode='floor')", "torch.div(a, 0.3, rounding_mode='trunc')",
       "a.div_(b, rounding_mode='trunc'); a", "a.div_(0.3, rounding_mode='floor'); a", "a.floor_divide_(b); a",
       "torch.floor_divide(a, b)", "torch.maximum(a, b)", "torch.minimum(a, b)", "torch.atan2(a, b)",
       "a.atan2_(b); a",
       "torch.gcd(i, j)", "torch.logaddexp(a, b)", "torch.logaddexp2(a, b)", "torch.logical_and(m, n)",
       "torch.logical_or(m, n)", "torch.logical_xor(m, n)", "m.logical_and_(n); m", "m.logical_or_(n); m", "m & n",
       "m | n",
       "m ^ n", "torch.xlogy(p, q)", "torch.xlogy(p, 2)", "torch.xlogy(2, p)", "p.xlogy_(2); p",
       "torch.isclose(a, b)",
       "torch.equal(a, b)", "torch.equal(a, a.clone())", "torch.addcmul(a, b, p, value=0.5)",
       "torch.addcdiv(a, b, p, value=0.5)",
       "a.addcmul_(b, p, value=0.5); a", "a.addcdiv_(b, p, value=0.5); a", "torch.lerp(a, b, 0.3)",
       "torch.lerp(a, b, p)",
       "a.lerp_(b, 0.3); a", "a.lerp_(b, p); a", "torch.clamp(a, -0.5, 0.5)", "torch.clamp(a, min=0)",
       "torch.clamp(a, max=0)",
       "torch.clamp(a, u, p)", "torch.clamp_min(a, 0.1)", "torch.clamp_max(a, 0.1)", "torch.clamp_min(a, u)",
       "torch.clamp_max(a, u)", "a.clamp_(max=0.1); a", "a.clamp_max_(0.2); a", "a.clamp_min_(u); a",
       "a.clamp_max_(u); a",
       "torch.where(m, a, b)", "torch.where(m, a, 0.0)", "a.clamp_min_(0.2); a"])

# promotion, broadcasting, views, out
RULES = [
    "a + i", "i + 0.5", "i / 2", "h + a", "bf * a", "h * 2", "k + i", "m + 1", "m * a", "i.float() * k", "one + i",
    "a + one",
    "a + row", "a * col", "row - col", "a == row", "torch.where(m, row, col)", "cube * a", "a[:, ::2] + a[:, 1::2]",
    "a.t() @ b", "a.t().contiguous()", "a[1:3, 2:]", "a.transpose(0, 1).reshape(-1)", "a.view(2, 12)",
    "a[::2].clone()",
    "a[1].fill_(7); a", "a[:, 3].zero_(); a", "a[:2] += 1; a", "a.t().mul_(2); a", "a.expand(3, 4, 6) + cube",
    "a.unfold(1, 2, 2) + 1", "big.permute(3, 1, 0, 2) * 2", "big.permute(3, 1, 0, 2).sum(1)",
    "big.flatten(1).mean(1)",
    "out = torch.empty(4, 6, device=device); torch.add(a, b, out=out); out",
    "out = torch.empty(4, 6, device=device); torch.mul(a, row, out=out); out",
    "out = torch.empty(0, device=device); torch.exp(a, out=out); out",
    "out = torch.empty(6, 4, device=device).t(); torch.sub(a, b, out=out); out",
    "out = torch.empty(4, 5, device=device); torch.mm(a, w, out=out); out",
    "a.to(torch.int32)", "a.half()", "a.bfloat16().float()", "i.to(torch.uint8)", "m.float()", "k.bool()",
    "a.to(torch.int64)",
    "a.copy_(i); a", "a.copy_(row); a", "i.copy_(a); i", "a[:, :3].copy_(b[:, 3:]); a", "a.new_full((2, 3), 1.5)",
    "torch.complex(a, b)", "torch.empty(0, 3, device=device) + 1", "torch.zeros(0, 3, device=device).sum()",
    "a.data_ptr() == a.view(-1).data_ptr()", "a.tolist()", "one.item()", "a.max().item()"]

REDUCE = (
    each("torch.@(a)", "sum mean prod max min median std var norm logsumexp(a,0)".replace(" logsumexp(a,0)", ""))
    + each("a.@(1)", "sum mean prod std var argmax argmin amax amin cumsum cumprod logsumexp")
    + each("a.@(dim=0, keepdim=True)", "sum mean max min median std var all any argmax")
    + ["i.sum()", "i.sum(0)", "h.sum()", "a.sum(dtype=torch.float16)", "a.sum((0, 1))", "cube.sum((0, 2))",
    "cube.mean((0, 2))",
       "a.amax()", "a.amin((0, 1))", "m.all()", "m.any()", "m.all(1)", "m.any(0)", "a.argmax()", "a.argmin()",
       "a.aminmax()",
       "a.aminmax(dim=1)", "torch._aminmax(a)", "torch._aminmax(a, 1)", "a.max(1)", "a.min(1)", "a.kthvalue(2, 1)",
       "torch.nansum(odd)", "odd.nansum(0)", "torch.var_mean(a, 1)", "torch.std_mean(a, 1)",
       "torch.linalg.vector_norm(a)", "torch.linalg.vector_norm(a, 1, 1)", "a.norm(2, 1)",
       "torch.ops.aten.norm.ScalarOpt_dim(a, 2, [1])", "a.norm(1)", "a[:, :4].trace()",
       "torch.bincount(rows)", "torch.bincount(rows, minlength=6)", "torch.histc(a, 5, -2, 2)", "a.cummax(1)",
       "a.cummin(0)",
       "a.sort(1)", "a.sort(0, descending=True)", "i.sort(stable=True, dim=1)", "a.argsort(1)", "a.topk(3, 1)",
       "a.topk(2, 0, largest=False)", "torch.searchsorted(row.sort()[0], a)",
       "torch.searchsorted(row.sort()[0], 0.1)",
       "torch.unique(i)", "torch.unique(i, return_inverse=True)",
       "torch.unique(i, return_inverse=True, return_counts=True)",
       "torch._unique(i)[0]", "torch.cumsum(i, 0)"])

INDEX = [
    "a[rows]", "a[rows, cols]", "a[:, cols]", "a[m]", "a[a > 0]", "cube[:, rows]", "cube[rows % 3, :, cols]",
    "a[rows[:0]]",
    "a[rows] = 1.0; a", "a[rows, cols] = row[:3]; a", "a[m] = 0.0; a", "a[:, cols] = 2.0; a", "i[rows[:0]] = 5; i",
    "a.index_put_((rows, cols), row[:3], accumulate=True); a", "a.index_select(0, rows)",
    "a.index_add(0, rows, b[:3])",
    "a.index_add_(0, rows, b[:3], alpha=2); a", "a.index_copy(0, rows, b[:3])", "a.index_copy_(0, rows, b[:3]); a",
    "a.index_fill(0, rows, 3.0)", "a.index_fill_(1, cols, 3.0); a", "a.gather(0, where)", "a.take(rows)",
    "a.put_(rows, row[:3]); a", "a.scatter(0, where, b)", "a.scatter_(0, where, b); a", "a.scatter(0, where, 2.0)",
    "a.scatter_(0, where, 2.0); a", "a.scatter_add(0, where, b)", "a.scatter_add_(0, where, b); a",
    "a.scatter_(0, where[:1], b, reduce='add'); a", "a.scatter(0, where[:1], 2.0, reduce='multiply')",
    "a.masked_fill(m, -1)", "a.masked_fill_(m, one); a", "a.masked_fill_(m, 2.0); a", "a.masked_select(m)",
    "a.masked_scatter_(m, b); a", "m.nonzero()", "torch.nonzero(m, as_tuple=True)", "torch.cat([a, b])",
    "torch.cat([a, b], 1)",
    "torch.cat([a, i], 1)", "torch.stack([a, b], 1)", "a.split([1, 3])", "torch.split_with_sizes_copy(a, [1, 3])",
    "a.chunk(2, 1)", "a.repeat(2, 3)", "a.repeat_interleave(2)", "a.repeat_interleave(2, 0)",
    "a.repeat_interleave(torch.tensor([1, 0, 2, 1], device=device), 0)", "row.repeat_interleave(cols[:1])",
    "row.repeat_interleave(torch.arange(6, device=device))", "a.flip(0)", "a.flip((0, 1))", "a.roll(1, 1)",
    "a.roll((1, 2), (0, 1))",
    "a.tril()", "a.triu(1)", "a.tril_(-1); a", "a.triu_(); a", "F.pad(a, (1, 2, 0, 1), value=3.0)",
    "gradients(lambda x: x.unfold(1, 2, 1), a)", "torch.isin(i, 3)", "torch.isin(3, i)", "F.one_hot(cls, 6)",
    "i.fill_diagonal_(0); i", "torch.arange(2, 9, 3, device=device)", "torch.arange(5.0, device=device)",
    "torch.linspace(0, 1, 7, device=device)", "torch.range(0, 3, device=device)", "torch.eye(3, 4, device=device)",
    "torch.ones(3, device=device)", "torch.full((2, 2), 3, device=device)", "torch.zeros_like(a)",
    "torch.ones_like(a)",
    "a.fill_(one); a", "gradients(lambda x: x[rows], a)", "gradients(lambda x: x.gather(0, where), a)",
    "gradients(lambda x, y: torch.cat([x, y], 1), a, b)"]

NETWORK = [
    "a @ w", "torch.mm(a, w)", "torch.bmm(cube, cube2)", "cube @ cube2", "cube @ w", "a @ row", "torch.mv(a, row)",
    "row @ row",
    "torch.dot(row, row)", "torch.addmm(torch.ones(5, device=device), a, w, beta=0.5, alpha=2)", "F.linear(a, w.t())",
    "F.linear(cube, w.t(), torch.ones(5, device=device))",
    "out = torch.ones(4, 5, device=device); out.addmm_(a, w); out",
    "torch.addmv(col[:, 0], a, row, beta=0.5, alpha=2)", "torch.addr(a, col[:, 0], row, beta=0.5, alpha=2)",
    "torch.baddbmm(torch.ones(3, 4, 5, device=device), cube, cube2, alpha=2)",
    "torch.addbmm(torch.ones(4, 5, device=device), cube, cube2)", "bf @ w.bfloat16()", "h.float() @ w",
    "gradients(lambda x, y: x @ y, a, w)", "gradients(lambda x, y: x @ y, cube, cube2)",
    "gradients(F.linear, cube, w.t())",
    "gradients(F.silu, a)", "gradients(torch.sigmoid, a)", "gradients(torch.tanh, a)", "gradients(F.relu, a)",
    "gradients(F.gelu, a)", "F.gelu(a)", "F.threshold(a, 0.1, 5.0)", "F.leaky_relu(a, 0.2)",
    "F.leaky_relu_(a, 0.2); a",
    "gradients(F.leaky_relu, a)", "F.elu(a)", "gradients(F.elu, a)", "F.softplus(a)", "gradients(F.softplus, a)",
    "F.glu(a)",
    "gradients(F.glu, a)", "F.logsigmoid(a)", "gradients(F.logsigmoid, a)", "F.softmax(a, 1)", "F.softmax(h, 0)",
    "F.softmax(bf, -1, dtype=torch.float32)", "gradients(lambda x: F.softmax(x, 1), a)", "F.log_softmax(a, 1)",
    "gradients(lambda x: F.log_softmax(x, 1), a)", "F.layer_norm(a, (6,))",
    "F.layer_norm(cube, (6,), row, row, 1e-3)",
    "gradients(lambda x, y, z: F.layer_norm(x, (6,), y, z), cube, row, row)", "F.cross_entropy(a, cls)",
    "F.cross_entropy(a, cls, reduction='sum', ignore_index=5)", "gradients(lambda x: F.cross_entropy(x, cls), a)",
    "gradients(lambda x: F.nll_loss(x, cls, p[0], reduction='none'), a)", "F.mse_loss(a, b)", "F.l1_loss(a, b)",
    "gradients(lambda x: F.mse_loss(x, b), a)", "F.smooth_l1_loss(a, b, beta=0.5)",
    "gradients(lambda x: F.smooth_l1_loss(x, b), a)",
    "F.binary_cross_entropy(torch.sigmoid(a), p / 2)",
    "gradients(lambda x: F.binary_cross_entropy(torch.sigmoid(x), p / 2), a)",
    "F.binary_cross_entropy_with_logits(a, p / 2)", "F.kl_div(a, p)", "F.embedding(rows, a)", "F.embedding(where, a)",
    "gradients(lambda x: F.embedding(where, x), a)", "gradients(lambda x: F.embedding(where, x, padding_idx=1), a)",
    "gradients(lambda x: x / x.norm(), a)", "gradients(lambda x: x.clamp(-0.5, 0.5), a)",
    "gradients(lambda x: x.max(1)[0], a)",
    "gradients(lambda x: x.std(1), a)", "gradients(lambda x: x.cumsum(1), a)", "gradients(lambda x: x.prod(1), a)",
    "F.scaled_dot_product_attention(big, big, big)", "F.dropout(a, 0.0)",
    "F.scaled_dot_product_attention(big, big, big, is_causal=True)",
    "F.scaled_dot_product_attention(big.bfloat16(), big.bfloat16(), big.bfloat16())",
    "gradients(lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), big)"]

FOREACH = (
    each("torch._foreach_@([a, b])", "abs cos cosh erf erfc exp expm1 neg reciprocal sigmoid sign sin sinh tan tanh")
    + each("torch._foreach_@([p, q])", "log log10 log1p log2 sqrt") + each("torch._foreach_@([u, u])",
    "acos asin atan")
    + each("torch._foreach_@([p, q], 2.5)", "add sub mul div pow clamp_min clamp_max maximum minimum")
    + each("torch._foreach_@([p, q], [1.5, 2.5])", "add sub mul div pow maximum minimum")
    + each("torch._foreach_@([a, p], [b, q])", "add sub mul div maximum minimum")
    + ["torch._foreach_pow([p, q], [q, p])", "torch._foreach_pow(2.0, [a, b])",
    "torch._foreach_add([a, b], [b, a], alpha=3)",
       "torch._foreach_sub([a, b], [p, q], alpha=3)", "torch._foreach_add_([a, b], 1); a, b",
       "torch._foreach_mul_([a, b], [p, q]); a, b",
       "torch._foreach_addcmul([a], [b], [p], 0.5)", "torch._foreach_addcdiv([a], [b], [p], 0.5)",
       "torch._foreach_addcmul([a, b], [b, a], [p, q], [0.5, 2.0])",
       "torch._foreach_addcdiv([a, b], [b, a], [p, q], [0.5, 2.0])",
       "torch._foreach_addcmul([a, b], [b, a], [p, q], torch.tensor([0.5, 2.0]))",
       "torch._foreach_addcdiv([a, b], [b, a], [p, q], torch.tensor([0.5, 2.0]))",
       "torch._foreach_lerp([a], [b], 0.3)", "torch._foreach_lerp([a], [b], [p])", "torch._foreach_norm([a, b])",
       "torch._foreach_norm([a, b], 1)", "torch._foreach_zero_([a, b]); a, b",
       "torch._foreach_copy_([a, b], [p, q]); a, b",
       "f = torch.zeros(1, device=device); torch._amp_foreach_non_finite_check_and_unscale_([a], f, f + 0.5); a, f",
       "s = torch.full((1,), 8.0, device=device); torch._amp_update_scale_(s, s.int() * 0, s / 8, 2.0, 0.5, 10); s"])

# torch's optimizers: a loop over lists, and one fused operator.
TWO = "t = [torch.nn.Parameter(a), torch.nn.Parameter(row)]; t[0].grad = a * 2; t[1].grad = row * 3; "
OPTIMIZER = each(TWO + "o = torch.optim.AdamW(t, lr=0.1, weight_decay=0.3, @=True); o.step(); o.step(); o.step(); t",
                 "foreach fused amsgrad maximize foreach=True,amsgrad fused=True,amsgrad fused=True,maximize")
OPTIMIZER += each(TWO + "o = torch.optim.@(t, lr=0.1); o.step(); o.step(); t", "SGD Adam RMSprop Adagrad NAdam RAdam")
OPTIMIZER += [TWO + "n = torch.nn.utils.clip_grad_norm_(t, 1.0); n, t[0].grad, t[1].grad"]

# Random numbers differ between devices; npu_device_test checks them. Here they are only called, for the right shape.
RANDOM = [
    "torch.rand(3, device=device)", "a.uniform_(1, 2)", "torch.randn(3, device=device)", "a.normal_(1, 2)",
    "torch.normal(a, p)", "torch.normal(a, 2.0)", "torch.normal(1.0, p)",
    "torch.normal(1.0, 2.0, (3,), device=device)",
    "torch.randint(0, 9, (3,), device=device)", "i.random_(0, 5)", "torch.bernoulli(p / 2)", "a.bernoulli_(0.5)",
    "torch.randperm(5, device=device)", "torch.multinomial(p, 2)", "F.dropout(a, 0.5)",
    "gradients(lambda x: F.dropout(x, 0.5), a)"]

NOT_EQUAL_BY_NATURE = set(RANDOM)
SAME = UNARY + COMPARE + BINARY + RULES + REDUCE + INDEX + NETWORK + FOREACH + OPTIMIZER + RANDOM
EXPRESSIONS = [(expression, expression) for expression in SAME] + FUSED + INFERENCE + VISION
