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
#include "core/tensor/torch_errors.h"
#include "launch/layout.h"
#include "models/families.h"
#include "train/trainer.h"
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

void Grads(const Arguments& arguments, Job& job) {
  const Config config = ConfigOf(arguments);
  RefuseUnsupported(config);
  const LayerGraph graph = BuildGraph(HfConfig::Read(arguments.value("model")));
  const RunPlan plan = PlanRun(config, graph, job.world());
  const std::vector<Row> rows = ReadRows(arguments.value("rows"), VocabularyOf(graph));

  Trainer trainer(config, graph, plan, job, DType::kFp32);
  trainer.LoadWeights(arguments.value("model"));
  const double loss = trainer.Pass(rows);
  const GradientReport report = trainer.FinishGradients();
  const ExpertBalance balance = trainer.TakeBalance();
  const auto gradients =
      GatherGradients(graph, trainer.optimizer().Gradients(), trainer.world(), trainer.tensors().torch());
  if (job.rank() != 0) return;
  WriteGradients(arguments.value("out"), gradients);
  Json line = {{"loss", loss}, {"tokens", TrainedTokens(rows)}, {"grad_norm", report.norm}};
  if (!balance.empty()) line["experts"] = balance.ToJson();
  std::cout << JsonLine(line) << "\n";
}

}  // namespace

Command GradsCommand() {
  return {
      .name = "grads",
      .summary = "One forward and backward pass over given rows, in fp32; writes every gradient, whole.",
      .options =
          {{.name = "model", .value_name = "DIR", .help = "a Hugging Face model directory", .required = true},
           {.name = "rows",
            .value_name = "ROWS.jsonl",
            .help =
                "one {\"input_ids\": […], \"labels\": […]} a line; labels are not shifted, -100: not trained",
            .required = true},
           {.name = "out", .value_name = "FILE", .help = "the .safetensors file to write", .required = true}},
      .positionals = {{.name = kRunFile,
                       .help = "the run whose layout is used; by default all keys have their defaults",
                       .required = false}},
      .takes_config = true,
      .run = [](const Arguments& arguments, Job& job) { WithTorchErrors([&] { Grads(arguments, job); }); }};
}

}  // namespace trireme
