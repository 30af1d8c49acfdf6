// A decoder layer: normalise, attend, add; normalise, mlp, add. Attention and mlp are tensor-parallel blocks.
#pragma once

#include <vector>

#include "ops/rotary.h"
#include "parallel/layers/layer.h"

namespace trireme {

class DecoderLayer : public RunningLayer {
 public:
  DecoderLayer(const Layer& layer, const Weights& weights, const TensorParallel& parallel);
  at::Tensor Forward(const at::Tensor& x, const MicroBatch& batch) const override;

 private:
  at::Tensor Attention(const at::Tensor& x, const MicroBatch& batch) const;
  at::Tensor Mlp(const at::Tensor& x) const;
  // [tokens, heads of this rank, head_dim], normalised and turned.
  at::Tensor Turned(const at::Tensor& heads, const Weight* norm, const RotaryTable& table) const;

  DecoderSpec spec_;
  const TensorParallel& parallel_;
  std::vector<double> frequencies_;
  const Weight& attention_norm_;
  const Weight& qkv_;  // [(heads + 2 kv_heads) · head_dim of this rank, hidden]
  const Weight* qkv_bias_;
  const Weight* query_norm_;  // [head_dim]
  const Weight* key_norm_;
  const Weight& output_;  // [hidden, heads · head_dim of this rank]
  const Weight* output_bias_;
  const Weight& mlp_norm_;
  const Weight& gate_up_;  // [2 · ffn of this rank, hidden]
  const Weight* gate_up_bias_;
  const Weight& down_;  // [hidden, ffn of this rank]
  const Weight* down_bias_;
};

}  // namespace trireme
