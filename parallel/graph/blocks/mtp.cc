// Multi-token prediction: the hidden state joined with the embedding of a later token, a decoder layer's
// blocks, and a norm.
#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/graph/blocks/blocks.h"
#include "parallel/graph/declarer.h"

namespace trireme {
namespace {

class MultiToken : public LayerBlock {
 public:
  explicit MultiToken(const MtpSpec& spec)
      : depth_(spec.depth), hidden_(spec.decoder.attention.hidden), decoder_(DecoderBlocks(spec.decoder)) {}

  void Declare(Declarer& declare) const override {
    if (depth_ == 1) declare.Norm("model_norm.weight", hidden_);
    declare.Norm("embedding_norm.weight", hidden_);
    declare.Norm("hidden_norm.weight", hidden_);
    declare.OnSharedTokens("join.weight", hidden_, 2 * hidden_);
    for (const BlockPointer& block : decoder_) block->Declare(declare);
    declare.Norm("norm.weight", hidden_);
  }

  int64_t MatMulParameters() const override {
    int64_t sum = 2 * hidden_ * hidden_;
    for (const BlockPointer& block : decoder_) sum += block->MatMulParameters();
    return sum;
  }

  double AttentionFlops(double length) const override {
    double sum = 0;
    for (const BlockPointer& block : decoder_) sum += block->AttentionFlops(length);
    return sum;
  }

  // In addition to its decoder's: the incoming hidden states (one of them is the decoder's input if that is
  // recomputed) and, unless recomputed, the model's normalised hidden state, the embeddings, both norms
  // concatenated, and the input of its last norm.
  SavedElements Saved(const ActivationShape& shape) const override {
    const int64_t states = hidden_ * shape.TokensBetween();
    const int64_t own = (depth_ + (depth_ == 1 ? 1 : 0) + 4) * states;
    SavedElements saved{.none = own, .selective = own, .full = (depth_ - 1) * states};
    for (const BlockPointer& block : decoder_) saved.Add(block->Saved(shape));
    return saved;
  }

  MovedElements Moved(const ActivationShape& shape) const override {
    const int64_t states = hidden_ * shape.TokensBetween();
    MovedElements moved{.forward = 12 * states, .backward = 18 * states};
    for (const BlockPointer& block : decoder_) moved.Add(block->Moved(shape));
    return moved;
  }

  std::string ToText() const override {
    return Concat("predicts t+", depth_ + 1, ": ",
                  Join(decoder_, ", ", [](const BlockPointer& block) { return block->ToText(); }));
  }

 private:
  const int64_t depth_, hidden_;
  const LayerBlocks decoder_;
};

}  // namespace

BlockPointer MultiTokenBlock(const MtpSpec& spec) { return std::make_unique<MultiToken>(spec); }

}  // namespace trireme
