#include "core/device/cann_info.h"

#include <dlfcn.h>

#include <cstdint>

#include "acl/acl.h"
#include "core/device/acl_call.h"

namespace trireme {

// Each substitute library exports a symbol that only it has.
std::string CannProvider() {
  if (dlsym(RTLD_DEFAULT, "TwinVersion") != nullptr) return "twin";
  return dlsym(RTLD_DEFAULT, "CudaProviderError") != nullptr ? "cuda" : "ascend";
}

CannInfo QueryCann() {
  CannInfo info;
  info.provider = CannProvider();
  const char* soc_name = aclrtGetSocName();
  info.soc_name = soc_name == nullptr ? "" : soc_name;
  int32_t major = 0;
  int32_t minor = 0;
  int32_t patch = 0;
  AclCall(aclrtGetVersion(&major, &minor, &patch), "aclrtGetVersion");
  info.acl_version = Concat(major, ".", minor, ".", patch);
  aclCANNPackageVersion package = {};
  if (aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &package) == ACL_SUCCESS) info.cann_version = package.version;
  info.twin = info.provider == "twin";
  return info;
}

std::string LibraryOf(const void* function) {
  Dl_info info = {};
  if (dladdr(function, &info) == 0 || info.dli_fname == nullptr) return "unknown";
  return info.dli_fname;
}

std::string AclLibrary() { return LibraryOf(reinterpret_cast<const void*>(&aclInit)); }

}  // namespace trireme
