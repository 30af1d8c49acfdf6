// `trireme simulate`: what failures leave of a run's time, and how often to save. Opens no device and no data.
#include <algorithm>
#include <iomanip>
#include <iostream>
#include <set>
#include <sstream>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/cli/command.h"
#include "core/cli/duration.h"
#include "core/comm/job.h"
#include "cost/goodput.h"
#include "cost/run_bytes.h"
#include "cost/step_model.h"
#include "launch/layout.h"
#include "launch/plan_time.h"
#include "parallel/graph/parameters.h"
#include "session/model_graph.h"

namespace trireme {
namespace {

constexpr double kHostGbs = 25;  // a rank's copy of its states to host memory

double StepSeconds(const Config& config, const LayerGraph& graph, int world, const Arguments& arguments) {
  if (arguments.has("step") == arguments.has("on")) {
    throw InputError("how long a step takes is wanted once: --on DEVICE predicts it, --step TIME is a measured one");
  }
  if (arguments.has("step")) return ParseDuration("--step", arguments.value("step"));
  const DeviceRates device = FindDevice(arguments.value("on"));
  const Assumptions assumptions = ParseAssumptions(arguments.values("assume"));
  return StepModel(config, graph, device, assumptions).Estimate(LayoutOf(config, world)).step_seconds;
}

// Each rank saves an equal part of what is trained.
FailingRun RunOf(const Config& config, int world, const Arguments& arguments) {
  const LayerGraph graph = ReadGraph(config);
  const double bytes = SavedBytes(config) * static_cast<double>(CountParameters(graph, /*trained_only=*/true));
  const double storage = arguments.number("storage", std::min(0.5 * world, 200.0), 1e-6);
  FailingRun run{.step = StepSeconds(config, graph, world, arguments),
                 .save = bytes / world / (kHostGbs * 1e9),
                 .write = bytes / (storage * 1e9),
                 .recover = ParseDuration("--recover", arguments.value("recover", "10m"), 0),
                 .between = ParseDuration("--mtbf", arguments.value("mtbf"))};
  if (arguments.has("save")) run.save = ParseDuration("--save", arguments.value("save"), 0);
  if (arguments.has("write")) run.write = ParseDuration("--write", arguments.value("write"), 0);
  return run;
}

// Around the best one, and what the run has now.
std::set<int64_t> Shown(int64_t best, int64_t now) {
  std::set<int64_t> shown = {std::max<int64_t>(best / 4, 1), std::max<int64_t>(best / 2, 1), best, 2 * best, 4 * best};
  if (now > 0) shown.insert(now);
  return shown;
}

Json ToJson(const FailingRun& run, int64_t save_every, uint64_t seed) {
  const Goodput goodput = ExpectedGoodput(run, save_every);
  const DrawnGoodput drawn = DrawGoodput(run, save_every, seed);
  return {{"save_every", save_every},      {"goodput", goodput.steps},     {"saves", goodput.saves},
          {"repeated", goodput.repeated},  {"recovery", goodput.recovery}, {"simulated_goodput", drawn.steps},
          {"simulated_error", drawn.error}};
}

void PrintTable(const Json& rows, int64_t best, int64_t now, double step) {
  std::cout << "save_every     every  goodput   saves  repeated  recovery  simulated\n";
  for (const Json& row : rows) {
    const auto percent = [&](const char* key) { return 100 * row.at(key).get<double>(); };
    const auto save_every = row.at("save_every").get<int64_t>();
    std::cout << std::setw(10) << save_every << std::setw(10) << DurationText(step * static_cast<double>(save_every))
              << std::fixed << std::setprecision(2) << std::setw(8) << percent("goodput") << " %" << std::setw(6)
              << percent("saves") << " %" << std::setw(8) << percent("repeated") << " %" << std::setw(8)
              << percent("recovery") << " %" << std::setw(9) << percent("simulated_goodput") << " ± "
              << percent("simulated_error") << " %" << (save_every == best ? "  best" : "")
              << (save_every == now ? "  save.every" : "") << "\n";
  }
}

void PrintText(const FailingRun& run, const Json& facts, const Config& config, int world) {
  const auto best = facts.at("best_save_every").get<int64_t>();
  std::cout << world << " ranks, a failure every " << DurationText(run.between) << ": a step takes "
            << DurationText(run.step) << ", a save stops it for " << DurationText(run.save) << " and is written in "
            << DurationText(run.write) << " beside it, a recovery takes " << DurationText(run.recover) << "\n";
  PrintTable(facts.at("intervals"), best, config.save().every(), run.step);
  std::cout << "best: save.every: " << best << ", every " << DurationText(run.step * static_cast<double>(best))
            << " (Young " << DurationText(YoungInterval(run)) << ", Daly " << DurationText(DalyInterval(run))
            << ", which know no write beside training)\n";
  if (config.run().steps() == 0) return;
  const double alone = run.step * static_cast<double>(config.run().steps());
  std::cout << config.run().steps() << " steps take " << DurationText(alone) << " without failures, "
            << DurationText(alone / ExpectedGoodput(run, best).steps) << " with them\n";
}

void ShowGoodput(const Arguments& arguments, Job& job) {
  constexpr int64_t kMostRanks = 1 << 20;
  const Config config = ConfigOf(arguments, job, HubParts::kWithoutWeights);
  if (job.rank() != 0) return;
  const int64_t world = arguments.integer("world", job.world(), 1);
  if (world > kMostRanks) {
    throw InputError("--world ", world, " is too large for a plan; wanted at most ", kMostRanks);
  }
  const auto seed = static_cast<uint64_t>(arguments.integer("seed", 1));
  const FailingRun run = RunOf(config, static_cast<int>(world), arguments);
  const int64_t best = BestSaveEvery(run);
  Json facts = {{"world", world},
                {"step_seconds", run.step},
                {"save_seconds", run.save},
                {"write_seconds", run.write},
                {"recover_seconds", run.recover},
                {"mtbf_seconds", run.between},
                {"best_save_every", best},
                {"goodput", ExpectedGoodput(run, best).steps},
                {"daly_seconds", DalyInterval(run)},
                {"intervals", Json::array()}};
  for (const int64_t save_every : Shown(best, config.save().every())) {
    facts["intervals"].push_back(ToJson(run, save_every, seed));
  }
  if (arguments.has("json")) {
    std::cout << JsonLine(facts) << "\n";
  } else {
    PrintText(run, facts, config, static_cast<int>(world));
  }
}

}  // namespace

Command SimulateCommand() {
  std::vector<Option> options = {
      {.name = "mtbf",
       .value_name = "TIME",
       .help = "between failures of the whole job, on average: 8h, 30m, 2d",
       .required = true},
      {.name = "world", .value_name = "N", .help = "for N ranks; by default, for the ranks of this job"},
      {.name = "step", .value_name = "TIME", .help = "a measured step, instead of --on"},
      {.name = "storage",
       .value_name = "GB/S",
       .help = "what all ranks together write to storage; by default 0.5 per rank, at most 200"},
      {.name = "save", .value_name = "TIME", .help = "that a save stops training; by default a copy to host memory"},
      {.name = "write", .value_name = "TIME", .help = "that a save is written beside training, instead of --storage"},
      {.name = "recover",
       .value_name = "TIME",
       .help = "from a failure to the next step: to notice it, to start again, to load; by default 10m"},
      {.name = "seed", .value_name = "N", .help = "of the simulated failures; by default 1"},
      {.name = "json", .help = "print one JSON object"}};
  for (const Option& option : TimeOptions()) options.push_back(option);
  return {.name = "simulate",
          .summary =
              "Shows what failures, saves and recoveries leave of a run's time, and how often to save. Needs no "
              "device.",
          .options = std::move(options),
          .positionals = {{.name = kRunFile,
                           .help = "the run's configuration; by default all keys have their defaults",
                           .required = false}},
          .takes_config = true,
          .run = ShowGoodput};
}

}  // namespace trireme
