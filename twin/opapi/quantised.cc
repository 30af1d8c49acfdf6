// Matmuls over int8 and int4 with scales, and what makes their operands: scales as the cube unit takes them, and
// quantisation per token. Sums are exact in int32; scaling is in fp32 and rounded once.
#include <ATen/ATen.h>

#include <bit>

#include "twin/opapi/operator.h"

TWIN_OPERATOR_WORDS

namespace {

// A scale as the cube unit takes it: the upper 19 bits of an fp32 number, an offset of 9 bits from bit 37 on, bit 46.
constexpr int64_t kScaleBits = 0xFFFFE000, kHasScale = int64_t{1} << 46, kOffsetBits = 0x1FF;
constexpr int kOffsetAt = 37, kDroppedBits = 13;

int64_t PackScale(float scale, bool rounded) {
  auto bits = std::bit_cast<uint32_t>(scale);
  if (rounded) bits += (1U << (kDroppedBits - 1)) - 1 + ((bits >> kDroppedBits) & 1);  // to nearest, ties to even
  return (bits & kScaleBits) | kHasScale;
}

void PackScales(const Tensor& scale, const Optional<Tensor>& offset, bool rounded, const Tensor& out) {
  const Tensor from = scale.to(at::kFloat).expand(out.sizes()).contiguous();
  Tensor packed = at::empty(out.sizes(), at::kLong);
  const float* read = from.const_data_ptr<float>();
  for (int64_t i = 0; i < packed.numel(); ++i) packed.mutable_data_ptr<int64_t>()[i] = PackScale(read[i], rounded);
  if (offset) {
    const Tensor bits = offset->to(at::kFloat).round().clamp(-256, 255).to(at::kLong).bitwise_and(kOffsetBits);
    packed = packed.bitwise_or(bits.bitwise_left_shift(Scalar(kOffsetAt)));
  }
  out.copy_(packed);
}

// In fp32, of either form.
Tensor ScaleOf(const Tensor& scale) {
  if (scale.scalar_type() != at::kLong) return scale.to(at::kFloat);
  return scale.bitwise_and(kScaleBits).to(at::kInt).view(at::kFloat);
}
Tensor OffsetOf(const Tensor& scale) {
  const Tensor bits = scale.bitwise_right_shift(Scalar(kOffsetAt)).bitwise_and(kOffsetBits);
  return at::where(bits > kOffsetBits / 2, bits - (kOffsetBits + 1), bits).to(at::kFloat);
}

// int8 as it is; int32 holds eight int4, the lowest bits first, along the dim that lies contiguous in memory.
Tensor Unpacked(const Tensor& x) {
  if (x.scalar_type() != at::kInt) return x;
  if (x.stride(-1) != 1) return Unpacked(x.transpose(-1, -2)).transpose(-1, -2);
  const Tensor four = x.unsqueeze(-1).bitwise_right_shift(at::arange(0, 32, 4, at::kInt)).bitwise_and(0xF);
  return at::where(four > 7, four - 16, four).flatten(-2);
}

Tensor AsInt8(const Tensor& x) { return x.round().clamp(-128, 127); }

struct QuantisedMatmul {
  Tensor scale;
  Optional<Tensor> offset, token_scale, bias;

  Tensor Of(const Tensor& a, const Tensor& b) const {
    Tensor sum = at::matmul(Unpacked(a).to(at::kInt), Unpacked(b).to(at::kInt));
    const bool exact_bias = bias && bias->scalar_type() == at::kInt;
    if (exact_bias) sum = sum + *bias;
    Tensor result = sum.to(at::kFloat) * ScaleOf(scale);
    if (token_scale) result = result * token_scale->to(at::kFloat).view({-1, 1});
    return bias && !exact_bias ? result + bias->to(at::kFloat) : result;
  }
  // Of an int8 result.
  Tensor Offset() const {
    if (offset) return offset->to(at::kFloat).round();
    return scale.scalar_type() == at::kLong ? OffsetOf(scale) : at::zeros({1});
  }
};

// (weight + offset) · scale, of the whole, of each column, or of each group of rows. [k, n]
Tensor Dequantised(const Tensor& weight, const Tensor& scale, const Optional<Tensor>& offset, int64_t group) {
  const Tensor wide = Unpacked(weight).to(at::kFloat);
  const auto spread = [&](const Tensor& x) {
    const Tensor values = ScaleOf(x);
    return group == 0 ? values : values.repeat_interleave(group, -2).narrow(-2, 0, wide.size(-2));
  };
  return (offset ? wide + spread(*offset) : wide) * spread(scale);
}

struct WeightQuantised {
  Tensor scale;
  Optional<Tensor> offset, out_scale, out_offset, bias;
  int64_t group;

  void Run(const Tensor& x, const Tensor& weight, const Tensor& out) const {
    Tensor result = at::matmul(x.to(at::kFloat), Dequantised(weight, scale, offset, group));
    if (bias) result = result + bias->to(at::kFloat);
    if (out_scale) result = result * ScaleOf(*out_scale);
    if (out_scale && out_offset) result = result + out_offset->to(at::kFloat);
    out.copy_(out_scale ? AsInt8(result) : result);
  }
};

// x · smooth, where each group of rows, ending at a row of its own, may have a smooth row of its own.
Tensor Smoothed(const Tensor& x, const Optional<Tensor>& smooth, const Optional<Tensor>& ends) {
  const Tensor wide = x.to(at::kFloat);
  if (!smooth) return wide;
  if (!ends) return wide * *smooth;
  const Tensor rows = at::arange(wide.numel() / wide.size(-1)).unsqueeze(1);
  const Tensor group = (rows >= ends->to(at::kLong).unsqueeze(0)).sum(1);
  const Tensor all = at::cat({smooth->to(at::kFloat), at::ones({1, wide.size(-1)})});  // rows past the last end stay
  return (wide.flatten(0, -2) * all.index_select(0, group)).view(wide.sizes());
}

// Of each token: symmetric without `offset`, else from the smallest to the largest.
void QuantiseTokens(const Tensor& x, const Tensor& out, const Tensor& scale, const Optional<Tensor>& offset) {
  TORCH_CHECK(out.scalar_type() == at::kChar, "quantisation to ", out.scalar_type(),
              " is not supported by the CANN twin; int8 is");
  if (!offset) {
    const Tensor step = x.abs().amax(-1, true) / 127;
    out.copy_(AsInt8(x / step).nan_to_num(0));
    scale.copy_(step.squeeze(-1));
    return;
  }
  const Tensor largest = x.amax(-1, true), step = (largest - x.amin(-1, true)) / 255, shift = 127 - largest / step;
  out.copy_(AsInt8(x / step + shift).nan_to_num(0));
  scale.copy_(step.squeeze(-1));
  offset->copy_(shift.squeeze(-1));
}

}  // namespace

OP(aclnnTransQuantParamV2,
   [](Tensor scale, Optional<Tensor> offset, Tensor out) { PackScales(scale, offset, false, out); })
OP(aclnnTransQuantParamV3, [](Tensor scale, Optional<Tensor> offset, int64_t round_mode, Tensor out) {
  PackScales(scale, offset, round_mode == 1, out);
})

OP(aclnnDynamicQuant, [](Tensor x, Optional<Tensor> smooth, Tensor out, Tensor scale) {
  QuantiseTokens(Smoothed(x, smooth, std::nullopt), out, scale, std::nullopt);
})
OP(aclnnDynamicQuantV2,
   [](Tensor x, Optional<Tensor> smooth, Optional<Tensor> group_ends, int32_t, Tensor out, Tensor scale,
      Optional<Tensor> offset) { QuantiseTokens(Smoothed(x, smooth, group_ends), out, scale, offset); })

OP(aclnnQuantMatmulV4, [](Tensor a, Tensor b, Tensor scale, Optional<Tensor> offset, Optional<Tensor> token_scale,
                          Optional<Tensor> bias, bool transposed_a, bool transposed_b, Tensor out) {
  const QuantisedMatmul matmul{.scale = scale, .offset = offset, .token_scale = token_scale, .bias = bias};
  const Tensor result = matmul.Of(transposed_a ? a.transpose(-1, -2) : a, transposed_b ? b.transpose(-1, -2) : b);
  out.copy_(out.scalar_type() == at::kChar ? AsInt8(result + matmul.Offset()) : result);
})

OP(aclnnWeightQuantBatchMatmulV2,
   [](Tensor x, Tensor weight, Tensor scale, Optional<Tensor> offset, Optional<Tensor> out_scale,
      Optional<Tensor> out_offset, Optional<Tensor> bias, int32_t group,
      Tensor out) { WeightQuantised{scale, offset, out_scale, out_offset, bias, group}.Run(x, weight, out); })
OP(aclnnWeightQuantBatchMatmulV3,
   [](Tensor x, Tensor weight, Tensor scale, Optional<Tensor> offset, Optional<Tensor> out_scale,
      Optional<Tensor> out_offset, Optional<Tensor> bias, int32_t group, int64_t,
      Tensor out) { WeightQuantised{scale, offset, out_scale, out_offset, bias, group}.Run(x, weight, out); })
