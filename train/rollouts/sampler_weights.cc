#include "train/rollouts/sampler_weights.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

#include "checkpoint/convert.h"
#include "checkpoint/run_checkpoints.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/process.h"
#include "train/rollouts/asked_rank.h"
#include "train/rollouts/sampler_exports.h"
#include "train/states/run_header.h"
#include "web/http/http_client.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
constexpr char kProgramPrefix[] = "program:";
constexpr const char* kOfMpi[] = {"OMPI_", "PMIX_", "PMI_", "PRTE_"};

// `env` without what mpirun tells its ranks: a server that the program starts is none of them.
std::string CleanEnvironment() {
  std::string words = "env";
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string name = std::string(*one).substr(0, std::string(*one).find('='));
    const bool of_mpi = std::ranges::any_of(kOfMpi, [&](const char* prefix) { return name.starts_with(prefix); });
    if (of_mpi) words += " -u " + ShellWord(name);
  }
  return words;
}

void RunReload(const std::string& command, double seconds, const fs::path& target, int64_t steps) {
  const std::string line = Concat(CleanEnvironment(), " TRIREME_WEIGHTS=", ShellWord(target.string()),
                                  " TRIREME_STEP=", steps, " timeout ", seconds, " sh -c ", ShellWord(command));
  const int status = std::system(line.c_str());
  if (status == 0) return;
  constexpr int kTimedOut = 124;  // of timeout
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  throw RuntimeError("rl.sampler.reload: '", command, "' ",
                     code == kTimedOut ? "took longer than rl.sampler.seconds, or " : "", "ended with status ", code,
                     "; the sampler does not have the weights of ", target.string());
}

void PostReload(const Config& config, const fs::path& target, int64_t steps) {
  const SamplerConfig& sampler = config.rl().sampler();
  const std::string who = "rl.sampler.reload " + sampler.reload();
  const HttpResult result = AskHttp(ParseHttpTarget(sampler.reload(), "rl.sampler.reload"),
                                    {.body = JsonLine({{"path", target.string()}, {"step", steps}}),
                                     .who = who,
                                     .limit = "rl.sampler.seconds",
                                     .seconds = sampler.seconds()});
  if (result.status / 100 == 2) return;
  throw RuntimeError(who, " answered with status ", result.reason, ": ", result.body.substr(0, 200),
                     "; the sampler does not have the weights of ", target.string());
}

}  // namespace

SamplerWeights::SamplerWeights(Trainer& trainer)
    : config_(trainer.session().config()),
      trainer_(trainer),
      job_(trainer.session().job()),
      directory_(fs::absolute(config_.rl().sampler().weights())),
      scratch_(directory_ / kExportScratch),
      adapter_(trainer.session().graph().adapter.has_value()),
      header_(HeaderOf(config_, trainer.session().graph(), trainer.session().plan(), job_.world())) {
  const SamplerConfig& sampler = config_.rl().sampler();
  if (job_.rank() != 0) return;
  std::error_code error;
  fs::remove_all(scratch_, error);  // what a killed run left
  fs::create_directories(scratch_, error);
  if (error) throw InputError("rl.sampler.weights ", directory_.string(), " cannot be written: ", error.message());
  if (!sampler.endpoint().empty() && sampler.reload().empty()) {
    endpoint_ = std::make_unique<CompletionEndpoint>(config_, EndpointOptions{});
  }
}

// By way of a checkpoint of the weights alone, whose shards every rank writes itself.
void SamplerWeights::Export(int64_t steps, const fs::path& target) {
  RunSaver saver(trainer_, job_,
                 {.output = scratch_,
                  .model = config_.model().path(),
                  .weights_only = true,
                  .trained_only = adapter_,
                  .header = header_});
  saver.Save(ProgressOf(config_, {.step = steps, .updates = steps}));
  saver.Finish();
  const fs::path stored = CheckpointPath(scratch_, steps);
  // A sampler would take a value head for a part of the model that it does not know.
  ExportHuggingFace(HfDirectory(stored), target, {.replace = true, .value_head = false},
                    {.rank = job_.rank(), .size = job_.world(), .barrier = [this] { job_.Barrier(); }});
  job_.Barrier();
  std::error_code ignored;
  if (job_.rank() == 0) fs::remove_all(stored, ignored);
}

std::string SamplerWeights::Announce(int64_t steps, const fs::path& target) {
  const std::string& reload = config_.rl().sampler().reload();
  if (reload.starts_with(kProgramPrefix)) {
    RunReload(reload.substr(sizeof kProgramPrefix - 1), config_.rl().sampler().seconds(), target, steps);
  } else if (!reload.empty()) {
    PostReload(config_, target, steps);
  }
  if (!endpoint_) return "";
  // A name for each step: requests that name it cannot get other weights.
  const std::string name = Concat(endpoint_->model(), "-", target.filename().string());
  endpoint_->LoadAdapter(name, target.string());
  if (shared_ && shared_->model != name) {
    try {
      endpoint_->DropAdapter(shared_->model);
    } catch (const Error& error) {
      TRIREME_LOG(WARNING) << error.what();
    }
  }
  return name;
}

SharedWeights SamplerWeights::Share(int64_t sampling, int64_t steps) {
  const bool due = sampling % config_.rl().sampler().weights_every() == 0;
  if (shared_ && (!due || shared_->step == steps)) return *shared_;
  const auto start = Clock::now();
  const fs::path target = ExportPath(directory_, steps);
  Export(steps, target);
  const std::string model = AskOnRankZero(job_, [&] { return Announce(steps, target); });
  shared_ = SharedWeights{.step = steps, .model = model};
  if (job_.rank() == 0) RemoveOldExports(directory_, steps, config_.rl().sampler().keep());
  seconds_ += SecondsSince(start);
  return *shared_;
}

MetricValues SamplerWeights::TakeMetrics() { return {{"sampler_weights_seconds", std::exchange(seconds_, 0)}}; }

}  // namespace trireme
