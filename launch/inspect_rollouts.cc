#include "launch/inspect_rollouts.h"

#include <iomanip>
#include <limits>
#include <map>
#include <ostream>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "data/record_fields.h"
#include "data/records.h"
#include "train/rollouts/advantages.h"
#include "train/rollouts/rollout_file.h"

namespace trireme {
namespace {

constexpr size_t kMostSteps = 20;  // that are shown

struct StepFacts {
  std::vector<double> lengths, truncated;
  std::map<std::string, std::vector<double>> rewards;
};

void PrintSteps(const std::map<int64_t, StepFacts>& steps, std::ostream& out) {
  const size_t left_out = steps.size() > kMostSteps ? steps.size() - kMostSteps : 0;
  if (left_out > 0) out << "  (the first " << left_out << " samplings are left out)\n";
  size_t number = 0;
  for (const auto& [step, facts] : steps) {
    if (number++ < left_out) continue;
    out << "  step " << std::setw(6) << step << "  " << Counted(std::ssize(facts.lengths), "completion") << "  length "
        << MeanOf(facts.lengths) << "  truncated " << MeanOf(facts.truncated);
    for (const auto& [name, rewards] : facts.rewards) out << "  " << name << " " << MeanOf(rewards);
    out << "\n";
  }
}

void PrintOne(const Rollout& rollout, int64_t sample, std::ostream& out) {
  out << "completion " << sample << ", step " << rollout.step << ", group " << rollout.group << ":\n";
  if (!rollout.prompt.empty()) out << "  prompt     " << JsonLine(rollout.prompt) << "\n";
  if (!rollout.completion.empty()) out << "  completion " << JsonLine(rollout.completion) << "\n";
  out << "  tokens     " << rollout.prompt_ids.size() << " and " << rollout.completion_ids.size()
      << (rollout.truncated ? ", truncated" : "") << "\n";
  for (const auto& [name, reward] : rollout.rewards) out << "  " << name << " " << reward << "\n";
  if (rollout.advantage) out << "  advantage  " << *rollout.advantage << "\n";
}

}  // namespace

bool HoldsRollouts(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path) || !HoldsRecords(path)) return false;
  const std::unique_ptr<RecordFile> records = OpenRecords(path);
  if (records->size() == 0) return false;
  const Json first = records->Read(0);
  return first.is_object() && Has(first, "prompt_ids") && Has(first, "completion_ids") &&
         (Has(first, "rewards") || Has(first, "advantage"));
}

void InspectRollouts(const std::filesystem::path& path, int64_t sample, std::ostream& out) {
  const std::vector<Rollout> rollouts = ReadRollouts(path, {.vocabulary = std::numeric_limits<int32_t>::max()});
  if (sample > std::ssize(rollouts)) {
    throw InputError("--sample ", sample, ": ", path.string(), " has ", rollouts.size(), " completions");
  }
  std::map<int64_t, StepFacts> steps;
  for (const Rollout& rollout : rollouts) {
    StepFacts& facts = steps[rollout.step];
    facts.lengths.push_back(static_cast<double>(rollout.completion_ids.size()));
    facts.truncated.push_back(rollout.truncated ? 1 : 0);
    for (const auto& [name, reward] : rollout.rewards) facts.rewards[name].push_back(reward);
  }
  out << std::setprecision(4) << "rollouts: " << Counted(std::ssize(rollouts), "completion") << " of "
      << Counted(std::ssize(steps), "sampling") << "\n";
  PrintSteps(steps, out);
  PrintOne(rollouts[static_cast<size_t>(sample - 1)], sample, out);
}

}  // namespace trireme
