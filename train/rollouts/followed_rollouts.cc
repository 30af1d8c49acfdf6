#include "train/rollouts/followed_rollouts.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/stop_signals.h"
#include "train/rollouts/asked_rank.h"

namespace trireme {
namespace {

bool IsStepName(const std::string& stem) {
  return !stem.empty() && stem.front() != '0' && stem.size() < 16 &&
         std::ranges::all_of(stem, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

bool FollowsRollouts(const Config& config) {
  return !config.rl().rollouts().empty() && IsDirectory(config.rl().rollouts());
}

void RefuseOtherNames(const std::filesystem::path& directory) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::filesystem::path& path = entry.path();
    if (path.extension() != ".jsonl" || IsStepName(path.stem().string())) continue;
    throw InputError(
        "rl.rollouts ", directory.string(), " has ", Printable(path.filename().string()),
        ", which is not named after a step; each sampling reads STEP.jsonl, the first 1.jsonl. To train on one ",
        "file, name it");
  }
  if (error) throw InputError("rl.rollouts ", directory.string(), " cannot be read: ", error.message());
}

FollowedRollouts::FollowedRollouts(const Config& config, RolloutReading reading, Job& job)
    : config_(config), reading_(std::move(reading)), job_(job) {}

std::string FollowedRollouts::Await(const std::filesystem::path& path) const {
  constexpr double kSilent = 10;  // seconds of waiting before the log says so
  const auto start = Clock::now();
  const double most = config_.rl().sampler().seconds();
  bool said = false;
  while (!PathExists(path)) {
    const double waited = SecondsSince(start);
    if (StopRequested()) throw RuntimeError("stopped while waiting for ", path.string());
    if (waited >= most) {
      throw RuntimeError(path.string(), " did not appear in rl.sampler.seconds = ", most,
                         "; the sampler writes it under another name and renames it when it is complete");
    }
    if (waited > kSilent && !std::exchange(said, true)) TRIREME_LOG(INFO) << "waiting for " << path.string();
    std::this_thread::sleep_for(std::chrono::milliseconds(waited < 1 ? 20 : 200));
  }
  return ReadTextFile(path.string());
}

void FollowedRollouts::Check(const std::vector<Rollout>& rollouts, int64_t step, int64_t prompts,
                             const std::string& path) const {
  const int64_t groups = std::ssize(rollouts) / config_.rl().group();
  if (groups != prompts) {
    throw InputError(path, ": has completions of ", groups, " prompts; a sampling takes ", prompts,
                     " (run.global_batch x rl.steps_per_generation / rl.group)");
  }
  for (size_t i = 0; i < rollouts.size(); ++i) {
    if (rollouts[i].weights_step < step) continue;
    throw InputError(path, ": completion ", i + 1, " has weights_step ", rollouts[i].weights_step, "; step ", step,
                     " trains on weights of at most ", step - 1, " steps. Is it another run's?");
  }
}

std::vector<Rollout> FollowedRollouts::Take(int64_t step, const std::vector<int64_t>& prompts) {
  const auto start = Clock::now();
  const std::filesystem::path path = std::filesystem::path(config_.rl().rollouts()) / (std::to_string(step) + ".jsonl");
  std::vector<Rollout> taken;
  const auto read = [&](const std::string& text) {
    Replay file(config_, ParseRollouts(text, path, reading_), path.string());
    std::vector<int64_t> all(static_cast<size_t>(file.groups()));
    std::iota(all.begin(), all.end(), int64_t{0});
    taken = file.Take(step, all);
    names_ = file.names();
    Check(taken, step, std::ssize(prompts), path.string());
  };
  const std::string text = AskOnRankZero(job_, [&] {
    std::string found = Await(path);
    read(found);  // what is wrong with it is rank 0's to report
    return found;
  });
  if (job_.rank() != 0) read(text);
  metrics_ = {{"sampling_seconds", SecondsSince(start)}};
  return taken;
}

}  // namespace trireme
