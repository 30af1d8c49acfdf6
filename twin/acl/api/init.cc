// aclInit, aclFinalize, versions, the SoC name. Once per process, as in ACL.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string_view>

#include "acl/acl.h"
#include "twin/acl/runtime/error.h"
#include "twin/acl/runtime/runtime.h"
#include "twin/acl/runtime/settings.h"

using twin::Fail;
using twin::FailNull;
using twin::Runtime;
using twin::Text;

aclError aclInit(const char* configPath) {
  Runtime& runtime = Runtime::Get();
  if (configPath != nullptr && *configPath != '\0' && !std::ifstream(configPath)) {
    return Fail(ACL_ERROR_INVALID_FILE, __func__, Text("the configuration file '", configPath, "' cannot be read"));
  }
  if (runtime.initialized.exchange(true)) {
    return Fail(ACL_ERROR_REPEAT_INITIALIZE, __func__, "called a second time; a process may call it only once");
  }
  return ACL_SUCCESS;
}

aclError aclFinalize() {
  Runtime& runtime = Runtime::Get();
  if (!runtime.initialized) return Fail(ACL_ERROR_UNINITIALIZE, __func__, "called before aclInit");
  if (runtime.finalized.exchange(true)) return Fail(ACL_ERROR_REPEAT_FINALIZE, __func__, "called a second time");
  for (const auto& [handle, context] : runtime.contexts.All()) runtime.DropContext(context);
  return ACL_SUCCESS;
}

aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion) {
  if (majorVersion == nullptr) return FailNull(__func__, "majorVersion");
  if (minorVersion == nullptr) return FailNull(__func__, "minorVersion");
  if (patchVersion == nullptr) return FailNull(__func__, "patchVersion");
  *majorVersion = ACL_MAJOR_VERSION;
  *minorVersion = ACL_MINOR_VERSION;
  *patchVersion = ACL_PATCH_VERSION;
  return ACL_SUCCESS;
}

const char* aclrtGetSocName() { return twin::kSocName; }

// The release whose behaviour the twin follows, the same for every package.
aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion* version) {
  if (version == nullptr) return FailNull(__func__, "version");
  if (name < ACL_PKG_NAME_CANN || name > ACL_PKG_NAME_DRIVER) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, Text("unknown package ", static_cast<int>(name)));
  }
  std::memset(version, 0, sizeof *version);
  const auto set = [](auto& field, std::string_view text) {
    std::snprintf(field, sizeof field, "%.*s", static_cast<int>(text.size()), text.data());
  };
  const size_t minor = twin::kCannVersion.find('.') + 1, release = twin::kCannVersion.find('.', minor) + 1;
  set(version->version, twin::kCannVersion);
  set(version->majorVersion, twin::kCannVersion.substr(0, minor - 1));
  set(version->minorVersion, twin::kCannVersion.substr(minor, release - minor - 1));
  set(version->releaseVersion, twin::kCannVersion.substr(release));
  set(version->patchVersion, "");
  return ACL_SUCCESS;
}

// Marks this library as the twin for programs that look the symbol up (dlsym): CANN's library does not have
// it.
extern "C" ACL_FUNC_VISIBILITY const char* TwinVersion() { return "0.1.0"; }
