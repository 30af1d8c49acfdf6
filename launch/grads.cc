// `trireme grads`: one forward and backward pass over given rows under the given layout; writes every
// gradient, whole, under its Hugging Face name. The proof that a layout changes nothing.
#include <ATen/core/Tensor.h>

#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/safetensors_writer.h"
#include "core/base/json.h"
#include "core/cli/command.h"
#include "core/config/load.h"
#include "core/tensor/torch_errors.h"
#include "launch/layout.h"
#include "models/families.h"
#include "train/trainer.h"
#include "train/tuning.h"
#include "train/whole_gradients.h"

namespace trireme {
namespace {

void WriteGradients(const std::string& path, const std::map<std::string, at::Tensor>& gradients) {
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, gradient] : gradients) {
    tensors.push_back({name, DType::kFp32, gradient.sizes().vec(), gradient.data_ptr()});
  }
  WriteSafetensors(path, std::move(tensors));
}

// Without a run's file all parameters are trained and nothing is dropped, unless --set says otherwise;
// --adapters is tuning.adapters.
Config GradsConfig(const Arguments& arguments) {
  std::vector<std::string> said;
  if (!arguments.has(kRunFile)) said = {"tuning.kind=full", "tuning.dropout=0"};
  if (arguments.has("adapters")) {
    said.push_back("tuning.kind=lora");
    said.push_back("tuning.adapters=" + JsonLine(arguments.value("adapters")));
  }
  for (const std::string& text : arguments.overrides()) said.push_back(text);
  if (arguments.has(kRunFile)) return LoadConfig(arguments.value(kRunFile), said);
  return ParseConfig("", "defaults", said);
}

void Grads(const Arguments& arguments, Job& job) {
  const Config config = GradsConfig(arguments);
  RefuseUnsupported(config);
  LayerGraph graph = BuildGraph(HfConfig::Read(arguments.value("model")));
  const auto adapter = OpenAdapter(config.tuning(), graph);
  ApplyMultiToken(graph, config);
  ApplyTuning(graph, config.tuning());
  const RunPlan plan = PlanRun(config, graph, job.world());
  const std::vector<Row> rows = ReadRows(arguments.value("rows"), VocabularyOf(graph));

  Trainer trainer(config, graph, plan, job, DType::kFp32);
  trainer.LoadWeights(arguments.value("model"), adapter.get());
  const double loss = trainer.Pass(rows);
  const GradientReport report = trainer.FinishGradients();
  const ExpertBalance balance = trainer.TakeBalance();
  const auto gradients =
      GatherGradients(graph, trainer.optimizer().Gradients(), trainer.world(), trainer.tensors().torch());
  if (job.rank() != 0) return;
  WriteGradients(arguments.value("out"), gradients);
  Json line = {{"loss", loss}, {"tokens", TrainedTokens(rows)}, {"grad_norm", report.norm}};
  if (!trainer.depth_losses().empty()) line["mtp_loss"] = trainer.depth_losses();
  if (!balance.empty()) line["experts"] = balance.ToJson();
  std::cout << JsonLine(line) << "\n";
}

}  // namespace

Command GradsCommand() {
  return {
      .name = "grads",
      .summary =
          "One forward and backward pass over given rows, in fp32; writes the gradient of every trained "
          "parameter, whole.",
      .options =
          {{.name = "model", .value_name = "DIR", .help = "a Hugging Face model directory", .required = true},
           {.name = "rows",
            .value_name = "ROWS.jsonl",
            .help =
                "one {\"input_ids\": […], \"labels\": […]} a line; labels are not shifted, -100: not trained",
            .required = true},
           {.name = "adapters",
            .value_name = "DIR",
            .help =
                "a PEFT LoRA adapter, or a LoRA run's checkpoint-N, whose gradients are asked for instead"},
           {.name = "out", .value_name = "FILE", .help = "the .safetensors file to write", .required = true}},
      .positionals = {{.name = kRunFile,
                       .help = "the run whose layout is used; by default all keys have their defaults",
                       .required = false}},
      .takes_config = true,
      .run = [](const Arguments& arguments, Job& job) { WithTorchErrors([&] { Grads(arguments, job); }); }};
}

}  // namespace trireme
