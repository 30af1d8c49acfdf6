// Baichuan of 7 billion parameters, 1 and 2: Llama's layers with queries, keys and values in one matrix; the rows of
// 2's head are scaled to length 1. Those of 13 billion have ALiBi in place of a rotary embedding and are refused.
#include "core/base/error.h"
#include "models/decoder.h"

namespace trireme {
namespace {

// The classes differ in one letter, and nothing else in a config.json tells them apart.
bool HasNormalisedHead(const HfConfig& config) {
  const std::string name = config.Architecture();
  if (name == "BaichuanForCausalLM") return true;
  if (name == "BaiChuanForCausalLM") return false;
  throw InputError(config.source(), ": architectures has '", name,
                   "'; wanted BaichuanForCausalLM, as Baichuan2 has, or ",
                   "BaiChuanForCausalLM, as the first Baichuan-7B has, whose head is another");
}

}  // namespace

LayerGraph Baichuan(const HfConfig& config) {
  if (!config.Has("max_position_embeddings")) {
    throw InputError(config.source(),
                     ": max_position_embeddings is missing, as in Baichuan-13B and Baichuan2-13B, whose ",
                     "attention has ALiBi, which is not supported; choose a model of 7B");
  }
  config.Only("z_loss_weight", 0);
  for (const char* key : {"rope_theta", "rope_scaling", "rope_parameters", "num_key_value_heads", "head_dim"}) {
    config.Only(key, nullptr);  // published code does not read it
  }
  const DecoderSpec decoder = CommonDecoder(config);
  LayerGraph graph = DecoderGraph(config, std::vector<DecoderSpec>(config.Size("num_hidden_layers"), decoder),
                                  {{"attention.q.weight", "self_attn.W_pack.weight"},
                                   {"attention.k.weight", "self_attn.W_pack.weight"},
                                   {"attention.v.weight", "self_attn.W_pack.weight"}});
  std::get<HeadSpec>(graph.layers.back().spec).normalised = HasNormalisedHead(config);
  return graph;
}

}  // namespace trireme
