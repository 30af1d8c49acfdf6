// Which blocks a layer has. A new block is a file in this folder, a declaration in blocks.h and a line here.
#include "parallel/graph/blocks/blocks.h"

#include <variant>

namespace trireme {
namespace {

LayerBlocks Only(BlockPointer block) {
  LayerBlocks blocks;
  blocks.push_back(std::move(block));
  return blocks;
}

struct Blocks {
  LayerBlocks operator()(const EmbeddingSpec& spec) const { return Only(EmbeddingBlock(spec)); }
  LayerBlocks operator()(const DecoderSpec& spec) const { return DecoderBlocks(spec); }
  LayerBlocks operator()(const HeadSpec& spec) const { return Only(HeadBlock(spec)); }
  LayerBlocks operator()(const MtpSpec& spec) const { return Only(MultiTokenBlock(spec)); }
  LayerBlocks operator()(const PatchSpec& spec) const { return Only(PatchBlock(spec)); }
  LayerBlocks operator()(const VisionSpec& spec) const {
    LayerBlocks blocks = Only(VisionAttentionBlock(spec));
    blocks.push_back(VisionMlpBlock(spec));
    return blocks;
  }
  LayerBlocks operator()(const MergerSpec& spec) const { return Only(MergerBlock(spec)); }
};

}  // namespace

LayerBlocks DecoderBlocks(const DecoderSpec& spec) {
  LayerBlocks blocks;
  blocks.push_back(spec.attention.delta    ? DeltaAttentionBlock(spec.attention)
                   : spec.attention.latent ? LatentAttentionBlock(spec.attention)
                                           : AttentionBlock(spec.attention));
  blocks.push_back(spec.experts ? ExpertsBlock(*spec.experts, spec.attention.norms.offset) : MlpBlock(spec.mlp));
  return blocks;
}

LayerBlocks BlocksOf(const LayerSpec& spec) { return std::visit(Blocks{}, spec); }

}  // namespace trireme
