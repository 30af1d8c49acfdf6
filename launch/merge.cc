// `trireme merge`: a PEFT LoRA adapter into its base model, as a Hugging Face directory.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/lora_adapter.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/cli/command.h"
#include "core/comm/job.h"
#include "launch/convert_packed.h"
#include "launch/model_source.h"
#include "launch/process_group.h"
#include "models/families.h"
#include "models/reward_model.h"
#include "models/text_labels.h"
#include "session/file_names.h"
#include "session/tuning.h"

namespace trireme {
namespace {

// For a known family; an adapter of another is merged by the names it has.
std::optional<LayerGraph> KnownGraph(const HfDirectory& model) {
  const HfConfig config = HfConfig::Read(model.path());
  const std::vector<std::string> known = KnownFamilies();
  const bool is_known = std::count(known.begin(), known.end(), config.Text("model_type")) > 0;
  if (!is_known) return std::nullopt;
  LayerGraph graph = BuildGraph(config);
  TakeFileNames(graph, model);
  return graph;
}

// Beside the adapter, with its name: lora/final-merged. Nobody named it, and so nothing there is replaced.
std::string MergedBeside(const Arguments& arguments) {
  if (arguments.has("force")) throw InputError("--force: name the directory that may be replaced in --to");
  const std::filesystem::path adapter = std::filesystem::path(arguments.value("adapters") + "/.").lexically_normal();
  return adapter.parent_path().string() + "-merged";
}

void Merge(const Arguments& arguments, Job& job) {
  const std::string target = arguments.has("to") ? arguments.value("to") : MergedBeside(arguments);
  const std::string model = BaseModel(arguments, job);
  const HfDirectory base(model);
  const std::optional<LayerGraph> graph = KnownGraph(base);
  const LoraAdapter adapter(arguments.value("adapters"), base, graph ? ExpertNamesOf(*graph) : ExpertNames{});
  ConvertOptions options{.replace = arguments.has("force")};
  options.change = &adapter;
  if (const TensorSource* head = adapter.Adds(kScoreWeight)) {  // the merged model is a reward model, or a classifier
    const std::string config = ReadTextFile((base.path() / "config.json").string());
    const int64_t labels = head->Describe(kScoreWeight).shape.at(0);
    options.config = labels == 1 ? RewardModelConfig(config, base.path())
                                 : ClassifierConfig(config, base.path(), NumberedLabels(labels), "");
    options.left_out = {"lm_head.weight"};
  }
  std::optional<Packing> packing;
  if (!arguments.has("quantise")) {
    RefuseLonePacking(arguments);
  } else if (!graph) {
    throw InputError(model, ": --quantise is for a model that trireme trains");
  } else {
    packing.emplace(arguments, base, *graph, options.change);
    packing->AddTo(options, options.config.value_or(ReadTextFile((base.path() / "config.json").string())), base);
  }
  ExportHuggingFace(base, target, options, ProcessGroupOf(job));
  if (job.rank() != 0) return;
  std::cout << "merged " << adapter.adapters().size() << " adapted and " << adapter.replaced() << " replaced weights"
            << (adapter.Added().empty() ? "" : " and the value head") << " into " << target << "\n";
}

}  // namespace

Command MergeCommand() {
  Command command{
      .name = "merge",
      .summary =
          "Merges a PEFT LoRA adapter into its base model, in fp32, and writes a Hugging Face directory in "
          "the base model's data types, or packed again. Alone or under mpirun.",
      .options = {{.name = "model",
                   .value_name = "DIR",
                   .help = "the base model, or a checkpoint of it; by default the one that the adapter names"},
                  {.name = "adapters", .value_name = "DIR", .help = "the adapter's directory", .required = true},
                  {.name = "to",
                   .value_name = "DIR",
                   .help = "the directory to write; by default the adapter's with -merged after it"},
                  {.name = "force", .help = "replace an existing directory, that of --to"}},
      .run = Merge};
  for (Option& option : PackingOptions()) command.options.push_back(std::move(option));
  return command;
}

}  // namespace trireme
