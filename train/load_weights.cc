#include "train/load_weights.h"

#include <ATen/ATen.h>

#include <set>

#include "core/base/error.h"
#include "core/tensor/dtype.h"

namespace trireme {
namespace {

// The part of a file's tensor that a copy reads, as it lies in the mapped file.
at::Tensor FileSlice(const TensorView& view, const SliceCopy& copy) {
  auto* first = const_cast<std::byte*>(view.bytes.data()) + copy.file_offset * ByteSize(view.dtype);
  return at::from_blob(first, copy.extent, copy.file_strides, at::TensorOptions(ToTorch(view.dtype)));
}

void CopySlice(const HfDirectory& directory, const SliceCopy& copy, const at::Tensor& local) {
  const HfTensor& source = *copy.source;
  const TensorView& view = directory.Find(source.name);
  const std::string where = directory.FileOf(source.name).string() + ": tensor '" + source.name + "'";
  if (view.shape != source.shape) {
    throw InputError(where, " is ", ShapeText(view.shape), "; the config wants ", ShapeText(source.shape));
  }
  const at::Tensor slice = FileSlice(view, copy);
  if (!slice.isfinite().all().item<bool>()) {
    throw InputError(where, " has values that are not finite; the file is damaged or the model diverged");
  }
  // The local tensor may lie anywhere in a larger buffer, and as_strided counts from that one's begin.
  local.as_strided(copy.extent, copy.local_strides, local.storage_offset() + copy.local_offset).copy_(slice);
}

}  // namespace

void LoadWeights(const HfDirectory& directory, const std::vector<Weights::Entry*>& entries, int rank) {
  for (const Weights::Entry* entry : entries) {
    for (const SliceCopy& copy : SliceCopies(entry->parameter, entry->placement, rank)) {
      CopySlice(directory, copy, entry->weight.value);
    }
  }
}

void RefuseExtraTensors(const HfDirectory& directory, const LayerGraph& graph) {
  std::set<std::string> known;
  for (const Layer& layer : graph.layers) {
    for (const Parameter& parameter : ParametersOf(graph, layer, {.size = 1})) {
      for (const HfTensor& tensor : parameter.hf) known.insert(tensor.name);
    }
  }
  for (const std::string& name : directory.Names()) {
    // Some files repeat a tied head, and old ones keep the rotary frequencies: both follow from the rest.
    const bool repeated = HasTiedHead(graph) && name == "lm_head.weight";
    if (repeated || name.ends_with(".rotary_emb.inv_freq") || known.contains(name)) continue;
    throw InputError(directory.FileOf(name).string(), ": tensor '", name, "' belongs to no layer of a ",
                     graph.family, " model with this config");
  }
}

}  // namespace trireme
