// The environment variables that HCCL reads, with their ranges. Nothing here opens a socket or looks at a
// device.
#pragma once

#include <cstdint>
#include <string>

namespace twin {

struct Settings {
  double connect_timeout_s = 120;  // HCCL_CONNECT_TIMEOUT
  double exec_timeout_s = 1836;    // HCCL_EXEC_TIMEOUT, 0: no limit
  uint32_t buffer_mb = 200;        // HCCL_BUFFSIZE
  bool deterministic = false;      // HCCL_DETERMINISTIC
  std::string interface_address;   // HCCL_IF_IP, empty: unset
  std::string interface_names;     // HCCL_SOCKET_IFNAME, empty: unset
  uint16_t base_port = 60000;      // HCCL_IF_BASE_PORT, first of kPortCount
  bool one_host = false;           // TWIN_HCCL_ONE_HOST=1: the launcher guarantees one host
  bool tcp_only = false;           // TWIN_HCCL_TRANSPORT=tcp: treats other processes as remote hosts
};

constexpr uint16_t kPortCount = 32;

// Throws HcclFailure (HCCL_E_PARA) that names the variable, its value and the range.
Settings ReadSettings();

}  // namespace twin
