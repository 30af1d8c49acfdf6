#include "ops/low_rank.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "ops/choose.h"
#include "ops/weight_gradients.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// x · factorᵀ, or for each expert's rows with its own factor.
at::Tensor Product(const at::Tensor& x, const at::Tensor& factor, const GroupEnds& ends) {
  const at::Tensor turned = factor.to(x.scalar_type()).transpose(-2, -1);
  return ends ? GroupedProducts(x, turned, *ends) : at::mm(x, turned);
}

// y += x · factorᵀ; y may be some columns of a wider matrix.
void AddProduct(const at::Tensor& y, const at::Tensor& x, const at::Tensor& factor, const GroupEnds& ends) {
  at::Tensor sum = y;
  if (ends) {
    sum.add_(Product(x, factor, ends));
  } else {
    sum.addmm_(x, factor.to(x.scalar_type()).t());
  }
}

void AddGradient(const Weight& weight, const at::Tensor& output_gradient, const at::Tensor& x,
                 const GroupEnds& ends) {
  if (ends) return AddGroupedGradient(weight, output_gradient, x, *ends);
  AddWeightGradient(weight, output_gradient, x);
}

// What A reads, in the type of the product.
at::Tensor Dropped(const at::Tensor& x, at::ScalarType type, const InputDropout* dropout) {
  const at::Tensor typed = x.to(type);
  return dropout == nullptr ? typed : typed * DropoutMask(*dropout, x.size(1), typed.options());
}

at::Tensor RanksOf(const at::Tensor& low, const LowRankBlock& block) {
  return low.narrow(1, block.first_rank, block.b->value.size(-1));
}

at::Tensor OutputsOf(const at::Tensor& y, const LowRankBlock& block) {
  return y.narrow(1, block.first_output, block.b->value.size(-2));
}

struct KeptPairs {
  const LowRankWeights* pairs = nullptr;
  GroupEnds ends;
  std::shared_ptr<const InputDropout> dropout;
  std::function<at::Tensor()> again;
  at::Tensor low;  // [rows, ranks], scaled
  at::ScalarType input_type = at::kFloat;
};

struct PairsHolder : torch::CustomClassHolder {
  std::shared_ptr<KeptPairs> kept = std::make_shared<KeptPairs>();
};

// Gradients of `low`, scaled as it was.
at::Tensor LowGradient(const KeptPairs& kept, const at::Tensor& gradient) {
  at::Tensor low = at::empty_like(kept.low);
  for (const LowRankBlock& block : kept.pairs->blocks) {
    const at::Tensor own = OutputsOf(gradient, block).contiguous();
    RanksOf(low, block).copy_(Product(own, block.b->value.transpose(-2, -1), kept.ends) * block.scale);
  }
  return low;
}

struct LowRankFunction : torch::autograd::Function<LowRankFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& base, const at::Tensor& x,
                            const LowRankInput& input, const LowRankWeights* pairs) {
    auto holder = c10::make_intrusive<PairsHolder>();
    const std::shared_ptr<KeptPairs>& kept = holder->kept;
    kept->pairs = pairs;
    kept->ends = input.ends;
    kept->dropout = input.dropout;
    kept->again = input.x.again;
    kept->input_type = x.scalar_type();
    if (pairs->a->trained() && !kept->again) context->save_for_backward({x});
    kept->low = Product(Dropped(x, base.scalar_type(), input.dropout.get()), pairs->a->value, input.ends);
    at::Tensor y = base;
    for (const LowRankBlock& block : pairs->blocks) {
      const at::Tensor low = RanksOf(kept->low, block) * block.scale;
      RanksOf(kept->low, block).copy_(low);
      AddProduct(OutputsOf(y, block), low, block.b->value, input.ends);
    }
    context->saved_data["kept"] = c10::IValue::make_capsule(holder);
    context->mark_dirty({base});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto holder = context->saved_data["kept"].toCapsule();
    const std::shared_ptr<KeptPairs> kept = static_cast<PairsHolder*>(holder.get())->kept;
    const at::Tensor gradient = gradients[0].contiguous(), low_gradient = LowGradient(*kept, gradient);
    at::Tensor input_gradient =
        Product(low_gradient, kept->pairs->a->value.transpose(-2, -1), kept->ends).to(kept->input_type);
    if (kept->dropout) {
      input_gradient =
          input_gradient * DropoutMask(*kept->dropout, input_gradient.size(1), input_gradient.options());
    }
    const at::Tensor x = saved.empty() ? at::Tensor() : saved[0];
    WeightGradients::Add([kept, gradient, low_gradient, x] {
      for (const LowRankBlock& block : kept->pairs->blocks) {
        AddGradient(*block.b, OutputsOf(gradient, block).contiguous(), RanksOf(kept->low, block).contiguous(),
                    kept->ends);
      }
      if (!kept->pairs->a->trained()) return;
      const at::Tensor read = kept->again ? kept->again() : x;
      AddGradient(*kept->pairs->a, low_gradient,
                  Dropped(read, low_gradient.scalar_type(), kept->dropout.get()), kept->ends);
    });
    return {gradients[0], input_gradient, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor DropoutMask(const InputDropout& dropout, int64_t columns, const at::TensorOptions& options) {
  const int64_t rows = dropout.rows.numel();
  at::Tensor mask = at::empty({rows, columns}, at::kFloat);
  const auto kept = static_cast<float>(1.0 / (1.0 - dropout.rate));
  const auto dropped = static_cast<uint64_t>(std::lround(dropout.rate * 0x1p16));
  const auto* ids = dropout.rows.data_ptr<int64_t>();
  auto* first = mask.data_ptr<float>();
  at::parallel_for(0, rows, GrainOfRows(columns), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const RandomStream random = dropout.random.Branch(static_cast<uint64_t>(ids[row]));
      uint64_t bits = 0;  // for four inputs
      for (int64_t i = 0; i < columns; ++i) {
        const auto input = static_cast<uint64_t>(dropout.first_input + i);
        if (i == 0 || input % 4 == 0) bits = random.Bits(input / 4);
        const uint64_t drawn = bits >> (16 * (input % 4)) & 0xffff;
        first[row * columns + i] = drawn < dropped ? 0.0f : kept;
      }
    }
  });
  return mask.to(options);
}

at::Tensor AddLowRank(const at::Tensor& base, const LowRankInput& input, const LowRankWeights& pairs) {
  return LowRankFunction::apply(base, input.x.value, input, &pairs);
}

}  // namespace trireme
