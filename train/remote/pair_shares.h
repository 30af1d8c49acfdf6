// PairShares: where the low-rank pairs of a session are in this rank's shares of its buckets, by the names that adapter
// files give them: what remote training needs to start, scale, mask, save and load the pairs of one model at a time. Knows
// neither requests nor gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/tensor_source.h"
#include "core/plan/file_pieces.h"
#include "session/session.h"
#include "train/remote/train_work.h"

namespace trireme {

using Shares = std::vector<at::Tensor>;  // by trained bucket: [share] fp32 in host memory

// A box of one of the adapter's tensors in a share.
struct PairPiece {
  std::string name;   // "model.layers.0.self_attn.q_proj.lora_A.weight"
  bool is_a = false;  // [rank, in]; otherwise B, [out, rank]
  bool attention = false;
  int64_t inputs = 0;  // of A
  Box box;             // in the file's tensor
  bool owned = false;  // counts on this rank
  at::Tensor view;     // of the share, with the box's dims

  size_t rank_dim() const { return is_a ? box.offset.size() - 2 : box.offset.size() - 1; }
};

class PairShares {
 public:
  // `session` outlives it, and has pairs of rank `max_rank` and nothing else that is trained.
  PairShares(Session& session, int64_t max_rank);

  Shares Zeros() const;
  void ForEachPiece(const Shares& shares, const std::function<void(const PairPiece&)>& visit) const;

  // A uniform up to 1/√inputs from the seed, the same under every layout; zero beyond the model's rank and in modules that
  // it does not train. B is zero.
  Shares Initial(const TrainedPairs& pairs) const;
  // What the session's copy of each element is multiplied by, and its gradient again: 0 for what the model does not have or
  // train, for B the ratio of the model's scale to the session's.
  Shares Factors(const TrainedPairs& pairs) const;
  // From tensors of the model's rank named NAME, or `prefix`NAME.
  Shares Read(const TrainedPairs& pairs, const TensorSource& source) const;
  Shares Read(const TrainedPairs& pairs, const SafetensorsFile& file, const std::string& prefix) const;
  // Tensors of the model's rank on rank 0, by name. Collective.
  std::map<std::string, at::Tensor> Gather(const TrainedPairs& pairs, const Shares& shares) const;

  const std::vector<Bucket*>& buckets() const { return buckets_; }
  Session& session() const { return session_; }
  int64_t max_rank() const { return max_rank_; }
  static bool IsAttention(const std::string& name) { return name.find("attn") != std::string::npos || name.find("attention") != std::string::npos; }

 private:
  using ViewOf = std::function<TensorView(const std::string&)>;
  Shares ReadFrom(const TrainedPairs& pairs, const ViewOf& view_of) const;

  Session& session_;
  const int64_t max_rank_;
  std::vector<Bucket*> buckets_;  // that are trained
};

// Whether the model trains the module that a tensor belongs to.
inline bool Trains(const TrainedPairs& pairs, const PairPiece& piece) { return piece.attention ? pairs.attention : pairs.mlp; }

}  // namespace trireme
