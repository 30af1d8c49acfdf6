// The memory plan as a table.
#include <algorithm>
#include <iomanip>
#include <sstream>

#include "core/base/error.h"
#include "train/plan/memory_plan.h"

namespace trireme {
namespace {

struct Column {
  const char* title;
  int64_t (*bytes)(const RankMemory&);
};

constexpr Column kColumns[] = {
    {"values", [](const RankMemory& m) { return m.values; }},
    {"gradients", [](const RankMemory& m) { return m.gradients; }},
    {"masters", [](const RankMemory& m) { return m.masters; }},
    {"moments", [](const RankMemory& m) { return m.moments; }},
    {"activations", [](const RankMemory& m) { return m.activations; }},
    {"logits", [](const RankMemory& m) { return m.logits; }},
    {"workspace", [](const RankMemory& m) { return m.workspace; }},
    {"communicators", [](const RankMemory& m) { return m.communicators; }},
    {"device", [](const RankMemory& m) { return m.device(); }},
    {"host", [](const RankMemory& m) { return m.host; }},
};

// Without the workspace where nobody has one.
std::vector<Column> ColumnsOf(const std::vector<RankMemory>& ranks) {
  const bool workspace = std::ranges::any_of(ranks, [](const RankMemory& m) { return m.workspace > 0; });
  std::vector<Column> columns;
  for (const Column& column : kColumns) {
    if (workspace || column.title != std::string("workspace")) columns.push_back(column);
  }
  return columns;
}

struct Line {
  RankMemory memory;
  std::vector<int> ranks;
};

std::vector<Line> Merged(const std::vector<RankMemory>& ranks) {
  std::vector<Line> lines;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto same = [&](const Line& line) { return line.memory == ranks[rank]; };
    auto line = std::find_if(lines.begin(), lines.end(), same);
    if (line == lines.end()) line = lines.insert(line, {ranks[rank], {}});
    line->ranks.push_back(static_cast<int>(rank));
  }
  return lines;
}

// "0-3,8" for 0 1 2 3 8.
std::string RanksText(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += Concat(i == 0 ? "" : ",", ranks[i], last > i ? Concat("-", ranks[last]) : "");
    i = last + 1;
  }
  return text;
}

}  // namespace

std::string ToText(const std::vector<RankMemory>& ranks) {
  const std::vector<Line> lines = Merged(ranks);
  size_t width = std::string("ranks").size();
  for (const Line& line : lines) width = std::max(width, RanksText(line.ranks).size());
  std::ostringstream text;
  text << "  " << std::left << std::setw(static_cast<int>(width)) << "ranks" << std::right;
  const std::vector<Column> columns = ColumnsOf(ranks);
  for (const Column& column : columns) text << "  " << std::setw(9) << column.title;
  text << "\n" << std::fixed << std::setprecision(1);
  for (const Line& line : lines) {
    text << "  " << std::left << std::setw(static_cast<int>(width)) << RanksText(line.ranks) << std::right;
    for (const Column& column : columns) {
      const auto title_width = static_cast<int>(std::string(column.title).size());
      text << "  " << std::setw(std::max(9, title_width)) << static_cast<double>(column.bytes(line.memory)) / (1 << 20);
    }
    text << "\n";
  }
  return text.str();
}

}  // namespace trireme
