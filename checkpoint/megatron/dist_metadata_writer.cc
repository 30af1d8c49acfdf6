// `.metadata`, as torch.distributed.checkpoint pickles it.
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/megatron/dist_metadata.h"
#include "checkpoint/pickle/pickled.h"
#include "checkpoint/pickle/torch_writer.h"
#include "core/io/atomic_file.h"

namespace trireme {
namespace {

using Items = std::vector<std::pair<std::string, std::string>>;

std::string Instance(const char* name, const std::string& state) {
  return PickledObject(PickledGlobal("torch.distributed.checkpoint.metadata", name), state);
}

std::string Size(const Shape& shape) { return PickledCall(PickledGlobal("torch", "Size"), {PickledTuple(shape)}); }

// Dtype, layout, requires_grad, memory format, pin_memory.
std::string Properties(DType dtype) {
  const std::string layout =
      PickledCall(PickledGlobal("torch.serialization", "_get_layout"), {PickledText("torch.strided")});
  const std::string contiguous =
      PickledCall(PickledGlobal("torch.distributed.checkpoint.metadata", "_MEM_FORMAT_ENCODING"), {PickledInt(0)});
  return Instance("TensorProperties",
                  PickledTuple(std::vector<std::string>{PickledType(dtype), layout, PickledBool(false), contiguous,
                                                        PickledBool(false)}));
}

std::string Tensor(const DistTensor& tensor) {
  std::vector<std::string> chunks;
  for (const DistChunk& chunk : tensor.chunks) {
    chunks.push_back(Instance("ChunkStorageMetadata", PickledDict({{PickledText("offsets"), Size(chunk.box.offset)},
                                                                   {PickledText("sizes"), Size(chunk.box.extent)}})));
  }
  return Instance("TensorStorageMetadata", PickledDict({{PickledText("properties"), Properties(tensor.dtype)},
                                                        {PickledText("size"), Size(tensor.shape)},
                                                        {PickledText("chunks"), PickledList(chunks)}}));
}

// Where an item is; `offset`: of a tensor's chunk in the tensor.
void AddItem(const std::string& key, const Shape* offset, const DistItem& item, Items& storage) {
  Items index = {{PickledText("fqn"), PickledText(key)},
                 {PickledText("offset"), offset == nullptr ? PickledNone() : Size(*offset)},
                 {PickledText("index"), PickledNone()}};
  storage.emplace_back(
      Instance("MetadataIndex", PickledDict(index)),
      PickledObject(PickledGlobal("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
                    PickledDict({{PickledText("relative_path"), PickledText(item.file)},
                                 {PickledText("offset"), PickledInt(static_cast<int64_t>(item.offset))},
                                 {PickledText("length"), PickledInt(static_cast<int64_t>(item.bytes))}})));
}

}  // namespace

void WriteDistMetadata(const std::filesystem::path& file, const DistMetadata& metadata) {
  Items entries, storage;
  for (const auto& [key, tensor] : metadata.tensors) {
    entries.emplace_back(PickledText(key), Tensor(tensor));
    for (const DistChunk& chunk : tensor.chunks) AddItem(key, &chunk.box.offset, chunk.item, storage);
  }
  for (const auto& [key, item] : metadata.objects) {
    entries.emplace_back(PickledText(key), Instance("BytesStorageMetadata", PickledDict({})));
    AddItem(key, nullptr, item, storage);
  }
  WriteAtomicFile(file,
                  PickleOf(Instance("Metadata", PickledDict({{PickledText("state_dict_metadata"), PickledDict(entries)},
                                                             {PickledText("planner_data"), PickledNone()},
                                                             {PickledText("storage_data"), PickledDict(storage)},
                                                             {PickledText("storage_meta"), PickledNone()}}))));
}

}  // namespace trireme
