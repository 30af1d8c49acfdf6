// Conversions that would make numbers infinite are refused, with tensor and count, and leave no files behind; adapters
// are merged as their kind demands.
#include "checkpoint/convert.h"

#include <gtest/gtest.h>

#include <barrier>
#include <fstream>
#include <limits>
#include <thread>

#include "checkpoint/lora_adapter.h"
#include "checkpoint/safetensors_writer.h"
#include "tests/checkpoint/scratch.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

const ProcessGroup kAlone{.rank = 0, .size = 1, .barrier = [] {}};

class Conversion : public testing::Test {
 protected:
  fs::path Model(const std::vector<float>& values) {
    const fs::path directory = scratch_.path() / "model";
    fs::create_directories(directory);
    std::ofstream(directory / "config.json") << R"({"model_type": "llama"})";
    WriteSafetensors(directory / "model.safetensors",
                     {{"a.weight", DType::kFp32, {2, 2}, values.data()}, {"b.weight", DType::kFp32, {1}, kOne}});
    return directory;
  }
  fs::path Adapter(const std::string& alpha) {
    const fs::path directory = scratch_.path() / "adapter";
    fs::create_directories(directory);
    std::ofstream(directory / "adapter_config.json")
        << R"({"peft_type": "LORA", "r": 1, "target_modules": ["a"], "lora_alpha": )" << alpha << "}";
    static constexpr float kPair[] = {1e10f, 1};
    WriteSafetensors(directory / "adapter_model.safetensors",
                     {{"base_model.model.a.lora_A.weight", DType::kFp32, {1, 2}, kPair},
                      {"base_model.model.a.lora_B.weight", DType::kFp32, {2, 1}, kPair}});
    return directory;
  }
  std::string Imported(const fs::path& model, std::optional<DType> dtype) {
    return ErrorOf([&] { ImportCheckpoint(HfDirectory(model), target_, {.dtype = dtype}, kAlone); });
  }
  void ExpectNothingLeft() {
    EXPECT_FALSE(fs::exists(target_));
    EXPECT_FALSE(fs::exists(target_.string() + ".part"));
  }

  static constexpr float kOne[] = {1};
  Scratch scratch_;
  fs::path target_ = scratch_.path() / "to";
};

TEST_F(Conversion, NumbersThatOverflowTheTypeAreRefused) {
  const fs::path model = Model({1, 65504, -70000, 1e30f});
  EXPECT_EQ(Imported(model, DType::kFp16), (model / "model.safetensors").string() +
                                               ": tensor 'a.weight': 2 of 4 elements are not finite in fp16; choose "
                                               "another --dtype, such as bf16");
  ExpectNothingLeft();
  EXPECT_EQ(Imported(model, std::nullopt), "no error");
  const std::string exported = ErrorOf(
      [&] { ExportHuggingFace(HfDirectory(target_), scratch_.path() / "hf", {.dtype = DType::kFp16}, kAlone); });
  EXPECT_NE(exported.find("tensor 'a.weight': 2 of 4 elements are not finite in fp16"), std::string::npos) << exported;
  EXPECT_FALSE(fs::exists(scratch_.path() / "hf"));
  EXPECT_FALSE(fs::exists(scratch_.path() / "hf.part"));
}

TEST_F(Conversion, InfinitiesInTheSourceAreKept) {
  const fs::path model = Model({1, 2, 3, std::numeric_limits<float>::infinity()});
  EXPECT_EQ(Imported(model, DType::kFp16), "no error");
}

TEST_F(Conversion, AnAdapterThatMakesWeightsInfiniteIsRefused) {
  const HfDirectory base(Model({1, 2, 3, 4}));
  const auto merge = [&](const std::string& alpha) {
    return ErrorOf([&] {
      const LoraAdapter adapter(Adapter(alpha), base, {});
      ExportHuggingFace(base, target_, {.change = &adapter}, kAlone);
    });
  };
  const std::string said = merge("1e25");
  EXPECT_NE(said.find("tensor 'a.weight': 1 of 4 elements are not finite in fp32 with the adapter merged into them"),
            std::string::npos)
      << said;
  ExpectNothingLeft();
  EXPECT_NE(merge("1e308").find("adapter_config.json: lora_alpha is 1e+308; wanted a number that fits in fp32"),
            std::string::npos);
  ExpectNothingLeft();
  EXPECT_EQ(merge("2"), "no error");
}

// An embedding's adapter is stored the other way round: A is [rank, tokens], B [hidden, rank], the weight [tokens,
// hidden].
TEST_F(Conversion, AnAdapterOfTheEmbeddingIsMergedTransposed) {
  const std::vector<float> zeros(6), a = {1, 2, 3}, b = {10, 100};
  const fs::path model = scratch_.path() / "model", adapter = scratch_.path() / "adapter";
  fs::create_directories(model);
  fs::create_directories(adapter);
  WriteSafetensors(model / "model.safetensors", {{"embed_tokens.weight", DType::kFp32, {3, 2}, zeros.data()}});
  std::ofstream(adapter / "adapter_config.json")
      << R"({"peft_type": "LORA", "r": 1, "target_modules": ["embed_tokens"], "lora_alpha": 2})";
  WriteSafetensors(adapter / "adapter_model.safetensors",
                   {{"base_model.model.embed_tokens.lora_embedding_A", DType::kFp32, {1, 3}, a.data()},
                    {"base_model.model.embed_tokens.lora_embedding_B", DType::kFp32, {2, 1}, b.data()}});
  std::vector<float> merged = zeros;
  LoraAdapter(adapter, HfDirectory(model)).Apply("embed_tokens.weight", merged);
  EXPECT_EQ(merged, (std::vector<float>{20, 200, 40, 400, 60, 600}));
}

// Ranks as threads: if one of them refuses, all do.
TEST_F(Conversion, AllRanksRefuseTogether) {
  const fs::path model = Model({1e30f, 1, 1, 1});
  std::barrier<> both(2);
  std::string said[2];
  const auto rank = [&](int rank) {
    const ProcessGroup process_group{.rank = rank, .size = 2, .barrier = [&] { both.arrive_and_wait(); }};
    said[rank] =
        ErrorOf([&] { ExportHuggingFace(HfDirectory(model), target_, {.dtype = DType::kFp16}, process_group); });
  };
  std::thread second(rank, 1);
  rank(0);
  second.join();
  EXPECT_NE(said[0].find("tensor 'a.weight': 1 of 4 elements are not finite in fp16"), std::string::npos) << said[0];
  EXPECT_EQ(said[0], said[1]);
  ExpectNothingLeft();
}

// Every key is read, listed as one that changes no product of an adapter, or refused.
TEST_F(Conversion, AnAdaptersConfigIsReadWholeOrRefused) {
  const HfDirectory base(Model({1, 2, 3, 4}));
  const auto said = [&](const char* key, const Json& value) {
    const fs::path directory = Adapter("2");
    Json config = ReadJsonFile((directory / "adapter_config.json").string());
    config[key] = value;
    std::ofstream(directory / "adapter_config.json") << config.dump();
    return ErrorOf([&] { LoraAdapter(directory, base, {}); });
  };
  for (const Json& value : {Json(16), Json(0), Json(-8), Json(2.67), Json("1")}) {
    EXPECT_NE(said("r", value).find("adapter"), std::string::npos) << value;
  }
  EXPECT_NE(said("r", 16).find("'a.weight': A [1, 2] and B [2, 1] are of another rank; its config says 16"),
            std::string::npos)
      << said("r", 16);
  EXPECT_NE(said("r", 2.67).find("adapter_config.json: r is 2.67; wanted a positive integer"), std::string::npos);
  EXPECT_NE(said("rank_pattern", {{"a", 3}}).find("its config says 3"), std::string::npos);
  EXPECT_NE(said("rank_pattern", {{"a", -8}}).find("rank_pattern of 'a' is -8; wanted a positive integer"),
            std::string::npos);
  for (const char* key : {"use_rslora", "use_dora", "fan_in_fan_out", "lora_bias", "ensure_weight_tying"}) {
    EXPECT_NE(said(key, 1).find(Concat(key, " is 1; wanted true or false")), std::string::npos) << said(key, 1);
    EXPECT_EQ(said(key, false), "no error") << key;
  }
  EXPECT_NE(said("lora_bias", true).find("lora_bias is true, which is not supported"), std::string::npos);
  for (const char* key : {"alora_invocation_tokens", "layer_replication", "no_such_key"}) {
    EXPECT_NE(said(key, Json::array({1, 2})).find(Concat(key, " is [1,2], and this key is not supported")),
              std::string::npos)
        << said(key, Json::array({1, 2}));
    EXPECT_EQ(said(key, nullptr), "no error") << key;
  }
  EXPECT_EQ(said("_note", "mine"), "no error");
  EXPECT_EQ(said("lora_dropout", 0.1), "no error");
}

class Patterns : public Conversion {
 protected:
  std::string Said(const std::string& pattern) {
    return ErrorOf([&] {
      AdapterConfig config(
          Json{{"peft_type", "LORA"}, {"r", 8}, {"lora_alpha", 16}, {"rank_pattern", {{pattern, 4}}}}.dump(),
          "adapter_config.json");
      rank_ = config.RankOf("model.layers.0.self_attn." + std::string(64, 'a'));
    });
  }
  double rank_ = 0;
};

TEST_F(Patterns, AreMatchedInLinearTimeOrRefusedByName) {
  EXPECT_EQ(Said("(a+)+"), "no error");
  EXPECT_EQ(rank_, 4);
  EXPECT_EQ(Said("(a+)+b"), "no error");  // takes 2^64 steps in a backtracking engine
  EXPECT_EQ(rank_, 8);
  EXPECT_NE(Said("(").find("adapter_config.json: rank_pattern has the pattern '('"), std::string::npos);
  const std::string deep = Said(std::string(100000, '(') + std::string(100000, ')'));
  EXPECT_TRUE(deep == "no error" || deep.find("which is not a supported regular expression") != std::string::npos)
      << deep;
  EXPECT_NE(Said("((a{1000}){1000}){1000}").find("which is not a supported regular expression"), std::string::npos);
}

}  // namespace
}  // namespace trireme
