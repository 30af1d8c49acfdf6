#include "launch/serve_training.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "data/image_reader.h"
#include "serve/tinker/remote_service.h"
#include "serve/tinker/remote_work.h"
#include "serve/tinker/service_samples.h"
#include "serve/tinker/tinker_routes.h"
#include "train/remote/full_trainer.h"
#include "train/remote/remote_trainer.h"

namespace trireme {
namespace {

constexpr int64_t kMostBodyBytes = int64_t{256} << 20;  // of training data
constexpr int64_t kMaxRank = 32, kMaxModels = 8, kMaxTogether = 8, kInMemory = 8;

int64_t MaxRank(const Arguments& arguments) { return arguments.integer("train-max-rank", kMaxRank, 1); }
int64_t MaxModels(const Arguments& arguments) { return arguments.integer("train-max-models", kMaxModels, 1); }

RemoteLimits RemoteLimitsOf(const Arguments& arguments) {
  return {.max_rank = MaxRank(arguments),
          .slots = arguments.integer("train-together", std::min(kMaxTogether, MaxModels(arguments)), 1),
          .in_memory = arguments.integer("train-in-memory", kInMemory, 1),
          .directory = arguments.value("train-directory")};
}

// Of adapters, which a model that is trained in full has none of.
constexpr const char* kAdapterOptions[] = {"train-max-rank",   "train-max-models",   "train-in-memory",
                                           "train-together",   "train-quota-models", "adapters",
                                           "adapter-directory"};

void RefuseAdapterOptions(const Arguments& arguments) {
  for (const char* option : kAdapterOptions) {
    if (arguments.has(option))
      throw InputError(
          "--", option,
          ": is for adapters; --train-full trains one model with all its parameters and serves it, without any");
  }
}

}  // namespace

std::vector<Option> TrainingOptions() {
  return {
      {.name = "train",
       .help = "also train LoRA adapters for clients of the Tinker protocol, below /api/v1; needs --train-directory"},
      {.name = "train-full",
       .help =
           "train one model with all its parameters instead of adapters; what is served is the model as it is trained"},
      {.name = "train-directory",
       .value_name = "DIR",
       .help = "where clients' checkpoints are kept: PEFT directories with the optimizer's state; all ranks see it"},
      {.name = "train-max-rank", .value_name = "N", .help = "the largest rank of an adapter; by default 32"},
      {.name = "train-max-models", .value_name = "N", .help = "adapters in training at once; by default 8"},
      {.name = "train-in-memory",
       .value_name = "N",
       .help = "adapters whose numbers are in host memory; those that were used longest ago wait in files under "
               "--train-directory; by default 8"},
      {.name = "train-together",
       .value_name = "N",
       .help =
           "adapters whose requests may share a pass; each costs device memory for a copy of its adapters and their "
           "gradients; by default 8, or --train-max-models if that is less"},
      {.name = "train-quota-models",
       .value_name = "N",
       .help = "adapters that one API key may train at once; by default as many as there are"},
      {.name = "train-quota-tokens",
       .value_name = "N",
       .help = "tokens per second that one API key may train and sample; by default any number"},
      {.name = "train-quota-requests",
       .value_name = "N",
       .help = "requests of one API key that may be unfinished; by default any number"},
      {.name = "train-session-seconds",
       .value_name = "S",
       .help = "a session without a heartbeat for this long ends, and its models with it; by default 1800"}};
}

int64_t BodyLimit(const Arguments& arguments) {
  return arguments.has("train") ? kMostBodyBytes : HttpLimits().body_bytes;
}

void PrepareTraining(const Arguments& arguments, Config& config) {
  if (!arguments.has("train")) {
    for (const Option& option : TrainingOptions()) {
      if (arguments.has(option.name)) throw InputError("--", option.name, ": is for --train");
    }
    return;
  }
  if (!arguments.has("train-directory"))
    throw InputError("--train: where are checkpoints to go? give --train-directory DIR");
  if (!config.tuning().adapters().empty()) {
    throw InputError("--train: ", config.tuning().adapters(), " is an adapter; give its base as --model");
  }
  if (!arguments.has("train-full") && SeesImages(config.model().path())) {
    throw InputError("--train: ", config.model().path(),
                     " sees images; adapters of such a model are trained by `trireme train`, not remotely");
  }
  if (!arguments.has("train-full")) return PrepareForRemoteTraining(config, RemoteLimitsOf(arguments));
  RefuseAdapterOptions(arguments);
  PrepareForFullTraining(config);
}

class ServeTraining::Front {
 public:
  Front(const Arguments& arguments, const Parts& parts)
      : checkpoints_(arguments.value("train-directory")),
        service({.model_name = parts.model.name,
                 .model_directory = parts.directory,
                 .limits = {.vocabulary = parts.model.vocabulary, .context = parts.model.context},
                 .full = arguments.has("train-full"),
                 .max_rank = MaxRank(arguments),
                 .max_models = MaxModels(arguments),
                 .together = RemoteLimitsOf(arguments).slots,
                 .session_seconds = arguments.number("train-session-seconds", 1800, 1),
                 .quota = {.models = arguments.integer("train-quota-models", 0, 1),
                           .tokens_per_second = arguments.integer("train-quota-tokens", 0, 1),
                           .queued = arguments.integer("train-quota-requests", 0, 1)}},
                checkpoints_, ClockSeconds),
        samples_(parts.service, parts.model),
        routes(service, checkpoints_, parts.callers) {
    service.Connect(&samples_, [&engine = parts.service] { engine.Wake(); });
  }

 private:
  const tinker::Checkpoints checkpoints_;

 public:
  tinker::RemoteService service;

 private:
  tinker::ServiceSamples samples_;

 public:
  tinker::TinkerRoutes routes;
};

class ServeTraining::Ranks {
 public:
  Ranks(const Arguments& arguments, const Parts& parts, tinker::RemoteService* service)
      : work_(RunnerOf(arguments, parts), service) {
    parts.service.Share(&work_);
  }

 private:
  using Runner = std::function<std::vector<TrainOutcome>(const std::vector<TrainWork>&)>;
  template <typename AnyTrainer>
  static Runner RunnerOf(std::shared_ptr<AnyTrainer> trainer) {
    return [trainer](const std::vector<TrainWork>& works) { return trainer->Run(works); };
  }
  static Runner RunnerOf(const Arguments& arguments, const Parts& parts) {
    Engine& engine = parts.service.engine();
    if (arguments.has("train-full")) return RunnerOf(std::make_shared<FullTrainer>(parts.session, engine));
    return RunnerOf(std::make_shared<RemoteTrainer>(parts.session, engine, RemoteLimitsOf(arguments)));
  }

  tinker::RemoteWork work_;
};

ServeTraining::ServeTraining(const Arguments& arguments, const Parts& parts) {
  if (!arguments.has("train")) return;
  if (parts.session.job().rank() == 0) {
    front_ = std::make_unique<Front>(arguments, parts);
    const std::string what = arguments.has("train-full") ? "one model with all its parameters"
                                                         : Concat("LoRA adapters of ranks up to ", MaxRank(arguments));
    TRIREME_LOG(INFO) << "trains " << what << " below " << tinker::kTinkerPrefix << "; checkpoints go to "
                      << arguments.value("train-directory");
  }
  ranks_ = std::make_unique<Ranks>(arguments, parts, front_ ? &front_->service : nullptr);
}

ServeTraining::~ServeTraining() = default;

bool ServeTraining::Takes(const HttpRequest& request) { return tinker::TinkerRoutes::Takes(request); }

int64_t ServeTraining::Check(const HttpRequest& request, const Callers& callers, const HttpCheck& check) {
  if (tinker::TinkerRoutes::NeedsNoKey(request)) {
    callers.CheckHost(request);
  } else {
    check(tinker::TinkerRoutes::WithKey(request));
  }
  return kMostBodyBytes;
}

void ServeTraining::Handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  front_->routes.Handle(std::move(request), std::move(reply));
}

void ServeTraining::Close() {
  if (front_) front_->service.Close();
}

}  // namespace trireme
