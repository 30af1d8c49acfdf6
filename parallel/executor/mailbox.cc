#include "parallel/executor/mailbox.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/dtype.h"

namespace trireme {

Mailbox::Address Mailbox::AddressOf(const Action& message) {
  const bool forward = message.kind == ActionKind::kSendForward || message.kind == ActionKind::kRecvForward;
  return {forward ? Kind::kActivation : Kind::kGradient, message.chunk, message.micro_batch};
}

void Mailbox::PutOut(const Address& from, at::Tensor tensor) { out_[from] = tensor.contiguous(); }

void Mailbox::PutIn(const Address& to, at::Tensor tensor) { in_[to] = {std::move(tensor), std::nullopt}; }

bool Mailbox::Holds(const Step& batch) const {
  return std::all_of(batch.begin(), batch.end(),
                     [&](const Action& message) { return !message.is_send() || out_.contains(AddressOf(message)); });
}

size_t Mailbox::under_way() {
  DropDone();
  return under_way_.size();
}

at::Tensor Mailbox::TakeOut(const Address& from) {
  auto node = out_.extract(from);
  TRIREME_CHECK(!node.empty()) << "nothing to send: chunk " << from.chunk << ", micro batch " << from.micro_batch;
  return std::move(node.mapped());
}

void Mailbox::PostTensors(const Step& batch, std::vector<at::Tensor> tensors) {
  std::vector<Transfer> transfers;
  for (size_t i = 0; i < batch.size(); ++i) {
    transfers.push_back({batch[i].is_send() ? Transfer::Direction::kSend : Transfer::Direction::kReceive, batch[i].peer,
                         tensors[i].data_ptr(), static_cast<size_t>(tensors[i].numel())});
  }
  const Work work = pipeline_.BatchSendReceive(transfers, FromTorch(tensors.front().scalar_type()));
  for (size_t i = 0; i < batch.size(); ++i) {
    if (!batch[i].is_send()) in_[AddressOf(batch[i])] = {tensors[i], work};
  }
  DropDone();
  under_way_.push_back({work, std::move(tensors)});
}

at::Tensor Mailbox::TakeIn(const Address& to) {
  auto node = in_.extract(to);
  TRIREME_CHECK(!node.empty()) << "nothing received: chunk " << to.chunk << ", micro batch " << to.micro_batch;
  if (node.mapped().work) node.mapped().work->Join();
  return std::move(node.mapped().tensor);
}

void Mailbox::DropDone() {
  while (!under_way_.empty() && under_way_.front().work.done()) under_way_.pop_front();
}

void Mailbox::Drain() {
  for (const Batch& batch : under_way_) batch.work.Wait();
  under_way_.clear();
  TRIREME_CHECK(out_.empty() && in_.empty()) << "the pipeline's mailbox still holds tensors";
}

}  // namespace trireme
