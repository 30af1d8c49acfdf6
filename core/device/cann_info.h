// What CANN this program runs on: Huawei's, the twin, or the one over CUDA, which version, from which library
// file. Only facts to print and to choose a device by; no handle and no state.
#pragma once

#include <string>

namespace trireme {

struct CannInfo {
  std::string provider;      // as CannProvider() says
  bool twin = false;         // the host stand-in, not Huawei's CANN
  std::string soc_name;      // "Ascend910B1", "NVIDIA H200"
  std::string acl_version;   // "1.14.0"
  std::string cann_version;  // of the installed package; empty where it does not say
};

// Whose ACL and HCCL are in this process: "ascend", "twin" or "cuda", as TRIREME_CANN chose at build time.
std::string CannProvider();

// Needs a device to be set (Device).
CannInfo QueryCann();

// The shared library that holds `function` (any function of it), with its full path.
std::string LibraryOf(const void* function);
// Where ACL itself comes from.
std::string AclLibrary();

}  // namespace trireme
