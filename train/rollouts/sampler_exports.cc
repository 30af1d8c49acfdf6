#include "train/rollouts/sampler_exports.h"

#include <algorithm>
#include <functional>
#include <string>
#include <system_error>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
constexpr char kStepPrefix[] = "step-";

// The steps in the name of an export; -1: it is another name.
int64_t StepIn(const std::string& name) {
  const std::string digits = name.starts_with(kStepPrefix) ? name.substr(sizeof kStepPrefix - 1) : "";
  const bool number =
      !digits.empty() && digits.size() < 16 && std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  return number ? std::stoll(digits) : -1;
}

}  // namespace

fs::path ExportPath(const fs::path& directory, int64_t steps) {
  return directory / (kStepPrefix + std::to_string(steps));
}

void RemoveOldExports(const fs::path& directory, int64_t newest, int keep) {
  std::vector<int64_t> steps;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const int64_t step = StepIn(entry.path().filename().string());
    if (step >= 0 && step <= newest) steps.push_back(step);
  }
  std::ranges::sort(steps, std::greater());
  for (size_t i = static_cast<size_t>(keep); i < steps.size(); ++i)
    fs::remove_all(ExportPath(directory, steps[i]), ignored);
}

void CheckWeightsDirectory(const Config& config, bool same_run) {
  const fs::path directory = config.rl().sampler().weights();
  if (directory.empty() || !PathExists(directory)) return;
  if (!IsDirectory(directory)) throw InputError("rl.sampler.weights ", directory.string(), " is not a directory");
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name == kExportScratch || StepIn(name) >= 0;
    if (ours && same_run) continue;
    throw InputError("rl.sampler.weights ", directory.string(), " has ", Printable(name), " already",
                     ours ? ", the export of another run" : "",
                     "; name an empty directory, or one that does not exist");
  }
  if (error) throw InputError("rl.sampler.weights ", directory.string(), " cannot be read: ", error.message());
}

}  // namespace trireme
