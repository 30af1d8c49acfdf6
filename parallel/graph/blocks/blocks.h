// The blocks by specification, one file each. blocks.cc lists the blocks of each layer.
#pragma once

#include <memory>

#include "parallel/graph/layer_block.h"

namespace trireme {

using BlockPointer = std::unique_ptr<const LayerBlock>;

BlockPointer AttentionBlock(const AttentionSpec& spec);
BlockPointer LatentAttentionBlock(const AttentionSpec& spec);  // where the specification has a latent part
BlockPointer DeltaAttentionBlock(const AttentionSpec& spec);   // where it has a delta part
BlockPointer MlpBlock(const MlpSpec& spec);
BlockPointer ExpertsBlock(const ExpertsSpec& spec, double norm_offset);  // added to the weights of its input norm
BlockPointer EmbeddingBlock(const EmbeddingSpec& spec);
BlockPointer HeadBlock(const HeadSpec& spec);
BlockPointer MultiTokenBlock(const MtpSpec& spec);
BlockPointer PatchBlock(const PatchSpec& spec);
BlockPointer VisionAttentionBlock(const VisionSpec& spec);
BlockPointer VisionMlpBlock(const VisionSpec& spec);
BlockPointer MergerBlock(const MergerSpec& spec);

// How many patches of images a sequence is assumed to have for each of its tokens, to compare the cost of a vision
// tower with that of the decoder: half of the tokens are of images, four patches each.
inline constexpr int64_t kPatchesPerToken = 2;

// Attention, then the mlp or the experts.
LayerBlocks DecoderBlocks(const DecoderSpec& spec);

// The weights of an mlp under another role, such as the shared expert's.
void DeclareMlp(const std::string& role, const MlpSpec& spec, Declarer& declare);

}  // namespace trireme
