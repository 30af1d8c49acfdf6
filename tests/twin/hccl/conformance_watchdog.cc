// The watchdog of conformance_watchdog.h: an alarm signal, so that it works even if every thread is stuck.
#include "tests/twin/hccl/conformance_watchdog.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

namespace conformance {
namespace {

char current_test[256];

void Bark(int) {
  const char* text = "\nHANG: the watchdog aborted this test: ";
  // The program ends here; nothing is left to do if the line cannot be written.
  (void)!write(STDERR_FILENO, text, std::strlen(text));
  (void)!write(STDERR_FILENO, current_test, std::strlen(current_test));
  (void)!write(STDERR_FILENO, "\n", 1);
  _exit(3);
}

class Watchdog : public ::testing::EmptyTestEventListener {
 public:
  explicit Watchdog(unsigned seconds) : seconds_(seconds) {}

 private:
  void OnTestStart(const ::testing::TestInfo& test) override {
    std::snprintf(current_test, sizeof(current_test), "%s.%s", test.test_suite_name(), test.name());
    alarm(seconds_);
  }
  void OnTestEnd(const ::testing::TestInfo&) override { alarm(0); }

  unsigned seconds_;
};

}  // namespace

void GuardEveryTest(unsigned seconds) {
  std::signal(SIGALRM, Bark);
  ::testing::UnitTest::GetInstance()->listeners().Append(new Watchdog(seconds));  // GoogleTest deletes it
}

}  // namespace conformance
