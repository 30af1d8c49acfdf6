// Mailbox: tensors in transit between the stages of a pipeline. The table's message batches post what a stage
// produced and run concurrently with compute; only the consumer of a tensor waits for the batch that brings
// it. Between two stages of one rank a tensor is passed on as it is.
#pragma once

#include <ATen/core/Tensor.h>

#include <compare>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "core/comm/communicator.h"
#include "parallel/schedule/schedule.h"

namespace trireme {

class Mailbox {
 public:
  // `pipeline`: the ranks of the pipeline, in order.
  explicit Mailbox(Communicator& pipeline) : pipeline_(pipeline) {}

  enum class Kind { kActivation, kGradient };
  struct Address {  // which tensor of which of this rank's chunks
    Kind kind;
    int chunk;
    int micro_batch;
    auto operator<=>(const Address&) const = default;
  };

  // To be sent by a later batch.
  void PutOut(const Address& from, at::Tensor tensor);
  // For a stage of this rank.
  void PutIn(const Address& to, at::Tensor tensor);
  // Whether everything that the batch sends is available.
  bool Holds(const Step& batch) const;
  // Posted batches that have not completed.
  size_t under_way();
  // Posts a batch of messages; `memory` returns the tensor that a receive fills.
  template <typename Memory>
  void Post(const Step& batch, Memory memory) {
    std::vector<at::Tensor> tensors;
    for (const Action& message : batch) {
      tensors.push_back(message.is_send() ? TakeOut(AddressOf(message)) : memory(message));
    }
    PostTensors(batch, std::move(tensors));
  }
  // Waits for the batch that brings it.
  at::Tensor TakeIn(const Address& to);
  // Waits until all batches have completed.
  void Drain();

  static Address AddressOf(const Action& message);

 private:
  struct Batch {
    Work work;
    std::vector<at::Tensor> tensors;  // kept alive until it completes
  };
  struct Arrival {
    at::Tensor tensor;
    std::optional<Work> work;  // none: passed on within this rank
  };

  at::Tensor TakeOut(const Address& from);
  void PostTensors(const Step& batch, std::vector<at::Tensor> tensors);
  void DropDone();

  Communicator& pipeline_;
  std::map<Address, at::Tensor> out_;
  std::map<Address, Arrival> in_;
  std::deque<Batch> under_way_;
};

}  // namespace trireme
