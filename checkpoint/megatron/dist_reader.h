// DistReader: an opened checkpoint in Megatron's `torch_dist` format: its tensors by key, each chunk of them as a
// strided view of its file, and the values that all ranks have in common. Knows no model.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/megatron/dist_metadata.h"
#include "checkpoint/pickle/torch_file.h"
#include "core/io/mapped_file.h"

namespace trireme {

// A key and which leading axes its tensor has: "decoder.layers." is followed by a number where there is none.
struct StackedName {
  std::string before, after;  // of the layer's number; of an unnumbered tensor all is in `before`
  bool layers = false, experts = false;

  size_t axes() const { return (layers ? 1 : 0) + (experts ? 1 : 0); }
  // The name over the whole model, at an index of these axes.
  std::string At(const Shape& index) const;
};
StackedName StackedNameOf(const std::string& key);

// Several optimizers of one run have keys of their own, "chained_N." first.
inline constexpr std::string_view kChain = "chained_";
std::string WithoutChain(const std::string& key);

Shape WithoutAxes(const Shape& shape, size_t axes);                // the first ones
Shape IndexOf(int64_t flat, const Shape& extent);                  // of an element, row-major
StridedTensor SliceAt(StridedTensor tensor, const Shape& inside);  // at an index of its first axes
// A chunk's bytes are a file of torch.save; `path` for messages.
StridedTensor OpenChunk(std::span<const std::byte> bytes, const std::filesystem::path& path, DType dtype,
                        const Shape& extent);

class DistReader {
 public:
  explicit DistReader(std::filesystem::path directory);

  const std::filesystem::path& directory() const { return directory_; }
  const DistMetadata& metadata() const { return metadata_; }
  std::filesystem::path FileOf(const DistItem& item) const { return directory_ / item.file; }
  std::span<const std::byte> Bytes(const DistItem& item);
  // common.pt, or the same as an item among the tensors; nullptr: neither.
  std::shared_ptr<TorchFile> Common();
  // The value in it, which is in a list of one where it is an item.
  static const PickleValue& RootOf(const TorchFile& file);
  // A pickled value among the tensors.
  std::shared_ptr<TorchFile> Object(const DistItem& item);

  const std::vector<std::shared_ptr<MappedFile>>& files() const { return opened_; }

 private:
  std::filesystem::path directory_;
  DistMetadata metadata_;
  std::map<std::string, std::shared_ptr<MappedFile>> files_;
  std::vector<std::shared_ptr<MappedFile>> opened_;
};

}  // namespace trireme
