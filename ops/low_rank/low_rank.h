// y += scale · (x Aᵀ) Bᵀ: LoRA adapters of the projections in a fused weight, which read the same input, or
// of a stack of experts; of one adapter, or of several for different rows. Knows no layout: a rank's part of the
// weights yields its part of the sum.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/tensor/weight.h"
#include "ops/dropout_add/dropout_add.h"
#include "ops/grouped_linear/grouped_linear.h"
#include "ops/linear/linear.h"

namespace trireme {

struct LowRankBlock {         // of one projection
  const Weight* b = nullptr;  // [out, rank] or [experts, out, rank]
  double scale = 1;           // of this adapter
  int64_t first_rank = 0;     // its rows of A
  int64_t first_output = 0;   // its columns of y
};

struct LowRankWeights {
  const Weight* a = nullptr;  // [ranks, in] or [experts, ranks, in]: of all blocks, stacked
  std::vector<LowRankBlock> blocks;
};

// The rows of each adapter that has any.
struct AdapterRows {
  struct Group {
    int64_t adapter = 0;
    std::vector<int64_t> host;  // indices of its rows, ascending
    at::Tensor rows;            // the same on the device
  };
  std::vector<Group> groups;  // by adapter, ascending
};

// adapter_of: [rows] int64; -1: the row has none. Waits for the device if it is not in host memory.
AdapterRows GroupByAdapter(const at::Tensor& adapter_of, at::Device device);

// Adapters that hold several models' side by side, in training: of `slots` slots, slot s has as many ranks as the
// others, the s-th of each block's rows of A and columns of B. A row reads the adapters of its slot, and its gradients
// go there.
struct AdapterSlots {
  AdapterSlots(int64_t slots, const at::Tensor& slot_of, at::Device device)
      : slots(slots), slot_of(slot_of), rows(GroupByAdapter(slot_of, device)) {}

  const int64_t slots;
  const at::Tensor slot_of;  // [rows] int64 in host memory; -1: none
  const AdapterRows rows;    // the same by slot
};

struct LowRankInput {
  LinearInput x;                                   // [rows, in]
  GroupEnds ends = {};                             // for a stack: where each expert's rows end
  std::shared_ptr<const Dropout> dropout = {};     // of A's input; nullptr: none
  std::shared_ptr<const AdapterSlots> slots = {};  // nullptr: every row reads all of the adapter
};

// base: [rows, out], the output of a matmul, whose memory is reused for the result. `adapters` and its weights
// outlive the backward pass.
at::Tensor AddLowRank(const at::Tensor& base, const LowRankInput& input, const LowRankWeights& adapters);

// The same with the product itself, of a weight that is not trained: x Wᵀ (+ b) + scale · (x Aᵀ) Bᵀ. The
// gradient of x is one sum.
at::Tensor LinearWithLowRank(const LowRankInput& input, const Weight& weight, const Weight* bias,
                             const LowRankWeights& adapters);

// Several adapters over the rows of one matmul, each row with at most one adapter: rows are gathered by
// adapter, so that each adapter costs two small products, whatever the others' ranks are. Without gradients:
// generation serves adapters like this, training has slots of one adapter.

// y: [rows, out], the output of a matmul of input.x, whose memory is reused for the result. adapters: by adapter;
// nullptr: that one leaves the matrix as it is.
at::Tensor AddRowAdapters(const at::Tensor& y, const LowRankInput& input, const AdapterRows& rows,
                          const std::vector<const LowRankWeights*>& adapters);

}  // namespace trireme
