// KeyValueCache: keys and values of the tokens that a rank's layers have processed, in blocks, layer by
// layer, for generation. For latent attention it holds the latent vectors, one per token for all heads. Which
// blocks belong to which row, and which adapter made them, comes with each pass.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "ops/attention/paged_attention.h"
#include "parallel/layers/delta_states.h"

namespace trireme {

struct RowAdapters;  // row_adapters.h

class KeyValueCache {
 public:
  // Before each pass: the rows with their blocks, and how many tokens they get; and the adapters they use, of a model
  // without adapters of its own, which outlive the pass; nullptr: none.
  void Begin(PagedRows rows, const RowAdapters* adapters = nullptr) {
    rows_ = std::move(rows);
    adapters_ = adapters;
    scratch_.Begin();
  }
  // The same for rows of one token each, without adapters, whose places are in device memory that whoever replays
  // the pass fills: a table as ops/attention/decode_attention.h makes it, and a slot per row.
  void BeginAt(PagedRows rows, at::Tensor table, at::Tensor slots) {
    Begin(std::move(rows));
    scratch_.tables[0] = std::move(table);
    scratch_.slots = std::move(slots);
  }
  const RowAdapters* adapters() const { return adapters_; }
  const PagedRows& rows() const { return rows_; }
  DeltaStates& deltas(const std::string& layer) { return deltas_[layer]; }

  // Attention of the layer's new tokens over their rows; window, soft_cap, sinks: ops/attention/paged_attention.h.
  at::Tensor Attend(const std::string& layer, const Heads& heads, double scale, int64_t window, double soft_cap,
                    const at::Tensor& sinks = {}) {
    return PagedAttention(heads, heads.value.size(3), scale, rows_, layers_[layer], scratch_, window, soft_cap, sinks);
  }

  // The same over latents, whose first `rank` elements are also the values of all heads. query: [tokens,
  // heads, dim]; latent: [tokens, dim]. Returns [tokens, heads · rank].
  at::Tensor AttendLatents(const std::string& layer, const at::Tensor& query, const at::Tensor& latent, int64_t rank,
                           double scale) {
    const Heads heads{query.unsqueeze(0).unsqueeze(0), latent.unsqueeze(0).unsqueeze(0), {}};
    return PagedAttention(heads, rank, scale, rows_, layers_[layer], scratch_);
  }

 private:
  PagedRows rows_;
  const RowAdapters* adapters_ = nullptr;
  std::map<std::string, PagedKeyValues> layers_;
  std::map<std::string, DeltaStates> deltas_;  // of layers that keep states in place of keys and values
  PagedScratch scratch_;
};

}  // namespace trireme
