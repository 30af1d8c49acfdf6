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

std::vector<std::string> OptimizerStates(const std::string& name, bool ema) {
  for (const Entry& entry : Entries()) {
    if (entry.name != name) continue;
    std::vector<std::string> states = entry.states;
    if (ema) states.emplace_back(kAveraged);
    return states;
  }
  throw InputError("optimizer.name: '", name, "' is not known; wanted one of ", Join(OptimizerNames()));
}

}  // namespace trireme
