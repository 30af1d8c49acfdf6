#include "train/resume.h"

#include <ATen/ops/empty.h>

#include "checkpoint/hf_directory.h"
#include "checkpoint/manifest.h"
#include "core/base/error.h"
#include "core/plan/file_pieces.h"
#include "core/tensor/dtype.h"
#include "parallel/graph/parameters.h"
#include "train/load_weights.h"

namespace trireme {
namespace {

// Where the values are fp32 they are the masters, too, and stand only once.
const checkpoint::Tensor& FindState(const StoreReader& reader, const std::string& state,
                                    const std::string& name) {
  const checkpoint::Tensor* found = reader.FindOrNull(state + "/" + name);
  if (found != nullptr || state != "master")
    return found != nullptr ? *found : reader.Find(state + "/" + name);
  return reader.Find("weights/" + name);
}

void ReadShare(StoreReader& reader, const ShareState& state) {
  const bool on_host = state.share.device().is_cpu();
  const at::Tensor host =
      on_host ? state.share : state.share.to(at::kCPU);  // what lies between the parameters stays as it is
  const DType dtype = FromTorch(host.scalar_type());
  for (const FlatPart& part : state.bucket->parts()) {
    const Shard shard = state.bucket->ShardOf(part, state.state, dtype, host.data_ptr());
    for (const FilePiece& piece : FilePieces(state.bucket->entries()[part.parameter]->parameter, shard)) {
      reader.Read(FindState(reader, state.state, piece.tensor->name), piece.box,
                  {dtype, Advance(shard.data, dtype, piece.offset), piece.strides});
    }
  }
  if (!on_host) at::Tensor(state.share).copy_(host);
}

}  // namespace

void CheckResumable(const StoreReader& reader, const LayerGraph& graph) {
  const checkpoint::Manifest& manifest = reader.manifest();
  if (!manifest.has_progress()) {
    throw InputError(
        reader.path().string(),
        ": has weights only, nothing to go on from; write it as model.path and run.resume: never");
  }
  if (manifest.family() != graph.family) {
    throw InputError(reader.path().string(), ": is of a ", manifest.family(), " model; model.path is a ",
                     graph.family, "; write the model.path of that run");
  }
  for (const Layer& layer : graph.layers) {
    for (const Parameter& parameter : ParametersOf(graph, layer, {.size = 1})) {
      for (const HfTensor& tensor : parameter.hf) {
        const checkpoint::Tensor* found = reader.FindOrNull("weights/" + tensor.name);
        if (found != nullptr && ShapeOf(*found) == tensor.shape) continue;
        throw InputError(reader.path().string(), ": is of another model: tensor '", tensor.name, "' is ",
                         found == nullptr ? "missing" : ShapeText(ShapeOf(*found)), "; model.path wants ",
                         ShapeText(tensor.shape));
      }
    }
  }
}

void PrepareStates(const StoreReader& reader, Trainer& trainer, Job& job) {
  const HfDirectory files(reader.path());
  for (Bucket* bucket : trainer.model().buckets()) {
    if (!bucket->trained()) LoadWeights(files, bucket->entries(), job.rank());
    bucket->SealValues();
  }
  trainer.optimizer().ShareStates();
}

void LoadStates(StoreReader& reader, Trainer& trainer, Job& job) {
  for (const ShareState& state : trainer.optimizer().ShareStates()) ReadShare(reader, state);
  reader.Verify(job.rank(), job.world());
  trainer.optimizer().StatesLoaded(reader.manifest().progress().updates());
}

}  // namespace trireme
