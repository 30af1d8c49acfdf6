#include "checkpoint/hf_directory.h"

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/nearest.h"

namespace trireme {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

}  // namespace

HfDirectory::HfDirectory(const std::filesystem::path& directory) : directory_(directory) {
  const std::filesystem::path single = directory / kSingleFile, index = directory / kIndexFile;
  if (std::filesystem::exists(index)) {
    ReadIndex(index);
  } else if (std::filesystem::exists(single)) {
    auto& file = shards_[kSingleFile] = std::make_unique<SafetensorsFile>(single);
    for (const auto& [name, view] : file->tensors()) shard_of_[name] = kSingleFile;
  } else {
    throw InputError(directory.string(), ": no weights here; wanted ", kSingleFile, " or ", kIndexFile);
  }
}

void HfDirectory::ReadIndex(const std::filesystem::path& index) {
  const Json parsed = ReadJsonFile(index.string());
  if (!parsed.is_object()) throw InputError(index.string(), ": is not a JSON object");
  const auto map = parsed.find("weight_map");
  if (map == parsed.end() || !map->is_object()) throw InputError(index.string(), ": has no weight_map");
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) throw InputError(index.string(), ": weight_map of '", name, "' is no file name");
    const auto shard = file.get<std::string>();
    // A name that leads out of the directory is never what a model's author meant.
    if (shard.find('/') != std::string::npos || !std::filesystem::exists(directory_ / shard)) {
      throw InputError(index.string(), ": '", name, "' is in '", shard, "', which is not in the directory");
    }
    shard_of_[name] = shard;
  }
}

std::vector<std::string> HfDirectory::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, shard] : shard_of_) names.push_back(name);
  return names;
}

const TensorView& HfDirectory::Find(const std::string& name) const {
  const auto shard = shard_of_.find(name);
  if (shard == shard_of_.end()) {
    const auto nearest = Nearest(name, Names());
    throw InputError(directory_.string(), ": tensor '", name, "' is missing",
                     nearest ? Concat("; nearest: '", *nearest, "'") : "");
  }
  auto& file = shards_[shard->second];
  if (!file) file = std::make_unique<SafetensorsFile>(directory_ / shard->second);
  const auto found = file->tensors().find(name);
  if (found == file->tensors().end()) {
    throw InputError(file->path().string(), ": tensor '", name,
                     "' is missing, though the index says it is here");
  }
  return found->second;
}

std::filesystem::path HfDirectory::FileOf(const std::string& name) const {
  const auto shard = shard_of_.find(name);
  return shard == shard_of_.end() ? directory_ : directory_ / shard->second;
}

}  // namespace trireme
