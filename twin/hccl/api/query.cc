// HCCL's functions that query or configure a communicator or the library, and those that the twin answers
// with HCCL_E_NOT_SUPPORT because they concern hardware it does not have.
#include <cstdio>

#include "hccl/hccl.h"
#include "twin/hccl/failure.h"
#include "twin/hccl/membership/config.h"
#include "twin/hccl/membership/registry.h"

using namespace twin;

namespace {

void CheckConfigKey(HcclConfig config) {
  if (config == HCCL_DETERMINISTIC) return;
  throw HcclFailure(HCCL_E_NOT_SUPPORT, "config " + std::to_string(config) + "; only HCCL_DETERMINISTIC (0) exists");
}

HcclResult NotSupported(const char* function, HcclComm comm, const char* why) {
  return Answer(function, [&] {
    NeedGroup(comm);
    throw HcclFailure(HCCL_E_NOT_SUPPORT, why);
  });
}

constexpr const char* kNoMemoryRanges =
    "the twin's communicators access all device memory without registration; pass the buffers directly";

}  // namespace

extern "C" {

HcclResult HcclGetCommName(HcclComm commHandle, char* commName) {
  return Answer(__func__, [&] {
    NeedPointer(commName, "commName");
    std::snprintf(commName, COMM_NAME_MAX_LENGTH, "%s", NeedGroup(commHandle).name.c_str());
  });
}

HcclResult HcclGetRankId(HcclComm comm, uint32_t* rank) {
  return Answer(__func__, [&] {
    NeedPointer(rank, "rank");
    *rank = NeedGroup(comm).rank;
  });
}

HcclResult HcclGetRankSize(HcclComm comm, uint32_t* rankSize) {
  return Answer(__func__, [&] {
    NeedPointer(rankSize, "rankSize");
    *rankSize = NeedGroup(comm).size;
  });
}

HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult* asyncError) {
  return Answer(__func__, [&] {
    NeedPointer(asyncError, "asyncError");
    const Group& group = NeedGroup(comm);
    *asyncError = group.failure();
    // Record the text for the calling thread too: another thread recorded the failure itself.
    if (*asyncError != HCCL_SUCCESS) SetRecentError("communicator " + group.name + ": " + group.failure_text());
  });
}

HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue) {
  return Answer(__func__, [&] {
    CheckConfigKey(config);
    if (configValue.value != 0 && configValue.value != 1) {
      throw HcclFailure(HCCL_E_PARA, "HCCL_DETERMINISTIC is " + std::to_string(configValue.value) + "; wanted 0 or 1");
    }
    SetProcessDeterministic(configValue.value == 1);
  });
}

HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue* configValue) {
  return Answer(__func__, [&] {
    CheckConfigKey(config);
    NeedPointer(configValue, "configValue");
    configValue->value = Resolve(ReadSettings(), nullptr).options.deterministic ? 1 : 0;
  });
}

uint32_t HcclGetCommConfigCapability() { return HCCL_COMM_CONFIG_RESERVED; }

const char* HcclGetErrorString(HcclResult code) {
  static constexpr const char* kTexts[] = {
      "success",
      "wrong parameter",
      "null pointer",
      "out of memory",
      "internal error",
      "not supported",
      "not found",
      "resource unavailable",
      "system call failed",
      "time-out",
      "file cannot be opened",
      "TCP connection failed",
      "RoCE connection failed",
      "TCP transfer failed",
      "RoCE transfer failed",
      "runtime call failed",
      "driver call failed",
      "profiling call failed",
      "CCE call failed",
      "network call failed",
      "busy, try again",
      "a remote rank failed",
  };
  const auto index = static_cast<size_t>(code);
  return index < std::size(kTexts) ? kTexts[index] : "unknown HcclResult";
}

HcclResult HcclCommResume(HcclComm comm) {
  return Answer(__func__, [&] {
    const Group& group = NeedGroup(comm);
    if (group.failure() == HCCL_SUCCESS) return;
    throw HcclFailure(HCCL_E_NOT_SUPPORT, "communicator " + group.name + " has failed (" + group.failure_text() +
                                              ") and cannot be resumed; destroy it and create a new one");
  });
}

HcclResult HcclCommSuspend(HcclComm comm) {
  return NotSupported(__func__, comm, "the twin's communicators cannot be suspended; destroy them and create new ones");
}

HcclResult HcclCommWorkingDevNicSet(HcclComm comm, uint32_t* ranks, bool* useBackup, uint32_t nRanks) {
  return NotSupported(__func__, comm, "the twin has no device network cards to switch between");
}

HcclResult HcclCommSetMemoryRange(HcclComm comm, void* baseVirPtr, size_t size, size_t alignment, uint64_t flags) {
  return NotSupported(__func__, comm, kNoMemoryRanges);
}

HcclResult HcclCommUnsetMemoryRange(HcclComm comm, void* baseVirPtr) {
  return NotSupported(__func__, comm, kNoMemoryRanges);
}

HcclResult HcclCommActivateCommMemory(HcclComm comm, void* virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                                      uint64_t flags) {
  return NotSupported(__func__, comm, kNoMemoryRanges);
}

HcclResult HcclCommDeactivateCommMemory(HcclComm comm, void* virPtr) {
  return NotSupported(__func__, comm, kNoMemoryRanges);
}

}  // extern "C"
