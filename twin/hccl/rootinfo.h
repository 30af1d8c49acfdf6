// What HcclRootInfo's bytes say: where the rendezvous of one communicator listens, its random id, and the secret
// that its members prove to each other. The id may be shown; the secret travels only in the root info, which
// programs hand around among themselves.
#pragma once

#include <cstdint>
#include <string>

#include "hccl/hccl.h"

namespace twin {

struct RootInfo {
  std::string id;    // random; also names the communicator to its members
  std::string host;  // the root's HostIdentity(), for error texts
  std::string address;
  uint16_t port = 0;
  std::string secret;  // net::kSecretBytes

  // The name of a communicator whose members gave it none.
  std::string DefaultName() const;
};

void EncodeRootInfo(const RootInfo& info, HcclRootInfo* bytes);

// Throws HCCL_E_PARA for bytes that EncodeRootInfo did not make, such as a root info that was never
// broadcast.
RootInfo DecodeRootInfo(const HcclRootInfo& bytes);

}  // namespace twin
