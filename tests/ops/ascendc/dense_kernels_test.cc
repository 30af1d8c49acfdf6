// RMSNorm, SwiGLU, heads: kernels against ATen in fp64, forward and gradient.
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "ops/qkv_norm_rope/ascendc.h"
#include "ops/rms_norm/ascendc.h"
#include "ops/swiglu/ascendc.h"
#include "tests/ops/ascendc/kernel_case.h"

namespace trireme {
namespace {

using ascendc::RmsNormBackward;
using ascendc::RmsNormForward;

at::Tensor PlainNorm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return x * (x.square().mean(-1, true) + eps).rsqrt() * weight;
}

void OneRmsNorm(KernelCase& c, int64_t rows, int64_t columns, const std::string& context) {
  const bool adds = c.Chance(0.5), carries = c.Chance(0.5);
  const at::Tensor x = c.Values({rows, columns}), branch = c.Values({rows, columns}), weight = c.Values({columns});
  const at::Tensor sum = c.Empty({rows, columns}), y = c.Empty({rows, columns}), scale = c.Empty({rows}, at::kFloat);
  RmsNormForward(c.place(), c.element(),
                 {x.data_ptr(), adds ? branch.data_ptr() : nullptr, weight.data_ptr(), sum.data_ptr(), y.data_ptr(),
                  Of<float>(scale), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), 1e-5f});
  const at::Tensor added = adds ? (x + branch) : x;
  if (adds) ExpectNear(sum, added, 1e-9, context + ", sum");
  const at::Tensor wide = added.to(at::kDouble).requires_grad_(), wide_weight = weight.to(at::kDouble).requires_grad_();
  const at::Tensor wanted = PlainNorm(wide, wide_weight, 1e-5);
  ExpectNear(y, wanted.detach(), c.Tolerance(), context + ", y");

  const at::Tensor gradient = c.Values({rows, columns}), carried = c.Values({rows, columns});
  const at::Tensor result = c.Empty({rows, columns});
  const at::Tensor sums = at::zeros({ascendc::RmsNormBackwardBlocks(c.place(), rows), columns}, at::kFloat);
  RmsNormBackward(c.place(), c.element(),
                  {added.data_ptr(), weight.data_ptr(), Of<float>(scale), gradient.data_ptr(),
                   carries ? carried.data_ptr() : nullptr, result.data_ptr(), Of<float>(sums),
                   static_cast<uint64_t>(rows), static_cast<uint64_t>(columns)});
  torch::autograd::backward({wanted}, {gradient.to(at::kDouble)});
  const at::Tensor expected = wide.grad() + (carries ? carried.to(at::kDouble) : at::zeros_like(wide));
  ExpectNear(result, expected, c.Tolerance() + 2e-5, context + ", x gradient");
  ExpectNear(sums.sum(0), wide_weight.grad(), 3e-5, context + ", weight gradient");
}

TEST(RmsNormKernel, RandomCases) {
  ForCases(400, [](KernelCase& c, const std::string& context) {
    const int64_t rows = c.Rows(), columns = c.Columns();
    OneRmsNorm(c, rows, columns, Concat(context, ", ", rows, " x ", columns));
  });
}

TEST(RmsNormKernel, RowsLongerThanATile) {
  ForCases(6, [](KernelCase& c, const std::string& context) {
    const int64_t columns = c.Pick<int64_t>({4096, 5001, 9000, 32768});
    OneRmsNorm(c, 2, columns, Concat(context, ", 2 x ", columns));
  });
}

TEST(RmsNormKernel, ZerosAndInfinities) {
  for (const double value : {0.0, 1e-30, kInfinity}) {
    const at::Tensor x = at::full({1, 20}, value, at::kFloat), weight = at::ones({20}), y = at::empty({1, 20});
    const at::Tensor scale = at::empty({1});
    RmsNormForward(PlaceOf(x), ascendc::Element::kFloat,
                   {x.data_ptr(), nullptr, weight.data_ptr(), nullptr, y.data_ptr(), Of<float>(scale), 1, 20, 1e-6f});
    ExpectNear(y, PlainNorm(x.to(at::kDouble), weight, 1e-6), 1e-6, Concat("all ", value));
  }
}

at::Tensor PlainSwiglu(const at::Tensor& x, int64_t ffn) {
  return at::silu(x.narrow(1, 0, ffn)) * x.narrow(1, ffn, ffn);
}

void OneSwiglu(KernelCase& c, int64_t rows, int64_t ffn, const std::string& context) {
  const at::Tensor x = c.Values({rows, 2 * ffn}), y = c.Empty({rows, ffn});
  ascendc::SwigluForward(c.place(), c.element(), x.data_ptr(), rows, ffn, y.data_ptr());
  const at::Tensor wide = x.to(at::kDouble).requires_grad_(), wanted = PlainSwiglu(wide, ffn);
  ExpectNear(y, wanted.detach(), c.Tolerance(), context + ", y");
  const at::Tensor gradient = c.Values({rows, ffn}), result = c.Empty({rows, 2 * ffn});
  ascendc::SwigluBackward(c.place(), c.element(), x.data_ptr(), gradient.data_ptr(), rows, ffn, result.data_ptr());
  torch::autograd::backward({wanted}, {gradient.to(at::kDouble)});
  ExpectNear(result, wide.grad(), c.Tolerance(), context + ", gradient");
}

TEST(SwigluKernel, RandomCases) {
  ForCases(400, [](KernelCase& c, const std::string& context) {
    const int64_t rows = c.Rows(), ffn = c.Columns();
    OneSwiglu(c, rows, ffn, Concat(context, ", ", rows, " x ", ffn));
  });
  ForCases(3, [](KernelCase& c, const std::string& context) { OneSwiglu(c, 2, 11000, context + ", long rows"); });
}

TEST(SwigluKernel, EndsOfTheRange) {
  const at::Tensor gate = at::tensor({-1e4f, -100.0f, -88.5f, 0.0f, -0.0f, 1e-41f, 88.0f, 1e4f, 3e38f});
  const at::Tensor x = at::cat({gate, at::ones(9)}).unsqueeze(0), y = at::empty({1, 9});
  ascendc::SwigluForward(PlaceOf(x), ascendc::Element::kFloat, x.data_ptr(), 1, 9, y.data_ptr());
  ExpectNear(y[0], at::silu(gate.to(at::kDouble)), 1e-6, "ends");
}

struct HeadsResult {
  at::Tensor query, key, value;
};

// In attention's layout: query [rows, kv, length, group, dim], key and value [rows, kv, length, dim].
HeadsResult PlainHeads(const at::Tensor& qkv, const ascendc::HeadShape& s, const at::Tensor& query_norm,
                       const at::Tensor& key_norm, const at::Tensor& cosine, const at::Tensor& sine) {
  const auto tokens = static_cast<int64_t>(s.tokens), dim = static_cast<int64_t>(s.dim),
             half = static_cast<int64_t>(s.half);
  const auto heads = static_cast<int64_t>(s.heads), kv = static_cast<int64_t>(s.kv_heads),
             length = static_cast<int64_t>(s.length);
  const at::Tensor lines = qkv.view({tokens, heads + 2 * kv, dim});
  const auto turned = [&](const at::Tensor& part, const at::Tensor& norm) {
    const at::Tensor x = norm.defined() ? PlainNorm(part, norm, s.eps) : part;
    const at::Tensor a = x.narrow(2, 0, half), b = x.narrow(2, half, half), c = cosine.unsqueeze(1),
                     d = sine.unsqueeze(1);
    return at::cat({a * c - b * d, b * c + a * d, x.narrow(2, 2 * half, dim - 2 * half)}, 2);
  };
  const auto laid = [&](const at::Tensor& x) {
    return x.reshape({tokens / length, length, kv, -1, dim}).transpose(1, 2);
  };
  return {laid(turned(lines.narrow(1, 0, heads), query_norm)),
          laid(turned(lines.narrow(1, heads, kv), key_norm)).squeeze(3),
          laid(lines.narrow(1, heads + kv, kv)).squeeze(3)};
}

TEST(HeadsKernel, RandomCases) {
  ForCases(250, [](KernelCase& c, const std::string& given) {
    ascendc::HeadShape s{};
    s.length = c.Between(1, 4), s.tokens = s.length * c.Between(1, 2), s.kv_heads = c.Between(1, 2);
    s.heads = s.kv_heads * c.Between(1, 2);
    s.dim = c.Chance(0.4) ? 16 * c.Between(1, 8) : c.Between(1, 70);
    s.half = c.Chance(0.7) ? s.dim / 2 : c.Between(0, s.dim / 2);
    s.eps = 1e-5f;
    const std::string context = Concat(given, ", dim ", s.dim, ", half ", s.half);
    const auto tokens = static_cast<int64_t>(s.tokens), dim = static_cast<int64_t>(s.dim),
               half = static_cast<int64_t>(s.half);
    const int64_t heads = s.heads, kv = s.kv_heads, length = s.length;
    const bool normed = c.Chance(0.6);
    const at::Tensor qkv = c.Values({tokens, (heads + 2 * kv) * dim}), query_norm = c.Values({dim}),
                     key_norm = c.Values({dim});
    const at::Tensor angles = at::rand({tokens, half}) * 6, cosine = angles.cos(), sine = angles.sin();
    const at::Tensor query = c.Empty({tokens / length, kv, length, heads / kv, dim}),
                     key = c.Empty({tokens / length, kv, length, dim});
    const at::Tensor value = c.Empty(key.sizes()), scales = c.Empty({tokens, heads + kv}, at::kFloat);
    ascendc::HeadArgs args{qkv.data_ptr(),
                           normed ? query_norm.data_ptr() : nullptr,
                           normed ? key_norm.data_ptr() : nullptr,
                           Of<float>(cosine),
                           Of<float>(sine),
                           query.data_ptr(),
                           key.data_ptr(),
                           value.data_ptr(),
                           Of<float>(scales)};
    ascendc::SplitHeads(c.place(), c.element(), s, args);
    const auto wide = [](const at::Tensor& t) { return t.to(at::kDouble).requires_grad_(); };
    const at::Tensor x = wide(qkv), qn = wide(query_norm), kn = wide(key_norm);
    const HeadsResult wanted = PlainHeads(x, s, normed ? qn : at::Tensor(), normed ? kn : at::Tensor(),
                                          cosine.to(at::kDouble), sine.to(at::kDouble));
    const double tolerance = 2 * c.Tolerance();  // rounded twice on the way
    ExpectNear(query, wanted.query.detach(), tolerance, context + ", query");
    ExpectNear(key, wanted.key.detach(), tolerance, context + ", key");
    ExpectNear(value, wanted.value.detach(), 1e-9, context + ", value");

    const at::Tensor dq = c.Values(query.sizes()), dk = c.Values(key.sizes()), dv = c.Values(value.sizes());
    const at::Tensor result = c.Empty(qkv.sizes());
    const at::Tensor sums = c.Empty({ascendc::SplitHeadsBlocks(c.place(), s), 2, dim}, at::kFloat);
    args.query = dq.data_ptr(), args.key = dk.data_ptr(), args.value = dv.data_ptr();
    ascendc::SplitHeadsBackward(c.place(), c.element(), s, args, result.data_ptr(), Of<float>(sums));
    torch::autograd::backward({wanted.query, wanted.key, wanted.value},
                              {dq.to(at::kDouble), dk.to(at::kDouble), dv.to(at::kDouble)});
    const auto largest = [](const at::Tensor& t) { return t.abs().max().to(at::kDouble).item<double>(); };
    // A norm's gradient is a difference: its error bound follows from what is subtracted.
    const double subtracted =
        std::max(largest(dq), largest(dk)) * std::max(largest(query_norm), largest(key_norm)) * largest(scales);
    ExpectNear(result, x.grad(), c.Tolerance() + 2e-5, context + ", gradient",
               normed ? (c.Tolerance() + 2e-6) * subtracted : 1e-37);
    if (!normed) return;
    ExpectNear(sums.sum(0)[0], qn.grad(), 3e-5, context + ", query norm");
    ExpectNear(sums.sum(0)[1], kn.grad(), 3e-5, context + ", key norm");
  });
}

}  // namespace
}  // namespace trireme
