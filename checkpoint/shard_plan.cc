#include "checkpoint/shard_plan.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "checkpoint/safetensors_writer.h"
#include "core/base/json.h"

namespace trireme {
namespace {

std::string FileName(size_t index, size_t count) {
  if (count == 1) return "model.safetensors";
  char name[64];
  std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

void PlaceInFile(PlannedShard& shard) {
  std::vector<TensorToWrite> headed;
  std::map<std::string, PlannedTensor> planned;
  for (PlannedTensor& tensor : shard.tensors) {
    headed.push_back({tensor.name, tensor.dtype, tensor.shape});
    planned[tensor.name] = std::move(tensor);
  }
  shard.header = SafetensorsHeader(headed);  // in the order of the file
  uint64_t offset = shard.header.size();
  for (size_t i = 0; i < headed.size(); ++i) {
    shard.tensors[i] = std::move(planned.at(headed[i].name));
    shard.tensors[i].offset = offset;
    offset += shard.tensors[i].bytes();
  }
  shard.bytes = offset;
}

}  // namespace

std::vector<PlannedShard> PlanShards(const std::vector<PlannedTensor>& tensors, int64_t most_bytes) {
  std::vector<PlannedShard> shards(1);
  uint64_t bytes = 0;
  for (const PlannedTensor& tensor : tensors) {
    if (bytes > 0 && bytes + tensor.bytes() > static_cast<uint64_t>(most_bytes)) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().tensors.push_back(tensor);
    bytes += tensor.bytes();
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    shards[i].file = FileName(i, shards.size());
    PlaceInFile(shards[i]);
  }
  return shards;
}

std::string ShardIndex(const std::vector<PlannedShard>& shards) {
  Json map = Json::object();
  uint64_t total = 0;
  std::vector<std::pair<std::string, std::string>> files;
  for (const PlannedShard& shard : shards) {
    for (const PlannedTensor& tensor : shard.tensors) {
      files.emplace_back(tensor.name, shard.file);
      total += tensor.bytes();
    }
  }
  std::sort(files.begin(), files.end());
  for (const auto& [name, file] : files) map[name] = file;
  return Json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(2) + "\n";
}

}  // namespace trireme
