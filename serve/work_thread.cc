#include "serve/work_thread.h"

namespace trireme {

WorkThread::WorkThread(const Limits& limits) : limits_(limits), thread_([this] { Loop(); }) {}

WorkThread::~WorkThread() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

bool WorkThread::Add(int64_t bytes, std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (std::ssize(tasks_) >= limits_.tasks || bytes_ + bytes > limits_.bytes) return false;
    bytes_ += bytes;
    tasks_.emplace_back(bytes, std::move(task));
  }
  wake_.notify_all();
  return true;
}

void WorkThread::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return ends_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    auto [bytes, task] = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // what it holds is free before it is no longer counted
    lock.lock();
    bytes_ -= bytes;
  }
}

}  // namespace trireme
