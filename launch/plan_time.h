// The time of a step, and the best layouts, for `trireme plan` and `trireme train --dry-run`.
#pragma once

#include <initializer_list>
#include <map>
#include <string>

#include "core/cli/arguments.h"
#include "core/cli/command.h"
#include "core/config.pb.h"
#include "parallel/graph/graph.h"

namespace trireme {

// --on, --assume and --log, which both commands have.
std::vector<Option> TimeOptions();
// --search, --best, --fix, --svg and --rows of `trireme plan`.
std::vector<Option> SearchOptionsOfPlan();

// Refuses those of the command's options that only mean something with --on.
void CheckTimeOptions(const Arguments& arguments, std::initializer_list<const char*> names);

// The numbers of a step that a run measures, too, by their names in its log after "plan/".
std::map<std::string, double> PredictedMetrics(const Config& config, const LayerGraph& graph, int world,
                                               const Arguments& arguments);

// The configuration's own layout. `steps`: of the run, where they are known.
void ShowTime(const Config& config, const LayerGraph& graph, int world, const Arguments& arguments, int64_t steps);
void ShowSearch(const Config& config, const LayerGraph& graph, int world, const Arguments& arguments);
// Measured runs of a file beside their predictions.
void ShowRows(const Arguments& arguments);

}  // namespace trireme
