// The products of LoRA adapters that hold several models' side by side (AdapterSlots), forward and backward: slot by
// slot, each over its own rows, so that no number of one model enters another's. Computes only; the autograd rule is
// low_rank.cc's.
#pragma once

#include "ops/low_rank/low_rank.h"

namespace trireme {

struct SlotWork {
  const LowRankWeights& adapters;
  const AdapterSlots& slots;
  const GroupEnds& ends;  // of a stack of experts; nullptr: it is none
};

// Where each expert's rows end among the chosen ones, which are ascending.
GroupEnds EndsAmong(const RowEnds& ends, const std::vector<int64_t>& chosen);

// y += scale · (x Aᵀ) Bᵀ by slot. Returns the product with A, scaled: [rows of all slots, one after another; ranks of
// one slot].
at::Tensor AddSlotAdapters(const at::Tensor& y, const at::Tensor& x, const SlotWork& work);
// Of what AddSlotAdapters returned; gradient: [rows, out].
at::Tensor SlotLowGradient(const at::Tensor& gradient, const SlotWork& work);
// sum += low · A by slot. sum: [rows, in].
void AddSlotInputGradient(const at::Tensor& low, const at::Tensor& sum, const SlotWork& work);
// To the weights' gradients, if they are trained.
void AddSlotGradientsOfB(const at::Tensor& low, const at::Tensor& gradient, const SlotWork& work);
void AddSlotGradientOfA(const at::Tensor& low_gradient, const at::Tensor& x, const SlotWork& work);

}  // namespace trireme
