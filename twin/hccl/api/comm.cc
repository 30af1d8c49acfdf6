// HCCL's functions that create and destroy communicators. The work is done in join, subcomm and control; here
// are only the argument checks and the C interface.
#include <set>
#include <thread>

#include "hccl/hccl.h"
#include "twin/acl/internal.h"
#include "twin/common/backoff.h"
#include "twin/hccl/failure.h"
#include "twin/hccl/membership/config.h"
#include "twin/hccl/membership/control.h"
#include "twin/hccl/membership/join.h"
#include "twin/hccl/membership/registry.h"
#include "twin/hccl/membership/rendezvous.h"
#include "twin/hccl/membership/subcomm.h"

namespace twin {
namespace {

constexpr uint64_t kNotAMember = 0xFFFFFFFF;

void InitRootInfo(uint32_t size, const HcclRootInfo* root_info, uint32_t rank, const HcclCommConfig* config,
                  HcclComm* comm) {
  NeedPointer(root_info, "rootInfo");
  NeedPointer(comm, "comm");
  const Settings settings = ReadSettings();
  const CommSettings given = Resolve(settings, config);
  JoinRequest request;
  request.rank = rank;
  request.size = size;
  request.name = given.name;
  request.options = given.options;
  *comm = Join(DecodeRootInfo(*root_info), request, settings);
}

[[noreturn]] void NoClusterInfo(const char* path) {
  throw HcclFailure(HCCL_E_NOT_SUPPORT,
                    "rank table files ('" + std::string(path == nullptr ? "" : path) +
                        "') are not supported by the twin; use HcclGetRootInfo and HcclCommInitRootInfo");
}

void CheckDevices(uint32_t count, const int32_t* devices) {
  NeedPointer(devices, "devices");
  if (count == 0) throw HcclFailure(HCCL_E_PARA, "ndev is 0; wanted 1 or more");
  uint32_t present = 0;
  aclrtGetDeviceCount(&present);
  std::set<int32_t> seen;
  for (uint32_t index = 0; index < count; ++index) {
    if (devices[index] < 0 || static_cast<uint32_t>(devices[index]) >= present) {
      throw HcclFailure(HCCL_E_PARA, "device " + std::to_string(devices[index]) + " does not exist; this host has " +
                                         std::to_string(present));
    }
    if (!seen.insert(devices[index]).second) {
      throw HcclFailure(HCCL_E_PARA, "device " + std::to_string(devices[index]) + " is given twice");
    }
  }
}

// One rank on its own thread, for HcclCommInitAll.
void InitOnDevice(int32_t device, uint32_t size, const RootInfo& root, uint32_t rank, HcclComm* comm) {
  if (aclrtSetDevice(device) != ACL_SUCCESS) {
    throw HcclFailure(HCCL_E_RUNTIME, "device " + std::to_string(device) + " cannot be selected (aclrtSetDevice)");
  }
  HcclRootInfo bytes;
  EncodeRootInfo(root, &bytes);
  InitRootInfo(size, &bytes, rank, nullptr, comm);
}

HcclResult InitAll(uint32_t count, const int32_t* devices, HcclComm* comms) {
  const RootInfo root = StartRendezvous(ReadSettings());
  std::vector<HcclResult> results(count, HCCL_SUCCESS);
  {
    std::vector<std::jthread> threads;
    for (uint32_t rank = 0; rank < count; ++rank) {
      threads.emplace_back([&, rank] {
        results[rank] =
            Answer("HcclCommInitAll", [&] { InitOnDevice(devices[rank], count, root, rank, &comms[rank]); });
      });
    }
  }
  for (const HcclResult result : results) {
    if (result != HCCL_SUCCESS) return result;
  }
  return HCCL_SUCCESS;
}

// Operations of a failed communicator finish by themselves, but not at once.
bool Idle(const Group& group) {
  const Deadline deadline = After(5);
  Backoff backoff;
  while (group.in_flight.load(std::memory_order_acquire) != 0) {
    if (group.failure() == HCCL_SUCCESS || After(0) > deadline) return false;
    backoff.Pause();
  }
  return true;
}

void Destroy(HcclComm comm) {
  Group& group = NeedGroup(comm);
  if (!Idle(group)) {
    throw HcclFailure(HCCL_E_AGAIN, "communicator " + group.name + " has " + std::to_string(group.in_flight.load()) +
                                        " operations queued or running; synchronise their streams first");
  }
  const std::shared_ptr<Group> owner = Unregister(comm);
  if (owner == nullptr) throw HcclFailure(HCCL_E_PARA, "this communicator has just been destroyed by another thread");
  Leave(*owner);
}

void CreateSub(HcclComm* comm, uint32_t count, const uint32_t* ranks, uint64_t id, uint32_t rank,
               const HcclCommConfig* config, HcclComm* sub) {
  NeedPointer(comm, "comm");
  NeedPointer(sub, "subComm");
  Group& parent = NeedGroup(*comm);
  *sub = nullptr;
  if (ranks == nullptr && id == kNotAMember) return;
  NeedPointer(ranks, "rankIds of a member (others pass subCommId 0xFFFFFFFF)");
  NeedPointer(config, "config");
  if (id == kNotAMember) throw HcclFailure(HCCL_E_PARA, "subCommId 0xFFFFFFFF is for ranks that are not members");
  if (count == 0 || count > parent.size) {
    throw HcclFailure(HCCL_E_PARA,
                      "rankNum is " + std::to_string(count) + "; wanted 1 to " + std::to_string(parent.size));
  }
  const Settings settings = ReadSettings();
  const SubCommRequest request{std::vector<uint32_t>(ranks, ranks + count), id, rank};
  *sub = JoinSubComm(parent, request, Resolve(settings, config), settings);
}

}  // namespace
}  // namespace twin

using namespace twin;

extern "C" {

HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo) {
  return Answer(__func__, [&] {
    NeedPointer(rootInfo, "rootInfo");
    NeedDevice();
    EncodeRootInfo(StartRendezvous(ReadSettings()), rootInfo);
  });
}

HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank, HcclComm* comm) {
  return Answer(__func__, [&] { InitRootInfo(nRanks, rootInfo, rank, nullptr, comm); });
}

HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
                                      HcclCommConfig* config, HcclComm* comm) {
  return Answer(__func__, [&] {
    NeedPointer(config, "config");
    InitRootInfo(nRanks, rootInfo, rank, config, comm);
  });
}

HcclResult HcclCommInitClusterInfo(const char* clusterInfo, uint32_t rank, HcclComm* comm) {
  return Answer(__func__, [&] { NoClusterInfo(clusterInfo); });
}

HcclResult HcclCommInitClusterInfoConfig(const char* clusterInfo, uint32_t rank, HcclCommConfig* config,
                                         HcclComm* comm) {
  return Answer(__func__, [&] { NoClusterInfo(clusterInfo); });
}

HcclResult HcclCommInitAll(uint32_t ndev, int32_t* devices, HcclComm* comms) {
  HcclResult result = HCCL_SUCCESS;
  const HcclResult answer = Answer(__func__, [&] {
    CheckDevices(ndev, devices);
    NeedPointer(comms, "comms");
    result = InitAll(ndev, devices, comms);
  });
  return answer == HCCL_SUCCESS ? result : answer;
}

HcclResult HcclCreateSubCommConfig(HcclComm* comm, uint32_t rankNum, uint32_t* rankIds, uint64_t subCommId,
                                   uint32_t subCommRankId, HcclCommConfig* config, HcclComm* subComm) {
  return Answer(__func__, [&] { CreateSub(comm, rankNum, rankIds, subCommId, subCommRankId, config, subComm); });
}

HcclResult HcclCommDestroy(HcclComm comm) {
  return Answer(__func__, [&] { Destroy(comm); });
}

}  // extern "C"
