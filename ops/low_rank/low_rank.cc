#include "ops/low_rank/low_rank.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <map>
#include <utility>

#include "ops/dequantise/dequantise.h"
#include "ops/element_types.h"
#include "ops/fp8_linear/fp8_linear.h"
#include "ops/kernel_place.h"
#include "ops/low_rank/adapter_slots.h"
#include "ops/low_rank/ascendc.h"
#include "ops/operator.h"
#include "ops/weight_gradients.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// x · factorᵀ, or each expert's rows with its own factor.
at::Tensor MatMul(const at::Tensor& x, const at::Tensor& operand, const GroupEnds& ends) {
  const at::Tensor turned = operand.to(x.scalar_type()).transpose(-2, -1);
  return ends ? GroupedMatMul(x, turned, *ends) : at::mm(x, turned);
}

// y += x · factorᵀ; y may be a slice of a wider matrix's columns.
void AddMatMul(const at::Tensor& y, const at::Tensor& x, const at::Tensor& operand, const GroupEnds& ends) {
  at::Tensor sum = y;
  if (ends) {
    sum.add_(MatMul(x, operand, ends));
  } else {
    sum.addmm_(x, operand.to(x.scalar_type()).t());
  }
}

void AddGradient(const Weight& weight, const at::Tensor& output_gradient, const at::Tensor& x, const GroupEnds& ends) {
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
void ScaleRanks(const at::Tensor& low, const LowRankWeights& adapters) {
  const double first = adapters.blocks.front().scale;
  bool same = true;
  for (const LowRankBlock& block : adapters.blocks) same = same && block.scale == first;
  if (same) {
    low.mul_(first);
    return;
  }
  for (const LowRankBlock& block : adapters.blocks) RanksOf(low, block).mul_(block.scale);
}

// A GPU's products take columns of a wider matrix as they are.
at::Tensor ForProduct(const at::Tensor& columns) { return columns.is_cuda() ? columns : columns.contiguous(); }

struct LowRankBackward;

struct SavedAdapters {
  const LowRankWeights* adapters = nullptr;
  const LowRankBackward* backward = nullptr;  // of what ran forward
  std::shared_ptr<const AdapterSlots> slots;
  GroupEnds ends;
  std::shared_ptr<const Dropout> dropout;
  std::function<at::Tensor()> again;
  at::Tensor low;  // [rows, ranks], scaled; of the kernels in fp32; of slots as adapter_slots.h has it
  at::ScalarType input_type = at::kFloat;
  int64_t rows = 0;  // of the input
};

struct AdaptersHolder : torch::CustomClassHolder {
  std::shared_ptr<SavedAdapters> saved = std::make_shared<SavedAdapters>();
};

// The kernels work on full rows of y, so all adapters are merged into one.
struct MergedAdapters {
  at::Tensor a;       // [ranks, in]
  at::Tensor b;       // [ranks, out]: each Bᵀ at its outputs, zeros elsewhere
  at::Tensor scales;  // [ranks] fp32

  MergedAdapters(const LowRankWeights& adapters, int64_t outputs, at::ScalarType type) {
    a = adapters.a->value.to(type).contiguous();
    b = at::zeros({a.size(0), outputs}, a.options());
    scales = at::ones({a.size(0)}, a.options().dtype(at::kFloat));
    for (const LowRankBlock& block : adapters.blocks) {
      const int64_t rank = block.b->value.size(1);
      scales.narrow(0, block.first_rank, rank).fill_(block.scale);
      OutputsOf(b.narrow(0, block.first_rank, rank), block).copy_(block.b->value.t());
    }
  }
};

ascendc::LoraShape ShapeOfLowRank(const at::Tensor& rows, const at::Tensor& matrix) {
  return {.rows = static_cast<uint64_t>(rows.size(0)),
          .columns = static_cast<uint64_t>(matrix.size(1)),
          .rank = static_cast<uint64_t>(matrix.size(0))};
}

// x · matrixᵀ · scales in fp32.
at::Tensor Shrink(const at::Tensor& x, const at::Tensor& matrix, const at::Tensor& scales) {
  at::Tensor low = at::zeros({x.size(0), matrix.size(0)}, scales.options());
  ascendc::LoraShrink(PlaceOf(x), ElementOf(x), x.data_ptr(), matrix.data_ptr(), ShapeOfLowRank(x, matrix),
                      Data<float>(low));
  return low.mul_(scales);
}

// y (+)= low · matrix
void Expand(const at::Tensor& low, const at::Tensor& matrix, bool adds, const at::Tensor& y) {
  ascendc::LoraExpand(PlaceOf(y), ElementOf(y), Data<float>(low), matrix.data_ptr(), adds ? y.data_ptr() : nullptr,
                      ShapeOfLowRank(low, matrix), y.data_ptr());
}

// lowᵀ · x in fp32.
at::Tensor GatheredLow(const at::Tensor& low, const at::Tensor& x) {
  const at::Tensor sum = at::zeros({low.size(1), x.size(1)}, low.options());
  ascendc::LoraGradient(PlaceOf(x), ElementOf(x), Data<float>(low), x.data_ptr(), ShapeOfLowRank(low, sum),
                        Data<float>(sum));
  return sum;
}

void KernelForwardOfLowRank(SavedAdapters& saved, const at::Tensor& x, const at::Tensor& y) {
  const MergedAdapters merged(*saved.adapters, y.size(1), y.scalar_type());
  saved.low = Shrink(ReadByA(x, y.scalar_type(), saved.dropout.get()).contiguous(), merged.a, merged.scales);
  Expand(saved.low, merged.b, /*adds=*/true, y);
}

void MatMulForward(SavedAdapters& saved, const at::Tensor& x, const at::Tensor& y) {
  saved.low = MatMul(ReadByA(x, y.scalar_type(), saved.dropout.get()), saved.adapters->a->value, saved.ends);
  ScaleRanks(saved.low, *saved.adapters);
  for (const LowRankBlock& block : saved.adapters->blocks) {
    const at::Tensor low = RanksOf(saved.low, block);
    AddMatMul(OutputsOf(y, block), saved.ends ? low.contiguous() : ForProduct(low), block.b->value, saved.ends);
  }
}

struct LowRankBackward {
  at::Tensor (*low)(const SavedAdapters&, const at::Tensor& gradient);  // of `low`, scaled as it was
  // Of what A reads: sum (+)= low · A; undefined: there is no sum yet.
  at::Tensor (*input)(const SavedAdapters&, const at::Tensor& low, const at::Tensor& sum, at::ScalarType type);
  void (*b)(const SavedAdapters&, const at::Tensor& gradient);  // adds the gradients of the Bs
  void (*a)(const SavedAdapters&, const at::Tensor& low_gradient, const at::Tensor& read);
};

at::Tensor KernelLow(const SavedAdapters& saved, const at::Tensor& gradient) {
  const MergedAdapters merged(*saved.adapters, gradient.size(1), gradient.scalar_type());
  return Shrink(gradient, merged.b, merged.scales);
}

at::Tensor KernelInput(const SavedAdapters& saved, const at::Tensor& low, const at::Tensor& sum, at::ScalarType type) {
  const at::Tensor a = saved.adapters->a->value.to(type).contiguous();
  const at::Tensor x = sum.defined() ? sum : at::empty({low.size(0), a.size(1)}, a.options());
  Expand(low, a, /*adds=*/sum.defined(), x);
  return x;
}

at::Tensor ProductLow(const SavedAdapters& saved, const at::Tensor& gradient) {
  at::Tensor low = at::empty_like(saved.low);
  for (const LowRankBlock& block : saved.adapters->blocks) {
    const at::Tensor own = OutputsOf(gradient, block);
    const at::Tensor turned = block.b->value.transpose(-2, -1);
    RanksOf(low, block).copy_(MatMul(saved.ends ? own.contiguous() : ForProduct(own), turned, saved.ends));
  }
  ScaleRanks(low, *saved.adapters);
  return low;
}

at::Tensor ProductInput(const SavedAdapters& saved, const at::Tensor& low, const at::Tensor& sum,
                        at::ScalarType /*type*/) {
  const at::Tensor turned = saved.adapters->a->value.transpose(-2, -1);
  if (!sum.defined()) return MatMul(low, turned, saved.ends);
  AddMatMul(sum, low, turned, saved.ends);
  return sum;
}

void KernelGradientsOfB(const SavedAdapters& saved, const at::Tensor& gradient) {
  const at::Tensor all = GatheredLow(saved.low, gradient);
  for (const LowRankBlock& block : saved.adapters->blocks) {
    if (!block.b->trained()) continue;
    const at::Tensor own = all.narrow(0, block.first_rank, block.b->value.size(1));
    block.b->gradient_sum().add_(OutputsOf(own, block).t());
  }
}

void MatMulGradientsOfB(const SavedAdapters& saved, const at::Tensor& gradient) {
  for (const LowRankBlock& block : saved.adapters->blocks) {
    const at::Tensor own = OutputsOf(gradient, block), low = RanksOf(saved.low, block);
    const bool strided = !saved.ends && own.is_cuda();
    AddGradient(*block.b, strided ? own : own.contiguous(), strided ? low : low.contiguous(), saved.ends);
  }
}

void KernelGradientOfA(const SavedAdapters& saved, const at::Tensor& low_gradient, const at::Tensor& read) {
  saved.adapters->a->gradient_sum().add_(GatheredLow(low_gradient, read.contiguous()));
}

void MatMulGradientOfA(const SavedAdapters& saved, const at::Tensor& low_gradient, const at::Tensor& read) {
  AddGradient(*saved.adapters->a, low_gradient, read, saved.ends);
}

SlotWork WorkOf(const SavedAdapters& saved) {
  return {.adapters = *saved.adapters, .slots = *saved.slots, .ends = saved.ends};
}

at::Tensor SlotsLow(const SavedAdapters& saved, const at::Tensor& gradient) {
  return SlotLowGradient(gradient, WorkOf(saved));
}

at::Tensor SlotsInput(const SavedAdapters& saved, const at::Tensor& low, const at::Tensor& sum, at::ScalarType type) {
  const int64_t inputs = saved.adapters->a->value.size(-1);
  const at::Tensor x = sum.defined() ? sum : at::zeros({saved.rows, inputs}, low.options().dtype(type));
  AddSlotInputGradient(low, x, WorkOf(saved));
  return x;
}

void SlotsGradientsOfB(const SavedAdapters& saved, const at::Tensor& gradient) {
  AddSlotGradientsOfB(saved.low, gradient, WorkOf(saved));
}

void SlotsGradientOfA(const SavedAdapters& saved, const at::Tensor& low_gradient, const at::Tensor& read) {
  AddSlotGradientOfA(low_gradient, read, WorkOf(saved));
}

constexpr LowRankBackward kSlotsBackward = {SlotsLow, SlotsInput, SlotsGradientsOfB, SlotsGradientOfA};

struct LowRankCase {
  const at::Tensor& y;
  int64_t ranks = 0;        // of all adapters of y
  bool of_experts = false;  // of a stack of experts
};

std::string WhyNotKernelOfLowRank(const LowRankCase& c) {
  if (!KernelsAreWanted()) {
    return c.y.is_cpu() ? "matmuls were measured faster on the cpu"
                        : "matmuls use the cube unit, the kernels only the vector units";
  }
  if (c.of_experts) return Either(WhyNoKernel(c.y), "the adapters belong to a stack of experts");
  const char* why = ascendc::WhyNotLora({.rows = 0, .columns = 0, .rank = static_cast<uint64_t>(c.ranks)});
  return Either(WhyNoKernel(c.y), why == nullptr ? "" : why);
}

// The backward pass runs what ran forward: the dtype of `low` differs.
const ImplementationList<LowRankCase, decltype(&MatMulForward), LowRankBackward> kLowRank{
    "low_rank",
    {{"ascendc",
      WhyNotKernelOfLowRank,
      KernelForwardOfLowRank,
      {KernelLow, KernelInput, KernelGradientsOfB, KernelGradientOfA}},
     {"aten", nullptr, MatMulForward, {ProductLow, ProductInput, MatMulGradientsOfB, MatMulGradientOfA}}}};

// The parts of both functions below.
c10::intrusive_ptr<AdaptersHolder> Keep(const LowRankInput& input, const at::Tensor& x, const LowRankWeights& adapters,
                                        const at::Tensor& y) {
  auto holder = c10::make_intrusive<AdaptersHolder>();
  SavedAdapters& saved = *holder->saved;
  saved.adapters = &adapters;
  saved.ends = input.ends;
  saved.dropout = input.dropout;
  saved.again = input.x.again;
  saved.input_type = x.scalar_type();
  saved.rows = x.size(0);
  if (input.slots) {
    saved.slots = input.slots;
    saved.backward = &kSlotsBackward;
    saved.low = AddSlotAdapters(y, ReadByA(x, y.scalar_type(), input.dropout.get()), WorkOf(saved));
    return holder;
  }
  const auto& chosen = kLowRank.Choose({y, adapters.a->value.size(-2), input.ends != nullptr});
  saved.backward = &chosen.backward;
  chosen.forward(saved, x, y);
  return holder;
}

void PutOffGradients(const std::shared_ptr<SavedAdapters>& saved, const at::Tensor& gradient, const at::Tensor& low,
                     const variable_list& saved_tensors) {
  const at::Tensor x = saved_tensors.empty() ? at::Tensor() : saved_tensors[0];
  WeightGradients::Add([saved, gradient, low, x] {
    const LowRankBackward& backward = *saved->backward;
    backward.b(*saved, gradient);
    if (!saved->adapters->a->trained()) return;
    const at::Tensor read = saved->again ? saved->again() : x;
    backward.a(*saved, low, ReadByA(read, gradient.scalar_type(), saved->dropout.get()));
  });
}

struct LowRankFunction : torch::autograd::Function<LowRankFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& base, const at::Tensor& x,
                            const LowRankInput& input, const LowRankWeights* adapters) {
    if (adapters->a->trained() && !input.x.again) context->save_for_backward({x});
    context->saved_data["saved"] = c10::IValue::make_capsule(Keep(input, x, *adapters, base));
    context->mark_dirty({base});
    return base;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved_tensors = context->get_saved_variables();
    const auto holder = context->saved_data["saved"].toCapsule();
    const std::shared_ptr<SavedAdapters> saved = static_cast<AdaptersHolder*>(holder.get())->saved;
    const at::Tensor gradient = gradients[0].contiguous();
    const LowRankBackward& backward = *saved->backward;
    const at::Tensor low = backward.low(*saved, gradient);
    at::Tensor input_gradient = backward.input(*saved, low, at::Tensor(), gradient.scalar_type()).to(saved->input_type);
    if (saved->dropout) input_gradient = Dropped(input_gradient, *saved->dropout);
    PutOffGradients(saved, gradient, low, saved_tensors);
    return {gradients[0], input_gradient, at::Tensor(), at::Tensor()};
  }
};

at::Tensor BaseProduct(const at::Tensor& x, const LinearInput& input, const Weight& weight, const Weight* bias) {
  if (IsFp8(weight) || bias == nullptr) return ProductOf({x, {}, input.split}, weight, bias);
  return at::addmm(bias->value, x, MatrixOf(weight).t());
}

struct LinearWithLowRankFunction : torch::autograd::Function<LinearWithLowRankFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const LowRankInput& input,
                            const Weight* weight, const Weight* bias, const LowRankWeights* adapters) {
    const at::Tensor y = BaseProduct(x, input.x, *weight, bias);
    if (adapters->a->trained() && !input.x.again) context->save_for_backward({x});
    context->saved_data["saved"] = c10::IValue::make_capsule(Keep(input, x, *adapters, y));
    context->saved_data["weight"] = reinterpret_cast<int64_t>(weight);
    context->saved_data["split"] = reinterpret_cast<int64_t>(input.x.split);
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto holder = context->saved_data["saved"].toCapsule();
    const std::shared_ptr<SavedAdapters> saved = static_cast<AdaptersHolder*>(holder.get())->saved;
    const auto* weight = reinterpret_cast<const Weight*>(context->saved_data["weight"].toInt());
    const at::Tensor gradient = gradients[0].contiguous();
    const LowRankBackward& backward = *saved->backward;
    const at::Tensor low = backward.low(*saved, gradient);
    const auto* split = reinterpret_cast<const SplitContraction*>(context->saved_data["split"].toInt());
    at::Tensor input_gradient = InputGradientOf(gradient, *weight, split);
    if (saved->dropout) {
      const at::Tensor own = backward.input(*saved, low, at::Tensor(), gradient.scalar_type());
      input_gradient.add_(Dropped(own, *saved->dropout));
    } else {
      backward.input(*saved, low, input_gradient, gradient.scalar_type());
    }
    PutOffGradients(saved, gradient, low, context->get_saved_variables());
    return {input_gradient, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor AddLowRank(const at::Tensor& base, const LowRankInput& input, const LowRankWeights& adapters) {
  return LowRankFunction::apply(base, input.x.value, input, &adapters);
}

at::Tensor LinearWithLowRank(const LowRankInput& input, const Weight& weight, const Weight* bias,
                             const LowRankWeights& adapters) {
  TRIREME_CHECK(!weight.trained() && (bias == nullptr || !bias->trained()) && !input.ends);
  return LinearWithLowRankFunction::apply(input.x.value, input, &weight, bias, &adapters);
}

AdapterRows GroupByAdapter(const at::Tensor& adapter_of, at::Device device) {
  const at::Tensor on_host = adapter_of.to(at::kCPU).contiguous();
  const int64_t* adapters = on_host.data_ptr<int64_t>();
  std::map<int64_t, std::vector<int64_t>> rows;
  for (int64_t row = 0; row < on_host.numel(); ++row) {
    if (adapters[row] >= 0) rows[adapters[row]].push_back(row);
  }
  AdapterRows grouped;
  for (auto& [adapter, own] : rows) {
    const at::Tensor index = at::tensor(own, at::kLong).to(device);
    grouped.groups.push_back({.adapter = adapter, .host = std::move(own), .rows = index});
  }
  return grouped;
}

at::Tensor AddRowAdapters(const at::Tensor& y, const LowRankInput& input, const AdapterRows& rows,
                          const std::vector<const LowRankWeights*>& adapters) {
  for (const AdapterRows::Group& group : rows.groups) {
    const LowRankWeights* own = adapters.at(static_cast<size_t>(group.adapter));
    if (own == nullptr) continue;
    if (std::ssize(group.host) == y.size(0)) return AddLowRank(y, input, *own);
    const LowRankInput chosen{.x = input.x.value.index_select(0, group.rows),
                              .ends = input.ends ? EndsAmong(*input.ends, group.host) : nullptr};
    at::Tensor sum = y;
    sum.index_copy_(0, group.rows, AddLowRank(y.index_select(0, group.rows), chosen, *own));
  }
  return y;
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
  const auto adapters = std::make_shared<LowRankWeights>(LowRankWeights{.a = a.get(), .blocks = {{.b = b.get()}}});
  const at::Tensor x = BenchLeaf({s.rows, s.columns}, s.type), y = at::zeros({s.rows, s.columns}, s.type);
  const double bytes = static_cast<double>(x.nbytes());
  return {{.forward_bytes = 3 * bytes, .backward_bytes = 3 * bytes, .input = x, .run = [=, alive = std::pair(a, b)] {
             return BenchCase::Tensors{AddLowRank(y.detach(), {.x = x}, *adapters)};
           }}};
}

}  // namespace

Operator operators::low_rank() {
  return {.name = kLowRank.op(),
          .summary = "LoRA adapters of a projection: y += scale · (x Aᵀ) Bᵀ",
          .implementations = kLowRank.names(),
          .report = ReportLowRank,
          .bench = BenchLowRank};
}

}  // namespace trireme
