// The steps of joining, and their rollback if one fails.
#include "twin/hccl/membership/join.h"

#include <unistd.h>

#include "twin/acl/internal.h"
#include "twin/hccl/membership/control.h"
#include "twin/hccl/membership/identity.h"
#include "twin/hccl/membership/membership.h"
#include "twin/hccl/membership/mesh.h"
#include "twin/hccl/membership/monitor.h"
#include "twin/hccl/membership/registry.h"
#include "twin/hccl/membership/rendezvous.h"
#include "twin/hccl/wire/interfaces.h"

namespace twin {
namespace {

std::shared_ptr<Group> NewGroup(const RootInfo& root, const JoinRequest& request, int device) {
  auto group = std::make_shared<Group>();
  group->rank = request.rank;
  group->name = request.name.empty() ? root.DefaultName() : request.name;
  group->device = device;
  aclrtGetCurrentContext(&group->context);
  group->is_global = request.is_global;
  group->options = request.options;
  group->membership = std::make_unique<Membership>();
  group->membership->id = root.id;
  group->membership->secret = root.secret;
  return group;
}

MemberInfo Introduction(const Group& group, const Settings& settings) {
  MemberInfo self;
  self.rank = group.rank;
  self.host = HostIdentity();
  self.process = ProcessIdentity();
  self.memory = settings.tcp_only ? self.host + "/" + self.process : self.host;
  self.process_id = getpid();
  self.device = group.device;
  // Every user can list these names, so they reveal nothing about the communicator. Each member has its own
  // number: two that claim the same rank must both reach the rendezvous.
  self.unix_name = "twin-hccl-" + RandomId();
  self.address = ChooseAddress(settings, ListInterfaces());
  return self;
}

Hello HelloOf(const JoinRequest& request) {
  Hello hello;
  hello.size = request.size;
  hello.timeout_s = request.options.connect_timeout_s;
  hello.agreement = "hcclBufferSize " + std::to_string(request.options.buffer_mb) + " MB, hcclDeterministic " +
                    std::to_string(request.options.deterministic) + ", name '" + request.name + "'" + request.agreement;
  return hello;
}

void Connect(const std::shared_ptr<Group>& group, const std::vector<MemberInfo>& table,
             const MemberListeners& listeners, RendezvousClient& rendezvous) {
  Membership& membership = *group->membership;
  group->SetSize(static_cast<uint32_t>(table.size()));
  const size_t buffer_bytes = size_t{2} * group->options.buffer_mb << 20;
  membership.charge = std::make_unique<MemoryCharge>(group->device, buffer_bytes);
  Mesh(*group, table, listeners, rendezvous).Build(After(group->options.connect_timeout_s));
  for (const Peer& peer : group->peers) {
    const Fd& socket = membership.control[peer.rank];
    if (socket.valid()) Monitor::Get().Watch(group.get(), peer.rank, socket.get());
  }
}

}  // namespace

int NeedDevice() {
  const int device = CurrentDevice();
  if (device < 0) {
    throw HcclFailure(HCCL_E_RUNTIME, "this thread has no device; call aclrtSetDevice before creating a communicator");
  }
  return device;
}

HcclComm Join(const RootInfo& root, const JoinRequest& request, const Settings& settings) {
  if (request.size == 0) throw HcclFailure(HCCL_E_PARA, "nRanks is 0; a communicator has at least one rank");
  const int device = NeedDevice();
  const DeviceTurn turn(device);
  const std::shared_ptr<Group> group = NewGroup(root, request, device);
  Hello hello = HelloOf(request);
  hello.member = Introduction(*group, settings);

  // Connect before anything listens here: the port of a finished rendezvous must not become our own.
  RendezvousClient rendezvous(root, request.options.connect_timeout_s);
  MemberListeners listeners;
  listeners.tcp_socket = ListenTcp(hello.member.address, settings.base_port, &hello.member.port);
  listeners.unix_socket = ListenUnix(hello.member.unix_name);
  const std::vector<MemberInfo> table = rendezvous.Join(hello);
  try {
    Connect(group, table, listeners, rendezvous);
    Register(group);
    rendezvous.Complete();
  } catch (const std::exception& failure) {
    rendezvous.Withdraw(failure.what());
    Unregister(group.get());
    Monitor::Get().Forget(group.get());
    throw;
  }
  return group.get();
}

}  // namespace twin
