#include "ops/low_rank.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/ascendc/lora.h"
#include "ops/element_types.h"
#include "ops/kernel_place.h"
#include "ops/operator.h"
#include "ops/weight_gradients.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// x · factorᵀ, or each expert's rows with its own factor.
at::Tensor Product(const at::Tensor& x, const at::Tensor& factor, const GroupEnds& ends) {
  const at::Tensor turned = factor.to(x.scalar_type()).transpose(-2, -1);
  return ends ? GroupedProducts(x, turned, *ends) : at::mm(x, turned);
}

// y += x · factorᵀ; y may be a slice of a wider matrix's columns.
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

// A's input, in the dtype of the matmul.
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

// Each block's ranks by its scale; by one operator where all have the same.
void ScaleRanks(const at::Tensor& low, const LowRankWeights& pairs) {
  const double first = pairs.blocks.front().scale;
  bool same = true;
  for (const LowRankBlock& block : pairs.blocks) same = same && block.scale == first;
  if (same) {
    low.mul_(first);
    return;
  }
  for (const LowRankBlock& block : pairs.blocks) RanksOf(low, block).mul_(block.scale);
}

// A GPU's products take columns of a wider matrix as they are.
at::Tensor ForProduct(const at::Tensor& columns) {
  return columns.is_cuda() ? columns : columns.contiguous();
}

struct KeptPairs {
  const LowRankWeights* pairs = nullptr;
  int64_t implementation = 0;  // of kLowRank
  GroupEnds ends;
  std::shared_ptr<const Dropout> dropout;
  std::function<at::Tensor()> again;
  at::Tensor low;  // [rows, ranks], scaled; of the kernels in fp32
  at::ScalarType input_type = at::kFloat;
};

struct PairsHolder : torch::CustomClassHolder {
  std::shared_ptr<KeptPairs> kept = std::make_shared<KeptPairs>();
};

// The kernels work on full rows of y, so all pairs are merged into one.
struct OnePair {
  at::Tensor a;       // [ranks, in]
  at::Tensor b;       // [ranks, out]: each Bᵀ at its outputs, zeros elsewhere
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

void KernelForward(KeptPairs& kept, const at::Tensor& x, const at::Tensor& y) {
  const OnePair pair(*kept.pairs, y.size(1), y.scalar_type());
  kept.low = Shrink(ReadByA(x, y.scalar_type(), kept.dropout.get()).contiguous(), pair.a, pair.scales);
  Expand(kept.low, pair.b, /*adds=*/true, y);
}

void ProductForward(KeptPairs& kept, const at::Tensor& x, const at::Tensor& y) {
  kept.low = Product(ReadByA(x, y.scalar_type(), kept.dropout.get()), kept.pairs->a->value, kept.ends);
  ScaleRanks(kept.low, *kept.pairs);
  for (const LowRankBlock& block : kept.pairs->blocks) {
    const at::Tensor low = RanksOf(kept.low, block);
    AddProduct(OutputsOf(y, block), kept.ends ? low.contiguous() : ForProduct(low), block.b->value,
               kept.ends);
  }
}

struct LowRankBackward {
  at::Tensor (*low)(const KeptPairs&, const at::Tensor& gradient);  // of `low`, scaled as it was
  // Of what A reads: sum (+)= low · A; undefined: there is no sum yet.
  at::Tensor (*input)(const KeptPairs&, const at::Tensor& low, const at::Tensor& sum, at::ScalarType type);
  void (*b)(const KeptPairs&, const at::Tensor& gradient);  // adds the gradients of the Bs
  void (*a)(const KeptPairs&, const at::Tensor& low_gradient, const at::Tensor& read);
};

at::Tensor KernelLow(const KeptPairs& kept, const at::Tensor& gradient) {
  const OnePair pair(*kept.pairs, gradient.size(1), gradient.scalar_type());
  return Shrink(gradient, pair.b, pair.scales);
}

at::Tensor KernelInput(const KeptPairs& kept, const at::Tensor& low, const at::Tensor& sum,
                       at::ScalarType type) {
  const at::Tensor a = kept.pairs->a->value.to(type).contiguous();
  const at::Tensor x = sum.defined() ? sum : at::empty({low.size(0), a.size(1)}, a.options());
  Expand(low, a, /*adds=*/sum.defined(), x);
  return x;
}

at::Tensor ProductLow(const KeptPairs& kept, const at::Tensor& gradient) {
  at::Tensor low = at::empty_like(kept.low);
  for (const LowRankBlock& block : kept.pairs->blocks) {
    const at::Tensor own = OutputsOf(gradient, block);
    const at::Tensor turned = block.b->value.transpose(-2, -1);
    RanksOf(low, block).copy_(Product(kept.ends ? own.contiguous() : ForProduct(own), turned, kept.ends));
  }
  ScaleRanks(low, *kept.pairs);
  return low;
}

at::Tensor ProductInput(const KeptPairs& kept, const at::Tensor& low, const at::Tensor& sum,
                        at::ScalarType /*type*/) {
  const at::Tensor turned = kept.pairs->a->value.transpose(-2, -1);
  if (!sum.defined()) return Product(low, turned, kept.ends);
  AddProduct(sum, low, turned, kept.ends);
  return sum;
}

void KernelGradientsOfB(const KeptPairs& kept, const at::Tensor& gradient) {
  const at::Tensor all = Gathered(kept.low, gradient);
  for (const LowRankBlock& block : kept.pairs->blocks) {
    if (!block.b->trained()) continue;
    const at::Tensor own = all.narrow(0, block.first_rank, block.b->value.size(1));
    block.b->gradient_sum().add_(OutputsOf(own, block).t());
  }
}

void ProductGradientsOfB(const KeptPairs& kept, const at::Tensor& gradient) {
  for (const LowRankBlock& block : kept.pairs->blocks) {
    const at::Tensor own = OutputsOf(gradient, block), low = RanksOf(kept.low, block);
    const bool strided = !kept.ends && own.is_cuda();
    AddGradient(*block.b, strided ? own : own.contiguous(), strided ? low : low.contiguous(), kept.ends);
  }
}

void KernelGradientOfA(const KeptPairs& kept, const at::Tensor& low_gradient, const at::Tensor& read) {
  kept.pairs->a->gradient_sum().add_(Gathered(low_gradient, read.contiguous()));
}

void ProductGradientOfA(const KeptPairs& kept, const at::Tensor& low_gradient, const at::Tensor& read) {
  AddGradient(*kept.pairs->a, low_gradient, read, kept.ends);
}

struct LowRankCase {
  const at::Tensor& y;
  int64_t ranks = 0;        // of all pairs of y
  bool of_experts = false;  // of a stack of experts
};

std::string WhyNotKernel(const LowRankCase& c) {
  if (!KernelsAreWanted()) {
    return c.y.is_cpu() ? "matmuls were measured faster on the cpu"
                        : "matmuls use the cube unit, the kernels only the vector units";
  }
  if (c.of_experts) return Either(WhyNoKernel(c.y), "the pairs belong to a stack of experts");
  const char* why = ascendc::WhyNotLora({.rows = 0, .columns = 0, .rank = static_cast<uint64_t>(c.ranks)});
  return Either(WhyNoKernel(c.y), why == nullptr ? "" : why);
}

// The backward pass runs what ran forward: the dtype of `low` differs.
const ImplementationList<LowRankCase, decltype(&ProductForward), LowRankBackward> kLowRank{
    "low_rank",
    {{"ascendc",
      WhyNotKernel,
      KernelForward,
      {KernelLow, KernelInput, KernelGradientsOfB, KernelGradientOfA}},
     {"aten", nullptr, ProductForward, {ProductLow, ProductInput, ProductGradientsOfB, ProductGradientOfA}}}};

// The parts of both functions below.
c10::intrusive_ptr<PairsHolder> Keep(const LowRankInput& input, const at::Tensor& x,
                                     const LowRankWeights& pairs, const at::Tensor& y) {
  auto holder = c10::make_intrusive<PairsHolder>();
  KeptPairs& kept = *holder->kept;
  kept.pairs = &pairs;
  kept.ends = input.ends;
  kept.dropout = input.dropout;
  kept.again = input.x.again;
  kept.input_type = x.scalar_type();
  const auto& chosen = kLowRank.Choose({y, pairs.a->value.size(-2), input.ends != nullptr});
  kept.implementation = kLowRank.IndexOf(chosen);
  chosen.forward(kept, x, y);
  return holder;
}

void PutOffGradients(const std::shared_ptr<KeptPairs>& kept, const at::Tensor& gradient,
                     const at::Tensor& low, const variable_list& saved) {
  const at::Tensor x = saved.empty() ? at::Tensor() : saved[0];
  WeightGradients::Add([kept, gradient, low, x] {
    const LowRankBackward& backward = kLowRank[kept->implementation].backward;
    backward.b(*kept, gradient);
    if (!kept->pairs->a->trained()) return;
    const at::Tensor read = kept->again ? kept->again() : x;
    backward.a(*kept, low, ReadByA(read, gradient.scalar_type(), kept->dropout.get()));
  });
}

struct LowRankFunction : torch::autograd::Function<LowRankFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& base, const at::Tensor& x,
                            const LowRankInput& input, const LowRankWeights* pairs) {
    if (pairs->a->trained() && !input.x.again) context->save_for_backward({x});
    context->saved_data["kept"] = c10::IValue::make_capsule(Keep(input, x, *pairs, base));
    context->mark_dirty({base});
    return base;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto holder = context->saved_data["kept"].toCapsule();
    const std::shared_ptr<KeptPairs> kept = static_cast<PairsHolder*>(holder.get())->kept;
    const at::Tensor gradient = gradients[0].contiguous();
    const LowRankBackward& backward = kLowRank[kept->implementation].backward;
    const at::Tensor low = backward.low(*kept, gradient);
    at::Tensor input_gradient =
        backward.input(*kept, low, at::Tensor(), gradient.scalar_type()).to(kept->input_type);
    if (kept->dropout) input_gradient = Dropped(input_gradient, *kept->dropout);
    PutOffGradients(kept, gradient, low, saved);
    return {gradients[0], input_gradient, at::Tensor(), at::Tensor()};
  }
};

struct LinearWithLowRankFunction : torch::autograd::Function<LinearWithLowRankFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const LowRankInput& input,
                            const Weight* weight, const Weight* bias, const LowRankWeights* pairs) {
    const at::Tensor turned = weight->value.t();
    const at::Tensor y = bias == nullptr ? at::mm(x, turned) : at::addmm(bias->value, x, turned);
    if (pairs->a->trained() && !input.x.again) context->save_for_backward({x});
    context->saved_data["kept"] = c10::IValue::make_capsule(Keep(input, x, *pairs, y));
    context->saved_data["weight"] = reinterpret_cast<int64_t>(weight);
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto holder = context->saved_data["kept"].toCapsule();
    const std::shared_ptr<KeptPairs> kept = static_cast<PairsHolder*>(holder.get())->kept;
    const auto* weight = reinterpret_cast<const Weight*>(context->saved_data["weight"].toInt());
    const at::Tensor gradient = gradients[0].contiguous();
    const LowRankBackward& backward = kLowRank[kept->implementation].backward;
    const at::Tensor low = backward.low(*kept, gradient);
    at::Tensor input_gradient = at::mm(gradient, weight->value);
    if (kept->dropout) {
      const at::Tensor own = backward.input(*kept, low, at::Tensor(), gradient.scalar_type());
      input_gradient.add_(Dropped(own, *kept->dropout));
    } else {
      backward.input(*kept, low, input_gradient, gradient.scalar_type());
    }
    PutOffGradients(kept, gradient, low, context->get_saved_variables());
    return {input_gradient, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor AddLowRank(const at::Tensor& base, const LowRankInput& input, const LowRankWeights& pairs) {
  return LowRankFunction::apply(base, input.x.value, input, &pairs);
}

at::Tensor LinearWithLowRank(const LowRankInput& input, const Weight& weight, const Weight* bias,
                             const LowRankWeights& pairs) {
  TRIREME_CHECK(!weight.trained() && (bias == nullptr || !bias->trained()) && !input.ends);
  return LinearWithLowRankFunction::apply(input.x.value, input, &weight, bias, &pairs);
}

namespace {

std::vector<CaseReport> ReportLowRank(const at::Tensor& like) {
  return {kLowRank.Report("[any, 16 ranks]", {like, 16, false}),
          kLowRank.Report("[any, 512 ranks]", {like, 512, false}),
          kLowRank.Report("[any, of experts]", {like, 16, true})};
}

// Rank 16 with a square matrix, into the same memory every time.
std::vector<BenchCase> BenchLowRank(const BenchSize& s) {
  constexpr int64_t kRank = 16;
  const auto weight = [&](int64_t rows, int64_t columns) {
    const auto made = BenchWeight({rows, columns}, s.type);
    made->value.mul_(0.01);
    return made;
  };
  const auto a = weight(kRank, s.columns), b = weight(s.columns, kRank);
  const auto pairs =
      std::make_shared<LowRankWeights>(LowRankWeights{.a = a.get(), .blocks = {{.b = b.get()}}});
  const at::Tensor x = BenchLeaf({s.rows, s.columns}, s.type), y = at::zeros({s.rows, s.columns}, s.type);
  const double bytes = static_cast<double>(x.nbytes());
  return {{.forward_bytes = 3 * bytes,
           .backward_bytes = 3 * bytes,
           .input = x,
           .run = [=, kept = std::pair(a, b)] {
             return BenchCase::Tensors{AddLowRank(y.detach(), {.x = x}, *pairs)};
           }}};
}

}  // namespace

Operator operators::low_rank() {
  return {.name = kLowRank.op(),
          .summary = "low-rank (LoRA) pairs of a projection: y += scale · (x Aᵀ) Bᵀ",
          .implementations = kLowRank.names(),
          .report = ReportLowRank,
          .bench = BenchLowRank};
}

}  // namespace trireme
