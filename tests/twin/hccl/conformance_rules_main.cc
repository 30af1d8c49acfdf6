// Main of the rules tests: short timeouts, and a watchdog, since a broken rule must end in an error, not a
// hang.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/twin/hccl/conformance_api.h"
#include "tests/twin/hccl/conformance_watchdog.h"

int main(int argc, char** argv) {
  setenv("TWIN_SHORT_TIMEOUTS", "1", 1);
  setenv("HCCL_CONNECT_TIMEOUT", "3", 1);
  setenv("HCCL_EXEC_TIMEOUT", "2", 1);
  setenv("HCCL_BUFFSIZE", "4", 1);
  ::testing::InitGoogleTest(&argc, argv);
  conformance::GuardEveryTest(60);
  if (aclInit(nullptr) != ACL_SUCCESS) return 1;
  const int failed = RUN_ALL_TESTS();
  return aclFinalize() == ACL_SUCCESS ? failed : 1;
}
