// Detached threads with all signals blocked.
#include "twin/hccl/membership/background.h"

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace twin {

void RunInBackground(std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // a new thread inherits the mask
  try {
    std::thread(std::move(body)).detach();
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace twin
