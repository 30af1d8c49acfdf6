// Settings of the hang watch.
#pragma once

#include <functional>
#include <string>

namespace trireme {

struct WatchOptions {
  double limit_s = 60;  // a call that waits longer is reported
  double look_every_s = 1;
  double answer_within_s = 2;                // a rank that takes longer to answer counts as unresponsive
  std::string listen_address = "127.0.0.1";  // of rank 0: the interface that the ranks use, never all of them
  // Brings the ledger up to date, on a thread of the watch; may be slow.
  std::function<void()> poll;
  // Where reports go, on a thread of the watch of rank 0; empty: standard error.
  std::function<void(const std::string&)> print;
};

}  // namespace trireme
