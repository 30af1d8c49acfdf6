// Measured runs beside their predictions: a file of rows (one JSON object a line), each with a device, a model's
// directory, the keys of a run and the seconds that a step took. Fits nothing: one rule and a device's constants for
// all rows.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"

namespace trireme {

struct MeasuredRow {
  std::string name;
  std::string group;   // rows of one source
  std::string device;  // a name or a file
  int world = 1;
  std::string model;                // a directory, relative to the file
  std::vector<std::string> set;     // as --set
  std::vector<std::string> assume;  // as --assume
  double step_seconds = 0;          // as measured
  double memory_gib = 0;            // as measured; 0: nobody says
  Json phases;                      // seconds by name (StepPhases), as measured; null: nobody says
};

std::vector<MeasuredRow> ReadRows(const std::string& path);

struct PredictedRow {
  MeasuredRow row;
  double step_seconds = 0;
  double memory_gib = 0;
  Json parts, phases;
  double error() const { return step_seconds / row.step_seconds - 1; }
};

std::vector<PredictedRow> PredictRows(const std::vector<MeasuredRow>& rows);

// A table in Markdown, below it the mean and the worst error of each group and of all, then memory and phases of the
// rows that have them.
std::string ToText(const std::vector<PredictedRow>& rows);

}  // namespace trireme
