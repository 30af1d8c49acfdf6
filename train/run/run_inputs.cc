#include "train/run/run_inputs.h"

#include <ostream>

#include "core/base/log.h"
#include "core/base/process.h"
#include "train/report/summary.h"
#include "train/run/data_extent.h"
#include "train/run/preamble.h"
#include "train/states/run_record.h"

namespace trireme {

RunInputs OpenInputs(const Config& config, const LayerGraph& graph, const RunPlan& plan, Job& job, Method& method) {
  RunInputs inputs{.config = config, .graph = graph, .plan = plan, .data = {}, .start = {}};
  inputs.data =
      method.Open({.vocabulary = VocabularyOf(graph), .works = job.local_rank() == 0, .reports = job.rank() == 0});
  inputs.start = PrepareRun(config, job);
  method.CheckStart(inputs.start);
  inputs.total_steps = TotalSteps(config, inputs.data.train->size());
  return inputs;
}

void SayComplete(const RunInputs& inputs, const Job& job, std::ostream& out) {
  if (job.rank() != 0) return;
  const RunEnd end{.step = inputs.start.step,
                   .total_steps = inputs.total_steps,
                   .trained = false,
                   .early = inputs.start.step < inputs.total_steps};
  out << EndSummary(inputs.config, end, ReadCurves(inputs.start.output / "log.jsonl"), ShellWord(ProgramPath()))
      << std::flush;
}

void SayWhatBegins(const RunInputs& inputs, const std::string& device, const Job& job, std::ostream& out) {
  if (job.rank() != 0) return;
  const DataExtent extent = ExtentOf(inputs.config, inputs.data);
  out << PreambleText({.config = inputs.config,
                       .graph = inputs.graph,
                       .plan = inputs.plan,
                       .extent = extent,
                       .job = job,
                       .device = device,
                       .done_steps = inputs.start.step})
      << std::flush;
  if (!inputs.start.same_run) return;
  const std::vector<KeyDifference> differences = DifferencesFromRecord(inputs.start.output, inputs.config);
  if (differences.empty()) return;
  TRIREME_LOG(WARNING) << "resuming with other settings than the previous start: " << ToText(differences)
                       << "; the earlier run.yaml is kept next to the new one";
}

}  // namespace trireme
