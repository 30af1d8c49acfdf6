// A decoder layer: norm, attention, add; norm, mlp or experts, add. Attention and mlp are tensor-parallel
// blocks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/attention/attention.h"
#include "ops/linear/linear.h"
#include "ops/rms_norm/rms_norm.h"
#include "parallel/experts/experts_block.h"
#include "parallel/layers/delta_attention.h"
#include "parallel/layers/latent_attention.h"
#include "parallel/layers/layer.h"
#include "parallel/layers/mlp.h"
#include "parallel/layers/projection.h"

namespace trireme {

class DecoderLayer : public RunningLayer {
 public:
  DecoderLayer(const Layer& layer, const Weights& weights, const LayerParallel& parallel, const LayerOptions& options);
  at::Tensor Forward(const at::Tensor& x, PassContext& pass) const override;
  bool can_run_again() const override { return true; }

 private:
  // x: normalised, inside the block; `again` recomputes it where it is not saved.
  at::Tensor Attention(const LinearInput& x, PassContext& pass) const;
  // q|k|v as SplitHeads wants it, where the family's norms or rotated pairs are others.
  at::Tensor Rearranged(const at::Tensor& qkv, const HeadShape& shape) const;
  at::Tensor Experts(const AddedNorm& attended, PassContext& pass) const;
  // The shared expert's output for this rank's shard of the tokens.
  at::Tensor Shared(const LinearInput& activated, const LinearInput& shard, PassContext& pass) const;
  ExpertAdapterInputs AdapterInputsOf(PassContext& pass) const;
  // Of the shard's tokens; nullptr: adapters are one model's.
  std::shared_ptr<const AdapterSlots> SlotsOfShard(PassContext& pass) const;
  // Of the shard's tokens; nothing if the pass has no adapters by row.
  std::optional<ExpertRowAdapters> ExpertAdaptersOf(PassContext& pass) const;
  // By a norm of the layer; nullptr: x itself.
  at::Tensor Normalised(const at::Tensor& x, const Weight* norm) const;
  // What is added to the residual stream of a branch: normalised (`norm`: by it) and scaled, where the family says so.
  at::Tensor Added(const at::Tensor& branch, const Weight* norm) const;
  // x + branch, with dropout on the branch in training.
  at::Tensor Add(const at::Tensor& x, const at::Tensor& branch, const char* part, PassContext& pass) const;
  AddedNorm AddAttention(const at::Tensor& x, const at::Tensor& branch, PassContext& pass) const;
  // `normalised` inside a block; with recomputation it is recomputed from `x` and `norm`. No norm: x itself.
  LinearInput GatherNormalised(const at::Tensor& normalised, const at::Tensor& x, const Weight* norm) const;
  // gate: of the output, [tokens, heads · head_dim]; undefined: none.
  at::Tensor AttentionCore(const Heads& heads, const at::Tensor& gate, PassContext& pass) const;

  const std::string name_;
  DecoderSpec spec_;
  const TensorParallel& parallel_;
  const ContextParallel& context_;
  const double dropout_;  // of the outputs of attention and mlp
  const bool recompute_;  // attention core, norms and activation are recomputed in the backward pass
  const double offset_;   // added to the norms' weights
  const Rotation rotation_;
  const Weight* attention_norm_;  // nullptr, as the following: the family has none
  const Weight* attention_output_norm_;
  const Projection qkv_;  // [(heads + 2 kv_heads) · head_dim of this rank, hidden]
  const Weight* qkv_bias_;
  const Weight* query_norm_;  // [head_dim]
  const Weight* key_norm_;
  const Weight* sinks_;      // [heads of this rank]
  const Projection output_;  // [hidden, heads · head_dim of this rank]
  const Weight* output_bias_;
  const Weight* mlp_norm_;
  const Weight* mlp_output_norm_;
  std::optional<MlpBlock> mlp_;  // of a dense layer, or the shared expert
  std::optional<LatentAttention> latent_;
  std::optional<DeltaAttention> delta_;
  const Projection router_, expert_gate_up_, expert_down_;
  std::optional<ExpertsBlock> experts_;
  std::optional<ExpertsBlock> base_experts_;  // the same without LoRA adapters
  const Projection shared_gate_;              // [1, hidden]
};

}  // namespace trireme
