#include "core/io/background.h"

#include <utility>

#include "core/base/error.h"

namespace trireme {

Background::~Background() {
  giving_up_ = true;
  Join();
}

void Background::Join() {
  if (thread_.joinable()) thread_.join();
}

void Background::Start(std::function<void()> work) {
  TRIREME_CHECK(done_ && !error_) << "background work is started before the previous one was waited for";
  Join();
  done_ = false;
  thread_ = std::thread([this, work = std::move(work)] {
    try {
      work();
    } catch (...) {
      error_ = std::current_exception();
    }
    done_ = true;
  });
}

void Background::Wait() {
  Join();
  ThrowIfFailed();
}

void Background::ThrowIfFailed() {
  if (!done_ || !error_) return;
  std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace trireme
