#include "launch/version.h"

#include <H5public.h>
#include <google/protobuf/message.h>

#include "core/base/error.h"

namespace trireme {

extern const char* const kCommit;  // of commit.cc, which write_commit.cmake writes

std::string VersionText() {
  const std::string torch = TRIREME_TORCH_LINKED;
  return Concat(TRIREME_VERSION, " (", kCommit, "; ", TRIREME_CANN_KIND, "; ",
                torch.empty() ? "without torch" : "torch " + torch, ", HDF5 ", H5_VERS_MAJOR, ".", H5_VERS_MINOR, ".",
                H5_VERS_RELEASE, ", Protobuf ", google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION),
                ")");
}

}  // namespace trireme
