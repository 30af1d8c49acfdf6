#include "train/states/resume.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <set>

#include "checkpoint/adapter_directory.h"
#include "checkpoint/hf_directory.h"
#include "checkpoint/manifest.h"
#include "core/base/error.h"
#include "core/plan/file_pieces.h"
#include "core/tensor/dtype.h"
#include "parallel/graph/parameters.h"
#include "parallel/graph/tuning.h"
#include "parallel/sharding/optimizers.h"
#include "session/known_tensors.h"
#include "session/load_weights.h"

namespace trireme {
namespace {

constexpr char kKeepTuning[] = "; keep the tuning, or start over: another run.output, and run.resume: auto";

// fp32 weights are also the master weights and are stored only once.
const checkpoint::Tensor& FindState(const StoreReader& reader, const std::string& state, const std::string& name) {
  const checkpoint::Tensor* found = reader.FindOrNull(state + "/" + name);
  if (found != nullptr || state != "master") return found != nullptr ? *found : reader.Find(state + "/" + name);
  return reader.Find("weights/" + name);
}

void ReadShare(StoreReader& reader, const ShardState& state) {
  const bool on_host = state.shard.device().is_cpu();
  const at::Tensor host =
      on_host ? state.shard : state.shard.to(at::kCPU);  // padding between parameters stays as it is
  const DType dtype = FromTorch(host.scalar_type());
  for (const FlatPart& part : state.bucket->parts()) {
    const Shard shard = state.bucket->ShardOf(part, state.state, dtype, host.data_ptr());
    for (const FilePiece& piece : FilePieces(state.bucket->entries()[part.parameter]->parameter, shard)) {
      reader.Read(FindState(reader, state.state, piece.tensor->name), piece.box,
                  {dtype, Advance(shard.data, dtype, piece.offset), piece.strides});
    }
  }
  if (!on_host) at::Tensor(state.shard).copy_(host);
}

void ReadTensorState(StoreReader& reader, const TensorState& state) {
  const Shape shape(state.values.sizes().begin(), state.values.sizes().end());
  const at::Tensor host = at::empty(shape, at::kFloat);
  reader.Read(reader.Find(state.key), {Shape(shape.size(), 0), shape},
              {DType::kFp32, host.data_ptr(), RowMajorStrides(shape)});
  at::Tensor(state.values).copy_(host);
}

// Moments of 8 bits are codes and scales, which are no use to an optimizer with wider ones, nor theirs to it.
void CheckSameMoments(const StoreReader& reader, const OptimizerConfig& optimizer) {
  const auto& tensors = reader.manifest().tensors();
  const bool had_codes = std::ranges::any_of(tensors, [](const checkpoint::Tensor& tensor) {
    return tensor.key().starts_with("exp_avg_absmax/") || tensor.key().starts_with("exp_avg_fp32/");
  });
  const bool has_codes = optimizer.moments() == MOMENTS_8BIT;
  if (had_codes == has_codes) return;
  throw InputError(reader.path().string(), ": was trained with optimizer.moments ", had_codes ? "8bit" : "fp32 or bf16",
                   ", this run has ", has_codes ? "8bit" : "wider ones",
                   "; keep them, or start over: another run.output, and run.resume: auto");
}

// Checks that it trained the same parameters in the same way.
void CheckSameTuning(const StoreReader& reader, const LayerGraph& graph) {
  const std::string where = reader.path().string(), text = reader.manifest().adapter_config();
  if (text.empty() == graph.adapter.has_value()) {
    throw InputError(where,
                     text.empty() ? ": has a model's weights, and this run trains an adapter"
                                  : ": has an adapter's weights, and this run trains the model's",
                     kKeepTuning);
  }
  if (graph.adapter && AdapterConfig(text, where).rslora() != graph.adapter->rslora) {
    throw InputError(where, ": was trained with ", graph.adapter->rslora ? "no rslora" : "rslora", kKeepTuning);
  }
  if (!graph.adapter) return;
  const AdapterPlan was = AdapterDirectory(reader.path(), {}, AdapterForm::kAsTrained).Plan();
  const auto same = [&](const char* key, const std::string& before, const std::string& now) {
    if (before != now)
      throw InputError(where, ": was trained with ", key, " ", before, ", this run has ", now, kKeepTuning);
  };
  same("tuning.init", was.init.empty() ? "lora" : was.init, graph.adapter->init.empty() ? "lora" : graph.adapter->init);
  same("tuning.dora", was.dora ? "true" : "false", graph.adapter->dora ? "true" : "false");
  for (const auto& [name, module] : graph.adapter->modules) {
    const auto found = was.modules.find(name);
    if (found != was.modules.end() && found->second == module) continue;
    throw InputError(where, ": was trained with ",
                     found == was.modules.end() ? "no adapter"
                                                : Concat("rank ", found->second.rank, ", alpha ", found->second.alpha),
                     " for ", name, ", this run has rank ", module.rank, ", alpha ", module.alpha, kKeepTuning);
  }
}

// The optimizer's states must be exactly those of the trained parameters.
void CheckSameStates(const StoreReader& reader, const std::set<std::string>& trained) {
  std::set<std::string> saved;
  for (const checkpoint::Tensor& tensor : reader.manifest().tensors()) {
    const std::string& key = tensor.key();
    if (!key.starts_with("weights/")) saved.insert(key.substr(key.find('/') + 1));
  }
  const auto refuse = [&](const std::set<std::string>& some, const std::set<std::string>& others, const char* says) {
    for (const std::string& name : some) {
      if (others.contains(name)) continue;
      throw InputError(reader.path().string(), ": its run ", says, " '", name, "', unlike this one", kKeepTuning);
    }
  };
  refuse(trained, saved, "did not train");
  refuse(saved, trained, "trained");
}

}  // namespace

void CheckResumable(const StoreReader& reader, const LayerGraph& graph, const OptimizerConfig& optimizer) {
  const checkpoint::Manifest& manifest = reader.manifest();
  if (!manifest.has_progress()) {
    throw InputError(reader.path().string(),
                     ": has weights only, nothing to resume from; set model.path to it and run.resume: auto");
  }
  if (manifest.family() != graph.family) {
    throw InputError(reader.path().string(), ": is of a ", manifest.family(), " model; model.path is a ", graph.family,
                     "; use the model.path of that run");
  }
  if (std::ranges::all_of(manifest.tensors(),
                          [](const auto& tensor) { return tensor.key().starts_with("weights/"); })) {
    throw InputError(reader.path().string(),
                     ": was saved with save.weights_only: without the optimizer's states there is nothing to resume "
                     "from; set model.path to it, with another run.output");
  }
  CheckSameTuning(reader, graph);
  std::set<std::string> trained, weights;
  for (const Layer& layer : graph.layers) {
    for (const Parameter& parameter : ParametersOf(graph, layer, {.size = 1})) {
      if (graph.adapter && !parameter.trained) continue;  // the base model's, which is not in the checkpoint
      for (const HfTensor& tensor : parameter.hf) {
        if (parameter.trained) trained.insert(tensor.name);
        weights.insert(tensor.name);
        weights.insert(tensor.repeated.begin(), tensor.repeated.end());
        const checkpoint::Tensor* found = reader.FindOrNull("weights/" + tensor.name);
        if (found != nullptr && ShapeOf(*found) == tensor.shape) continue;
        throw InputError(reader.path().string(), ": is of another model: tensor '", tensor.name, "' is ",
                         found == nullptr ? "missing" : ShapeText(ShapeOf(*found)), "; model.path has ",
                         ShapeText(tensor.shape));
      }
    }
  }
  CheckSameMoments(reader, optimizer);
  CheckSameStates(reader, trained);
  std::vector<std::string> states =
      OptimizerStates(optimizer.name(), {.averaged = optimizer.ema() > 0, .initial = KeepsInitial(graph)});
  states.push_back("master");
  for (const std::string& state : WholeStates(optimizer.name(), optimizer.moments() == MOMENTS_8BIT))
    states.push_back(state);
  RefuseUnknownKeys(reader, {weights, trained, states});
}

void PrepareStates(const StoreReader& reader, Trainer& trainer, Job& job) {
  const HfDirectory files(reader.path());
  for (Bucket* bucket : trainer.model().buckets()) {
    if (!bucket->trained()) LoadWeights(files, bucket->entries(), job.rank());
    bucket->SealValues();
  }
  trainer.optimizer().MakeStates();
}

void LoadStates(StoreReader& reader, Trainer& trainer, Job& job) {
  trainer.optimizer().ForEachShard([&](const ShardState& state) { ReadShare(reader, state); }, /*changes=*/true);
  trainer.optimizer().ForEachTensorState([&](const TensorState& state) { ReadTensorState(reader, state); });
  reader.Verify(job.rank(), job.world());
  trainer.optimizer().StatesLoaded(reader.manifest().progress().updates());
}

}  // namespace trireme
