#include "cost/rows.h"

#include <cmath>
#include <filesystem>
#include <iomanip>
#include <map>
#include <sstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/config/load.h"
#include "cost/step_model.h"
#include "cost/step_text.h"
#include "session/model_graph.h"

namespace trireme {
namespace {

std::vector<std::string> Settings(const Json& object, const char* separator = "=") {
  std::vector<std::string> items;
  for (const auto& [key, value] : object.items()) {
    items.push_back(Concat(key, separator, value.is_string() ? value.get<std::string>() : JsonLine(value)));
  }
  return items;
}

const Json& At(const Json& row, const char* key, const std::string& where) {
  if (!row.contains(key)) throw InputError(where, ": ", key, " is missing");
  return row.at(key);
}

MeasuredRow ReadRow(const std::string& line, const std::string& where, const std::filesystem::path& folder) {
  const Json row = ParseJson(line, where);
  if (!row.is_object()) throw InputError(where, ": wanted an object");
  MeasuredRow read;
  try {
    read = {.name = At(row, "name", where).get<std::string>(),
            .group = At(row, "group", where).get<std::string>(),
            .device = At(row, "on", where).get<std::string>(),
            .world = At(row, "world", where).get<int>(),
            .model = (folder / At(row, "model", where).get<std::string>()).string(),
            .set = Settings(At(row, "set", where)),
            .assume = row.contains("assume") ? Settings(row.at("assume")) : std::vector<std::string>{},
            .step_seconds = At(row, "step_seconds", where).get<double>(),
            .memory_gib = row.value("memory_gib", 0.0),
            .phases = row.value("phases", Json())};
  } catch (const Json::exception& error) {
    throw InputError(where, ": ", error.what());
  }
  if (read.step_seconds <= 0 || read.world < 1) throw InputError(where, ": step_seconds and world must be above 0");
  return read;
}

struct Errors {
  int count = 0;
  double sum = 0, worst = 0;
  void Add(double error) {
    ++count;
    sum += std::abs(error);
    if (std::abs(error) > std::abs(worst)) worst = error;
  }
  std::string ToText() const {
    std::ostringstream out;
    out << std::fixed << std::setprecision(1) << Counted(count, "row") << ", mean error " << 100 * sum / count
        << " %, worst " << std::showpos << 100 * worst << " %";
    return out.str();
  }
};

std::string MemoryText(const std::vector<PredictedRow>& rows) {
  std::ostringstream out;
  for (const PredictedRow& row : rows) {
    if (row.row.memory_gib == 0) continue;
    if (out.tellp() == 0)
      out << "\n| run | ranks | memory, measured GiB | planned GiB | error |\n|---|---|---|---|---|\n";
    out << "| " << row.row.name << " | " << row.row.world << " | " << std::fixed << std::setprecision(1)
        << row.row.memory_gib << " | " << row.memory_gib << " | " << std::showpos
        << 100 * (row.memory_gib / row.row.memory_gib - 1) << " % |\n"
        << std::noshowpos;
  }
  return out.str();
}

std::string PhasesText(const std::vector<PredictedRow>& rows) {
  std::ostringstream out;
  for (const PredictedRow& row : rows) {
    if (!row.row.phases.is_object()) continue;
    if (out.tellp() == 0) out << "\n| run | phase | measured s | predicted s |\n|---|---|---|---|\n";
    for (const auto& [phase, seconds] : row.row.phases.items()) {
      out << "| " << row.row.name << " | " << phase << " | " << std::fixed << std::setprecision(2)
          << seconds.get<double>() << " | " << row.phases.at(phase).get<double>() << " |\n";
    }
  }
  return out.str();
}

}  // namespace

std::vector<MeasuredRow> ReadRows(const std::string& path) {
  std::istringstream in(ReadTextFile(path));
  std::vector<MeasuredRow> rows;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (IsBlank(line)) continue;
    rows.push_back(ReadRow(line, Concat(path, ":", number), std::filesystem::path(path).parent_path()));
  }
  if (rows.empty()) throw InputError(path, ": no rows");
  return rows;
}

std::vector<PredictedRow> PredictRows(const std::vector<MeasuredRow>& rows) {
  std::vector<PredictedRow> predicted;
  for (const MeasuredRow& row : rows) {
    std::vector<std::string> said = {"tuning.kind=full", "model.init=random", "model.path=" + row.model};
    said.insert(said.end(), row.set.begin(), row.set.end());
    const Config config = ParseConfig("", row.name, said);
    const LayerGraph graph = ReadGraph(config);
    const DeviceRates device = FindDevice(row.device);
    const Assumptions assumptions = ParseAssumptions(row.assume);
    StepModel model(config, graph, device, assumptions);
    const Layout layout = LayoutOf(config, row.world);
    const StepEstimate step = model.Estimate(layout);
    predicted.push_back(
        {row, step.step_seconds, step.memory_gib, ToJson(step).at("parts"), ToJson(model.Phases(layout))});
  }
  return predicted;
}

std::string ToText(const std::vector<PredictedRow>& rows) {
  std::ostringstream out;
  std::map<std::string, Errors> of_group;
  std::vector<std::string> groups;
  Errors all;
  out << "| run | device | ranks | step, measured s | predicted s | error |\n|---|---|---|---|---|---|\n";
  for (const PredictedRow& row : rows) {
    out << "| " << row.row.name << " | " << row.row.device << " | " << row.row.world << " | " << std::fixed
        << std::setprecision(row.row.step_seconds < 1 ? 3 : 2) << row.row.step_seconds << " | " << row.step_seconds
        << " | " << std::showpos << std::setprecision(1) << 100 * row.error() << " % |\n"
        << std::noshowpos;
    if (!of_group.contains(row.row.group)) groups.push_back(row.row.group);
    of_group[row.row.group].Add(row.error());
    all.Add(row.error());
  }
  out << "\n";
  for (const std::string& group : groups) out << "- " << group << ": " << of_group[group].ToText() << "\n";
  out << "- all: " << all.ToText() << "\n";
  return out.str() + MemoryText(rows) + PhasesText(rows);
}

}  // namespace trireme
