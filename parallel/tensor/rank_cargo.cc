#include "parallel/tensor/rank_cargo.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

// As bytes: one message has tensors of several types.
at::Tensor BytesOf(const at::Tensor& view) { return view.contiguous().view({-1}).view(at::kByte); }
int64_t SizeOf(const at::Tensor& tensor) { return tensor.numel() * static_cast<int64_t>(tensor.element_size()); }

at::Tensor Joined(const std::vector<at::Tensor>& parts) {
  std::vector<at::Tensor> bytes;
  for (const at::Tensor& part : parts) bytes.push_back(BytesOf(part));
  return at::cat(bytes);
}

int64_t TotalOf(const std::vector<at::Tensor>& parts) {
  int64_t bytes = 0;
  for (const at::Tensor& part : parts) bytes += SizeOf(part);
  return bytes;
}

void Unload(const at::Tensor& message, const std::vector<at::Tensor>& targets) {
  int64_t offset = 0;
  for (const at::Tensor& target : targets) {
    const at::Tensor bytes = message.narrow(0, offset, SizeOf(target)).clone();  // aligned for its type
    target.copy_(bytes.view(target.scalar_type()).view(target.sizes()));
    offset += SizeOf(target);
  }
}

}  // namespace

void Exchange(const RankCargo& cargo, Communicator& group, at::Device device) {
  std::vector<Transfer> transfers;
  std::vector<at::Tensor> buffers;
  std::map<int, at::Tensor> arriving;
  const auto add = [&](Transfer::Direction direction, int peer, const at::Tensor& bytes) {
    if (bytes.numel() == 0) return;  // the other rank knows the sizes, too
    buffers.push_back(bytes);
    transfers.push_back({direction, peer, bytes.data_ptr(), static_cast<size_t>(bytes.numel())});
  };
  for (const auto& [peer, parts] : cargo.sent) add(Transfer::Direction::kSend, peer, Joined(parts));
  for (const auto& [peer, targets] : cargo.received) {
    arriving[peer] = at::empty({TotalOf(targets)}, at::TensorOptions(at::kByte).device(device));
    add(Transfer::Direction::kReceive, peer, arriving[peer]);
  }
  if (transfers.empty()) return;
  Pending(group.BatchSendReceive(transfers, DType::kUint8), buffers).Wait();
  for (const auto& [peer, targets] : cargo.received) Unload(arriving.at(peer), targets);
}

}  // namespace trireme
