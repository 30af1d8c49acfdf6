#include "generation/adapter_set.h"

#include <ATen/ATen.h>

#include <utility>

#include "core/base/error.h"
#include "session/load_row_adapter.h"
#include "session/session.h"

namespace trireme {

int64_t AdapterSet::Add(const std::string& directory) {
  const int64_t id = next_++;  // also if it fails: the same everywhere
  std::shared_ptr<const AdapterWeights> weights;
  std::string failure;
  try {
    weights = LoadRowAdapter(session_, directory);
  } catch (const Error& error) {
    failure = error.what();
  } catch (const std::exception& error) {
    failure = Concat(directory, ": ", error.what());
  }
  for (const std::string& other : session_.job().GatherStrings(failure)) {
    if (!other.empty()) throw InputError(other);
  }
  entries_[id] = {.weights = std::move(weights)};
  return id;
}

void AdapterSet::Drop(int64_t adapter) {
  const auto found = entries_.find(adapter);
  if (found == entries_.end()) return;
  found->second.dropped = true;
  if (found->second.users == 0) entries_.erase(found);
}

void AdapterSet::Use(int64_t adapter) {
  if (adapter < 0) return;
  const auto found = entries_.find(adapter);
  TRIREME_CHECK(found != entries_.end() && !found->second.dropped) << "no adapter " << adapter;
  ++found->second.users;
}

void AdapterSet::Release(int64_t adapter) {
  if (adapter < 0) return;
  const auto found = entries_.find(adapter);
  if (--found->second.users == 0 && found->second.dropped) entries_.erase(found);
}

std::string AdapterSet::Salt(int64_t adapter, const std::string& salt) { return Concat(adapter, "\n", salt); }

std::unique_ptr<const PassAdapters> AdapterSet::ForPass(const AdaptersOfRows& rows, int replica, int64_t tokens,
                                                        at::Device device) const {
  std::map<int64_t, int64_t> index_of;  // by adapter: among those of this pass
  for (const auto& of_replica : rows) {
    for (const RowAdapter& row : of_replica) {
      if (row.adapter >= 0) index_of[row.adapter] = 0;
    }
  }
  if (index_of.empty()) return nullptr;
  std::vector<std::shared_ptr<const AdapterWeights>> weights;
  std::vector<const AdapterWeights*> adapters;
  for (auto& [adapter, index] : index_of) {
    index = std::ssize(adapters);
    weights.push_back(entries_.at(adapter).weights);
    adapters.push_back(weights.back().get());
  }
  const at::Tensor adapter_of = at::full({tokens}, -1, at::kLong);  // padding uses none
  int64_t begin = 0;
  for (const RowAdapter& row : rows[static_cast<size_t>(replica)]) {
    if (row.adapter >= 0) adapter_of.narrow(0, begin, row.tokens).fill_(index_of.at(row.adapter));
    begin += row.tokens;
  }
  return std::unique_ptr<const PassAdapters>(
      new PassAdapters{std::move(weights), RowAdapters(std::move(adapters), adapter_of, device)});
}

}  // namespace trireme
