// The further layers of a vision tower. Tensor-parallel ranks split heads and hidden units; between the blocks every
// rank has all patches. Ranks that share a row's tokens (cp) each run the tower on all images of their rows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parallel/layers/any_norm.h"
#include "parallel/layers/layer.h"
#include "parallel/layers/mlp.h"
#include "parallel/layers/projection.h"

namespace trireme {

// fc2(gelu(fc1(x))) with biases; by the approximation with tanh or by the error function.
class GeluMlp {
 public:
  GeluMlp(const std::string& role, const Projection::Place& place, const TensorParallel& parallel, bool tanh);
  at::Tensor Forward(const at::Tensor& x, PassContext& pass) const;

 private:
  const TensorParallel& parallel_;
  const bool tanh_;
  const Projection fc1_, fc2_;
  const Weight *fc1_bias_, *fc2_bias_;
};

// Norm, attention both ways, add; norm, mlp, add.
class VisionLayer : public RunningLayer {
 public:
  VisionLayer(const Layer& layer, const Weights& weights, const TensorParallel& parallel, const LayerOptions& options);
  // x: [states, hidden], then as many rows for each tapped layer before this one. If this one is tapped, the result has
  // its output once more at the end.
  at::Tensor Forward(const at::Tensor& x, PassContext& pass) const override;
  bool can_run_again() const override { return true; }

 private:
  at::Tensor Attention(const at::Tensor& x, PassContext& pass) const;
  at::Tensor Normalised(const at::Tensor& qkv) const;  // queries and keys, where they are
  at::Tensor Mlp(const at::Tensor& x, PassContext& pass) const;

  const VisionSpec spec_;
  const TensorParallel parallel_;
  const AnyNorm attention_norm_, mlp_norm_;
  const Projection qkv_, output_;
  const Weight *qkv_bias_, *output_bias_;
  const Weight *query_norm_, *key_norm_;        // nullptr: none
  const Weight *attention_scale_, *mlp_scale_;  // likewise
  std::optional<MlpBlock> gated_;
  std::optional<GeluMlp> gelu_;
};

// The features of image tokens, in the images' order.
class MergerLayer : public RunningLayer {
 public:
  MergerLayer(const Layer& layer, const Weights& weights, const TensorParallel& parallel, const LayerOptions& options);
  // x: as a VisionLayer's. Returns [tokens, outputs], then as many rows for each tapped layer; with the features that
  // are kept, of all images.
  at::Tensor Forward(const at::Tensor& x, PassContext& pass) const override;
  bool can_run_again() const override { return true; }

 private:
  struct One {
    AnyNorm norm;
    GeluMlp mlp;
  };

  at::Tensor Merged(const at::Tensor& x, PassContext& pass) const;

  const MergerSpec spec_;
  const TensorParallel parallel_;
  KeptFeatures* const kept_;
  std::vector<One> mergers_;  // the first is the embedding's
};

}  // namespace trireme
