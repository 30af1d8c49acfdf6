#include "train/states/run_record.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/config/load.h"
#include "core/config/print.h"
#include "core/io/atomic_file.h"
#include "core/io/file_system.h"
#include "train/evaluation/best_evaluation.h"

namespace trireme {
namespace {

constexpr const char* kRecord = "run.yaml";

std::optional<Config> ReadRecord(const std::filesystem::path& output) {
  if (!PathExists(output / kRecord)) return std::nullopt;
  try {
    return LoadConfig((output / kRecord).string());
  } catch (const Error&) {
    return std::nullopt;  // written by a version with other keys
  }
}

// Keys, or sections with their dot, that change how a run is computed or reported, but not what is
// trained.
constexpr std::string_view kOfNoEffect[] = {
    "device",     "parallel.",  "memory.",           "comm.", "ops.",  "data.cache",
    "run.output", "run.resume", "run.deterministic", "eval.", "save.", "log."};
// Of these sections, what does: when the run ends, and which of its models is final/.
constexpr std::string_view kOfEffect[] = {"eval.early_stopping", "eval.early_stopping_threshold", "save.final_from"};

bool HasEffect(const KeyDifference& difference) {
  if (std::ranges::count(kOfEffect, difference.key) > 0) return true;
  return std::ranges::none_of(kOfNoEffect, [&](std::string_view known) {
    return known.ends_with('.') ? difference.key.starts_with(known) : difference.key == known;
  });
}

// Ended by eval.early_stopping, which a later start may have changed.
bool EndedEarly(const Config& config, const RunStart& start) {
  return start.same_run && BestEvaluation(config.eval(), start.progress).StopsRun() &&
         PathExists(start.output / "final");
}

}  // namespace

std::optional<Config> ResumedSettings(const RunConfig& run) {
  if (run.resume() == "never" || run.output().empty()) return std::nullopt;
  return ReadRecord(run.resume() == "auto" ? std::filesystem::path(run.output()) : FolderOf(run.resume()));
}

std::vector<KeyDifference> DifferencesFromRecord(const std::filesystem::path& output, const Config& config) {
  const std::optional<Config> before = ReadRecord(output);
  return before ? DifferingKeys(*before, config) : std::vector<KeyDifference>();
}

bool IsComplete(const Config& config, const RunStart& start, int64_t total_steps) {
  if (start.step < total_steps && EndedEarly(config, start)) return true;
  if (start.step < total_steps || (start.step == total_steps && !start.same_run)) return false;
  std::vector<KeyDifference> differences;
  if (start.same_run) differences = DifferencesFromRecord(start.output, config);
  std::erase_if(differences, [](const KeyDifference& one) { return !HasEffect(one); });
  if (start.step == total_steps && differences.empty()) return PathExists(start.output / "final");
  const std::string at = start.step == total_steps
                             ? Concat(": the run is complete at step ", start.step)
                             : Concat(": is at step ", start.step, ", but this start requests only ", total_steps);
  throw InputError(start.checkpoint->string(), at,
                   differences.empty() ? "" : Concat("; settings differ: ", ToText(differences)),
                   "; nothing was trained or changed. Choose another run.output, or set run.steps above ", start.step,
                   " to continue training");
}

void WriteRecord(const std::filesystem::path& output, const Config& config) {
  if (PathExists(output / kRecord)) {
    int number = 1;
    while (PathExists(output / Concat("run-", number, ".yaml"))) ++number;
    WriteAtomicFile(output / Concat("run-", number, ".yaml"), ReadTextFile((output / kRecord).string()));
  }
  WriteAtomicFile(output / kRecord, ToYaml(config));
}

}  // namespace trireme
