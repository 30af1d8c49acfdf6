// The kernels of the gated delta rule against the formulas in fp64: matrices of every size, heads that share products.
#include "ops/gated_delta/ascendc.h"
#include "tests/ops/ascendc/kernel_case.h"

namespace trireme {
namespace {

struct PairCase {
  ascendc::PairShape shape;
  at::Tensor keys, queries, decay, beta;  // products: [key heads, 1, size, size]; [key heads, group, size]
};

PairCase RandomPairs(KernelCase& c) {
  const int64_t heads = c.Between(0, 3), group = c.Between(1, 3);
  const int64_t size = c.Chance(0.5) ? int64_t{1} << c.Between(0, 6) : c.Between(1, 64);
  const at::Tensor key = at::randn({heads, 1, size, 16});
  const at::Tensor unit = key / key.square().sum(-1, /*keepdim=*/true).sqrt();
  // Decays from almost none to so large that a chunk forgets its first tokens.
  const double rate = c.Pick({0.001, 0.3, 20.0});
  return {.shape = {static_cast<uint64_t>(heads * group), static_cast<uint64_t>(size), static_cast<uint64_t>(group)},
          .keys = at::matmul(unit, unit.transpose(-2, -1)),
          .queries = at::randn({heads, 1, size, size}),
          .decay = -(at::rand({heads, group, size}) * rate).cumsum(-1),
          .beta = at::rand({heads, group, size})};
}

struct ExactPairs {
  at::Tensor attention, system;
};

ExactPairs Exactly(const at::Tensor& keys, const at::Tensor& queries, const at::Tensor& decay, const at::Tensor& beta) {
  const at::Tensor later = at::ones({decay.size(-1), decay.size(-1)}, at::kBool).triu(1);
  const at::Tensor between = (decay.unsqueeze(-1) - decay.unsqueeze(-2)).masked_fill(later, -kInfinity).exp();
  return {.attention = queries * between, .system = (keys * between * beta.unsqueeze(-1)).tril(-1)};
}

TEST(DeltaKernels, PairsOfRandomCases) {
  ForCases(40, [](KernelCase& c, const std::string& given) {
    const PairCase p = RandomPairs(c);
    const auto size = static_cast<int64_t>(p.shape.size);
    const std::string context = Concat(given, ", ", p.shape.matrices, " heads in ", p.shape.group, "s of ", size);
    std::vector<int64_t> shape = p.decay.sizes().vec();
    shape.push_back(size);
    const at::Tensor attention = c.Empty(shape, at::kFloat), inverse = c.Empty(shape, at::kFloat);
    ascendc::DeltaPairsForward(c.place(), Of<float>(p.keys), Of<float>(p.queries), Of<float>(p.decay),
                               Of<float>(p.beta), p.shape, Of<float>(attention), Of<float>(inverse));
    const auto wide = [](const at::Tensor& x) { return x.to(at::kDouble).requires_grad_(); };
    const at::Tensor keys = wide(p.keys.expand(shape)), queries = wide(p.queries.expand(shape)), decay = wide(p.decay),
                     beta = wide(p.beta);
    const ExactPairs exact = Exactly(keys, queries, decay, beta);
    ExpectNear(attention, exact.attention.detach(), 1e-5, context + ", attention");
    if (p.shape.matrices > 0) {
      const at::Tensor wanted = at::inverse(exact.system.detach() + at::eye(size, at::kDouble));
      ExpectNear(inverse, wanted, 2e-5, context + ", inverse", 1e-5);
    }
    // d(system) = -G Nᵀ: whatever it is, the rest of the chain is that of autograd.
    const at::Tensor of_attention = at::randn(shape), of_system = at::randn(shape);
    exact.attention.backward(of_attention.to(at::kDouble), /*retain_graph=*/true);
    exact.system.backward(-of_system.to(at::kDouble));
    const at::Tensor to_decay = c.Empty(p.decay.sizes(), at::kFloat), to_beta = c.Empty(p.decay.sizes(), at::kFloat);
    ascendc::DeltaPairsBackward(c.place(), Of<float>(p.keys), Of<float>(p.queries), Of<float>(p.decay),
                                Of<float>(p.beta), p.shape, Of<float>(of_attention), Of<float>(of_system),
                                Of<float>(to_decay), Of<float>(to_beta));
    ExpectNear(of_attention, queries.grad(), 1e-5, context + ", products of queries");
    ExpectNear(of_system, keys.grad(), 1e-5, context + ", products of keys");
    ExpectNear(to_beta, beta.grad(), 1e-5, context + ", beta", 1e-4);
    ExpectNear(to_decay, decay.grad(), 1e-5, context + ", decay", 1e-4);
  });
}

// Documents of every length, in segments that end anywhere.
TEST(DeltaKernels, ConvolutionsOfRandomCases) {
  ForCases(80, [](KernelCase& c, const std::string& given) {
    const int64_t taps = c.Between(1, 6), channels = c.Columns(300),
                  tokens = c.Chance(0.3) ? c.Between(60, 300) : c.Rows();
    const std::string context = Concat(given, ", ", tokens, " x ", channels, ", ", taps, " taps");
    const at::Tensor x = at::randn({tokens, channels}).to(c.type()),
                     gradient = at::randn({tokens, channels}).to(c.type());
    const at::Tensor weight = at::randn({taps, channels}), places = at::zeros({tokens}, at::kInt);
    for (int64_t t = 1; t < tokens; ++t) {
      places[t] = c.Chance(0.15) ? 0 : places[t - 1].item<int32_t>() + 1;
    }
    const ascendc::ConvShape shape{static_cast<uint64_t>(tokens), static_cast<uint64_t>(channels),
                                   static_cast<uint64_t>(taps)};
    const at::Tensor y = c.Empty({tokens, channels}), to_x = c.Empty({tokens, channels});
    const auto parts = static_cast<int64_t>(ascendc::ConvSegments(c.place(), shape));
    const at::Tensor to_weight = at::zeros({parts, taps, channels});
    ascendc::CausalConvForward(c.place(), c.element(), x.data_ptr(), Of<float>(weight), Of<int32_t>(places), shape,
                               y.data_ptr());
    ascendc::CausalConvBackward(c.place(), c.element(), x.data_ptr(), Of<float>(weight), Of<int32_t>(places),
                                gradient.data_ptr(), shape, to_x.data_ptr(), Of<float>(to_weight));
    if (tokens == 0) return;
    const at::Tensor wide = x.to(at::kDouble).requires_grad_(), wide_weight = weight.to(at::kDouble).requires_grad_();
    at::Tensor sum = at::zeros({tokens, channels}, at::kDouble);
    for (int64_t back = 0; back < std::min(taps, tokens); ++back) {
      const at::Tensor seen = at::constant_pad_nd(wide.narrow(0, 0, tokens - back), {0, 0, back, 0});
      sum = sum + seen * wide_weight[taps - 1 - back] * places.ge(back).unsqueeze(1);
    }
    const at::Tensor wanted = at::silu(sum);
    wanted.backward(gradient.to(at::kDouble));
    ExpectNear(y, wanted.detach(), c.Tolerance() + 2e-6, context + ", output");
    ExpectNear(to_x, wide.grad(), c.Tolerance() + 2e-6, context + ", x", 1e-5);
    ExpectNear(to_weight.sum(0), wide_weight.grad(), 1e-5, context + ", weight", 1e-4);
  });
}

}  // namespace
}  // namespace trireme
