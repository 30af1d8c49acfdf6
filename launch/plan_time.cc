#include "launch/plan_time.h"

#include <iostream>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/cli/duration.h"
#include "core/io/atomic_file.h"
#include "cost/expert_log.h"
#include "cost/pictures.h"
#include "cost/rows.h"
#include "cost/search.h"
#include "cost/step_text.h"

namespace trireme {

std::vector<Option> TimeOptions() {
  return {{.name = "on",
           .value_name = "DEVICE",
           .help = "how long a step takes on this device, and where the time goes: " + Join(KnownDevices(), ", ") +
                   ", or a file of figures (docs/planning.md)"},
          {.name = "assume",
           .value_name = "NAME=VALUE",
           .help = "with --on: what no layout says, such as imbalance=1.2; names: " + AssumptionNames(),
           .repeatable = true},
          {.name = "log",
           .value_name = "FILE",
           .help = "with --on: how uneven experts are loaded, from the log.jsonl of a run of this model"}};
}

std::vector<Option> SearchOptionsOfPlan() {
  return {
      {.name = "search",
       .help = "with --on: all layouts that fit into the device's memory, the fastest first; with --json one object a "
               "line"},
      {.name = "best", .value_name = "N", .help = "with --search: how many layouts to show; by default 10"},
      {.name = "fix",
       .value_name = "KEY=VALUE",
       .help = "with --search: a key that keeps its value, such as parallel.tensor=8",
       .repeatable = true},
      {.name = "svg",
       .value_name = "FILE",
       .help =
           "with --on: draw when a pipeline's ranks compute and exchange into a new file; with --search the fastest "
           "step for each size of tensor and pipeline parallelism"},
      {.name = "rows",
       .value_name = "FILE",
       .help = "predict the measured runs of FILE, one JSON object a line, and show the errors"}};
}

void CheckTimeOptions(const Arguments& arguments, std::initializer_list<const char*> names) {
  if (arguments.has("on")) return;
  for (const char* option : names) {
    if (arguments.has(option))
      throw InputError("--", option, " requires --on DEVICE; known: ", Join(KnownDevices(), ", "));
  }
}

namespace {

Assumptions AssumptionsOf(const Config& config, const LayerGraph& graph, const Arguments& arguments) {
  Assumptions assumptions = ParseAssumptions(arguments.values("assume"));
  if (arguments.has("log"))
    assumptions.imbalance = ImbalanceOf(arguments.value("log"), graph, config.parallel().expert());
  return assumptions;
}

}  // namespace

std::map<std::string, double> PredictedMetrics(const Config& config, const LayerGraph& graph, int world,
                                               const Arguments& arguments) {
  const DeviceRates device = FindDevice(arguments.value("on"));
  const Assumptions assumptions = AssumptionsOf(config, graph, arguments);
  const StepEstimate step = StepModel(config, graph, device, assumptions).Estimate(LayoutOf(config, world));
  return {{"plan/step_seconds", step.step_seconds},
          {"plan/tokens_per_second", step.tokens_per_second},
          {"plan/memory_gib", step.memory_gib}};
}

void ShowTime(const Config& config, const LayerGraph& graph, int world, const Arguments& arguments, int64_t steps) {
  const DeviceRates device = FindDevice(arguments.value("on"));
  const Assumptions assumptions = AssumptionsOf(config, graph, arguments);
  StepModel model(config, graph, device, assumptions);
  const StepEstimate step = model.Estimate(LayoutOf(config, world));
  if (arguments.has("svg")) WriteAtomicFile(arguments.value("svg"), TimelineSvg(model, LayoutOf(config, world)));
  const double run_seconds = step.step_seconds * static_cast<double>(steps);
  if (arguments.has("json")) {
    Json facts = ToJson(step);
    facts["phases"] = ToJson(model.Phases(LayoutOf(config, world)));
    if (steps > 0) facts["run_seconds"] = run_seconds;
    std::cout << JsonLine(facts) << "\n";
    return;
  }
  std::cout << ToText(step, device, world);
  if (steps > 0) std::cout << Counted(steps, "step") << " of the run: " << DurationText(run_seconds) << "\n";
  if (step.memory_gib > device.memory_gib) {
    std::cout << "does not fit: " << step.memory_gib - device.memory_gib << " GiB per rank are short\n";
  }
}

void ShowSearch(const Config& config, const LayerGraph& graph, int world, const Arguments& arguments) {
  if (arguments.has("log"))
    throw InputError("--log with --search: how uneven experts are depends on the layout; use --assume imbalance=N");
  const DeviceRates device = FindDevice(arguments.value("on"));
  const Assumptions assumptions = ParseAssumptions(arguments.values("assume"));
  const SearchOptions options{.best = static_cast<int>(arguments.integer("best", 10, 1)),
                              .fix = arguments.values("fix")};
  const SearchResult result = SearchLayouts(config, graph, device, assumptions, world, options);
  if (arguments.has("svg")) {
    WriteAtomicFile(arguments.value("svg"), LayoutsSvg(config, graph, device, assumptions, world, options));
  }
  if (!arguments.has("json")) {
    std::cout << ToText(result, config, device, world);
    return;
  }
  for (const FoundLayout& found : result.found) std::cout << JsonLine(ToJson(found, config)) << "\n";
}

void ShowRows(const Arguments& arguments) {
  const std::vector<PredictedRow> rows = PredictRows(ReadRows(arguments.value("rows")));
  if (!arguments.has("json")) {
    std::cout << ToText(rows);
    return;
  }
  for (const PredictedRow& row : rows) {
    std::cout << JsonLine({{"name", row.row.name},
                           {"group", row.row.group},
                           {"on", row.row.device},
                           {"measured", row.row.step_seconds},
                           {"step_seconds", row.step_seconds},
                           {"error", row.error()},
                           {"memory_gib", row.memory_gib},
                           {"parts", row.parts},
                           {"phases", row.phases}})
              << "\n";
  }
}

}  // namespace trireme
