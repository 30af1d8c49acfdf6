// The row of an embedding that gets no gradient when its token is looked up: that of pad_token_id, for transformers'
// models are built with nn.Embedding(vocab_size, hidden_size, pad_token_id), those of all families here.
#pragma once

#include <string>

#include "models/hf_config.h"

namespace trireme {

// The config's pad_token_id, or what transformers takes for it where the file has no such key; kNoPadding if it is null
// or the family has none. A negative one counts from the end of the vocabulary, as in torch.
int64_t PaddingRow(const HfConfig& config, const std::string& family, int64_t vocabulary);

}  // namespace trireme
