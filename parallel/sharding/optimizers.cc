#include "parallel/sharding/optimizers.h"

#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/sharding/optimizer_names.h"

namespace trireme {
namespace {

struct Entry {
  std::string name, meaning;
  std::vector<std::string> states;
};

const std::vector<Entry>& Entries() {
#define LIST(name, update, meaning, ...) {name, meaning, {__VA_ARGS__}},
  static const std::vector<Entry> entries = {TRIREME_OPTIMIZERS(LIST)};
#undef LIST
  return entries;
}

}  // namespace

std::vector<std::string> OptimizerNames() {
  std::vector<std::string> names;
  for (const Entry& entry : Entries()) names.push_back(entry.name);
  return names;
}

std::vector<std::string> OptimizerMeanings() {
  std::vector<std::string> meanings;
  for (const Entry& entry : Entries()) meanings.push_back(entry.meaning);
  return meanings;
}

std::vector<std::string> WholeStates(const std::string& name, bool moments_8bit) {
  if (name == "adafactor") return {"exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq"};
  if (moments_8bit) return {"exp_avg_absmax", "exp_avg_sq_absmax", "exp_avg_fp32", "exp_avg_sq_fp32"};
  return {};
}

bool UpdatesWholeTensors(const std::string& name, bool moments_8bit) {
  return !WholeStates(name, moments_8bit).empty();
}

std::vector<std::string> OptimizerStates(const std::string& name, const FurtherStates& further) {
  for (const Entry& entry : Entries()) {
    if (entry.name != name) continue;
    std::vector<std::string> states = entry.states;
    if (further.initial) states.emplace_back(kInitial);
    if (further.averaged) states.emplace_back(kAveraged);
    return states;
  }
  throw InputError("optimizer.name: '", name, "' is not known; wanted one of ", Join(OptimizerNames()));
}

}  // namespace trireme
