#include "ops/low_rank/adapter_slots.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>

#include "core/base/error.h"

namespace trireme {
namespace {

// A slot's rows: a range of them where they are adjacent, as in a batch that is sorted by model.
class SlotRows {
 public:
  SlotRows(const AdapterRows::Group& group, const SlotWork& work, int64_t first_low)
      : group_(group),
        adjacent_(group.host.back() - group.host.front() + 1 == std::ssize(group.host)),
        ends(work.ends ? EndsAmong(*work.ends, group.host) : nullptr),
        first_low_(first_low) {}

  int64_t size() const { return std::ssize(group_.host); }
  int64_t slot() const { return group_.adapter; }
  at::Tensor Of(const at::Tensor& all) const {
    return adjacent_ ? all.narrow(0, group_.host.front(), size()) : all.index_select(0, group_.rows);
  }
  // y[rows] += x · operand; y may be some columns of a wider matrix.
  void AddProduct(const at::Tensor& y, const at::Tensor& x, const at::Tensor& operand) const {
    at::Tensor sum = y;
    if (!adjacent_) {
      sum.index_add_(0, group_.rows, Product(x, operand));
    } else if (ends) {
      Of(sum).add_(Product(x, operand));
    } else {
      Of(sum).addmm_(x, operand.to(x.scalar_type()));
    }
  }
  // to = scale · x · operand; `to` may be some columns of a wider matrix.
  void SetProduct(const at::Tensor& to, const at::Tensor& x, const at::Tensor& operand, double scale) const {
    at::Tensor product = to;
    if (ends || !to.is_cpu() || to.scalar_type() != at::kFloat) {
      product.copy_(Product(x, operand).mul_(scale));
    } else {
      product.addmm_(x, operand.to(x.scalar_type()), /*beta=*/0, /*alpha=*/scale);  // beta 0: what is there is not read
    }
  }
  // operand: [in, out], or one for each expert.
  at::Tensor Product(const at::Tensor& x, const at::Tensor& operand) const {
    const at::Tensor typed = operand.to(x.scalar_type());
    return ends ? GroupedMatMul(x.contiguous(), typed.contiguous(), *ends) : at::mm(x, typed);
  }
  at::Tensor Low(const at::Tensor& low, const LowRankBlock& block, int64_t slots) const {
    return low.narrow(0, first_low_, size()).narrow(1, block.first_rank / slots, block.b->value.size(-1) / slots);
  }

 private:
  const AdapterRows::Group& group_;
  const bool adjacent_;

 public:
  const GroupEnds ends;

 private:
  const int64_t first_low_;
};

void ForEachSlot(const SlotWork& work, const std::function<void(const SlotRows&, const LowRankBlock&)>& visit) {
  int64_t first_low = 0;
  for (const AdapterRows::Group& group : work.slots.rows.groups) {
    TRIREME_CHECK(group.adapter < work.slots.slots) << "slot " << group.adapter << " of " << work.slots.slots;
    const SlotRows rows(group, work, first_low);
    for (const LowRankBlock& block : work.adapters.blocks) visit(rows, block);
    first_low += rows.size();
  }
}

at::Tensor SlotOfA(const at::Tensor& a, const LowRankBlock& block, const SlotRows& rows, int64_t slots) {
  const int64_t rank = block.b->value.size(-1) / slots;
  return a.narrow(-2, block.first_rank + rows.slot() * rank, rank);
}

at::Tensor SlotOfB(const at::Tensor& b, const SlotRows& rows, int64_t slots) {
  const int64_t rank = b.size(-1) / slots;
  return b.narrow(-1, rows.slot() * rank, rank);
}

at::Tensor BlockOutputs(const at::Tensor& y, const LowRankBlock& block) {
  return y.narrow(1, block.first_output, block.b->value.size(-2));
}

at::Tensor EmptyLow(const at::Tensor& like, const SlotWork& work) {
  int64_t rows = 0;
  for (const AdapterRows::Group& group : work.slots.rows.groups) rows += std::ssize(group.host);
  return at::empty({rows, work.adapters.a->value.size(-2) / work.slots.slots}, like.options());
}

// sum += output_gradientᵀ x in fp32: at once where all are fp32, else by the operators of whole weights, which want
// memory of their own.
void AddSlotGradient(const at::Tensor& sum, const at::Tensor& output_gradient, const at::Tensor& x,
                     const GroupEnds& ends) {
  if (!ends && sum.is_cpu() && x.scalar_type() == sum.scalar_type()) {
    at::Tensor(sum).addmm_(output_gradient.t(), x);
    return;
  }
  const at::Tensor gradient = at::zeros(sum.sizes(), sum.options());
  const Weight own{.name = "slot", .value = gradient, .gradient = gradient};
  if (ends) {
    AddGroupedGradient(own, output_gradient.contiguous(), x.contiguous(), *ends);
  } else {
    AddWeightGradient(own, output_gradient.contiguous(), x.contiguous());
  }
  at::Tensor(sum).add_(gradient);
}

}  // namespace

GroupEnds EndsAmong(const RowEnds& ends, const std::vector<int64_t>& chosen) {
  std::vector<int64_t> among;
  for (const int64_t end : ends.host()) {
    among.push_back(std::lower_bound(chosen.begin(), chosen.end(), end) - chosen.begin());
  }
  return std::make_shared<const RowEnds>(std::move(among));
}

at::Tensor AddSlotAdapters(const at::Tensor& y, const at::Tensor& x, const SlotWork& work) {
  const at::Tensor low = EmptyLow(y, work);
  const int64_t slots = work.slots.slots;
  ForEachSlot(work, [&](const SlotRows& rows, const LowRankBlock& block) {
    const at::Tensor a = SlotOfA(work.adapters.a->value, block, rows, slots);
    const at::Tensor own = rows.Low(low, block, slots);
    rows.SetProduct(own, rows.Of(x), a.transpose(-2, -1), block.scale);
    rows.AddProduct(BlockOutputs(y, block), own, SlotOfB(block.b->value, rows, slots).transpose(-2, -1));
  });
  return low;
}

at::Tensor SlotLowGradient(const at::Tensor& gradient, const SlotWork& work) {
  const at::Tensor low = EmptyLow(gradient, work);
  const int64_t slots = work.slots.slots;
  ForEachSlot(work, [&](const SlotRows& rows, const LowRankBlock& block) {
    rows.SetProduct(rows.Low(low, block, slots), rows.Of(BlockOutputs(gradient, block)),
                    SlotOfB(block.b->value, rows, slots), block.scale);
  });
  return low;
}

void AddSlotInputGradient(const at::Tensor& low, const at::Tensor& sum, const SlotWork& work) {
  const int64_t slots = work.slots.slots;
  ForEachSlot(work, [&](const SlotRows& rows, const LowRankBlock& block) {
    rows.AddProduct(sum, rows.Low(low, block, slots), SlotOfA(work.adapters.a->value, block, rows, slots));
  });
}

void AddSlotGradientsOfB(const at::Tensor& low, const at::Tensor& gradient, const SlotWork& work) {
  const int64_t slots = work.slots.slots;
  ForEachSlot(work, [&](const SlotRows& rows, const LowRankBlock& block) {
    if (!block.b->trained()) return;
    AddSlotGradient(SlotOfB(block.b->gradient_sum(), rows, slots), rows.Of(BlockOutputs(gradient, block)),
                    rows.Low(low, block, slots), rows.ends);
  });
}

void AddSlotGradientOfA(const at::Tensor& low_gradient, const at::Tensor& x, const SlotWork& work) {
  if (!work.adapters.a->trained()) return;
  const int64_t slots = work.slots.slots;
  ForEachSlot(work, [&](const SlotRows& rows, const LowRankBlock& block) {
    AddSlotGradient(SlotOfA(work.adapters.a->gradient_sum(), block, rows, slots), rows.Low(low_gradient, block, slots),
                    rows.Of(x), rows.ends);
  });
}

}  // namespace trireme
