// The blocks by specification, one file each. blocks.cc lists the blocks of each layer.
#pragma once

#include <memory>

#include "parallel/graph/layer_block.h"

namespace trireme {

using BlockPointer = std::unique_ptr<const LayerBlock>;

BlockPointer AttentionBlock(const AttentionSpec& spec);
BlockPointer LatentAttentionBlock(const AttentionSpec& spec);  // where the specification has a latent part
BlockPointer MlpBlock(const MlpSpec& spec);
BlockPointer ExpertsBlock(const ExpertsSpec& spec);
BlockPointer EmbeddingBlock(const EmbeddingSpec& spec);
BlockPointer HeadBlock(const HeadSpec& spec);
BlockPointer MultiTokenBlock(const MtpSpec& spec);

// Attention, then the mlp or the experts.
LayerBlocks DecoderBlocks(const DecoderSpec& spec);

// The weights of an mlp under another role, such as the shared expert's.
void DeclareMlp(const std::string& role, const MlpSpec& spec, Declarer& declare);

}  // namespace trireme
