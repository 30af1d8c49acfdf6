#include "parallel/layers/decoder.h"

#include <algorithm>

#include "ops/attention.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/swiglu.h"
#include "parallel/layers/bias.h"

namespace trireme {

DecoderLayer::DecoderLayer(const Layer& layer, const Weights& weights, const TensorParallel& parallel)
    : spec_(std::get<DecoderSpec>(layer.spec)),
      parallel_(parallel),
      frequencies_(InverseFrequencies(spec_.attention.rope)),
      attention_norm_(weights.Find(layer.name + ".attention_norm.weight")),
      qkv_(weights.Find(layer.name + ".attention.qkv.weight")),
      qkv_bias_(weights.FindOrNull(layer.name + ".attention.qkv.bias")),
      query_norm_(weights.FindOrNull(layer.name + ".attention.q_norm.weight")),
      key_norm_(weights.FindOrNull(layer.name + ".attention.k_norm.weight")),
      output_(weights.Find(layer.name + ".attention.output.weight")),
      output_bias_(weights.FindOrNull(layer.name + ".attention.output.bias")),
      mlp_norm_(weights.Find(layer.name + ".mlp_norm.weight")),
      gate_up_(weights.Find(layer.name + ".mlp.gate_up.weight")),
      gate_up_bias_(weights.FindOrNull(layer.name + ".mlp.gate_up.bias")),
      down_(weights.Find(layer.name + ".mlp.down.weight")),
      down_bias_(weights.FindOrNull(layer.name + ".mlp.down.bias")) {}

at::Tensor DecoderLayer::Forward(const at::Tensor& x, const MicroBatch& batch) const {
  const at::Tensor attended = x + Attention(RmsNorm(x, attention_norm_, spec_.norm_eps), batch);
  return attended + Mlp(RmsNorm(attended, mlp_norm_, spec_.norm_eps));
}

at::Tensor DecoderLayer::Turned(const at::Tensor& heads, const Weight* norm, const RotaryTable& table) const {
  return Rotate(norm == nullptr ? heads : RmsNorm(heads, *norm, spec_.attention.norm_eps), table);
}

at::Tensor DecoderLayer::Attention(const at::Tensor& x, const MicroBatch& batch) const {
  const int64_t dim = spec_.attention.head_dim;
  const int64_t heads = spec_.attention.heads / parallel_.size();
  const int64_t kv_heads = std::max<int64_t>(spec_.attention.kv_heads / parallel_.size(), 1);
  const at::Tensor qkv = Linear(Enter(x, parallel_), qkv_, qkv_bias_).view({-1, heads + 2 * kv_heads, dim});
  const RotaryTable table = MakeRotaryTable(batch.positions, frequencies_);
  const auto rows = [&](const at::Tensor& tokens) {
    return tokens.view({batch.rows, batch.length, -1, dim});
  };
  const at::Tensor query = rows(Turned(qkv.narrow(1, 0, heads), query_norm_, table));
  const at::Tensor key = rows(Turned(qkv.narrow(1, heads, kv_heads), key_norm_, table));
  const at::Tensor value =
      qkv.view({batch.rows, batch.length, -1, dim}).narrow(2, heads + kv_heads, kv_heads);
  const at::Tensor mixed = CausalAttention(query, key, value).reshape({-1, heads * dim});
  return AddBias(Leave(Linear(mixed, output_), parallel_), output_bias_);
}

at::Tensor DecoderLayer::Mlp(const at::Tensor& x) const {
  const at::Tensor gate_up = Linear(Enter(x, parallel_), gate_up_, gate_up_bias_);
  return AddBias(Leave(Linear(SwiGlu(gate_up), down_), parallel_), down_bias_);
}

}  // namespace trireme
