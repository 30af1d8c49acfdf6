#include "serve/tinker/remote_work.h"

#include <chrono>

#include "core/base/log.h"
#include "train/remote/remote_trainer.h"

namespace trireme::tinker {

RemoteWork::RemoteWork(RemoteTrainer& trainer, Room* room) : trainer_(trainer), room_(room) {
  if (room_ != nullptr) clock_ = std::thread([this] { Tick(); });
}

RemoteWork::~RemoteWork() {
  if (requests_ > 0) TRIREME_LOG(INFO) << "remote training ran " << passes_ << " passes for " << requests_ << " requests";
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
  tasks_ = room_->TakeJoined();
  if (!tasks_.empty() && tasks_.front().work.action == TrainAction::kPass) {
    ++passes_;
    requests_ += std::ssize(tasks_);
  }
  std::vector<const TrainWork*> works;
  for (const Task& task : tasks_) works.push_back(&task.work);
  return works.empty() ? "" : BytesOf(works);
}

void RemoteWork::Run(const std::string& unit) {
  const std::vector<TrainOutcome> outcomes = trainer_.Run(WorksOf(unit));
  if (room_ == nullptr) return;
  for (size_t i = 0; i < tasks_.size(); ++i) room_->Finish(tasks_[i], outcomes[i]);
  tasks_.clear();
}

}  // namespace trireme::tinker
