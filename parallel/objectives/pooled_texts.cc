#include "parallel/objectives/pooled_texts.h"

#include <ATen/ATen.h>

#include <vector>

#include "core/base/error.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

// Their documents, of tokens that are chosen on the host.
struct HostTokens {
  std::vector<int64_t> tokens, documents;
};

HostTokens LastTokensHere(const PassInput& input) {
  TRIREME_CHECK(std::ssize(input.last_tokens) == input.sequences)
      << input.last_tokens.size() << " last tokens of " << input.sequences << " documents";
  HostTokens found;
  for (size_t i = 0; i < input.last_tokens.size(); ++i) {
    if (input.last_tokens[i] < 0) continue;
    found.tokens.push_back(input.last_tokens[i]);
    found.documents.push_back(static_cast<int64_t>(i));
  }
  return found;
}

}  // namespace

PooledTexts::PooledTexts(const at::Tensor& hidden, TextPooling pooling, const PassInput& input, Communicator& context)
    : hidden_(hidden) {
  const at::Device device = hidden.device();
  if (pooling == TextPooling::kLast) {
    const HostTokens last = LastTokensHere(input);
    tokens_ = at::tensor(last.tokens, at::kLong).to(device);
    documents_ = at::tensor(last.documents, at::kLong).to(device);
  } else {
    const bool first = pooling == TextPooling::kFirst;
    const at::Tensor counted = first ? input.real.logical_and(input.positions.eq(0)) : input.real;
    tokens_ = counted.nonzero().squeeze(1);
    documents_ = input.sequence.index_select(0, tokens_);
    if (!first) {
      const at::Tensor lengths = input.document_tokens.to(device).index_select(0, tokens_);
      shares_ = lengths.to(at::kFloat).reciprocal().unsqueeze(1);
    }
  }
  vectors_ = at::zeros({input.sequences, hidden.size(1)}, hidden.options().dtype(at::kFloat));
  if (input.sequences == 0) return;  // on every context rank
  at::Tensor states = hidden.index_select(0, tokens_).to(at::kFloat);
  if (shares_.defined()) states = states * shares_;
  vectors_.index_add_(0, documents_, states);
  AllReduce(vectors_, context);
}

at::Tensor PooledTexts::ToTokens(const at::Tensor& by_vector) const {
  const at::Tensor gradient = at::zeros_like(hidden_);
  if (tokens_.numel() == 0) return gradient;
  at::Tensor by_token = by_vector.index_select(0, documents_);
  if (shares_.defined()) by_token = by_token * shares_;
  return gradient.index_copy_(0, tokens_, by_token.to(hidden_.scalar_type()));
}

}  // namespace trireme
