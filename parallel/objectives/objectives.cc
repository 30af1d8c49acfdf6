#include "parallel/objectives/objectives.h"

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "parallel/objectives/cross_entropy.h"
#include "parallel/objectives/log_probs.h"

namespace trireme {
namespace {

struct Entry {
  const char* name;
  std::unique_ptr<Objective> (*make)();
};

template <typename T>
std::unique_ptr<Objective> Make() {
  return std::make_unique<T>();
}

// A new objective is a file here and a line in this list.
constexpr Entry kObjectives[] = {
    {"cross_entropy", &Make<CrossEntropy>},
    {"log_probs", &Make<WeightedLogProbs>},
};

}  // namespace

std::vector<std::string> ObjectiveNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kObjectives) names.push_back(entry.name);
  return names;
}

std::unique_ptr<Objective> MakeObjective(const std::string& name) {
  for (const Entry& entry : kObjectives) {
    if (name == entry.name) return entry.make();
  }
  throw InputError("there is no objective '", name, "'; wanted ", Join(ObjectiveNames()));
}

}  // namespace trireme
