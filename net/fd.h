// Fd: a file descriptor that closes itself. Does not know what it refers to.
#pragma once

#include <unistd.h>

#include <utility>

namespace net {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int number) : number_(number) {}
  Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Fd() {
    if (number_ >= 0) close(number_);
  }
  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }
  // The caller closes it from now on.
  int Release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

}  // namespace net
