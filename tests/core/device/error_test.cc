// The one wrapper for ACL's error codes: what its message contains, for the codes that users see.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "acl/error_codes/rt_error_codes.h"
#include "core/device/acl_call.h"
#include "core/device/buffer.h"
#include "core/device/device.h"

namespace trireme {
namespace {

std::string TextOf(aclError code, const std::string& details) {
  try {
    AclCall(code, "aclrtSomething", details);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(AclCall, SuccessIsSilent) { EXPECT_NO_THROW(AclCall(ACL_SUCCESS, "aclrtSomething", "detail")); }

TEST(AclCall, TextHoldsFunctionDetailCodeAndName) {
  const std::string text = TextOf(ACL_ERROR_RT_INVALID_HANDLE, "stream 7");
  EXPECT_EQ(text.rfind("aclrtSomething: stream 7: ACL error 107017 (invalid handle)", 0), 0u) << text;
}

TEST(AclCall, UnknownCodeKeepsItsNumber) {
  EXPECT_NE(TextOf(424242, "").find("ACL error 424242"), std::string::npos) << TextOf(424242, "");
}

TEST(AclCall, PeerFailureIsRemote) {
  try {
    AclCall(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, "aclrtSomething");
    FAIL() << "no exception was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRemote);
  }
}

TEST(AclCall, OutOfMemoryShowsTheFigures) {
  const Device device(0);
  const size_t too_much = device.memory().total_bytes + 1;
  try {
    const DeviceBuffer buffer(too_much);
    FAIL() << too_much << " bytes were allocated";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
    EXPECT_NE(text.find(Concat("aclrtMalloc: ", too_much, " bytes")), std::string::npos) << text;
    EXPECT_NE(text.find("207001"), std::string::npos) << text;
    EXPECT_NE(text.find(Concat(" of ", device.memory().total_bytes >> 20, " MiB")), std::string::npos) << text;
    EXPECT_NE(text.find("run.micro_batch"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace trireme
