// RemoteWork: remote training beside the engine: the room's units, one at a time or joined, on all ranks. Rank 0 has
// the room; a thread of its own lets its clock run while a unit takes long.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/service.h"
#include "serve/tinker/room.h"

namespace trireme::tinker {

class RemoteWork : public SideWork {
 public:
  // run: units on all ranks. room: nullptr on all ranks but 0; outlives it.
  RemoteWork(std::function<std::vector<TrainOutcome>(const std::vector<TrainWork>&)> run, Room* room);
  ~RemoteWork() override;

  bool waiting() override { return room_->HasWork(); }
  bool needs_idle() override { return room_->NeedsIdle(); }
  std::string Take(bool idle) override;
  double patience() override { return room_->Patience(); }
  void Run(const std::string& unit) override;

 private:
  void Tick();

  const std::function<std::vector<TrainOutcome>(const std::vector<TrainWork>&)> run_;
  Room* const room_;
  std::vector<Task> tasks_;            // that Take gave
  int64_t passes_ = 0, requests_ = 0;  // of passes, so far
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopped_ = false;
  std::thread clock_;
};

}  // namespace trireme::tinker
