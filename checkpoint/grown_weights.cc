#include "checkpoint/grown_weights.h"

#include <map>
#include <utility>
#include <vector>

#include "checkpoint/elements.h"
#include "checkpoint/hf_directory.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/io/atomic_file.h"

namespace trireme {
namespace {

constexpr char kGrownSingleFile[] = "model.safetensors";
constexpr char kGrownIndexFile[] = "model.safetensors.index.json";

// The mean of all rows, in fp32. Summed in fp64: a vocabulary has a hundred thousand of them.
std::vector<float> MeanRow(const TensorView& view) {
  const int64_t rows = view.shape[0], columns = view.shape[1];
  std::vector<double> sums(static_cast<size_t>(columns), 0.0);
  std::vector<float> row(static_cast<size_t>(columns));
  for (int64_t i = 0; i < rows; ++i) {
    Convert(view.dtype, Advance(view.bytes.data(), view.dtype, i * columns), DType::kFp32, row.data(), row.size());
    for (size_t j = 0; j < row.size(); ++j) sums[j] += row[j];
  }
  for (size_t j = 0; j < row.size(); ++j) row[j] = static_cast<float>(sums[j] / static_cast<double>(rows));
  return row;
}

std::vector<std::byte> WithNewRows(const TensorView& view, const std::string& name, const RowGrowth& growth) {
  const bool fits = view.shape.size() == 2 && view.shape[0] == growth.rows && CanConvert(view.dtype, DType::kFp32);
  if (!fits) {
    throw InputError("model.new_tokens: ", name, " is ", ShapeText(view.shape), " of ", Name(view.dtype), "; wanted ",
                     growth.rows, " rows of a floating-point dtype, as config.json's vocab_size says");
  }
  std::vector<std::byte> bytes(view.bytes.begin(), view.bytes.end());
  const std::vector<float> mean = MeanRow(view);
  std::vector<std::byte> row(mean.size() * static_cast<size_t>(ByteSize(view.dtype)));
  Convert(DType::kFp32, mean.data(), view.dtype, row.data(), mean.size());
  bytes.reserve(row.size() * static_cast<size_t>(growth.new_rows));
  for (int64_t i = growth.rows; i < growth.new_rows; ++i) bytes.insert(bytes.end(), row.begin(), row.end());
  return bytes;
}

// The same file with its grown tensors; returns the bytes that all its tensors have.
int64_t WriteGrownFile(const SafetensorsFile& file, const std::filesystem::path& to, const RowGrowth& growth) {
  std::map<std::string, std::vector<std::byte>> grown;
  std::vector<TensorToWrite> tensors;
  int64_t bytes = 0;
  for (const auto& [name, view] : file.tensors()) {
    TensorToWrite tensor{.name = name, .dtype = view.dtype, .shape = view.shape, .data = view.bytes.data()};
    if (growth.tensors.contains(name)) {
      tensor.data = (grown[name] = WithNewRows(view, name, growth)).data();
      tensor.shape[0] = growth.new_rows;
    }
    bytes += Elements(tensor.shape) * ByteSize(tensor.dtype);
    tensors.push_back(std::move(tensor));
  }
  WriteSafetensors(to, std::move(tensors), file.metadata());
  return bytes;
}

// In parts under other names, where no row can be added.
void RefusePackedRows(const HfDirectory& decoded, const HfDirectory& stored, const RowGrowth& growth) {
  for (const std::string& name : growth.tensors) {
    if (!decoded.Has(name) || stored.Has(name)) continue;
    throw InputError("model.new_tokens: ", decoded.FileOf(name).string(), ": '", name,
                     "' is packed, and no row can be added to it; ",
                     "look for the same model with its embedding in bf16");
  }
}

int64_t BytesOf(const SafetensorsFile& file) {
  int64_t bytes = 0;
  for (const auto& [name, view] : file.tensors()) bytes += static_cast<int64_t>(view.bytes.size());
  return bytes;
}

}  // namespace

void WriteGrownWeights(const std::filesystem::path& from, const std::filesystem::path& to, const RowGrowth& growth) {
  // As stored: the index lists the parts of packed tensors, and files are linked as they are.
  const HfDirectory source(from, HfDirectory::Packed::kAsStored);
  if (source.store() != nullptr) {
    throw InputError("model.new_tokens: ", from.string(),
                     " is a run's checkpoint; make a Hugging Face directory of it first: ", "trireme convert --from ",
                     from.string(), " --to DIR");
  }
  RefusePackedRows(HfDirectory(from), source, growth);
  std::map<std::string, std::set<std::string>> tensors_of;  // by file
  for (const std::string& name : source.Names()) tensors_of[source.FileOf(name).filename().string()].insert(name);
  int64_t bytes = 0;
  Json files = Json::object();
  for (const auto& [file, names] : tensors_of) {
    const SafetensorsFile shard(from / file);
    bool grows = false;
    for (const std::string& name : names) {
      grows = grows || growth.tensors.contains(name);
      files[name] = file;
    }
    bytes += grows ? WriteGrownFile(shard, to / file, growth) : BytesOf(shard);
    if (!grows) std::filesystem::create_symlink(std::filesystem::canonical(from / file), to / file);
  }
  if (tensors_of.size() == 1 && tensors_of.begin()->first == kGrownSingleFile) return;
  WriteAtomicFile(to / kGrownIndexFile,
                  Json{{"metadata", {{"total_size", bytes}}}, {"weight_map", files}}.dump(2) + "\n");
}

}  // namespace trireme
