// AdapterSet: the LoRA adapters of an engine: loaded and dropped while it runs, kept as long as a row or a pass uses
// them, and given to a pass by row. The same on every rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parallel/layers/row_adapters.h"

namespace trireme {

class Session;

struct RowAdapter {
  int64_t adapter = -1;  // -1: none
  int64_t tokens = 0;    // of the row, in this pass
};
using AdaptersOfRows = std::vector<std::vector<RowAdapter>>;  // by data-parallel rank, in the order of the pass

// The adapters of a pass. A row may end while its pass is in a pipeline, and its adapter be dropped: the pass keeps the
// weights until it has left the last stage.
struct PassAdapters {
  std::vector<std::shared_ptr<const AdapterWeights>> weights;
  RowAdapters rows;  // points to them
};

class AdapterSet {
 public:
  explicit AdapterSet(Session& session) : session_(session) {}  // which outlives it

  // Collective. Throws the same on every rank if it fails on any.
  int64_t Add(const std::string& directory);
  void Drop(int64_t adapter);
  // Whether rows may still name it.
  bool Has(int64_t adapter) const {
    const auto found = entries_.find(adapter);
    return found != entries_.end() && !found->second.dropped;
  }

  // Of a row that starts, and of one that ends. -1 is ignored; an unknown adapter is a bug.
  void Use(int64_t adapter);
  void Release(int64_t adapter);

  // Keys and values depend on the adapter: its id is part of the salt.
  static std::string Salt(int64_t adapter, const std::string& salt);

  // Of data-parallel rank `replica`, whose pass has `tokens` with its padding. nullptr: no rank's rows use an
  // adapter.
  std::unique_ptr<const PassAdapters> ForPass(const AdaptersOfRows& rows, int replica, int64_t tokens,
                                              at::Device device) const;

 private:
  struct Entry {
    std::shared_ptr<const AdapterWeights> weights;
    int64_t users = 0;
    bool dropped = false;
  };

  Session& session_;
  std::map<int64_t, Entry> entries_;
  int64_t next_ = 0;
};

}  // namespace trireme
