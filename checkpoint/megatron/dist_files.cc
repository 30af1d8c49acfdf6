// Megatron's `torch_dist` format: whole tensors by name in chunks, layers and experts stacked along leading axes.
#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

#include "checkpoint/megatron/checkpoint.h"
#include "checkpoint/megatron/dist_metadata.h"
#include "core/base/error.h"
#include "core/base/file.h"

namespace trireme {
namespace {

using Kind = PickleValue::Kind;

// A name and which leading axes its tensor has: "decoder.layers." is followed by a number where there is none.
struct StackedName {
  std::string before, after;  // of the layer's number; of an unnumbered tensor all is in `before`
  bool layers = false, experts = false;

  std::string At(const Shape& index) const {
    std::string name = layers ? Concat(before, index[0], ".", after) : before;
    if (experts) name.insert(name.find(kMegatronExperts) + kMegatronExperts.size(), Concat(index.back(), "."));
    return name;
  }
};

StackedName NameOf(const std::string& key) {
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

class DistFiles {
 public:
  explicit DistFiles(std::filesystem::path directory)
      : directory_(std::move(directory)), metadata_(ReadDistMetadata(directory_ / ".metadata")) {}

  const DistMetadata& metadata() const { return metadata_; }

  std::span<const std::byte> Bytes(const DistItem& item, MegatronCheckpoint& result) {
    std::shared_ptr<MappedFile>& file = files_[item.file];
    const std::filesystem::path path = directory_ / item.file;
    if (!file) {
      if (!PathExists(path))
        throw InputError(path.string(),
                         ": is missing, and .metadata says that it holds tensors; copy all files of the checkpoint");
      file = std::make_shared<MappedFile>(path);
      result.files.push_back(file);
    }
    const std::span<const std::byte> bytes = file->bytes();
    if (item.offset > bytes.size() || item.bytes > bytes.size() - item.offset)
      throw InputError(path.string(), ": has ", bytes.size(), " bytes, and .metadata says that it goes on to ",
                       item.offset + item.bytes, "; it is cut off");
    return bytes.subspan(item.offset, item.bytes);
  }

  void AddTensor(const std::string& key, const DistTensor& stacked, MegatronTensors& tensors,
                 MegatronCheckpoint& result) {
    const StackedName name = NameOf(key);
    const size_t axes = (name.layers ? 1 : 0) + (name.experts ? 1 : 0);
    if (stacked.shape.size() < axes)
      throw InputError(directory_.string(), ": '", Printable(key), "' has the shape ", ShapeText(stacked.shape));
    const Shape shape = Without(stacked.shape, axes);
    for (const DistChunk& chunk : stacked.chunks) {
      const auto bytes = Bytes(chunk.item, result);
      const std::filesystem::path file = directory_ / chunk.item.file;
      const Shape leading(chunk.box.extent.begin(), chunk.box.extent.begin() + static_cast<ptrdiff_t>(axes));
      for (int64_t i = 0; i < Elements(leading); ++i) {
        const Shape inside = IndexOf(i, leading);
        Shape index = inside;
        for (size_t d = 0; d < axes; ++d) index[d] += chunk.box.offset[d];
        MegatronPiece piece{
            {Without(chunk.box.offset, axes), Without(chunk.box.extent, axes)},
            [=, dtype = stacked.dtype, extent = chunk.box.extent] { return Open(bytes, file, dtype, extent, inside); }};
        AddPiece(tensors, name.At(index), {stacked.dtype, shape, {std::move(piece)}, file});
      }
    }
  }

 private:
  static Shape Without(const Shape& shape, size_t axes) {
    return {shape.begin() + static_cast<ptrdiff_t>(axes), shape.end()};
  }
  static Shape IndexOf(int64_t flat, const Shape& extent) {
    Shape index(extent.size());
    for (size_t d = extent.size(); d-- > 0;) {
      index[d] = flat % extent[d];
      flat /= extent[d];
    }
    return index;
  }
  // A chunk is a file of torch.save; `inside` is the index along the leading axes.
  static StridedTensor Open(std::span<const std::byte> bytes, const std::filesystem::path& path, DType dtype,
                            const Shape& extent, const Shape& inside) {
    const TorchFile file(bytes, path.string());
    std::optional<StridedTensor> tensor = file.TensorOf(file.root());
    if (!tensor || tensor->dtype != dtype || tensor->shape != extent)
      throw InputError(path.string(), ": a chunk is not the tensor of ", ShapeText(extent), " in ", Name(dtype),
                       " that .metadata says");
    for (size_t d = 0; d < inside.size(); ++d)
      tensor->data = static_cast<const std::byte*>(tensor->data) + inside[d] * tensor->strides[d] * ByteSize(dtype);
    tensor->shape = Without(tensor->shape, inside.size());
    tensor->strides = Without(tensor->strides, inside.size());
    return *tensor;
  }

  std::filesystem::path directory_;
  DistMetadata metadata_;
  std::map<std::string, std::shared_ptr<MappedFile>> files_;
};

bool IsNoWeight(const std::string& key) {
  for (const std::string_view start :
       {"optimizer.", "rng_state", "rerun_state_machine", "common_state", "opt_param_scheduler", "chained_"}) {
    if (key.starts_with(start)) return true;
  }
  for (const std::string_view part : {"_extra_state", "local_tokens_per_expert", "rotary_pos_emb.inv_freq"}) {
    if (key.find(part) != std::string::npos) return true;
  }
  return false;
}

// common.pt, or the same as an item among the tensors.
std::shared_ptr<const RunArguments> CommonArguments(const std::filesystem::path& directory, DistFiles& files,
                                                    MegatronCheckpoint& result) {
  const std::filesystem::path common = directory / "common.pt";
  const auto& objects = files.metadata().objects;
  const auto inside =
      std::ranges::find_if(objects, [](const auto& object) { return object.first.starts_with("common_state"); });
  std::shared_ptr<TorchFile> file;
  if (PathExists(common)) {
    result.files.push_back(std::make_shared<MappedFile>(common));
    file = std::make_shared<TorchFile>(result.files.back()->bytes(), common.string());
  } else if (inside != objects.end()) {
    file = std::make_shared<TorchFile>(files.Bytes(inside->second, result), (directory / inside->second.file).string());
  } else {
    return nullptr;
  }
  const PickleValue* root = &file->root();
  if (root->is(Kind::kList) && root->items.size() == 1) root = root->items[0];
  const PickleValue* arguments = root->Get("args");
  return arguments == nullptr ? nullptr : std::make_shared<RunArguments>(file, *arguments);
}

}  // namespace

void ReadDistFiles(const std::filesystem::path& iteration, MegatronCheckpoint& result) {
  DistFiles files(iteration);
  result.arguments = CommonArguments(iteration, files, result);
  for (const auto& [key, tensor] : files.metadata().tensors) {
    std::string_view name = key;
    while (name.starts_with("module.")) name.remove_prefix(7);
    if (!IsNoWeight(std::string(name))) files.AddTensor(std::string(name), tensor, result.weights, result);
  }
}

}  // namespace trireme
