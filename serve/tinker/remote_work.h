// RemoteWork: remote training beside the engine: the service's units, one at a time or joined, on all ranks. Rank 0 has
// the service; a thread of its own lets its clock run while a unit takes long.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/service.h"
#include "serve/tinker/remote_service.h"

namespace trireme::tinker {

class RemoteWork : public SideWork {
 public:
  // run: units on all ranks. service: nullptr on all ranks but 0; outlives it.
  RemoteWork(std::function<std::vector<TrainOutcome>(const std::vector<TrainWork>&)> run, RemoteService* service);
  ~RemoteWork() override;

  bool waiting() override { return service_->work.HasWork(); }
  bool needs_idle() override { return service_->work.NeedsIdle(); }
  std::string Take(bool idle) override;
  double patience() override { return service_->work.Patience(); }
  void Run(const std::string& unit) override;

 private:
  void Tick();

  const std::function<std::vector<TrainOutcome>(const std::vector<TrainWork>&)> run_;
  RemoteService* const service_;
  std::vector<Task> tasks_;            // that Take gave
  int64_t passes_ = 0, requests_ = 0;  // of passes, so far
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopped_ = false;
  std::thread clock_;
};

}  // namespace trireme::tinker
