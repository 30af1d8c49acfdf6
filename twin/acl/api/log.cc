// Application logs, dump configuration, and attributes of this CANN release. Nothing is dumped: there are no
// model operators with values to dump.
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "acl/acl.h"
#include "twin/acl/runtime/error.h"
#include "twin/acl/runtime/runtime.h"

using twin::Fail;
using twin::FailNull;
using twin::Text;

namespace {

// ASCEND_GLOBAL_LOG_LEVEL: 0 debug, 1 info, 2 warning, 3 error (the default), 4 nothing.
int LowestLevelShown() {
  static const int level = [] {
    const char* text = std::getenv("ASCEND_GLOBAL_LOG_LEVEL");
    return text == nullptr || *text < '0' || *text > '4' ? static_cast<int>(ACL_ERROR) : *text - '0';
  }();
  return level;
}

std::atomic<bool> dumping{false};

constexpr std::array<aclCannAttr, 3> kAttributes = {ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16,
                                                    ACL_CANN_ATTR_JIT_COMPILE};

}  // namespace

void aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line, const char* fmt, ...) {
  if (static_cast<int>(logLevel) < LowestLevelShown() || fmt == nullptr) return;
  constexpr const char* kNames[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
  const char* name = logLevel >= ACL_DEBUG && logLevel <= ACL_ERROR ? kNames[logLevel] : "ERROR";
  char text[1024];
  va_list arguments;
  va_start(arguments, fmt);
  std::vsnprintf(text, sizeof text, fmt, arguments);
  va_end(arguments);
  std::fprintf(stderr, "[%s] APP %s:%u %s: %s\n", name, file == nullptr ? "" : file, line, func == nullptr ? "" : func,
               text);
}

aclError aclmdlInitDump() {
  TWIN_TRY(twin::RequireInit(__func__));
  if (dumping.exchange(true)) return Fail(ACL_ERROR_DUMP_ALREADY_RUN, __func__, "called a second time");
  return ACL_SUCCESS;
}

aclError aclmdlSetDump(const char* dumpCfgPath) {
  if (dumpCfgPath == nullptr) return FailNull(__func__, "dumpCfgPath");
  if (!dumping) return Fail(ACL_ERROR_DUMP_NOT_RUN, __func__, "called before aclmdlInitDump");
  if (std::ifstream(dumpCfgPath)) return ACL_SUCCESS;
  return Fail(ACL_ERROR_INVALID_FILE, __func__, Text("the file '", dumpCfgPath, "' cannot be read"));
}

aclError aclmdlFinalizeDump() {
  if (!dumping.exchange(false)) return Fail(ACL_ERROR_DUMP_NOT_RUN, __func__, "called before aclmdlInitDump");
  return ACL_SUCCESS;
}

aclError aclGetCannAttributeList(const aclCannAttr** cannAttrList, size_t* num) {
  if (cannAttrList == nullptr) return FailNull(__func__, "cannAttrList");
  if (num == nullptr) return FailNull(__func__, "num");
  *cannAttrList = kAttributes.data();
  *num = kAttributes.size();
  return ACL_SUCCESS;
}

aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t* value) {
  if (value == nullptr) return FailNull(__func__, "value");
  switch (cannAttr) {
    case ACL_CANN_ATTR_INF_NAN:
    case ACL_CANN_ATTR_BF16:
      *value = 1;
      return ACL_SUCCESS;
    case ACL_CANN_ATTR_JIT_COMPILE:
      *value = 0;
      return ACL_SUCCESS;
    case ACL_CANN_ATTR_UNDEFINED:
      break;
  }
  return Fail(ACL_ERROR_INVALID_PARAM, __func__, Text("unknown attribute ", static_cast<int>(cannAttr)));
}
