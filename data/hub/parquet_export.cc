#include "data/hub/parquet_export.h"

#include <algorithm>
#include <string_view>

namespace trireme {
namespace {

constexpr std::string_view kPartial = "partial-";

CardSubset& SubsetNamed(const std::string& name, std::vector<CardSubset>& subsets) {
  const auto found = std::ranges::find_if(subsets, [&](const CardSubset& subset) { return subset.name == name; });
  if (found != subsets.end()) return *found;
  CardSubset subset{.name = name};
  subset.splits.emplace();
  return subsets.emplace_back(std::move(subset));
}

void AddFile(const std::string& file, std::vector<CardSubset>& subsets) {
  const size_t first = file.find('/'), second = file.find('/', first + 1);
  if (first == std::string::npos || second == std::string::npos || !file.ends_with(".parquet")) return;
  std::string split = file.substr(first + 1, second - first - 1);
  const bool partial = split.starts_with(kPartial);
  if (partial) split.erase(0, kPartial.size());
  std::vector<SplitPatterns>& splits = *SubsetNamed(file.substr(0, first), subsets).splits;
  auto found = std::ranges::find_if(splits, [&](const SplitPatterns& one) { return one.split == split; });
  if (found == splits.end()) found = splits.insert(splits.end(), SplitPatterns{split, {}, partial});
  found->patterns.push_back(file);
}

}  // namespace

std::vector<CardSubset> ExportedSubsets(const std::vector<std::string>& files) {
  std::vector<std::string> sorted = files;
  std::ranges::sort(sorted);
  std::vector<CardSubset> subsets;
  for (const std::string& file : sorted) AddFile(file, subsets);
  return subsets;
}

bool NeedsCode(const std::vector<std::string>& files, const std::string& name) {
  return std::ranges::find(files, name + ".py") != files.end();
}

}  // namespace trireme
