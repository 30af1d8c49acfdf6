// The optimizer's states in Megatron's `torch_dist` format, in model space: whole tensors by the weights' names, or
// flattened ranges of ranks' parts. Buckets of the optimizer's own ranks are dist_buckets.cc's.
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "checkpoint/elements.h"
#include "checkpoint/megatron/dist_buckets.h"
#include "checkpoint/megatron/dist_reader.h"
#include "checkpoint/megatron/states.h"
#include "core/base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kState = "optimizer.state.", kBuckets = "optimizer.distributed.";

struct StateKey {
  std::string state, weight;  // "exp_avg", and the weight's key
};

// "optimizer.state.STATE.WEIGHT"; nothing if it is another key.
std::optional<StateKey> StateKeyOf(const std::string& key) {
  const std::string name = WithoutChain(key);
  if (!name.starts_with(kState)) return std::nullopt;
  const size_t dot = name.find('.', kState.size());
  if (dot == std::string::npos) return std::nullopt;
  return StateKey{name.substr(kState.size(), dot - kState.size()), name.substr(dot + 1)};
}

// A weight's tensor has leading axes of layers and experts, then its own; a flattened one has instead of these how
// often each is cut, and then the elements of one part.
class ModelSpace {
 public:
  ModelSpace(DistReader& reader, const MegatronCheckpoint& checkpoint, MegatronStates& states)
      : reader_(reader), checkpoint_(checkpoint), states_(states) {}

  void Add(const StateKey& key, const DistTensor& tensor) {
    const std::string where = reader_.directory().string(), state = StateOf(key.state, where);
    if (state.empty()) return;
    const StackedName name = StackedNameOf(WithoutModule(key.weight));
    const auto weight = checkpoint_.weights.find(name.At(Shape(name.axes(), 0)));
    if (weight == checkpoint_.weights.end())
      throw InputError(where, ": has '", state, "' of '", Printable(key.weight), "', and no such weight");
    const Shape& shape = weight->second.shape;
    const size_t axes = name.axes();
    if (tensor.shape.size() == axes + shape.size() && WithoutAxes(tensor.shape, axes) == shape)
      return AddWhole(state, name, tensor);
    if (tensor.shape.size() == axes + shape.size() + 1 && IsCutOf(WithoutAxes(tensor.shape, axes), shape))
      return AddFlattened(state, name, tensor, shape);
    throw InputError(where, ": '", state, "' of '", Printable(key.weight), "' has the shape ", ShapeText(tensor.shape),
                     ", and the weight ", ShapeText(shape), "; weights and optimizer are not of one run");
  }

 private:
  static bool IsCutOf(const Shape& cuts, const Shape& shape) {
    int64_t elements = 1;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (cuts[d] < 1 || shape[d] % cuts[d] != 0) return false;
      elements *= shape[d] / cuts[d];
    }
    return elements == cuts.back();
  }

  // Calls with each index of a chunk's first axes, in the chunk and in the tensor.
  template <typename Call>
  static void ForEachIndex(const DistChunk& chunk, size_t axes, const Call& call) {
    const Shape extent(chunk.box.extent.begin(), chunk.box.extent.begin() + static_cast<ptrdiff_t>(axes));
    for (int64_t i = 0; i < Elements(extent); ++i) {
      const Shape inside = IndexOf(i, extent);
      Shape index = inside;
      for (size_t d = 0; d < axes; ++d) index[d] += chunk.box.offset[d];
      call(inside, index);
    }
  }

  void AddWhole(const std::string& state, const StackedName& name, const DistTensor& tensor) {
    const size_t axes = name.axes();
    for (const DistChunk& chunk : tensor.chunks) {
      ForEachIndex(chunk, axes, [&](const Shape& inside, const Shape& index) {
        AddBox(
            state, name.At(index), WithoutAxes(tensor.shape, axes),
            {WithoutAxes(chunk.box.offset, axes), WithoutAxes(chunk.box.extent, axes)},
            [open = Opener(tensor, chunk), inside] { return SliceAt(open(), inside); }, tensor.dtype, chunk);
      });
    }
  }

  void AddFlattened(const std::string& state, const StackedName& name, const DistTensor& tensor, const Shape& shape) {
    const size_t axes = name.axes(), leading = tensor.shape.size() - 1;
    Shape part = shape;
    for (size_t d = 0; d < shape.size(); ++d) part[d] /= tensor.shape[axes + d];
    for (const DistChunk& chunk : tensor.chunks) {
      const int64_t begin = chunk.box.offset.back(), end = begin + chunk.box.extent.back();
      ForEachIndex(chunk, leading, [&](const Shape& inside, const Shape& index) {
        for (const FlatPiece& piece : FlatRangeBoxes(part, begin, end)) {
          Box box = piece.box;
          for (size_t d = 0; d < shape.size(); ++d) box.offset[d] += index[axes + d] * part[d];
          const auto open = [open = Opener(tensor, chunk), inside, from = piece.begin - begin,
                             extent = piece.box.extent] {
            const StridedTensor range = SliceAt(open(), inside);
            return StridedTensor{range.dtype, extent, RowMajorStrides(extent), Advance(range.data, range.dtype, from)};
          };
          AddBox(state, name.At(index), shape, box, open, tensor.dtype, chunk);
        }
      });
    }
  }

  std::function<StridedTensor()> Opener(const DistTensor& tensor, const DistChunk& chunk) {
    return [bytes = reader_.Bytes(chunk.item), file = reader_.FileOf(chunk.item), dtype = tensor.dtype,
            extent = chunk.box.extent] { return OpenChunk(bytes, file, dtype, extent); };
  }

  void AddBox(const std::string& state, const std::string& name, const Shape& shape, const Box& box,
              std::function<StridedTensor()> open, DType dtype, const DistChunk& chunk) {
    AddPiece(states_.tensors[state], name, {dtype, shape, {{box, std::move(open)}}, reader_.FileOf(chunk.item)});
  }

  DistReader& reader_;
  const MegatronCheckpoint& checkpoint_;
  MegatronStates& states_;
};

// Of the values that ranks have in common, and of those of an optimizer's ranks.
void AddAllUpdates(DistReader& reader, MegatronStates& states) {
  if (const std::shared_ptr<TorchFile> common = reader.Common()) {
    const PickleValue* optimizer = DistReader::RootOf(*common).Get("optimizer");
    if (optimizer != nullptr) AddUpdates(*common, *optimizer, states);
  }
  for (const auto& [key, item] : reader.metadata().objects) {
    const std::string name = WithoutChain(key);
    if (!name.starts_with(kBuckets) || name.find(".optimizer/") == std::string::npos) continue;
    const std::shared_ptr<TorchFile> file = reader.Object(item);
    AddUpdates(*file, DistReader::RootOf(*file), states);
  }
}

}  // namespace

void ReadDistStates(const MegatronCheckpoint& checkpoint, MegatronStates& states) {
  DistReader reader(checkpoint.path);
  ModelSpace model_space(reader, checkpoint, states);
  for (const auto& [key, tensor] : reader.metadata().tensors) {
    if (const auto state = StateKeyOf(key)) model_space.Add(*state, tensor);
  }
  if (states.tensors.empty()) ReadDistBuckets(reader, checkpoint, states);
  AddAllUpdates(reader, states);
  states.files.insert(states.files.end(), reader.files().begin(), reader.files().end());
}

}  // namespace trireme
