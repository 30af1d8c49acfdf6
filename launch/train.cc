// `trireme train`: trains according to RUN.yaml, or with --dry-run checks it and shows the plan.
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/cli/command.h"
#include "core/comm/job.h"
#include "core/io/atomic_file.h"
#include "launch/hub_data.h"
#include "launch/layout.h"
#include "launch/plan_time.h"
#include "parallel/schedule/draw.h"
#include "train/evaluation/answer_metrics.h"
#include "train/plan/check_inputs.h"
#include "train/plan/train_plan.h"
#include "train/report/report_client.h"
#include "train/run/data_extent.h"
#include "train/run/loop.h"
#include "train/run/method_data.h"
#ifdef TRIREME_TORCH_VERSION
#include "train/run/methods.h"
#endif

namespace trireme {
namespace {

void Run(const Config& config, const Arguments& arguments, ReportForm report, Job& job) {
  const TrainPlan plan = MakeTrainPlan(config, job.world());
  std::map<std::string, double> predicted;
  if (arguments.has("on")) predicted = PredictedMetrics(plan.config, plan.graph, job.world(), arguments);
#ifdef TRIREME_TORCH_VERSION
  const int64_t memory = plan.memory.at(static_cast<size_t>(job.rank())).device();
  RunTraining(plan.config, plan.graph, plan.run, job, MakeMethod(plan.config),
              {.planned_memory = memory, .report = report, .predicted = std::move(predicted)});
#else
  throw InputError("this trireme was built without torch and can only plan; add --dry-run");
#endif
}

void DryRun(const Config& config, const Arguments& arguments, Job& job) {
  constexpr int64_t kMostRanks = 1 << 20;
  const int64_t world = arguments.integer("world", job.world(), 1);
  if (world > kMostRanks) {
    throw InputError("--world ", world, " is too large for a plan; wanted at most ", kMostRanks);
  }
  const std::string svg = arguments.value("svg");
  if (job.rank() == 0 && arguments.has("svg")) RefuseToOverwrite("--svg", svg);
  TrainPlan plan = MakeTrainPlan(config, static_cast<int>(world));
  if (job.rank() != 0) return;
  CheckReportPackages(config.log());
  CheckMetricCode(config.eval());
  CheckData(config, VocabularyOf(plan.graph));
  const auto show_time = [&](int64_t steps) {
    ShowTime(plan.config, plan.graph, static_cast<int>(world), arguments, steps);
  };
  if (arguments.has("json")) return show_time(config.run().steps());
  const std::optional<DataSets> data =
      OpenMethodData(config, {.vocabulary = VocabularyOf(plan.graph), .reports = false});
  std::optional<DataExtent> extent;
  if (data) extent = ExtentOf(config, *data);
  if (extent && extent->longest > 0) PlanMemoryFor(plan, extent->longest);
  std::cout << ToText(plan) << (extent ? ToText(*extent, config) : "");
  if (arguments.has("on")) return show_time(extent ? extent->total_steps : config.run().steps());
  if (!arguments.has("svg")) return;
  Timeline drawn = plan.drawn;
  if (plan.drawn_micro_batches < plan.micro_batches)
    drawn.title += Concat(" of the ", plan.micro_batches, " of a step");
  WriteAtomicFile(svg, DrawSvg(drawn));
}

void Train(const Arguments& arguments, Job& job) {
  const Config config = ConfigOf(arguments, job, arguments.has("dry-run") ? HubParts::kWithoutWeights : HubParts::kAll);
  HaveHubData(config, job);
  const ReportForm report = ParseReportForm(arguments.value("report", "rich"));
  if (arguments.has("json") && !arguments.has("on"))
    throw InputError("--json requires --on DEVICE: it prints a step's time");
  if (arguments.has("dry-run")) return DryRun(config, arguments, job);
  for (const char* option : {"world", "svg", "json"}) {
    if (arguments.has(option)) throw InputError("--", option, " requires --dry-run");
  }
  CheckTimeOptions(arguments, {"assume", "log"});
  Run(config, arguments, report, job);
}

}  // namespace

Command TrainCommand() {
  std::vector<Option> options = {
      {.name = "dry-run",
       .help = "check everything that needs no device, including the data (tokenized data is "
               "kept in data.cache for the run), print the plan (groups, stages, schedule, memory per "
               "rank, steps), and stop"},
      {.name = "world",
       .value_name = "N",
       .help = "with --dry-run: plan for N ranks; by default, for the ranks of this job"},
      {.name = "svg",
       .value_name = "FILE",
       .help = "with --dry-run: draw the schedule into a new file; with --on to scale, with exchanges"},
      {.name = "report",
       .value_name = "FORM",
       .help = "what stdout shows of the steps: rich, one line that is redrawn, and plain where stdout is no terminal "
               "(the default); plain, a line per logged step; json, the lines of log.jsonl and nothing else: what is "
               "said before and after the steps goes to stderr; events, these and {\"step\", \"checkpoint\"} for each "
               "checkpoint once it is complete"},
      {.name = "json", .help = "with --dry-run and --on: print only the step's time, one JSON object"}};
  for (Option option : TimeOptions()) {
    if (option.name == "on")
      option.help += ". Without --dry-run the log has these numbers beside the measured ones, and the board shows both";
    options.push_back(option);
  }
  return {.name = "train",
          .summary = "Trains according to RUN.yaml. With --dry-run, checks everything and shows the plan.",
          .options = std::move(options),
          .positionals = {{.name = kRunFile, .help = "the run's configuration"}},
          .takes_config = true,
          .run = Train};
}

}  // namespace trireme
