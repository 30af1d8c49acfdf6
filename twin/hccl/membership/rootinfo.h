// The contents of HcclRootInfo: where the rendezvous of one communicator listens, its random id, and the
// secret that its members prove to each other. The id may be shown; the secret travels only in the root info,
// which programs broadcast among themselves.
#pragma once

#include <cstdint>
#include <string>

#include "hccl/hccl.h"

namespace twin {

struct RootInfo {
  std::string id;    // random; also identifies the communicator to its members
  std::string host;  // the root's HostIdentity(), for error messages
  std::string address;
  uint16_t port = 0;
  std::string secret;  // net::kSecretBytes

  // The default name of a communicator.
  std::string DefaultName() const;
};

void EncodeRootInfo(const RootInfo& info, HcclRootInfo* bytes);

// Throws HCCL_E_PARA for bytes that EncodeRootInfo did not produce, such as a root info that was never
// broadcast.
RootInfo DecodeRootInfo(const HcclRootInfo& bytes);

}  // namespace twin
