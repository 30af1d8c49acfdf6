#include "serve/tinker/remote_work.h"

#include <chrono>

#include "core/base/error.h"
#include "train/remote/remote_trainer.h"

namespace trireme::tinker {

RemoteWork::RemoteWork(RemoteTrainer& trainer, Room* room) : trainer_(trainer), room_(room) {
  if (room_ != nullptr) clock_ = std::thread([this] { Tick(); });
}

RemoteWork::~RemoteWork() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stop_.notify_all();
  if (clock_.joinable()) clock_.join();
}

void RemoteWork::Tick() {
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, std::chrono::milliseconds(250), [&] { return stopped_; })) room_->Tick();
}

std::string RemoteWork::Take() {
  task_ = room_->Take();
  return task_ ? task_->work.Bytes() : "";
}

void RemoteWork::Run(const std::string& unit) {
  const TrainOutcome outcome = trainer_.Run(TrainWork::Of(unit));
  if (room_ == nullptr) return;
  room_->Finish(*task_, outcome);
  task_.reset();
}

}  // namespace trireme::tinker
