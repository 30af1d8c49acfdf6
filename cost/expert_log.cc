#include "cost/expert_log.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"

namespace trireme {
namespace {

std::map<std::string, int64_t> ExpertsOf(const LayerGraph& graph) {
  std::map<std::string, int64_t> experts;
  for (const Layer& layer : graph.layers) {
    const DecoderSpec* decoder = DecoderOf(layer.spec);
    if (decoder != nullptr && decoder->experts) experts[layer.name] = decoder->experts->router.experts;
  }
  return experts;
}

// A rank has neighbouring experts.
double BusiestOverMean(const std::vector<double>& rows, int ranks) {
  const size_t each = rows.size() / static_cast<size_t>(ranks);
  double all = 0, most = 0;
  for (size_t begin = 0; begin + each <= rows.size(); begin += each) {
    double here = 0;
    for (size_t i = begin; i < begin + each; ++i) here += rows[i];
    all += here;
    most = std::max(most, here);
  }
  return all > 0 ? most * ranks / all : 1;
}

}  // namespace

double ImbalanceOf(const std::string& log, const LayerGraph& graph, int ranks) {
  const std::map<std::string, int64_t> experts = ExpertsOf(graph);
  if (experts.empty()) throw InputError("--log ", log, ": ", graph.family, " has no experts whose load it could tell");
  std::istringstream lines(ReadTextFile(log));
  double sum = 0;
  int64_t count = 0, number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (IsBlank(line)) continue;
    const Json step = ParseJson(line, Concat(log, ":", number));
    if (!step.is_object() || !step.contains("experts") || !step.at("experts").contains("tokens_per_expert")) continue;
    for (const auto& [layer, rows] : step.at("experts").at("tokens_per_expert").items()) {
      const auto found = experts.find(layer);
      const int64_t wanted = found == experts.end() ? 0 : found->second;
      if (!rows.is_array() || static_cast<int64_t>(rows.size()) != wanted) {
        throw InputError(log, ":", number, ": a log of another model: ", layer, " has ", rows.size(),
                         " experts there and ", wanted, " here; give the log of a run of this model");
      }
      sum += BusiestOverMean(rows.get<std::vector<double>>(), ranks);
      ++count;
    }
  }
  if (count == 0) throw InputError("--log ", log, ": no line says how many tokens each expert got");
  return std::max(sum / static_cast<double>(count), 1.0);
}

}  // namespace trireme
