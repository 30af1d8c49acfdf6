#include "parallel/pass/pass_batch.h"

#include <utility>

namespace trireme {

PassBatch::PassBatch(std::vector<PassInput> inputs, PassOptions options)
    : inputs_(std::move(inputs)), options_(std::move(options)) {
  result_.outputs.resize(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    contexts_.push_back(std::make_unique<PassContext>(inputs_[i], options_, options_.totals, &result_.outputs[i]));
  }
}

}  // namespace trireme
