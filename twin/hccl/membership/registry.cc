// One table per process. Never destroyed, since communicators may outlive static destruction.
#include "twin/hccl/membership/registry.h"

#include <map>
#include <mutex>
#include <set>

#include "twin/hccl/failure.h"
#include "twin/hccl/membership/membership.h"

namespace twin {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<HcclComm, std::shared_ptr<Group>> groups;
  std::set<int> devices_in_turn;
};

Registry& TheRegistry() {
  static Registry& registry = *new Registry;
  return registry;
}

}  // namespace

void Register(const std::shared_ptr<Group>& group) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.groups[group.get()] = group;
}

std::shared_ptr<Group> Unregister(HcclComm comm) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  const auto found = registry.groups.find(comm);
  if (found == registry.groups.end()) return nullptr;
  std::shared_ptr<Group> group = found->second;
  registry.groups.erase(found);
  return group;
}

std::shared_ptr<Group> FindMember(const std::string& id, uint32_t rank) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  for (const auto& [handle, group] : registry.groups) {
    if (group->rank == rank && group->membership->id == id) return group;
  }
  return nullptr;
}

Group* FindGroup(HcclComm comm) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  const auto found = registry.groups.find(comm);
  return found == registry.groups.end() ? nullptr : found->second.get();
}

Group& NeedGroup(HcclComm comm) {
  if (comm == nullptr) throw HcclFailure(HCCL_E_PTR, "the communicator is a null handle");
  Group* group = FindGroup(comm);
  if (group == nullptr) {
    throw HcclFailure(HCCL_E_PARA, "the handle is not a live communicator; it was destroyed or never created");
  }
  return *group;
}

DeviceTurn::DeviceTurn(int device) : device_(device) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  if (!registry.devices_in_turn.insert(device).second) {
    throw HcclFailure(HCCL_E_UNAVAIL, "another thread is creating a communicator on device " + std::to_string(device) +
                                          "; communicators of one device must be created one after the other");
  }
}

DeviceTurn::~DeviceTurn() {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.devices_in_turn.erase(device_);
}

}  // namespace twin
