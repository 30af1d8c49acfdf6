// PassBatch: the micro batches of one run of the executor, with their contexts and results. The same
// number on every rank of a pipeline.
#pragma once

#include <memory>
#include <vector>

#include "parallel/pass/pass_context.h"
#include "parallel/pass/pass_result.h"

namespace trireme {

class PassBatch {
 public:
  PassBatch(std::vector<PassInput> inputs, PassOptions options);
  PassBatch(const PassBatch&) = delete;
  PassBatch& operator=(const PassBatch&) = delete;

  int size() const { return static_cast<int>(inputs_.size()); }
  PassContext& at(int micro_batch) { return *contexts_.at(static_cast<size_t>(micro_batch)); }
  const PassInput& input(int micro_batch) const { return inputs_.at(static_cast<size_t>(micro_batch)); }
  const PassResult& result() const { return result_; }
  // To run the same once more.
  const std::vector<PassInput>& inputs() const { return inputs_; }
  const PassOptions& options() const { return options_; }

 private:
  const std::vector<PassInput> inputs_;
  const PassOptions options_;
  PassResult result_;
  std::vector<std::unique_ptr<PassContext>> contexts_;
};

}  // namespace trireme
