#include "checkpoint/hf_directory.h"

#include <algorithm>

#include "checkpoint/manifest.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/nearest.h"

namespace trireme {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kShardIndex[] = "model.safetensors.index.json";
constexpr char kStoredPrefix[] = "weights/";
constexpr char kQuantisation[] = "quantization_config";

// Numbers inside names compare as numbers: layers.2 before layers.10.
bool InModelOrder(const std::string& a, const std::string& b) {
  size_t i = 0, j = 0;
  const auto digit = [](char letter) { return letter >= '0' && letter <= '9'; };
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      size_t a_end = i, b_end = j;
      while (a_end < a.size() && digit(a[a_end])) ++a_end;
      while (b_end < b.size() && digit(b[b_end])) ++b_end;
      const auto a_number = a.substr(i, a_end - i), b_number = b.substr(j, b_end - j);
      if (a_number.size() != b_number.size()) return a_number.size() < b_number.size();
      if (a_number != b_number) return a_number < b_number;
      i = a_end;
      j = b_end;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

}  // namespace

HfDirectory::HfDirectory(const std::filesystem::path& directory, Packed packed,
                         const std::filesystem::path& model_files)
    : directory_(directory), model_files_(model_files.empty() ? directory : model_files) {
  const std::filesystem::path single = directory / kSingleFile, index = directory / kShardIndex;
  if (IsCheckpoint(directory)) {
    store_ = std::make_unique<StoreReader>(directory);
    for (const checkpoint::Tensor& tensor : store_->manifest().tensors()) {
      if (tensor.key().starts_with(kStoredPrefix))
        shard_of_[tensor.key().substr(sizeof(kStoredPrefix) - 1)] = kManifestFile;
    }
  } else if (PathExists(index)) {
    ReadIndex(index);
  } else if (PathExists(single)) {
    auto& file = shards_[kSingleFile] = std::make_unique<SafetensorsFile>(single);
    for (const auto& [name, view] : file->tensors()) shard_of_[name] = kSingleFile;
  } else if ((stored_ = OpenStoredWeights(directory, model_files_ / "config.json"))) {
    for (const std::string& name : stored_->Names()) shard_of_[name] = "";
  } else {
    throw InputError(directory.string(), ": has no weights; wanted ", kSingleFile, " or ", kShardIndex);
  }
  if (store_ || stored_ || packed == Packed::kAsStored) return;
  FindParts();
  FindFewBits();
}

void HfDirectory::FindParts() {
  const auto looks_packed = [](const auto& tensor) {
    return std::ranges::any_of(
        PackedFormats(), [&](const PackedFormat& format) { return tensor.first.ends_with(format.endings.front()); });
  };
  if (std::ranges::none_of(shard_of_, looks_packed)) return;
  const std::filesystem::path config = directory_ / "config.json";
  const Json parsed = PathExists(config) ? ReadJsonFile(config.string()) : Json();
  std::string method;  // where it is not said, the names decide
  if (parsed.is_object() && parsed.contains(kQuantisation) && parsed[kQuantisation].is_object()) {
    quantisation_config_ = parsed[kQuantisation].dump();
    method = parsed[kQuantisation].value("quant_method", "");
  }
  for (const auto& [stored, file] : shard_of_) {
    for (const PackedFormat& format : PackedFormats()) {
      const std::string first = format.endings.front();
      if (!stored.ends_with(first) || (!method.empty() && method != format.name)) continue;
      const std::string stem = stored.substr(0, stored.size() - first.size());
      if (shard_of_.contains(stem + format.ending) || in_parts_.contains(stem + format.ending)) continue;
      InParts tensor{&format, {}};
      for (const char* ending : format.endings) {
        const bool there = shard_of_.contains(stem + ending);
        tensor.parts.push_back(there ? stem + ending : "");
        if (there) hidden_.insert(stem + ending);
      }
      in_parts_[stem + format.ending] = std::move(tensor);
    }
  }
}

// Their parts are no tensors of the model.
void HfDirectory::FindFewBits() {
  for (const auto& [name, shard] : shard_of_) {
    if (IsPackedState(name)) few_bits_[*MatrixOfPart(name)] = name;
  }
  if (!few_bits_.empty()) config_type_ = ConfigType();
  for (const auto& [name, shard] : shard_of_) {
    const std::optional<std::string> matrix = MatrixOfPart(name);
    if (!matrix || !shard_of_.contains(*matrix)) continue;
    if (!few_bits_.contains(*matrix)) {
      throw InputError(FileOf(name).string(), ": '", MissingState(name), "' is missing: the packed '", *matrix,
                       "' cannot be decoded without it");
    }
    hidden_.insert(name);
  }
}

std::optional<PackedTensor> HfDirectory::FindPacked(const std::string& name) const {
  const auto state = few_bits_.find(name);
  if (state == few_bits_.end()) return std::nullopt;
  const auto find = [&](const std::string& part) -> std::optional<TensorView> {
    if (!shard_of_.contains(part)) return std::nullopt;
    return FindStored(part);
  };
  PackedTensor tensor = ReadPackedTensor(name, state->second, FileOf(name).string(), find);
  if (tensor.storage.kind == PackedStorage::Kind::kInt8) tensor.dtype = config_type_;
  return tensor;
}

DType HfDirectory::ConfigType() const {
  const std::filesystem::path path = directory_ / "config.json";
  const Json config = PathExists(path) ? ReadJsonFile(path.string()) : Json();
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (!config.is_object() || !config.contains(key) || !config[key].is_string()) continue;
    const auto name = config[key].get<std::string>();
    return name == "float32" ? DType::kFp32 : name == "float16" ? DType::kFp16 : DType::kBf16;
  }
  return DType::kFp32;  // what transformers takes where nothing is said
}

void HfDirectory::ReadIndex(const std::filesystem::path& index) {
  // A sorted map: in file order each lookup among 40,000 names would be a linear search.
  const nlohmann::json parsed = ParseSortedJson(ReadTextFile(index.string()), index.string());
  if (!parsed.is_object()) throw InputError(index.string(), ": is not a JSON object");
  const auto map = parsed.find("weight_map");
  if (map == parsed.end() || !map->is_object()) throw InputError(index.string(), ": has no weight_map");
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) throw InputError(index.string(), ": weight_map of '", name, "' is not a file name");
    const auto shard = file.get<std::string>();
    // A path that leaves the directory is never what a model's author intended.
    if (shard.find('/') != std::string::npos || !PathExists(directory_ / shard)) {
      throw InputError(index.string(), ": '", name, "' is in '", shard, "', which is not in the directory");
    }
    shard_of_[name] = shard;
  }
}

std::vector<std::string> HfDirectory::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, shard] : shard_of_) {
    if (!hidden_.contains(name)) names.push_back(name);
  }
  for (const auto& [name, tensor] : in_parts_) names.push_back(name);
  std::sort(names.begin(), names.end(), InModelOrder);
  return names;
}

void HfDirectory::RefuseName(const std::string& name) const {
  const auto nearest = Nearest(name, Names());
  throw InputError(directory_.string(), ": tensor '", name, "' is missing",
                   nearest ? Concat("; nearest: '", *nearest, "'") : "");
}

PackedFormat::Parts HfDirectory::PartsOf(const InParts& packed) const {
  PackedFormat::Parts parts;
  for (const std::string& part : packed.parts) parts.views.push_back(part.empty() ? TensorView{} : FindStored(part));
  parts.quantisation_config = quantisation_config_;
  return parts;
}

TensorView HfDirectory::DescribeParts(const std::string& name, const InParts& packed) const {
  const std::string where = FileOf(name).string() + ": tensor '" + name + "' in " + packed.format->name;
  return packed.format->describe(PartsOf(packed), where);
}

TensorView HfDirectory::Describe(const std::string& name) const {
  if (!Has(name)) RefuseName(name);
  if (const auto packed = in_parts_.find(name); packed != in_parts_.end()) return DescribeParts(name, packed->second);
  if (const auto packed = FindPacked(name)) return {packed->dtype, packed->shape, {}};
  if (stored_) return stored_->Describe(name);
  if (!store_) return Find(name);
  const checkpoint::Tensor& tensor = store_->Find(kStoredPrefix + name);
  return {DTypeFromName(tensor.dtype()), ShapeOf(tensor), {}};
}

const TensorView& HfDirectory::Assemble(const std::string& name) const {
  if (assembled_name_ == name) return assembled_;
  assembled_name_.clear();
  assembled_ = Describe(name);
  memory_.resize(static_cast<size_t>(Elements(assembled_.shape) * ByteSize(assembled_.dtype)));
  if (store_) {
    store_->ReadWhole(store_->Find(kStoredPrefix + name), memory_.data());
  } else if (stored_) {
    stored_->Read(name, memory_.data());
  } else if (const auto packed = FindPacked(name)) {
    DecodeTensor(*packed, memory_);
  } else {
    const InParts& parts = in_parts_.at(name);
    parts.format->decode(PartsOf(parts), memory_);
  }
  assembled_.bytes = memory_;
  assembled_name_ = name;
  return assembled_;
}

const TensorView& HfDirectory::Find(const std::string& name) const {
  if (!Has(name)) RefuseName(name);
  const bool assembled = store_ || stored_ || in_parts_.contains(name) || few_bits_.contains(name);
  return assembled ? Assemble(name) : FindStored(name);
}

const TensorView& HfDirectory::FindStored(const std::string& name) const {
  const auto shard = shard_of_.find(name);
  auto& file = shards_[shard->second];
  if (!file) file = std::make_unique<SafetensorsFile>(directory_ / shard->second);
  const auto found = file->tensors().find(name);
  if (found == file->tensors().end()) {
    throw InputError(file->path().string(), ": tensor '", name, "' is missing, although the index lists it here");
  }
  return found->second;
}

void HfDirectory::Release(const std::string& name) const {
  if (const auto packed = in_parts_.find(name); packed != in_parts_.end()) {
    for (const std::string& part : packed->second.parts) Release(part);
    return;
  }
  const auto shard = shard_of_.find(name);
  if (store_ || stored_ || shard == shard_of_.end()) return;
  const auto file = shards_.find(shard->second);
  if (file != shards_.end()) file->second->Release(name);
}

std::filesystem::path HfDirectory::FileOf(const std::string& name) const {
  const auto packed = in_parts_.find(name);
  const auto shard = shard_of_.find(packed == in_parts_.end() ? name : packed->second.parts.front());
  if (stored_ && shard != shard_of_.end()) return stored_->FileOf(name);
  return shard == shard_of_.end() ? directory_ : directory_ / shard->second;
}

}  // namespace trireme
