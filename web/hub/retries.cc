#include "web/hub/retries.h"

#include <chrono>
#include <thread>

#include "core/base/log.h"

namespace trireme {

void Retries::Failed(const Error& error) {
  constexpr int kMostFailures = 5;
  constexpr std::chrono::milliseconds kFirstWait{250};
  if (error.kind() != ErrorKind::kRuntime || ++failures_ == kMostFailures) throw Error(error);
  TRIREME_LOG(WARNING) << error.what() << "; trying again";
  std::this_thread::sleep_for(kFirstWait * (1 << failures_));
}

}  // namespace trireme
