// `trireme convert`: a Hugging Face directory to a checkpoint, a checkpoint to a Hugging Face directory, a Megatron
// checkpoint to either and either to a Megatron checkpoint.
#include "checkpoint/convert.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "checkpoint/elements.h"
#include "checkpoint/import_states.h"
#include "checkpoint/manifest.h"
#include "checkpoint/run_checkpoints.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/cli/command.h"
#include "core/comm/job.h"
#include "launch/convert_megatron.h"
#include "launch/convert_packed.h"
#include "launch/process_group.h"
#include "launch/verify_conversion.h"
#include "models/families.h"
#include "models/reward_model.h"
#include "session/file_names.h"
#include "session/known_tensors.h"

namespace trireme {
namespace {

std::optional<DType> WantedType(const Arguments& arguments) {
  if (!arguments.has("dtype")) return std::nullopt;
  const std::string name = arguments.value("dtype");
  for (const DType dtype : {DType::kBf16, DType::kFp16, DType::kFp32}) {
    if (Name(dtype) == name) return dtype;
  }
  throw InputError("--dtype ", name, ": weights cannot be written in this type; wanted bf16, fp16 or fp32");
}

// Every tensor that both have, element by element, in the target's type.
void CompareTensors(const HfDirectory& source, const HfDirectory& target, const ProcessGroup& process_group) {
  const std::vector<std::string> names = source.Names();
  if (names != target.Names()) throw RuntimeError(target.path().string(), ": its tensors are not those of the source");
  std::vector<std::byte> converted;
  for (size_t i = static_cast<size_t>(process_group.rank); i < names.size();
       i += static_cast<size_t>(process_group.size)) {
    const TensorView &from = source.Find(names[i]), &to = target.Find(names[i]);
    converted.resize(to.bytes.size());
    if (from.shape != to.shape) throw RuntimeError(target.path().string(), ": '", names[i], "' has a different shape");
    Convert(from.dtype, from.bytes.data(), to.dtype, converted.data(), static_cast<size_t>(Elements(from.shape)));
    if (!std::equal(converted.begin(), converted.end(), to.bytes.begin())) {
      throw RuntimeError(target.path().string(), ": '", names[i], "' differs from ", source.FileOf(names[i]).string());
    }
    source.Release(names[i]);
    target.Release(names[i]);
  }
}

HfConfig ConfigOf(const HfDirectory& source) {
  const std::string where = source.path().string();
  if (source.store() == nullptr) return HfConfig::Read(source.model_files());
  return HfConfig(ParseJson(source.store()->manifest().model_config(), where), where);
}

// Nothing where the model is one that this program does not train: it is converted by the names it has.
std::optional<LayerGraph> GraphOf(const HfDirectory& source) {
  const std::vector<std::string> known = KnownFamilies();
  try {
    const HfConfig config = ConfigOf(source);
    if (std::count(known.begin(), known.end(), config.Text("model_type")) == 0) return std::nullopt;
    LayerGraph graph = BuildGraph(config);
    TakeFileNames(graph, source);
    if (HoldsAdapter(source) && source.Has(kScoreWeight)) {  // a reward model's or a classifier's, of a causal base
      ReplaceHead(graph, source.Describe(kScoreWeight).shape.at(0));
    }
    return graph;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Names that are not the model's would become a checkpoint that no run takes, or files with weights that nobody loads.
void RefuseOtherNames(const HfDirectory& source) {
  const std::optional<LayerGraph> graph = GraphOf(source);
  if (!graph) return;
  if (HoldsAdapter(source)) return RefuseUnknownModules(source, *graph);
  RefuseUnknownTensors(source, *graph);
  RefuseMissingTensors(source, *graph);
}

void ConvertToPacked(const Arguments& arguments, const HfDirectory& source, LayerGraph graph, ConvertOptions options,
                     Job& job) {
  if (arguments.has("verify"))
    throw InputError("--verify compares equal weights, which --quantise does not leave; leave one out");
  const Packing packing(arguments, source, std::move(graph));
  const std::string config = (source.model_files() / "config.json").string();
  packing.AddTo(options, source.store() != nullptr ? source.store()->manifest().model_config() : ReadTextFile(config),
                source);
  const std::filesystem::path to = arguments.value("to");
  ExportHuggingFace(source, to, options, ProcessGroupOf(job));
  if (job.rank() != 0) return;
  std::cout << "wrote " << source.Names().size() << " tensors to " << to.string() << ", a Hugging Face directory with "
            << packing.size() << " matrices in " << arguments.value("quantise") << "\n";
}

enum class Kind { kHuggingFace, kCheckpoint };

// By default the other kind than the source's.
Kind TargetKind(const Arguments& arguments, const HfDirectory& source) {
  const bool from_files = source.store() == nullptr && !source.is_of_other_system();
  if (!arguments.has("as")) return from_files ? Kind::kCheckpoint : Kind::kHuggingFace;
  const std::string name = arguments.value("as");
  if (name == "hf") return Kind::kHuggingFace;
  if (name == "checkpoint" && source.store() == nullptr) return Kind::kCheckpoint;
  if (name == "checkpoint")
    throw InputError(source.path().string(), ": is a checkpoint already; leave out --as, or set --as hf");
  throw InputError("--as ", name, ": wanted hf or checkpoint");
}

HfDirectory OpenSource(const Arguments& arguments) {
  const std::filesystem::path from = ConvertSource(arguments);
  const std::string model_files = arguments.has("model") ? arguments.value("model") : "";
  HfDirectory source(from, HfDirectory::Packed::kDecoded, model_files);
  if (!model_files.empty() && !source.is_of_other_system())
    throw InputError("--model ", model_files, ": is for a Megatron checkpoint, and ", from.string(),
                     " has its own config.json; leave it out");
  return source;
}

const char* NameOf(Kind kind, const HfDirectory& source) {
  if (HoldsAdapter(source)) return "PEFT adapter";
  return kind == Kind::kHuggingFace ? "Hugging Face directory" : "checkpoint";
}

// A model whose config.json is elsewhere does not run where it is: its tensors are compared alone.
void Verify(const Arguments& arguments, const HfDirectory& source, Job& job) {
  const std::filesystem::path to = arguments.value("to");
  CompareTensors(source, HfDirectory(to), ProcessGroupOf(job));
  if (source.model_files() != source.path()) {
    if (job.rank() == 0) std::cout << "verified: all tensors are equal\n";
    return;
  }
  const double difference = LossDifference(source.path(), to, job);
  if (job.rank() == 0) {
    std::cout << "verified: all tensors are equal; losses of both models differ by " << difference << "\n";
  }
  if (!arguments.has("dtype") && difference != 0)
    throw RuntimeError(to.string(), ": the model's losses differ from those of ", source.path().string());
}

// Of --optimizer: what a run resumes from, under the name that says its step; nullptr: weights alone.
std::unique_ptr<StoredStates> StatesOf(const Arguments& arguments, const HfDirectory& source, Kind kind) {
  if (!arguments.has("optimizer")) return nullptr;
  const std::filesystem::path to = arguments.value("to");
  if (kind != Kind::kCheckpoint || arguments.has("to-megatron"))
    throw InputError("--optimizer is for a checkpoint, which alone holds an optimizer's states; add --as checkpoint");
  if (arguments.has("dtype"))
    throw InputError(
        "--optimizer keeps the types of weights and states, which belong together; leave out --dtype, and "
        "set model.dtype of the run instead");
  std::unique_ptr<StoredStates> states = OpenStoredStates(source.path(), source.model_files() / "config.json");
  if (!states)
    throw InputError(source.path().string(),
                     ": is no Megatron checkpoint, and --optimizer reads the states of one "
                     "alone; leave it out");
  const std::optional<int64_t> named = StepOfName(to.filename().string());
  if (named && *named != states->step())
    throw InputError("--to ", to.string(), ": the Megatron checkpoint is of step ", states->step(), "; name it ",
                     CheckpointPath(to.parent_path(), states->step()).string());
  return states;
}

// How a run resumes, and what it does not find here.
void SayHowToResume(const std::filesystem::path& checkpoint, const StoredStates& states) {
  std::cout << "the optimizer's states are of step " << states.step() << ", " << states.updates() << " updates: set "
            << "model.path and run.resume to " << checkpoint.string() << "\n"
            << "left behind: random numbers, the position in the data and the learning rate's schedule, which are the "
            << "new run's\n";
}

void ConvertModel(const Arguments& arguments, Job& job) {
  const std::filesystem::path from = ConvertSource(arguments), to = arguments.value("to");
  if (!arguments.has("to-megatron")) RefuseLoneMegatronOptions(arguments);
  const ConvertOptions options{.dtype = WantedType(arguments),
                               .shard_bytes = arguments.integer("shard-bytes", 5'000'000'000, 1),
                               .replace = arguments.has("force"),
                               .experts_apart = arguments.has("experts-apart")};
  if (arguments.has("verify") && !arguments.has("model")) RefuseUnverifiable(from);
  const HfDirectory source = OpenSource(arguments);
  const Kind kind = TargetKind(arguments, source);
  const std::unique_ptr<StoredStates> states = StatesOf(arguments, source, kind);
  if (HoldsAdapter(source) && arguments.has("verify")) {
    throw InputError(from.string(),
                     ": is an adapter's checkpoint, which cannot run without its base; leave out --verify");
  }
  if (source.Names().empty()) throw InputError(from.string(), ": has no weights to convert");
  RefuseOtherNames(source);
  if (arguments.has("to-megatron")) return ConvertToMegatron(arguments, source, options.dtype, job);
  if (arguments.has("quantise")) {
    std::optional<LayerGraph> graph = GraphOf(source);
    if (!graph || source.has_few_bits() || HoldsAdapter(source)) {
      throw InputError(from.string(),
                       ": --quantise is for weights of a model that trireme trains, other than in 4 or 8 bits");
    }
    return ConvertToPacked(arguments, source, *std::move(graph), options, job);
  }
  RefuseLonePacking(arguments);
  if (source.has_few_bits()) {
    throw InputError(
        from.string(),
        ": its weights are in 4 or 8 bits, which a checkpoint does not hold; set model.path to it as it is");
  }
  const ProcessGroup process_group = ProcessGroupOf(job);
  if (states)
    ImportWithStates(source, *states, to, options, process_group);
  else
    (kind == Kind::kHuggingFace ? ExportHuggingFace : ImportCheckpoint)(source, to, options, process_group);
  if (job.rank() == 0) {
    std::cout << "wrote " << source.Names().size() << " tensors to " << to.string() << ", a " << NameOf(kind, source)
              << "\n";
    if (states) SayHowToResume(to, *states);
  }
  if (arguments.has("verify")) Verify(arguments, source, job);
}

}  // namespace

Command ConvertCommand() {
  Command command{
      .name = "convert",
      .summary =
          "Converts a Hugging Face directory to a checkpoint, or a checkpoint to a Hugging Face "
          "directory; a LoRA run's checkpoint to a PEFT adapter; a Megatron checkpoint to either; with --to-megatron "
          "any "
          "of them to a Megatron checkpoint. "
          "Alone or under mpirun; each rank holds at most one tensor in memory.",
      .options =
          {{.name = "from",
            .value_name = "DIR",
            .help = "a Hugging Face directory, a checkpoint-N, or a Megatron checkpoint (torch or torch_dist), which "
                    "--from megatron DIR insists on",
            .required = true},
           {.name = "to", .value_name = "DIR", .help = "the directory to write, of the other kind", .required = true},
           {.name = "model",
            .value_name = "DIR",
            .help =
                "of a Megatron checkpoint: the directory with the model's config.json and tokenizer; by default the "
                "checkpoint's own"},
           {.name = "as", .value_name = "KIND", .help = "hf or checkpoint; by default the other kind"},
           {.name = "optimizer",
            .help = "of a Megatron checkpoint, with --as checkpoint: Adam's moments, fp32 masters and step, too, from "
                    "which run.resume goes on"},
           {.name = "dtype",
            .value_name = "TYPE",
            .help = "bf16, fp16 or fp32 for all floating-point tensors; by default each keeps its own"},
           {.name = "shard-bytes",
            .value_name = "N",
            .help = "largest weights file of a Hugging Face directory, in bytes; by default 5000000000"},
           {.name = "experts-apart",
            .help = "in an adapter: one tensor per expert instead of all experts of a layer fused"},
           {.name = "force", .help = "replace an existing directory"},
           {.name = "verify",
            .help = "afterwards compare every tensor, and the losses of both models on the same tokens"}},
      .positionals = {{.name = "DIR", .help = "after --from megatron: the Megatron checkpoint", .required = false}},
      .run = ConvertModel};
  for (Option& option : MegatronOptions()) command.options.push_back(std::move(option));
  for (Option& option : PackingOptions()) command.options.push_back(std::move(option));
  return command;
}

}  // namespace trireme
