#include "checkpoint/megatron/dist_reader.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

#include "checkpoint/elements.h"
#include "checkpoint/megatron/layer_numbers.h"
#include "checkpoint/megatron/tensors.h"
#include "core/base/error.h"
#include "core/base/file.h"

namespace trireme {

std::string StackedName::At(const Shape& index) const {
  std::string name = layers ? Concat(before, index[0], ".", after) : before;
  if (experts) name.insert(name.find(kMegatronExperts) + kMegatronExperts.size(), Concat(index[layers ? 1 : 0], "."));
  return name;
}

StackedName StackedNameOf(const std::string& key) {
  StackedName name{CommonName(key), "", false, false};
  name.experts = name.before.find(kMegatronExperts) != std::string::npos;
  for (const std::string_view stack : {"decoder.layers.", "mtp.layers."}) {
    if (!name.before.starts_with(stack) || std::isdigit(static_cast<unsigned char>(name.before[stack.size()])) != 0)
      continue;
    name.after = name.before.substr(stack.size());
    name.before = stack;
    name.layers = true;
  }
  return name;
}

Shape WithoutAxes(const Shape& shape, size_t axes) {
  return {shape.begin() + static_cast<ptrdiff_t>(axes), shape.end()};
}

Shape IndexOf(int64_t flat, const Shape& extent) {
  Shape index(extent.size());
  for (size_t d = extent.size(); d-- > 0;) {
    index[d] = flat % extent[d];
    flat /= extent[d];
  }
  return index;
}

StridedTensor SliceAt(StridedTensor tensor, const Shape& inside) {
  for (size_t d = 0; d < inside.size(); ++d)
    tensor.data = Advance(tensor.data, tensor.dtype, inside[d] * tensor.strides[d]);
  tensor.shape = WithoutAxes(tensor.shape, inside.size());
  tensor.strides = WithoutAxes(tensor.strides, inside.size());
  return tensor;
}

DistReader::DistReader(std::filesystem::path directory)
    : directory_(std::move(directory)), metadata_(ReadDistMetadata(directory_ / ".metadata")) {}

std::span<const std::byte> DistReader::Bytes(const DistItem& item) {
  std::shared_ptr<MappedFile>& file = files_[item.file];
  const std::filesystem::path path = FileOf(item);
  if (!file) {
    if (!PathExists(path))
      throw InputError(path.string(),
                       ": is missing, and .metadata says that it holds tensors; copy all files of the checkpoint");
    file = std::make_shared<MappedFile>(path);
    opened_.push_back(file);
  }
  const std::span<const std::byte> bytes = file->bytes();
  if (item.offset > bytes.size() || item.bytes > bytes.size() - item.offset)
    throw InputError(path.string(), ": has ", bytes.size(), " bytes, and .metadata says that it goes on to ",
                     item.offset + item.bytes, "; it is cut off");
  return bytes.subspan(item.offset, item.bytes);
}

std::shared_ptr<TorchFile> DistReader::Common() {
  const std::filesystem::path common = directory_ / "common.pt";
  if (PathExists(common)) {
    opened_.push_back(std::make_shared<MappedFile>(common));
    return std::make_shared<TorchFile>(opened_.back()->bytes(), common.string());
  }
  const auto& objects = metadata_.objects;
  const auto inside =
      std::ranges::find_if(objects, [](const auto& object) { return object.first.starts_with("common_state"); });
  return inside == objects.end() ? nullptr : Object(inside->second);
}

std::string WithoutChain(const std::string& key) {
  std::string rest = key;
  return NumberAfter(key, kChain, rest) ? rest : key;
}

std::shared_ptr<TorchFile> DistReader::Object(const DistItem& item) {
  return std::make_shared<TorchFile>(Bytes(item), FileOf(item).string());
}

const PickleValue& DistReader::RootOf(const TorchFile& file) {
  const PickleValue& root = file.root();
  return root.is(PickleValue::Kind::kList) && root.items.size() == 1 ? *root.items[0] : root;
}

StridedTensor OpenChunk(std::span<const std::byte> bytes, const std::filesystem::path& path, DType dtype,
                        const Shape& extent) {
  const TorchFile file(bytes, path.string());
  const std::optional<StridedTensor> tensor = file.TensorOf(file.root());
  if (!tensor || tensor->dtype != dtype || tensor->shape != extent)
    throw InputError(path.string(), ": a chunk is not the tensor of ", ShapeText(extent), " in ", Name(dtype),
                     " that .metadata says");
  return *tensor;
}

}  // namespace trireme
