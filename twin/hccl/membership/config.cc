// Parses HcclCommConfig without trusting its length.
#include "twin/hccl/membership/config.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "twin/hccl/failure.h"

namespace twin {
namespace {

// The header of HcclCommConfig, inside its `reserved` bytes.
struct ConfigHead {
  size_t size;
  uint32_t magic;
  uint32_t version;
};

std::atomic<int> process_deterministic{-1};  // -1: unset

// The config, with defaults for the fields that the caller's version lacks.
HcclCommConfig KnownPart(const HcclCommConfig* config) {
  ConfigHead head;
  std::memcpy(&head, config->reserved, sizeof(head));
  if (head.magic != HCCL_COMM_CONFIG_MAGIC_WORD) {
    char found[16];
    std::snprintf(found, sizeof(found), "%#x", head.magic);
    throw HcclFailure(HCCL_E_PARA, std::string("HcclCommConfig has the magic word ") + found +
                                       "; wanted 0xf0f0f0f0: call HcclCommConfigInit on it first");
  }
  if (head.size < offsetof(HcclCommConfig, hcclBufferSize)) {
    throw HcclFailure(HCCL_E_PARA, "HcclCommConfig claims to have " + std::to_string(head.size) +
                                       " bytes; its header alone has " +
                                       std::to_string(offsetof(HcclCommConfig, hcclBufferSize)));
  }
  HcclCommConfig known;
  std::memset(&known, 0, sizeof(known));
  HcclCommConfigInit(&known);
  std::memcpy(&known, config, std::min(head.size, sizeof(known)));
  return known;
}

}  // namespace

CommSettings Resolve(const Settings& settings, const HcclCommConfig* config) {
  CommSettings resolved;
  resolved.options.buffer_mb = settings.buffer_mb;
  resolved.options.deterministic = ProcessDeterministic().value_or(settings.deterministic);
  resolved.options.connect_timeout_s = settings.connect_timeout_s;
  resolved.options.exec_timeout_s = settings.exec_timeout_s;
  if (config == nullptr) return resolved;

  const HcclCommConfig known = KnownPart(config);
  if (known.hcclBufferSize == 0) throw HcclFailure(HCCL_E_PARA, "hcclBufferSize is 0 MB; wanted 1 or more");
  if (known.hcclDeterministic > 1) {
    throw HcclFailure(HCCL_E_PARA,
                      "hcclDeterministic is " + std::to_string(known.hcclDeterministic) + "; wanted 0 or 1");
  }
  const size_t length = strnlen(known.hcclCommName, sizeof(known.hcclCommName));
  if (length == sizeof(known.hcclCommName)) {
    throw HcclFailure(HCCL_E_PARA, "hcclCommName is not null-terminated within its 128 bytes");
  }
  resolved.options.buffer_mb = known.hcclBufferSize;
  resolved.options.deterministic = known.hcclDeterministic != 0;
  resolved.name.assign(known.hcclCommName, length);
  return resolved;
}

void SetProcessDeterministic(bool on) { process_deterministic.store(on); }

std::optional<bool> ProcessDeterministic() {
  const int value = process_deterministic.load();
  if (value < 0) return std::nullopt;
  return value != 0;
}

}  // namespace twin
