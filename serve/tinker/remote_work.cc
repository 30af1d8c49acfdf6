#include "serve/tinker/remote_work.h"

#include <chrono>
#include <utility>

#include "core/base/log.h"

namespace trireme::tinker {

RemoteWork::RemoteWork(std::function<std::vector<TrainOutcome>(const std::vector<TrainWork>&)> run,
                       RemoteService* service)
    : run_(std::move(run)), service_(service) {
  if (service_ != nullptr) clock_ = std::thread([this] { Tick(); });
}

RemoteWork::~RemoteWork() {
  if (requests_ > 0)
    TRIREME_LOG(INFO) << "remote training ran " << passes_ << " passes for " << requests_ << " requests";
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stop_.notify_all();
  if (clock_.joinable()) clock_.join();
}

void RemoteWork::Tick() {
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, std::chrono::milliseconds(250), [&] { return stopped_; })) service_->Tick();
}

std::string RemoteWork::Take(bool idle) {
  tasks_ = service_->work.TakeJoined(idle);
  if (!tasks_.empty() && tasks_.front().work.action == TrainAction::kPass) {
    ++passes_;
    requests_ += std::ssize(tasks_);
  }
  std::vector<const TrainWork*> works;
  for (const Task& task : tasks_) works.push_back(&task.work);
  return works.empty() ? "" : BytesOf(works);
}

void RemoteWork::Run(const std::string& unit) {
  const std::vector<TrainOutcome> outcomes = run_(WorksOf(unit));
  if (service_ == nullptr) return;
  for (size_t i = 0; i < tasks_.size(); ++i) service_->work.Finish(tasks_[i], outcomes[i]);
  tasks_.clear();
}

}  // namespace trireme::tinker
