// AdapterShards: where the LoRA adapters of models are in this rank's shares of the session's buckets, by the names
// that adapter files give them. The session's adapters hold several models' side by side: a model has one slot of them
// for all its life, since which elements a rank has differs from slot to slot. What remote training needs to start,
// scale, mask, save and load the adapters of one model at a time. Knows neither requests nor gradients.
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

// A box of one of a model's tensors that this rank has.
struct AdapterPiece {
  std::string name;   // "model.layers.0.self_attn.q_proj.lora_A.weight"
  bool is_a = false;  // [rank, in]; otherwise B, [out, rank]
  bool attention = false;
  int64_t inputs = 0;  // of A
  Box box;             // in the model's tensor
  bool owned = false;  // counts on this rank
  size_t bucket = 0;   // whose shard has it
  int64_t offset = 0;  // in the shard; with strides
  Shape strides = {};
  int64_t first = 0;  // among the model's numbers, where it is row-major

  size_t rank_dim() const { return is_a ? box.offset.size() - 2 : box.offset.size() - 1; }
  at::Tensor In(const at::Tensor& numbers) const;     // a view of the model's, with the box's dims
  at::Tensor InShard(const at::Tensor& shard) const;  // the same of the bucket's shard
};

class AdapterShards {
 public:
  // `session` outlives it, and has adapters of rank `slots` · `max_rank` and nothing else that is trained.
  AdapterShards(Session& session, int64_t max_rank, int64_t slots);

  // Numbers of a model on this rank: [elements of its slot] fp32 in host memory, one piece after another.
  at::Tensor Zeros(int64_t slot) const;
  const std::vector<AdapterPiece>& pieces(int64_t slot) const { return pieces_.at(static_cast<size_t>(slot)); }

  // A uniform up to 1/√inputs from the seed, the same under every layout and in every slot; zero beyond the model's
  // rank and in modules that it does not train. B is zero.
  at::Tensor Initial(const TrainedAdapters& adapters, int64_t slot) const;
  // What the session's copy of each element is multiplied by, and its gradient again: 0 for what the model does not
  // have or train, for B the ratio of the model's scale to the session's.
  at::Tensor Factors(const TrainedAdapters& adapters, int64_t slot) const;
  // From tensors of the model's rank named NAME, or `prefix`NAME.
  at::Tensor Read(const TrainedAdapters& adapters, int64_t slot, const TensorSource& source) const;
  at::Tensor Read(const TrainedAdapters& adapters, int64_t slot, const SafetensorsFile& file,
                  const std::string& prefix) const;
  // Tensors of the model's rank on rank 0, by name. Collective.
  std::map<std::string, at::Tensor> Gather(const TrainedAdapters& adapters, int64_t slot,
                                           const at::Tensor& numbers) const;

  const std::vector<Bucket*>& buckets() const { return buckets_; }
  Session& session() const { return session_; }
  int64_t max_rank() const { return max_rank_; }
  int64_t slots() const { return slots_; }
  static bool IsAttention(const std::string& name) {
    return name.find("attn") != std::string::npos || name.find("attention") != std::string::npos;
  }

 private:
  using ViewOf = std::function<TensorView(const std::string&)>;
  at::Tensor ReadFrom(const TrainedAdapters& adapters, int64_t slot, const ViewOf& view_of) const;
  void AddPieces(size_t bucket, const FilePiece& piece);

  Session& session_;
  const int64_t max_rank_, slots_;
  std::vector<Bucket*> buckets_;                   // that are trained
  std::vector<std::vector<AdapterPiece>> pieces_;  // by slot
};

// Whether the model trains the module that a tensor belongs to.
inline bool Trains(const TrainedAdapters& adapters, const AdapterPiece& piece) {
  return piece.attention ? adapters.attention : adapters.mlp;
}

}  // namespace trireme
