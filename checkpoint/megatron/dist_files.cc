// Megatron's `torch_dist` format: whole tensors by name in chunks, layers and experts stacked along leading axes.
#include <string_view>
#include <utility>

#include "checkpoint/megatron/checkpoint.h"
#include "checkpoint/megatron/dist_reader.h"
#include "core/base/error.h"

namespace trireme {
namespace {

void AddTensor(DistReader& reader, const std::string& key, const DistTensor& stacked, MegatronTensors& tensors) {
  const StackedName name = StackedNameOf(key);
  const size_t axes = name.axes();
  if (stacked.shape.size() < axes)
    throw InputError(reader.directory().string(), ": '", Printable(key), "' has the shape ", ShapeText(stacked.shape));
  const Shape shape = WithoutAxes(stacked.shape, axes);
  for (const DistChunk& chunk : stacked.chunks) {
    const auto bytes = reader.Bytes(chunk.item);
    const std::filesystem::path file = reader.FileOf(chunk.item);
    const Shape leading(chunk.box.extent.begin(), chunk.box.extent.begin() + static_cast<ptrdiff_t>(axes));
    for (int64_t i = 0; i < Elements(leading); ++i) {
      const Shape inside = IndexOf(i, leading);
      Shape index = inside;
      for (size_t d = 0; d < axes; ++d) index[d] += chunk.box.offset[d];
      const auto open = [=, dtype = stacked.dtype, extent = chunk.box.extent] {
        return SliceAt(OpenChunk(bytes, file, dtype, extent), inside);
      };
      const Box box{WithoutAxes(chunk.box.offset, axes), WithoutAxes(chunk.box.extent, axes)};
      AddPiece(tensors, name.At(index), {stacked.dtype, shape, {{box, open}}, file});
    }
  }
}

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

std::shared_ptr<const RunArguments> CommonArguments(DistReader& reader) {
  const std::shared_ptr<TorchFile> common = reader.Common();
  const PickleValue* arguments = common ? DistReader::RootOf(*common).Get("args") : nullptr;
  return arguments == nullptr ? nullptr : std::make_shared<RunArguments>(common, *arguments);
}

}  // namespace

void ReadDistFiles(const std::filesystem::path& iteration, MegatronCheckpoint& result) {
  DistReader reader(iteration);
  result.arguments = CommonArguments(reader);
  for (const auto& [key, tensor] : reader.metadata().tensors) {
    const std::string name = WithoutModule(key);
    if (!IsNoWeight(name)) AddTensor(reader, name, tensor, result.weights);
  }
  result.files.insert(result.files.end(), reader.files().begin(), reader.files().end());
}

}  // namespace trireme
