#include "launch/serve_training.h"

#include <chrono>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "serve/tinker/remote_work.h"
#include "serve/tinker/room.h"
#include "serve/tinker/service_samples.h"
#include "serve/tinker/tinker_routes.h"
#include "train/remote/remote_trainer.h"

namespace trireme {
namespace {

constexpr int64_t kMaxRank = 32;

int64_t MaxRank(const Arguments& arguments) { return arguments.integer("train-max-rank", kMaxRank, 1); }

double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::vector<Option> TrainingOptions() {
  return {{.name = "train",
           .help = "also train LoRA adapters for clients of the Tinker protocol, below /api/v1; needs --train-directory"},
          {.name = "train-directory",
           .value_name = "DIR",
           .help = "where clients' checkpoints are kept: PEFT directories with the optimizer's state; all ranks see it"},
          {.name = "train-max-rank", .value_name = "N", .help = "the largest rank of an adapter; by default 32"},
          {.name = "train-max-models", .value_name = "N", .help = "adapters in training at once; by default 8"},
          {.name = "train-session-seconds",
           .value_name = "S",
           .help = "a session without a heartbeat for this long ends, and its models with it; by default 1800"}};
}

int64_t BodyLimit(const Arguments& arguments) {
  return arguments.has("train") ? int64_t{256} << 20 : HttpLimits().body_bytes;
}

void PrepareTraining(const Arguments& arguments, Config& config) {
  if (!arguments.has("train")) {
    for (const Option& option : TrainingOptions()) {
      if (arguments.has(option.name)) throw InputError("--", option.name, ": is for --train");
    }
    return;
  }
  if (!arguments.has("train-directory")) throw InputError("--train: where are checkpoints to go? give --train-directory DIR");
  if (!config.tuning().adapters().empty()) {
    throw InputError("--train: ", config.tuning().adapters(), " is an adapter; give its base as --model");
  }
  PrepareForRemoteTraining(config, MaxRank(arguments));
}

class ServeTraining::Room {
 public:
  Room(const Arguments& arguments, const Parts& parts)
      : checkpoints_(arguments.value("train-directory")),
        room({.model_name = parts.model.name,
              .model_directory = parts.directory,
              .limits = {.vocabulary = parts.model.vocabulary, .context = parts.model.context},
              .max_rank = MaxRank(arguments),
              .max_models = arguments.integer("train-max-models", 8, 1),
              .session_seconds = arguments.number("train-session-seconds", 1800, 1)},
             checkpoints_, SteadySeconds),
        samples_(parts.service, parts.model),
        routes(room, checkpoints_, parts.callers) {
    room.Connect(&samples_, [&service = parts.service] { service.Wake(); });
  }

 private:
  const tinker::Checkpoints checkpoints_;

 public:
  tinker::Room room;

 private:
  tinker::ServiceSamples samples_;

 public:
  tinker::TinkerRoutes routes;
};

class ServeTraining::Ranks {
 public:
  Ranks(const Arguments& arguments, const Parts& parts, tinker::Room* room)
      : trainer_(parts.session, parts.service.engine(), MaxRank(arguments)), work_(trainer_, room) {
    parts.service.Share(&work_);
  }

 private:
  RemoteTrainer trainer_;
  tinker::RemoteWork work_;
};

ServeTraining::ServeTraining(const Arguments& arguments, const Parts& parts) {
  if (!arguments.has("train")) return;
  if (parts.session.job().rank() == 0) {
    room_ = std::make_unique<Room>(arguments, parts);
    TRIREME_LOG(INFO) << "trains LoRA adapters of ranks up to " << MaxRank(arguments) << " below " << tinker::kTinkerPrefix
                      << "; checkpoints go to " << arguments.value("train-directory");
  }
  ranks_ = std::make_unique<Ranks>(arguments, parts, room_ ? &room_->room : nullptr);
}

ServeTraining::~ServeTraining() = default;

bool ServeTraining::Takes(const HttpRequest& request) const { return tinker::TinkerRoutes::Takes(request); }

void ServeTraining::Handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  room_->routes.Handle(std::move(request), std::move(reply));
}

void ServeTraining::Close() {
  if (room_) room_->room.Close();
}

}  // namespace trireme
