#include "parallel/sharding/lr_factors.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr char kLrKey[] = "optimizer.lr_by_name";

double FactorIn(const std::string& entry, size_t begin) {
  double factor = -1;
  const char* const end = entry.data() + entry.size();
  const auto [stop, failure] = std::from_chars(entry.data() + begin, end, factor);
  if (failure == std::errc() && stop == end && std::isfinite(factor) && factor >= 0) return factor;
  throw InputError(kLrKey, ": '", entry, "' is not REGEX=FACTOR with a factor of at least 0, such as embed_tokens=0.1");
}

std::regex PatternIn(const std::string& entry, size_t end) {
  try {
    return std::regex(entry.substr(0, end), std::regex::ECMAScript);
  } catch (const std::regex_error& error) {
    throw InputError(kLrKey, ": '", entry.substr(0, end), "' is not a regular expression: ", error.what());
  }
}

}  // namespace

LrFactors::LrFactors(const std::vector<std::string>& entries, PartsByName parts) : parts_(std::move(parts)) {
  const auto is_part = [&](const std::string& word) {
    return std::any_of(parts_.begin(), parts_.end(), [&](const auto& named) { return named.second == word; });
  };
  for (const std::string& entry : entries) {
    const size_t equals = entry.rfind('=');
    const double factor = FactorIn(entry, equals == std::string::npos ? entry.size() : equals + 1);
    const std::string word = entry.substr(0, equals);
    entries_.push_back({entry, is_part(word) ? word : "", PatternIn(entry, equals), factor});
  }
}

const LrFactors::Entry* LrFactors::Find(const std::string& name) const {
  const auto own = parts_.find(name);
  for (const Entry& entry : entries_) {
    const bool matches =
        entry.part.empty() ? std::regex_search(name, entry.pattern) : own != parts_.end() && own->second == entry.part;
    if (matches) return &entry;
  }
  return nullptr;
}

double LrFactors::Of(const Parameter& parameter) const {
  if (entries_.empty() || parameter.hf.empty()) return 1;
  const auto factor_of = [&](const std::string& name) {
    const Entry* found = Find(name);
    return found == nullptr ? 1.0 : found->factor;
  };
  const HfTensor& first = parameter.hf.front();
  const double factor = factor_of(first.name);
  for (const HfTensor& tensor : parameter.hf) {
    const double own = factor_of(tensor.name);
    if (own == factor) continue;
    throw InputError(kLrKey, ": ", first.name, " has ", factor, " and ", tensor.name, " ", own,
                     ", but they are one parameter here; give them the same");
  }
  return factor;
}

void LrFactors::Check(const std::vector<Parameter>& parameters) const {
  std::set<const Entry*> used;
  for (const Parameter& parameter : parameters) {
    if (!parameter.trained) continue;
    Of(parameter);
    for (const HfTensor& tensor : parameter.hf) used.insert(Find(tensor.name));
  }
  for (const Entry& entry : entries_) {
    if (used.contains(&entry)) continue;
    throw InputError(kLrKey, ": '", entry.text,
                     "' is the first match of no trained parameter; names are those of the files, ",
                     "such as model.layers.0.mlp.down_proj.weight");
  }
}

}  // namespace trireme
