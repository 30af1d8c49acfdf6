// `trireme plan`: the grids, groups and their memory, for this job's ranks or for a hypothetical world size.
// With --on how long a step takes there, with --search the best layouts. Opens no device and creates no communicator.
#include <charconv>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/cli/command.h"
#include "core/comm/job.h"
#include "launch/layout.h"
#include "launch/plan_time.h"
#include "session/model_graph.h"
#include "session/refit_plan.h"
#include "session/run_plan.h"

namespace trireme {
namespace {

// Every axis and pair of axes of interest, with all its groups, and the communicators.
Json PlanFacts(const Grids& grids, const GroupPlan& plan) {
  Json axes = Json::object();
  for (const AxisNames& names : {AxisNames{"tp"}, {"cp"}, {"dp"}, {"pp"}, {"dp", "cp"}, {"tp", "cp"}}) {
    axes[Join(names, "-")] = grids.dense.Groups(names);
  }
  for (const AxisNames& names : {AxisNames{"etp"}, {"ep"}, {"edp"}})
    axes[Join(names, "-")] = grids.expert.Groups(names);
  Json groups = Json::array();
  for (const PlannedGroup& group : plan.groups()) {
    groups.push_back({{"name", group.spec.name},
                      {"buffer_mb", group.spec.buffer_mb},
                      {"communicator", group.needs_communicator()},
                      {"shares", group.shares},
                      {"members", group.members}});
  }
  return {{"world", grids.world()}, {"axes", axes}, {"groups", groups}, {"memory_mb", plan.DeviceMemoryMb()}};
}

// The run's model under "tensor=2,pipeline=1"; sizes that are not named are 1.
Config UnderLayout(Config config, const std::string& layout) {
  ParallelConfig parallel;
  std::istringstream items(layout);
  for (std::string item; std::getline(items, item, ',');) {
    const size_t equals = item.find('=');
    const std::string key = item.substr(0, equals), digits = equals == std::string::npos ? "" : item.substr(equals + 1);
    int size = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
    const bool fits = error == std::errc() && end == digits.data() + digits.size() && size >= 1;
    if (fits && key == "tensor")
      parallel.set_tensor(size);
    else if (fits && key == "pipeline")
      parallel.set_pipeline(size);
    else if (fits && key == "expert")
      parallel.set_expert(size);
    else if (fits && key == "expert_tensor")
      parallel.set_expert_tensor(size);
    else
      throw InputError("--refit ", layout, ": '", item,
                       "'; wanted sizes such as tensor=2,pipeline=1,expert=1,expert_tensor=1");
  }
  parallel.set_zero(0);
  *config.mutable_parallel() = parallel;
  return config;
}

Json MovesOf(const RefitPlan& plan) {
  Json moves = Json::array();
  for (const RefitMove& move : plan.moves) {
    moves.push_back({{"parameter", plan.parameters[move.parameter].name},
                     {"source", move.source},
                     {"destination", move.destination},
                     {"offset", move.box.offset},
                     {"extent", move.box.extent},
                     {"bytes", plan.Bytes(move)}});
  }
  return moves;
}

RefitPlan RefitOf(const Config& config, const std::string& layout, int world) {
  if (config.parallel().zero() == 3) {
    throw InputError(
        "parallel.zero = 3 --refit: weights are planned as each rank of a layout holds them, and zero 3 gathers them ",
        "layer by layer; set it to 2");
  }
  const Config other = UnderLayout(config, layout);
  const LayerGraph graph = ReadGraph(config);
  const RunPlan from = PlanRun(config, graph, world), to = PlanRun(other, graph, world);
  return PlanRefit({graph, from, SplitOf(config.parallel())}, {graph, to, SplitOf(other.parallel())},
                   DTypeOf(config.model()));
}

void ShowPlan(const Arguments& arguments, Job& job) {
  constexpr int64_t kMostRanks = 1 << 20;
  if (arguments.has("rows")) return job.rank() == 0 ? ShowRows(arguments) : void();
  CheckTimeOptions(arguments, {"assume", "log", "search", "best", "fix", "svg"});
  const Config config = ConfigOf(arguments, job, HubParts::kWithoutWeights);
  const int64_t world = arguments.integer("world", job.world(), 1);
  if (world > kMostRanks) {
    throw InputError("--world ", world, " is too large for a plan; wanted at most ", kMostRanks);
  }
  if (arguments.has("on")) {
    if (job.rank() != 0) return;
    const LayerGraph graph = ReadGraph(config);
    if (arguments.has("svg")) RefuseToOverwrite("--svg", arguments.value("svg"));
    if (arguments.has("search")) return ShowSearch(config, graph, static_cast<int>(world), arguments);
    return ShowTime(config, graph, static_cast<int>(world), arguments, config.run().steps());
  }
  const Grids grids = MakeGrids(static_cast<int>(world), SizesOf(config.parallel()));
  const GroupPlan plan = GroupsOf(config, grids);
  if (job.rank() != 0) return;
  std::optional<RefitPlan> refit;
  if (arguments.has("refit")) refit = RefitOf(config, arguments.value("refit"), static_cast<int>(world));
  if (arguments.has("json")) {
    Json facts = PlanFacts(grids, plan);
    if (refit) facts["refit"] = MovesOf(*refit);
    std::cout << JsonLine(facts) << "\n";
    return;
  }
  std::cout << ToText(grids) << "groups, in order of creation:\n" << plan.ToText();
  if (refit) std::cout << ToText(*refit);
}

}  // namespace

Command PlanCommand() {
  std::vector<Option> options = {
      {.name = "world", .value_name = "N", .help = "plan for N ranks; by default, for the ranks of this job"},
      {.name = "refit",
       .value_name = "LAYOUT",
       .help = "show how the weights of model.path get from the layout of parallel to this one, such as "
               "tensor=1,pipeline=2; with --json every move"},
      {.name = "json", .help = "print one JSON object"}};
  for (const std::vector<Option>& more : {TimeOptions(), SearchOptionsOfPlan()}) {
    options.insert(options.end(), more.begin(), more.end());
  }
  return {.name = "plan",
          .summary =
              "Shows the rank grids, the groups of ranks and their memory; with --on the time of a step, with "
              "--search the fastest layouts. Needs no device.",
          .options = std::move(options),
          .positionals = {{.name = kRunFile,
                           .help = "the run's configuration; by default all keys have their defaults",
                           .required = false}},
          .takes_config = true,
          .run = ShowPlan};
}

}  // namespace trireme
