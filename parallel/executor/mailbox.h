// Mailbox: tensors on their way between the stages of a pipeline. What a stage made is posted by the table's
// message batches, which run beside the computation; only who needs a tensor waits for the batch that brings
// it. Between two stages of one rank a tensor is handed over as it is.
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
  // `pipeline` joins the ranks of the pipeline in their order.
  explicit Mailbox(Communicator& pipeline) : pipeline_(pipeline) {}

  enum class Kind { kActivation, kGradient };
  struct Address {  // which tensor: of a chunk of this rank
    Kind kind;
    int chunk;
    int micro_batch;
    auto operator<=>(const Address&) const = default;
  };

  // To be sent by a later batch.
  void PutOut(const Address& from, at::Tensor tensor);
  // For a stage of this rank.
  void PutIn(const Address& to, at::Tensor tensor);
  // Whether all that the batch sends is there.
  bool Holds(const Step& batch) const;
  // Posted batches that are not done.
  size_t under_way();
  // Posts a batch of messages; `memory` gives the tensor that a receive fills.
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
  // All batches are done.
  void Drain();

  static Address AddressOf(const Action& message);

 private:
  struct Batch {
    Work work;
    std::vector<at::Tensor> tensors;  // alive until it is done
  };
  struct Arrival {
    at::Tensor tensor;
    std::optional<Work> work;  // none: handed over on this rank
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
