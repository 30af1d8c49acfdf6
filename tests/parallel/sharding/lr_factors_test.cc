// Learning rates by name.
#include "parallel/sharding/lr_factors.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace trireme {
namespace {

Parameter Named(const std::vector<std::string>& names, bool trained = true) {
  Parameter parameter;
  for (const std::string& name : names) parameter.hf.push_back({.name = name, .shape = {2, 2}, .box = {}});
  parameter.trained = trained;
  return parameter;
}

const Parameter kEmbedding = Named({"model.embed_tokens.weight"});
const Parameter kDown = Named({"model.layers.1.mlp.down_proj.weight"});
const Parameter kFused = Named({"model.layers.1.self_attn.q_proj.weight", "model.layers.1.self_attn.k_proj.weight"});

template <typename Work>
std::string RefusalOf(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

TEST(LrFactors, TheFirstMatchDecides) {
  const LrFactors factors({"embed_tokens=0.1", R"(layers\.1\.=2)", "down_proj=5"});
  EXPECT_EQ(factors.Of(kEmbedding), 0.1);
  EXPECT_EQ(factors.Of(kDown), 2);
  EXPECT_EQ(factors.Of(kFused), 2);
  EXPECT_EQ(factors.Of(Named({"model.norm.weight"})), 1);
  EXPECT_EQ(LrFactors({"down_proj=0", "=3"}).Of(kDown), 0);  // 0 keeps it as it is; an empty pattern matches all
}

TEST(LrFactors, PartsAreNotPatterns) {
  const PartsByName parts = {{"visual.blocks.0.norm1.weight", "vision"},
                             {"model.layers.1.mlp.down_proj.weight", "language"}};
  const Parameter tower = Named({"visual.blocks.0.norm1.weight"}), named_so = Named({"model.vision.weight"});
  const LrFactors factors({"down_proj=3", "vision=0.1", "language=0.5", "norm=4"}, parts);
  EXPECT_EQ(factors.Of(tower), 0.1);
  EXPECT_EQ(factors.Of(kDown), 3);  // the first that matches
  EXPECT_EQ(factors.Of(named_so), 1);
  EXPECT_EQ(LrFactors({"vision=0.1"}).Of(named_so), 0.1);  // a pattern where the model has no parts
}

TEST(LrFactors, WhatIsOneParameterHasOneFactor) {
  const std::string why = RefusalOf([] { LrFactors({"q_proj=2"}).Of(kFused); });
  EXPECT_NE(why.find("q_proj.weight has 2 and model.layers.1.self_attn.k_proj.weight 1"), std::string::npos) << why;
}

TEST(LrFactors, RefusesWhatMatchesNothing) {
  LrFactors({"embed_tokens=2"}).Check({kEmbedding, kDown});
  for (const auto& [entries, unused] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"lm_head=2"}, "'lm_head=2'"}, {{"proj=2", "down_proj=3"}, "'down_proj=3'"}}) {
    const std::string why = RefusalOf([&] { LrFactors(entries).Check({kEmbedding, kDown, kFused}); });
    EXPECT_NE(why.find(unused), std::string::npos) << why;
  }
  const Parameter frozen = Named({"lm_head.weight"}, /*trained=*/false);
  EXPECT_NE(RefusalOf([&] { LrFactors({"lm_head=2"}).Check({kEmbedding, frozen}); }), "");
}

TEST(LrFactors, RefusesMalformedEntries) {
  for (const char* entry : {"down_proj", "down_proj=", "down_proj=-1", "down_proj=two", "down_proj=1e999", "(=1"}) {
    EXPECT_NE(RefusalOf([&] { LrFactors({entry}); }), "") << entry;
  }
}

}  // namespace
}  // namespace trireme
