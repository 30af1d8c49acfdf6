// Which CANN this program runs on: Huawei's, the twin, or the one over CUDA, which version, from which
// library file. Facts for printing and for choosing a device only; no handle and no state.
#pragma once

#include <string>

namespace trireme {

struct CannInfo {
  std::string provider;      // as returned by CannProvider()
  bool twin = false;         // the host stand-in, not Huawei's CANN
  std::string soc_name;      // "Ascend910B1", "NVIDIA H200"
  std::string acl_version;   // "1.14.0"
  std::string cann_version;  // of the installed package; empty if unknown
};

// Whose ACL and HCCL are in this process: "ascend", "twin" or "cuda", as TRIREME_CANN chose at build time.
std::string CannProvider();

// Requires a current device (Device).
CannInfo QueryCann();

// The shared library that holds `function` (any function of it), with its full path.
std::string LibraryOf(const void* function);
// The library that holds ACL.
std::string AclLibrary();

}  // namespace trireme
