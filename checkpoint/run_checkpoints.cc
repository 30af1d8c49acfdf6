#include "checkpoint/run_checkpoints.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include "checkpoint/manifest.h"
#include "core/base/error.h"
#include "core/io/file_system.h"

namespace trireme {
namespace {

constexpr std::string_view kCheckpointPrefix = "checkpoint-";

// A concurrent reader must not take a partly removed checkpoint for a complete one: it is renamed first.
void Remove(const std::filesystem::path& checkpoint) {
  const std::filesystem::path going = checkpoint.string() + ".going";
  RemoveAll(going);
  RenameAndSync(checkpoint, going);
  RemoveAll(going);
}

// A damaged checkpoint must not end a run that saves another one.
checkpoint::Progress ProgressOf(const std::filesystem::path& checkpoint) {
  try {
    return ParseManifestFile(checkpoint / kManifestFile).progress();
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::optional<int64_t> StepOfName(const std::string& name) {
  if (!name.starts_with(kCheckpointPrefix)) return std::nullopt;
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kCheckpointPrefix.size(), end, step);
  return error == std::errc() && stop == end && step >= 0 ? std::optional(step) : std::nullopt;
}

std::filesystem::path CheckpointPath(const std::filesystem::path& output, int64_t step) {
  return output / Concat(kCheckpointPrefix, step);
}

std::vector<RunCheckpoint> FindCheckpoints(const std::filesystem::path& output) {
  std::vector<RunCheckpoint> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(output, error)) {
    const auto step = StepOfName(entry.path().filename().string());
    if (step && IsCheckpoint(entry.path())) found.push_back({*step, entry.path()});
  }
  std::sort(found.begin(), found.end(), [](const RunCheckpoint& a, const RunCheckpoint& b) { return a.step < b.step; });
  return found;
}

std::optional<RunCheckpoint> NewestComplete(const std::filesystem::path& output,
                                            std::vector<std::string>* passed_over) {
  const std::vector<RunCheckpoint> all = FindCheckpoints(output);
  for (auto candidate = all.rbegin(); candidate != all.rend(); ++candidate) {
    try {
      ReadManifest(candidate->path);
      return *candidate;
    } catch (const Error& error) {
      if (passed_over != nullptr) passed_over->push_back(error.what());
    }
  }
  return std::nullopt;
}

void RemoveOldCheckpoints(const std::filesystem::path& output, int keep) {
  if (keep == 0) return;
  const std::vector<RunCheckpoint> all = FindCheckpoints(output);
  const RunCheckpoint* best = nullptr;
  double lowest = 0;
  for (const RunCheckpoint& checkpoint : all) {
    const checkpoint::Progress progress = ProgressOf(checkpoint.path);
    if (!progress.has_validation_loss()) continue;
    if (best == nullptr || progress.validation_loss() < lowest) {
      best = &checkpoint;
      lowest = progress.validation_loss();
    }
  }
  const size_t going = all.size() - std::min(all.size(), static_cast<size_t>(keep));
  for (size_t i = 0; i < going; ++i) {
    if (&all[i] != best) Remove(all[i].path);
  }
}

}  // namespace trireme
