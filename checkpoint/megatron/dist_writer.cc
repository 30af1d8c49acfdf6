#include "checkpoint/megatron/dist_writer.h"

#include <string>
#include <string_view>
#include <utility>

#include "checkpoint/megatron/layer_numbers.h"
#include "checkpoint/megatron/written_layout.h"
#include "checkpoint/megatron/written_names.h"
#include "checkpoint/pickle/pickled.h"
#include "checkpoint/pickle/torch_writer.h"
#include "core/base/error.h"
#include "core/io/atomic_file.h"

namespace trireme {
namespace {

std::string FileOf(int rank) { return Concat("__", rank, "_0.distcp"); }

Shape Joined(Shape first, const Shape& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

std::string Dotted(const Shape& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += Concat(text.empty() ? "" : ".", number);
  return text;
}

// Whether every decoder layer has the same tensors.
bool AllLayersEqual(const WrittenModel& model) {
  int64_t with_experts = 0;
  for (int64_t layer = 0; layer < model.names().layers(); ++layer) with_experts += model.HasExperts(layer) ? 1 : 0;
  return with_experts == 0 || with_experts == model.names().layers();
}

}  // namespace

// Where one layer's or expert's tensor is in the tensor of all: an index along the leading axes.
struct DistWriter::Stacked {
  std::string key;
  Shape index, axes;
};

// One item of a file: a tensor's box, or a module's state, which is None.
struct DistWriter::Chunk {
  const WrittenTensor* tensor;  // nullptr: a state
  std::string key;
  Shape index, axes;  // leading
  Box box;            // of the tensor itself

  Shape offset() const { return Joined(index, box.offset); }
  Shape extent() const { return Joined(Shape(index.size(), 1), box.extent); }
  // Appends the item to a file, or only counts.
  uint64_t Write(const ByteSink& sink, const WrittenModel& model) const {
    if (tensor == nullptr) return TorchFileWriter(sink, "archive", PickledList({PickledNone()})).Close();
    TorchFileWriter writer(sink, "archive", PickledTensor(tensor->dtype, extent(), 0));
    const auto bytes = static_cast<uint64_t>(box.elements() * ByteSize(tensor->dtype));
    const std::vector<std::byte> elements = sink ? model.Read(*tensor, {box}) : std::vector<std::byte>();
    writer.Add(elements.data(), bytes);
    return writer.Close();
  }
};

DistWriter::DistWriter(const WrittenModel& model, const MegatronExport& options, std::filesystem::path iteration,
                       int ranks)
    : model_(model),
      options_(options),
      iteration_(std::move(iteration)),
      ranks_(ranks),
      layers_are_equal_(AllLayersEqual(model)) {}

DistWriter::Stacked DistWriter::StackedOf(const std::string& name) const {
  Stacked stacked{name, {}, {}};
  std::string rest;
  if (const auto layer = NumberAfter(name, kDecoder, rest); layer && layers_are_equal_) {
    stacked = {std::string(kDecoder) + rest, {*layer}, {model_.names().layers()}};
  }
  const size_t at = stacked.key.find(kMegatronExperts);
  if (at == std::string::npos) return stacked;
  const int64_t expert = NumberAfter(stacked.key.substr(at), kMegatronExperts, rest).value();
  stacked.key = stacked.key.substr(0, at) + std::string(kMegatronExperts) + "experts." + rest;
  stacked.index.push_back(expert);
  stacked.axes.push_back(model_.experts());
  return stacked;
}

void DistWriter::AddTensor(const WrittenTensor& tensor, std::vector<Chunk>& chunks) const {
  for (const std::string& name : DistNames(tensor.name, model_)) {
    const Stacked stacked = StackedOf(name);
    const WrittenSplit split = SplitOf(tensor, options_.layout);
    const int64_t parts = split.split == MegatronSplit::kNone ? 1 : split.parts;
    for (int64_t part = 0; part < parts; ++part) {
      for (const Box& box : PartBoxes(split.split, tensor.shape, part, parts))
        chunks.push_back({&tensor, stacked.key, stacked.index, stacked.axes, box});
    }
    AddStates(name, stacked, chunks);
  }
}

// Every module but the router, the embedding and the head may ask for its state. Without a layer's axis it is one of
// one.
void DistWriter::AddStates(const std::string& name, const Stacked& stacked, std::vector<Chunk>& chunks) const {
  const std::string_view weight = ".weight";
  const auto add = [&](const std::string& module) {
    const Shape index = stacked.index.empty() ? Shape{0} : stacked.index;
    const Shape axes = stacked.axes.empty() ? Shape{1} : stacked.axes;
    chunks.push_back({nullptr, Concat(module, "._extra_state/shard_", Dotted(index), "_", Dotted(axes)), {}, {}, {}});
  };
  const std::string& key = stacked.key;
  const bool has_none =
      name.ends_with("router.weight") || name.starts_with("embedding.") || name.starts_with("output_");
  if (has_none || !key.ends_with(weight)) return;
  add(key.substr(0, key.size() - weight.size()));
  if (SplitLayer(name).rest != "self_attention.linear_proj.weight") return;
  const std::string linear = "linear_proj.weight";
  add(key.substr(0, key.size() - linear.size()) + "core_attention");
}

std::vector<DistWriter::Chunk> DistWriter::ChunksOf(int rank) const {
  std::vector<Chunk> chunks;
  const std::vector<WrittenTensor>& tensors = model_.tensors();
  for (size_t i = static_cast<size_t>(rank); i < tensors.size(); i += static_cast<size_t>(ranks_))
    AddTensor(tensors[i], chunks);
  return chunks;
}

void DistWriter::WriteChunks(int rank) const {
  AtomicFile file(iteration_ / FileOf(rank));
  for (const Chunk& chunk : ChunksOf(rank))
    chunk.Write([&](const void* data, size_t bytes) { file.Write(data, bytes); }, model_);
  file.Commit();
}

DistMetadata DistWriter::Metadata() const {
  DistMetadata metadata;
  for (int rank = 0; rank < ranks_; ++rank) {
    uint64_t offset = 0;
    for (const Chunk& chunk : ChunksOf(rank)) {
      const DistItem item{FileOf(rank), offset, chunk.Write(nullptr, model_)};
      offset += item.bytes;
      if (chunk.tensor == nullptr) {
        metadata.objects[chunk.key] = item;
        continue;
      }
      DistTensor& tensor = metadata.tensors[chunk.key];
      tensor.dtype = chunk.tensor->dtype;
      tensor.shape = Joined(chunk.axes, chunk.tensor->shape);
      tensor.chunks.push_back({{chunk.offset(), chunk.extent()}, item});
    }
  }
  return metadata;
}

}  // namespace trireme
