// RepeatedWarning: a warning that may apply again and again, such as at every step of a run: logged when it first
// applies, and once more, with a count, at the end. For one thread.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/log.h"

namespace trireme {

class RepeatedWarning {
 public:
  RepeatedWarning() = default;
  RepeatedWarning(const RepeatedWarning&) = delete;
  RepeatedWarning& operator=(const RepeatedWarning&) = delete;
  ~RepeatedWarning() {
    if (count_ > 1) TRIREME_LOG(WARNING) << "said once above, true " << count_ << " times: " << last_;
  }

  // `text` may differ each time; the last one is repeated at the end.
  void Say(const std::string& text) {
    if (count_ == 0) TRIREME_LOG(WARNING) << text;
    ++count_;
    last_ = text;
  }

 private:
  int64_t count_ = 0;
  std::string last_;
};

}  // namespace trireme
