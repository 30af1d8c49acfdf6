// The thread pool.
#include "twin/acl/runtime/block_threads.h"

#include <pthread.h>

#include <thread>
#include <utility>

namespace twin {

BlockThreads& BlockThreads::Get() {
  static auto* threads = new BlockThreads;  // never destroyed: its threads outlive main
  return *threads;
}

void BlockThreads::Run(std::function<void()> work) {
  std::unique_lock lock(mutex_);
  // Every queued piece of work has an idle thread on its way to it.
  if (idle_ <= waiting_.size()) std::thread([this] { Loop(); }).detach();
  waiting_.push_back(std::move(work));
  lock.unlock();
  wake_.notify_one();
}

void BlockThreads::Loop() {
  pthread_setname_np(pthread_self(), "twin-block");
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    wake_.wait(lock, [this] { return !waiting_.empty(); });
    --idle_;
    std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
}

}  // namespace twin
