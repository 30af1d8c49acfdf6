// The embedding: a lookup, so it has no matmul and saves only the token ids.
#include "core/base/error.h"
#include "parallel/graph/blocks/blocks.h"
#include "parallel/graph/declarer.h"

namespace trireme {
namespace {

class Embedding : public LayerBlock {
 public:
  explicit Embedding(const EmbeddingSpec& spec) : spec_(spec) {}

  void Declare(Declarer& declare) const override {
    declare.Vocabulary("embedding.weight", spec_.vocabulary, spec_.hidden);
  }
  // Rows looked up; their gradients added to the table's.
  MovedElements Moved(const ActivationShape& shape) const override {
    const int64_t rows = spec_.hidden * shape.tokens;
    return {.forward = 2 * rows, .backward = 3 * rows};
  }

  std::string ToText() const override { return Concat("embedding ", spec_.vocabulary, " x ", spec_.hidden); }

 private:
  const EmbeddingSpec spec_;
};

}  // namespace

BlockPointer EmbeddingBlock(const EmbeddingSpec& spec) { return std::make_unique<Embedding>(spec); }

}  // namespace trireme
