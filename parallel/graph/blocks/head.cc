// The head: norm and logits, for the next token and for the tokens of multi-token prediction. The loss is
// computed from one chunk of the logits at a time. Of a reward model: norm and one score per token; of a classifier
// a score for each label. Of an embedding model: the norm alone. Of a policy of PPO: a value head beside the logits.
#include <algorithm>

#include "core/base/error.h"
#include "parallel/graph/blocks/blocks.h"
#include "parallel/graph/declarer.h"

namespace trireme {
namespace {

class Head : public LayerBlock {
 public:
  explicit Head(const HeadSpec& spec) : spec_(spec) {}

  void Declare(Declarer& declare) const override {
    if (spec_.mtp_depths == 0) declare.Norm("norm.weight", spec_.hidden, spec_.norm_offset);
    if (IsMissing()) return;
    if (spec_.scores) return declare.OnAllTokens("score.weight", spec_.vocabulary, spec_.hidden);
    if (!spec_.tied) declare.Vocabulary("logits.weight", spec_.vocabulary, spec_.hidden);
    if (spec_.values) declare.ValueHead("value", spec_.hidden);
  }

  // Whether tied or not.
  int64_t MatMulParameters() const override {
    return (1 + spec_.mtp_depths) * spec_.hidden * spec_.vocabulary + (spec_.values ? spec_.hidden : 0);
  }

  // Its input and that input's gradient, for each predicted token; never recomputed.
  SavedElements Saved(const ActivationShape& shape) const override {
    const int64_t elements = (1 + spec_.mtp_depths) * spec_.hidden * (shape.TokensBetween() + shape.tokens);
    return {.none = elements, .selective = elements, .full = elements};
  }

  int64_t LogitsBytes(const ActivationShape& shape) const override {
    if (spec_.scores) return 0;
    const int64_t vocabulary = (spec_.vocabulary + shape.tensor - 1) / shape.tensor;
    const int64_t token_bytes = vocabulary * shape.element_bytes;
    // Scaled rows, and their gradient in fp32.
    const int64_t scaled = spec_.normalised ? vocabulary * spec_.hidden * (shape.element_bytes + 4) : 0;
    return scaled + token_bytes * std::min(shape.tokens, std::max<int64_t>(shape.logit_bytes / token_bytes, 1));
  }

  // The norm, and the logits: statistics of the loss forward, their gradient backward.
  MovedElements Moved(const ActivationShape& shape) const override {
    const int64_t norm = (1 + spec_.mtp_depths) * spec_.hidden * shape.TokensBetween();
    const int64_t logits = spec_.scores ? 0 : (1 + spec_.mtp_depths) * spec_.vocabulary / shape.tensor * shape.tokens;
    return {.forward = 4 * norm + 2 * logits, .backward = 6 * norm + 2 * logits};
  }

  std::string ToText() const override {
    if (IsMissing()) return Concat("vectors of ", spec_.hidden);
    if (spec_.scores) return Concat("value head ", spec_.hidden, " > ", spec_.vocabulary);
    return Concat("head ", spec_.hidden, " > ", spec_.vocabulary, spec_.tied ? ", tied to the embedding" : "",
                  spec_.normalised ? ", rows of length 1" : "", spec_.values ? ", with a value head" : "");
  }

 private:
  bool IsMissing() const { return spec_.scores && spec_.vocabulary == 0; }  // hidden states are taken as they are

  const HeadSpec spec_;
};

}  // namespace

BlockPointer HeadBlock(const HeadSpec& spec) { return std::make_unique<Head>(spec); }

}  // namespace trireme
