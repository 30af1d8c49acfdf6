// Dispatches the kinds of operations; handles the group of one, whose collectives are copies.
#include <cstring>

#include "twin/hccl/data_path/collective.h"
#include "twin/hccl/data_path/data_path.h"
#include "twin/hccl/data_path/p2p.h"
#include "twin/hccl/data_path/waiter.h"

namespace twin {
namespace {

void RunAlone(const Operation& operation) {
  const size_t bytes = RecvExtent(operation, 0, 1);
  Block from{0, bytes}, to{0, bytes};
  if (operation.kind != OperationKind::kAllReduce && operation.kind != OperationKind::kReduce) {
    from = SendBlock(operation, 0, 0);
    to = RecvBlock(operation, 0, 0);
  }
  if (bytes == 0 || to.bytes == 0) return;
  std::memmove(static_cast<std::byte*>(operation.recv) + to.offset,
               static_cast<const std::byte*>(operation.send) + from.offset, to.bytes);
}

// Nothing moves on a socket between operations, so what others wait for must be sent before this one ends.
void FlushRemote(DataPath& path, const Operation& operation) {
  Waiter waiter(path, operation);
  while (!path.Unflushed().empty()) waiter.Pause([&path] { return path.Unflushed(); });
}

}  // namespace

void RunOperation(DataPath& path, const Operation& operation) {
  if (IsPointToPoint(operation.kind)) {
    RunPointToPoint(path, operation);
  } else if (path.group().size == 1) {
    RunAlone(operation);
  } else {
    RunCollective(path, operation);
  }
  FlushRemote(path, operation);
}

}  // namespace twin
