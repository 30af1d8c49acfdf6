// Weights that were brought into another layout are, bit for bit, those that the other layout draws itself: over pairs
// of layouts on four ranks, also after they changed, and from parameters that ZeRO 3 has split.
#include "session/refit.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/config/load.h"
#include "stages/other_models.h"
#include "tests/core/comm/spmd.h"
#include "tests/session/model_folder.h"

namespace trireme {
namespace {

const char* const kDense = R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 90,
  "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 128, "rms_norm_eps": 1e-6,
  "rope_theta": 10000.0, "tie_word_embeddings": true, "hidden_act": "silu", "attention_bias": false,
  "eos_token_id": 0})";
const char* const kExperts = R"({"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "vocab_size": 90,
  "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 128, "rms_norm_eps": 1e-6,
  "rope_theta": 10000.0, "tie_word_embeddings": false, "hidden_act": "silu", "attention_bias": false, "eos_token_id": 0,
  "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "norm_topk_prob": true,
  "decoder_sparse_step": 1, "mlp_only_layers": []})";

Config ConfigUnder(const std::string& model, std::vector<std::string> layout, const std::string& dtype) {
  layout.insert(layout.end(), {"model.path=" + model, "model.init=random", "model.dtype=" + dtype, "device=cpu",
                               "tuning.kind=full", "run.global_batch=8"});
  return ParseConfig("", "test", layout);
}

void ExpectSameBits(Session& refitted, Session& drawn) {
  const std::vector<Bucket*> ours = refitted.model().buckets(), theirs = drawn.model().buckets();
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t b = 0; b < ours.size(); ++b) {
    for (size_t i = 0; i < ours[b]->entries().size(); ++i) {
      const Weight &a = ours[b]->entries()[i]->weight, &c = theirs[b]->entries()[i]->weight;
      EXPECT_TRUE(at::equal(a.value, c.value)) << a.name << " on rank " << TestJob().rank();
      EXPECT_GT(c.value.abs().sum().item<double>(), 0) << c.name;
    }
  }
}

struct Case {
  std::vector<std::string> training, sampling;
  std::string dtype = "fp32";
};

void Play(const char* model, const Case& one) {
  const ModelFolder folder(model);
  Config sampling = ConfigUnder(folder.model(), one.sampling, one.dtype);
  sampling.mutable_parallel()->set_zero(0);
  const auto training = Session::Open(ConfigUnder(folder.model(), one.training, one.dtype), TestJob());
  training->DrawWeights(7);
  const OtherModel sampler{.role = ModelRole::kSampler, .layout = sampling.parallel()};
  const auto refitted = training->OpenOther(sampler), drawn = training->OpenOther(sampler);
  Refit refit(*training, *refitted);
  refit.Run();
  drawn->DrawWeights(7);
  ExpectSameBits(*refitted, *drawn);
  for (Bucket* bucket : refitted->model().buckets()) {
    for (Weights::Entry* entry : bucket->entries()) entry->weight.value.mul_(3);  // padding stays zero
  }
  refit.Run();
  ExpectSameBits(*refitted, *drawn);
}

TEST(RefitTest, BringsTheSameBits) {
  Play(kDense, {{"parallel.tensor=2"}, {"parallel.tensor=1"}});
  Play(kDense, {{"parallel.pipeline=2"}, {"parallel.tensor=1"}, "bf16"});
  Play(kDense, {{"parallel.zero=3"}, {"parallel.tensor=2", "parallel.pipeline=2"}});
  Play(kDense, {{"parallel.tensor=2", "parallel.pipeline=2"}, {"parallel.tensor=4"}, "bf16"});
}

TEST(RefitTest, BringsExperts) {
  Play(kExperts, {{"parallel.expert=4"}, {"parallel.tensor=2"}});
  Play(kExperts, {{"parallel.tensor=2", "parallel.expert=2"}, {"parallel.expert=4"}, "bf16"});
}

}  // namespace
}  // namespace trireme
