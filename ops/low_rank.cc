#include "ops/low_rank.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/ascendc/lora.h"
#include "ops/kernel_place.h"
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
at::Tensor ReadByA(const at::Tensor& x, at::ScalarType type, const Dropout* dropout) {
  const at::Tensor typed = x.to(type);
  return dropout == nullptr ? typed : Dropped(typed, *dropout);
}

at::Tensor RanksOf(const at::Tensor& low, const LowRankBlock& block) {
  return low.narrow(1, block.first_rank, block.b->value.size(-1));
}

at::Tensor OutputsOf(const at::Tensor& y, const LowRankBlock& block) {
  return y.narrow(1, block.first_output, block.b->value.size(-2));
}

struct KeptPairs {
  const LowRankWeights* pairs = nullptr;
  bool kernels = false;
  GroupEnds ends;
  std::shared_ptr<const Dropout> dropout;
  std::function<at::Tensor()> again;
  at::Tensor low;  // [rows, ranks], scaled; of the kernels in fp32
  at::ScalarType input_type = at::kFloat;
};

struct PairsHolder : torch::CustomClassHolder {
  std::shared_ptr<KeptPairs> kept = std::make_shared<KeptPairs>();
};

// For the kernels, which work on whole rows of y, all pairs are one.
struct OnePair {
  at::Tensor a;       // [ranks, in]
  at::Tensor b;       // [ranks, out]: each Bᵀ where its outputs stand, zeros elsewhere
  at::Tensor scales;  // [ranks] fp32

  OnePair(const LowRankWeights& pairs, int64_t outputs, at::ScalarType type) {
    a = pairs.a->value.to(type).contiguous();
    b = at::zeros({a.size(0), outputs}, a.options());
    scales = at::ones({a.size(0)}, a.options().dtype(at::kFloat));
    for (const LowRankBlock& block : pairs.blocks) {
      const int64_t rank = block.b->value.size(1);
      scales.narrow(0, block.first_rank, rank).fill_(block.scale);
      OutputsOf(b.narrow(0, block.first_rank, rank), block).copy_(block.b->value.t());
    }
  }
};

ascendc::LoraShape ShapeOf(const at::Tensor& rows, const at::Tensor& matrix) {
  return {.rows = static_cast<uint64_t>(rows.size(0)),
          .columns = static_cast<uint64_t>(matrix.size(1)),
          .rank = static_cast<uint64_t>(matrix.size(0))};
}

// x · matrixᵀ · scales in fp32.
at::Tensor Shrink(const at::Tensor& x, const at::Tensor& matrix, const at::Tensor& scales) {
  at::Tensor low = at::zeros({x.size(0), matrix.size(0)}, scales.options());
  ascendc::LoraShrink(PlaceOf(x), ElementOf(x), x.data_ptr(), matrix.data_ptr(), ShapeOf(x, matrix),
                      Data<float>(low));
  return low.mul_(scales);
}

// y (+)= low · matrix
void Expand(const at::Tensor& low, const at::Tensor& matrix, bool adds, const at::Tensor& y) {
  ascendc::LoraExpand(PlaceOf(y), ElementOf(y), Data<float>(low), matrix.data_ptr(),
                      adds ? y.data_ptr() : nullptr, ShapeOf(low, matrix), y.data_ptr());
}

// lowᵀ · x in fp32.
at::Tensor Gathered(const at::Tensor& low, const at::Tensor& x) {
  const at::Tensor sum = at::zeros({low.size(1), x.size(1)}, low.options());
  ascendc::LoraGradient(PlaceOf(x), ElementOf(x), Data<float>(low), x.data_ptr(), ShapeOf(low, sum),
                        Data<float>(sum));
  return sum;
}

bool ByKernels(const at::Tensor& y, const LowRankInput& input, const LowRankWeights& pairs) {
  const Against against = AgainstLowRank(y, pairs.a->value.size(-2), input.ends != nullptr);
  return Choose("low_rank", y, against).version == Version::kKernel;
}

void KernelForward(KeptPairs& kept, const at::Tensor& x, const at::Tensor& y) {
  const OnePair pair(*kept.pairs, y.size(1), y.scalar_type());
  kept.low = Shrink(ReadByA(x, y.scalar_type(), kept.dropout.get()).contiguous(), pair.a, pair.scales);
  Expand(kept.low, pair.b, /*adds=*/true, y);
}

void ProductForward(KeptPairs& kept, const at::Tensor& x, const at::Tensor& y) {
  kept.low = Product(ReadByA(x, y.scalar_type(), kept.dropout.get()), kept.pairs->a->value, kept.ends);
  for (const LowRankBlock& block : kept.pairs->blocks) {
    const at::Tensor low = RanksOf(kept.low, block) * block.scale;
    RanksOf(kept.low, block).copy_(low);
    AddProduct(OutputsOf(y, block), low, block.b->value, kept.ends);
  }
}

// Gradients of `low`, scaled as it was, and of what A reads.
struct InputGradients {
  at::Tensor low, x;
};

InputGradients KernelBackward(const KeptPairs& kept, const at::Tensor& gradient) {
  const OnePair pair(*kept.pairs, gradient.size(1), gradient.scalar_type());
  const at::Tensor x = at::empty({gradient.size(0), pair.a.size(1)}, gradient.options());
  const at::Tensor low = Shrink(gradient, pair.b, pair.scales);
  Expand(low, pair.a, /*adds=*/false, x);
  return {low, x};
}

InputGradients ProductBackward(const KeptPairs& kept, const at::Tensor& gradient) {
  at::Tensor low = at::empty_like(kept.low);
  for (const LowRankBlock& block : kept.pairs->blocks) {
    const at::Tensor own = OutputsOf(gradient, block).contiguous();
    RanksOf(low, block).copy_(Product(own, block.b->value.transpose(-2, -1), kept.ends) * block.scale);
  }
  return {low, Product(low, kept.pairs->a->value.transpose(-2, -1), kept.ends)};
}

// Of the Bs.
void AddOutputGradients(const KeptPairs& kept, const at::Tensor& gradient) {
  const at::Tensor all = kept.kernels ? Gathered(kept.low, gradient) : at::Tensor();
  for (const LowRankBlock& block : kept.pairs->blocks) {
    if (!kept.kernels) {
      AddGradient(*block.b, OutputsOf(gradient, block).contiguous(), RanksOf(kept.low, block).contiguous(),
                  kept.ends);
    } else if (block.b->trained()) {
      const at::Tensor own = all.narrow(0, block.first_rank, block.b->value.size(1));
      block.b->gradient_sum().add_(OutputsOf(own, block).t());
    }
  }
}

void AddInputGradient(const KeptPairs& kept, const at::Tensor& low_gradient, const at::Tensor& read) {
  if (!kept.kernels) return AddGradient(*kept.pairs->a, low_gradient, read, kept.ends);
  kept.pairs->a->gradient_sum().add_(Gathered(low_gradient, read.contiguous()));
}

struct LowRankFunction : torch::autograd::Function<LowRankFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& base, const at::Tensor& x,
                            const LowRankInput& input, const LowRankWeights* pairs) {
    auto holder = c10::make_intrusive<PairsHolder>();
    KeptPairs& kept = *holder->kept;
    kept.pairs = pairs;
    kept.ends = input.ends;
    kept.dropout = input.dropout;
    kept.again = input.x.again;
    kept.input_type = x.scalar_type();
    kept.kernels = ByKernels(base, input, *pairs);
    if (pairs->a->trained() && !kept.again) context->save_for_backward({x});
    (kept.kernels ? KernelForward : ProductForward)(kept, x, base);
    context->saved_data["kept"] = c10::IValue::make_capsule(holder);
    context->mark_dirty({base});
    return base;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto holder = context->saved_data["kept"].toCapsule();
    const std::shared_ptr<KeptPairs> kept = static_cast<PairsHolder*>(holder.get())->kept;
    const at::Tensor gradient = gradients[0].contiguous();
    const InputGradients back = (kept->kernels ? KernelBackward : ProductBackward)(*kept, gradient);
    at::Tensor input_gradient = back.x.to(kept->input_type);
    if (kept->dropout) input_gradient = Dropped(input_gradient, *kept->dropout);
    const at::Tensor x = saved.empty() ? at::Tensor() : saved[0];
    WeightGradients::Add([kept, gradient, low = back.low, x] {
      AddOutputGradients(*kept, gradient);
      if (!kept->pairs->a->trained()) return;
      const at::Tensor read = kept->again ? kept->again() : x;
      AddInputGradient(*kept, low, ReadByA(read, gradient.scalar_type(), kept->dropout.get()));
    });
    return {gradients[0], input_gradient, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

Against AgainstLowRank(const at::Tensor& y, int64_t ranks, bool of_experts) {
  const char* why = ascendc::WhyNotLora({.rows = 0, .columns = 0, .rank = static_cast<uint64_t>(ranks)});
  const std::string declined = of_experts ? "the pairs stand beside a stack of experts" : (why ? why : "");
  return {.loops = "there are none for low-rank pairs",
          .kernel = declined,
          .aten = y.is_cpu() ? "products were measured faster on the cpu"
                             : "products have the cube, the kernels only the vector units"};
}

at::Tensor AddLowRank(const at::Tensor& base, const LowRankInput& input, const LowRankWeights& pairs) {
  return LowRankFunction::apply(base, input.x.value, input, &pairs);
}

}  // namespace trireme
