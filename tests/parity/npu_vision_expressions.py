"""Convolution, pooling, batch and group norm, interpolation, padding, grids, CTC, embedding bags, QR and SVD, recurrent layers: pairs for
npu_operators_test (see npu_expressions). Operators that only the NPU has are paired with their meaning."""

# big is [2, 3, 4, 5], cube [3, 4, 6], cube2 [3, 6, 5]
TWO = "w2 = torch.stack([cube2[:, :2, :2], cube2[:, 2:4, 1:3]]); "  # [2, 3, 2, 2]
THREE = "x3 = big.unsqueeze(1); w3 = big[:, :2, :2, :2].unsqueeze(1); "  # [2, 1, 3, 4, 5] and [2, 1, 2, 2, 2]
CONVOLUTION = [
    "w1 = cube2[:, :4, :3]; F.conv1d(cube, w1, row[:3], padding=1)",
    "w1 = cube2[:, :4, :3]; gradients(lambda x, w, b: F.conv1d(x, w, b, stride=2), cube, w1, row[:3])",
    TWO + "F.conv2d(big, w2)", TWO + "F.conv2d(big, w2, row[:2], stride=(2, 1), padding=(1, 2), dilation=(2, 1))",
    TWO + "F.conv2d(big[0], w2)", TWO + "F.conv2d(big.half(), w2.half())", TWO + "F.conv2d(big.bfloat16(), w2.bfloat16())",
    TWO + "gradients(lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), big, w2, row[:2])",
    TWO + "gradients(lambda x, w: F.conv2d(x, w), big, w2)", TWO + "gradients(lambda w: F.conv2d(big, w), w2)",
    "F.conv2d(big, cube[:, :2, :2].unsqueeze(1), groups=3)",
    "gradients(lambda x, w: F.conv2d(x, w, groups=3), big, cube[:, :2, :2].unsqueeze(1))",
    TWO + "F.conv_transpose2d(big, w2.transpose(0, 1), row[:2], stride=2, output_padding=1)",
    TWO + "gradients(lambda x, w: F.conv_transpose2d(x, w, padding=1), big, w2.transpose(0, 1))",
    THREE + "F.conv3d(x3, w3, row[:2], padding=1)", THREE + "gradients(lambda x, w: F.conv3d(x, w), x3, w3)"]

POOLING = [f"{call}; f(big)" for call in (
    "f = lambda x: F.avg_pool2d(x, 2)", "f = lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)",
    "f = lambda x: F.avg_pool2d(x, 2, divisor_override=3)", "f = lambda x: F.avg_pool3d(x, 2)",
    "f = lambda x: F.avg_pool3d(x, 2, 1, 1, divisor_override=5)", "f = lambda x: F.max_pool2d(x, 2)",
    "f = lambda x: F.max_pool2d(x, 3, 1, 1)", "f = lambda x: F.max_pool2d(x[0], 2, 1, 0, 2)",
    "f = lambda x: F.max_pool3d(x, 2, 1)", "f = lambda x: F.adaptive_avg_pool2d(x, (2, 3))",
    "f = lambda x: F.adaptive_avg_pool2d(x, 1)", "f = lambda x: F.adaptive_avg_pool3d(x, 2)",
    "f = lambda x: F.adaptive_max_pool2d(x, (3, 2))", "f = lambda x: F.adaptive_max_pool3d(x, (2, 2, 3))",
    "f = lambda x: F.avg_pool1d(x[0], 2)", "f = lambda x: F.max_pool1d(x[0], 3, 1)")]
POOLING += [expression.replace("; f(big)", "; gradients(f, big)") for expression in POOLING]

RUNNING = "mean = row[:3].clone(); var = p[0, :3].clone(); "
NORMS = [
    "F.batch_norm(big, None, None, training=True)",
    RUNNING + "y = F.batch_norm(big, mean, var, row[3:], row[:3], True, 0.3); y, mean, var",
    RUNNING + "F.batch_norm(big, mean, var, row[3:], row[:3], False)",
    RUNNING + "F.batch_norm(big.half(), mean, var, row[3:], row[:3], True)",
    "gradients(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), big, row[3:], row[:3])",
    RUNNING + "gradients(lambda x, w, b: F.batch_norm(x, mean, var, w, b, False), big, row[3:], row[:3])",
    "l = torch.nn.BatchNorm1d(6).to(device); l(a), l.running_mean, l.running_var",
    "F.group_norm(cube, 2)", "F.group_norm(cube, 4, row[:4], row[2:])", "F.instance_norm(big)",
    "gradients(lambda x, w, b: F.group_norm(x, 2, w, b), cube, row[:4], row[2:])"]

SCALES = [f"f = lambda x: F.interpolate(x, {size}, mode='{mode}'{corners}); " + call for mode, x, sizes, corner_modes in (
    ("nearest", "cube", ("9", "scale_factor=1.7"), ("",)), ("nearest-exact", "cube", ("9", "scale_factor=0.5"), ("",)),
    ("linear", "cube", ("9", "scale_factor=2"), ("", ", align_corners=True")),
    ("nearest", "big", ("(7, 6)", "scale_factor=(1.6, 2)"), ("",)),
    ("nearest-exact", "big", ("(7, 6)", "scale_factor=(0.5, 2)"), ("",)),
    ("bilinear", "big", ("(7, 6)", "scale_factor=1.5"), ("", ", align_corners=True")),
    ("bicubic", "big", ("(7, 6)", "scale_factor=2"), ("", ", align_corners=True")),
    ("nearest", "big.unsqueeze(0)", ("(3, 5, 7)", "scale_factor=2"), ("",)),
    ("trilinear", "big.unsqueeze(0)", ("(5, 3, 7)", "scale_factor=2"), ("", ", align_corners=True")))
    for size in sizes for corners in corner_modes for call in (f"f({x})", f"gradients(f, {x})")]

EDGES = [f"f = lambda x: F.pad(x, {sizes}, mode='{mode}'); " + call for mode in ("reflect", "replicate") for x, sizes in (
    ("cube", (2, 1)), ("big", (1, 2, 2, 0)), ("big.unsqueeze(0)", (1, 2, 0, 1, 1, 1))) for call in (f"f({x})", f"gradients(f, {x})")]
COLUMNS = ["f = lambda x: F.unfold(x, (2, 3), dilation=(2, 1), padding=1, stride=(1, 2)); " + call for call in ("f(big)", "gradients(f, big)", "f(big[0])")]
COLUMNS += ["x = F.unfold(big, 2); F.fold(x, (4, 5), 2)", "gradients(lambda x: F.fold(x, (4, 5), 2), F.unfold(big, 2))"]
GRIDS = [f"g = torch.stack([a[:, :4], b[:, :4]], -1).view(2, 2, 4, 2); f = lambda x, g: F.grid_sample(x, g, '{mode}', '{padding}', {corners}); " + call
         for mode in ("bilinear", "nearest") for padding, corners in (("zeros", False), ("border", True), ("reflection", False))
         for call in ("f(big, g)", "gradients(f, big, g)", "gradients(lambda x: f(x, g), big)")]
GRIDS += ["g = cube[:, :, :3].reshape(1, 3, 4, 1, 3); f = lambda x, g: F.grid_sample(x, g, align_corners=False); " + call
          for call in ("f(big.unsqueeze(0), g)", "gradients(f, big.unsqueeze(0), g)")]
RELUS = ["F.prelu(big, row[:3])", "F.prelu(a, row[:1])", "gradients(F.prelu, big, row[:3])", "gradients(F.prelu, a, row[:1])"]
SPELLINGS = [f"l = cube.transpose(0, 1).log_softmax(2); t = {targets}; f = lambda l: F.ctc_loss(l, t, [4, 3, 4], [2, 1, 2], {more}); " + call
             for targets, more in (("torch.tensor([[1, 2], [3, 0], [5, 5]], device=device)", "reduction='none'"),
                                   ("torch.tensor([1, 2, 3, 5, 4], device=device)", "blank=0, zero_infinity=True"))
             for call in ("f(l)", "gradients(f, l)")]

BAGS = [f"F.embedding_bag({given}, mode='{mode}')" for mode in ("sum", "mean", "max") for given in (
    "where, a", "rows, a, torch.tensor([0, 2], device=device)",
    "torch.tensor([3, 1, 1, 0], device=device), a, torch.tensor([0, 3], device=device)")]
DECOMPOSITIONS = ["torch.linalg.qr(a)", "torch.linalg.qr(a.t(), mode='complete')", "torch.linalg.qr(cube)",
                  "torch.linalg.qr(cube2, mode='r')[1]", "gradients(lambda x: torch.linalg.qr(x)[1], cube2)",
                  "torch.linalg.svd(cube)[1]", "u, s, v = torch.linalg.svd(a, full_matrices=False); u * s @ v",
                  "u, s, v = torch.linalg.svd(a); u * s @ v[:4]", "torch.linalg.svdvals(a)",
                  "gradients(lambda x: torch.linalg.svd(x, full_matrices=False)[1], cube2)"]
# The weights are drawn on the CPU, the same for both; cube is [steps, batch, size].
LAYERS = [f"torch.manual_seed(3); l = torch.nn.{layer}.to(device); " + call for layer in (
    "LSTM(6, 5)", "LSTM(6, 5, 2, bias=False)", "LSTM(6, 4, bidirectional=True)", "GRU(6, 5)", "GRU(6, 5, 2)",
    "GRU(6, 4, bidirectional=True)")
    for call in ("l(cube)", "gradients(lambda x: l(x)[0], cube)",
                 "(l(cube)[0] ** 2).sum().backward(); [p.grad for p in l.parameters()]")]
LAYERS += ["torch.manual_seed(3); l = torch.nn.LSTM(6, 5).to(device); l(cube, (b[None, :, :5], a[None, :, :5]))"]

# The parts of a batch norm over several ranks, here two: [0] and [1] of big.
CHANNELS = "x = big - 0.3; m = x.mean((0, 2, 3)); s = (x.var((0, 2, 3), unbiased=False) + 1e-5).rsqrt(); g = big * 2 + 1; "
PARTS = ("parts = [big[:1], big[1:]]; ms = torch.stack([t.mean((0, 2, 3)) for t in parts]); "
         "vs = torch.stack([t.var((0, 2, 3), unbiased=False) for t in parts]); ")
WIDE = "wide = lambda t: t.view(1, 3, 1, 1); c = lambda t: t.sum((0, 2, 3)); "
RANKS = [(CHANNELS + npu, CHANNELS + WIDE + cpu) for npu, cpu in [
    ("torch.batch_norm_stats(x, 1e-5)", "m, s"),
    ("torch.batch_norm_elemt(x, row[:3], row[3:], m, s, 1e-5)", "(x - wide(m)) * wide(s * row[:3]) + wide(row[3:])"),
    ("torch.batch_norm_backward_reduce(g, x, m, s, row[:3], True, True, True)",
     "c(g), c(g * (x - wide(m))), c(g * (x - wide(m))) * s, c(g)"),
    ("torch.batch_norm_backward_elemt(g, x, m, s, row[:3], row[3:], row[1:4], torch.tensor([30, 10], device=device, "
     "dtype=torch.int32))",
     "(g - wide(row[3:]) / 40 - (x - wide(m)) * wide(s * s * row[1:4]) / 40) * wide(s * row[:3])")]]
RANKS += [(f"{PARTS}{RUNNING}y = torch.batch_norm_gather_stats_with_counts(big, ms, (vs + 1e-5).rsqrt(), mean, var, 0.3, "
           "1e-5, torch.tensor([20.0, 20.0], device=device)); y, mean, var",
           f"{PARTS}{RUNNING}F.batch_norm(big, mean, var, training=True, momentum=0.3); y = (big.mean((0, 2, 3)), "
           "(big.var((0, 2, 3), unbiased=False) + 1e-5).rsqrt()); y, mean, var")]

# torch_npu's SyncBatchNorm gathers sums instead.
SUMS = "sums = torch.stack([t.sum((0, 2, 3)) for t in parts]); squares = torch.stack([(t * t).sum((0, 2, 3)) for t in parts]); "
RANKS += [("torch_npu.batch_norm_reduce(big, 1e-5)", "big.sum((0, 2, 3)), (big * big).sum((0, 2, 3))"),
          (f"{PARTS}{SUMS}{RUNNING}y = torch_npu.batch_norm_gather_stats_update(big, sums, squares, mean, var, 0.3, 1e-5, "
           "torch.tensor([20.0, 20.0], device=device)); y, mean, var",
           f"{RUNNING}F.batch_norm(big, mean, var, training=True, momentum=0.3); y = (big.mean((0, 2, 3)), "
           "(big.var((0, 2, 3), unbiased=False) + 1e-5).rsqrt()); y, mean, var")]

# By the wheel's default the result of a convolution in fp16 and of a GRU has an internal format, and the operators after
# it are requested by their older names.
HALF_CONV = "torch.manual_seed(3); l = torch.nn.Conv2d(3, 4, 2).half().to(device); x = big.half(); run = l; "
GRU = "torch.manual_seed(3); l = torch.nn.GRU(6, 5).to(device); x = cube; run = lambda x: l(x)[0]; "
AFTER = ["y", "F.relu(y)", "y + 1", "y + y", "y - 0.5 * y", "y / 2", "torch.sigmoid(y)", "torch.tanh(y)", "F.silu(y)",
         "F.leaky_relu(y, 0.1)", "y.float()", "y.sum()", "y.mean(-1)", "y.mean()", "y.flatten(1)", "y.exp()", "y ** 2",
         "y.transpose(-1, -2).contiguous()", "torch.cat([y, y], 1)", "y.chunk(2, -1)[0]", "y.softmax(-1)",
         "y.clamp(-0.5, 0.5)", "torch.where(y > 0, y, 0 * y)", "y @ y.transpose(-1, -2)", "y[-1]",
         "F.linear(y, torch.ones(2, y.shape[-1], device=device, dtype=y.dtype))", "-y.abs().sqrt()",
         "F.mse_loss(y, torch.zeros_like(y))"]
AFTER_CONV = ["F.max_pool2d(y, 2)", "F.avg_pool2d(y, 2)", "F.adaptive_avg_pool2d(y, 1)",
              "F.conv2d(y, torch.ones(2, 4, 2, 2, device=device, dtype=y.dtype))"]
AFTER_GRU = ["y.log_softmax(-1)"]
CHAINS = [f"{layer}f = lambda y: {after}; {call}" for layer, afters in ((HALF_CONV, AFTER + AFTER_CONV), (GRU, AFTER + AFTER_GRU))
          for after in afters for call in ("f(run(x))", "gradients(lambda x: f(run(x)), x)")]
# Gradients through these in fp16 differ by more than one rounding; the network below has them as well.
CHAINS += [HALF_CONV + "run(x).log_softmax(-1)", HALF_CONV + "F.batch_norm(run(x), None, None, training=True)"]
CHAINS += ["torch.manual_seed(3); c = torch.nn.Conv2d(3, 4, 2).half(); n = torch.nn.BatchNorm2d(4); "
           "h = torch.nn.Linear(8, 5).half(); net = torch.nn.Sequential(c, n, torch.nn.ReLU(), torch.nn.MaxPool2d(2), "
           "torch.nn.Flatten(), h).to(device); F.cross_entropy(net(big.half()).float(), cls[:2]).backward(); "
           "[p.grad for p in net.parameters()], n.running_mean, n.running_var",
           "torch.manual_seed(3); l = torch.nn.GRU(6, 5).to(device); h = torch.nn.Linear(5, 6).to(device); "
           "F.cross_entropy(h(l(cube)[0][-1]), cls).backward(); [p.grad for p in [*l.parameters(), *h.parameters()]]"]

# Once internal formats are off, and they stay off, convolutions and GRUs use aclnn functions: these come last.
PLAIN_FORMATS = "torch.npu.config.allow_internal_format = False; "
SAME = CONVOLUTION + POOLING + NORMS + SCALES + EDGES + COLUMNS + GRIDS + RELUS + SPELLINGS + BAGS + DECOMPOSITIONS + [e for e in LAYERS if "GRU" not in e]
SAME += CHAINS
LAST = CONVOLUTION + [e for e in LAYERS if "GRU" in e]
VISION = [(expression, expression) for expression in SAME] + RANKS + [(PLAIN_FORMATS + e, e) for e in LAST]
