// Data of both dialects to rows, and what is refused by name.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>

#include "core/base/error.h"
#include "serve/tinker/json_data.h"
#include "serve/tinker/loss_request.h"
#include "serve/tinker/proto_data.h"
#include "serve/tinker/sampling.h"
#include "serve/tinker/tinker.pb.h"

namespace trireme::tinker {
namespace {

constexpr DataLimits kLimits{.vocabulary = 100, .context = 8};

LossRequest Checked(const std::string& text) {
  return CheckLoss(ReadLossJson(Json::parse(text), "forward_backward_input"), kLimits);
}

std::string Refusal(const std::string& text) {
  try {
    Checked(text);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.message;
  }
  return "";
}

std::string Datum(const std::string& tokens, const std::string& inputs) {
  return R"({"data": [{"model_input": {"chunks": [{"tokens": )" + tokens + R"(}]}, "loss_fn_inputs": {)" + inputs +
         R"(}}], "loss_fn": "cross_entropy"})";
}

TEST(RemoteData, FieldsThatNobodySetHaveDefaults) {
  const LossRequest request = Checked(Datum("[1, 2, 3]", R"("target_tokens": {"data": [2, 3, 4], "dtype": "int64"},
      "weights": {"data": [0, 1, -0.5], "dtype": "float32", "shape": [3]})"));
  ASSERT_EQ(request.rows.size(), 1U);
  EXPECT_EQ(request.rows[0].tokens, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(request.rows[0].targets, (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(request.rows[0].inputs.weights, (std::vector<float>{0, 1, -0.5F}));
  EXPECT_EQ(request.columns, (std::vector<int64_t>{0}));
}

TEST(RemoteData, ManyTargetsBecomeRowsAlsoSparse) {
  const LossRequest request =
      Checked(Datum("[1, 2]", R"("target_tokens": {"data": [5, 6, 7, 8], "dtype": "int64", "shape": [2, 2]},
      "weights": {"data": [0.5, 2.0], "dtype": "float32", "shape": [2, 2], "sparse_crow_indices": [0, 1, 2],
                  "sparse_col_indices": [1, 0]})"));
  ASSERT_EQ(request.rows.size(), 2U);
  EXPECT_EQ(request.rows[0].targets, (std::vector<int64_t>{5, 7}));
  EXPECT_EQ(request.rows[1].targets, (std::vector<int64_t>{6, 8}));
  EXPECT_EQ(request.rows[0].inputs.weights, (std::vector<float>{0, 2}));
  EXPECT_EQ(request.rows[1].inputs.weights, (std::vector<float>{0.5, 0}));
}

TEST(RemoteData, WhatIsWrongIsNamed) {
  const std::string targets = R"("target_tokens": {"data": [2, 3], "dtype": "int64"})";
  const std::string weights = R"("weights": {"data": [1, 1], "dtype": "float32"})";
  EXPECT_EQ(Refusal(Datum("[1, 2]", targets + "," + weights)), "");
  EXPECT_NE(Refusal(Datum("[1, 200]", targets + "," + weights)).find("data[0].model_input: token 200"),
            std::string::npos);
  EXPECT_NE(Refusal(Datum("[]", targets + "," + weights)).find("has no tokens"), std::string::npos);
  EXPECT_NE(Refusal(Datum("[1, 2, 3, 4, 5, 6, 7, 8, 9]", targets + "," + weights)).find("the server takes 8"),
            std::string::npos);
  EXPECT_NE(Refusal(Datum("[1, 2, 3]", targets + "," + weights)).find("target_tokens: has 2 values"),
            std::string::npos);
  EXPECT_NE(Refusal(Datum("[1, 2]", targets)).find("needs loss_fn_inputs.weights"), std::string::npos);
  EXPECT_NE(
      Refusal(Datum("[1, 2]", targets + "," + weights + R"(, "mask": {"data": [1, 1]})")).find("mask is not an input"),
      std::string::npos);
  EXPECT_NE(Refusal(Datum("[1, 2]", targets + R"(, "weights": {"data": [1, null]})")).find("finite"),
            std::string::npos);
  EXPECT_NE(Refusal(R"({"data": [], "loss_fn": "cross_entropy"})").find("data is empty"), std::string::npos);
  EXPECT_NE(Refusal(R"({"data": [], "loss_fn": "stable_reinforce"})").find("not known here"), std::string::npos);
  EXPECT_NE(Refusal(R"({"data": [{"model_input": {"chunks": [{"type": "image", "data": "x"}]}}], "loss_fn": "ppo"})")
                .find("image"),
            std::string::npos);
}

TEST(RemoteData, LossesTakeTheirOwnNumbersAlone) {
  const auto with = [](const std::string& loss, const std::string& config) {
    return R"({"data": [{"model_input": {"chunks": [{"tokens": [1]}]}, "loss_fn_inputs": {
      "target_tokens": {"data": [2], "dtype": "int64"}, "logprobs": {"data": [-1.5]}, "advantages": {"data": [1]}}}],
      "loss_fn": ")" +
           loss + R"(", "loss_fn_config": )" + config + "}";
  };
  EXPECT_EQ(Checked(with("ppo", "null")).numbers.clip_high, 1.2);
  EXPECT_EQ(Checked(with("cispo", "{}")).numbers.clip_high, 4.0);
  EXPECT_EQ(Checked(with("ppo", R"({"clip_high_threshold": 1.3})")).numbers.clip_high, 1.3);
  EXPECT_EQ(Checked(with("dro", R"({"beta": 0.05})")).numbers.beta, 0.05);
  EXPECT_NE(Refusal(with("dro", "{}")).find("needs beta"), std::string::npos);
  EXPECT_NE(Refusal(with("ppo", R"({"beta": 1})")).find("does not take it"), std::string::npos);
  EXPECT_NE(Refusal(with("ppo", R"({"clip_low_threshold": 3})")).find("is above"), std::string::npos);
}

std::string RefusalOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const ApiError& error) {
    return error.message;
  }
  return "";
}

TEST(RemoteData, ThresholdsAreFinite) {
  const auto refusal = [](double high) {
    const RawTensor one{.values = {1}, .shape = {1}}, clip{.values = {high}, .shape = {1}};
    const RawDatum datum{
        .tokens = {1},
        .inputs = {{"target_tokens", one}, {"logprobs", one}, {"advantages", one}, {"clip_high_threshold", clip}}};
    return RefusalOf([&] { CheckLoss({.data = {datum}, .loss_fn = "ppo"}, kLimits); });
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(refusal(1.5), "");
  for (const double bad : {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_NE(refusal(bad).find("clip_high_threshold: is NaN or infinite"), std::string::npos) << bad;
  }
}

TEST(RemoteData, NumbersAreFiniteAsFloat32) {
  const std::string targets = R"("target_tokens": {"data": [2], "dtype": "int64"}, )";
  EXPECT_EQ(Refusal(Datum("[1]", targets + R"("weights": {"data": [-3e38]})")), "");
  EXPECT_NE(Refusal(Datum("[1]", targets + R"("weights": {"data": [1e39]})"))
                .find("weights: has a value that is NaN or infinite"),
            std::string::npos);
  EXPECT_NE(Refusal(Datum("[1]", R"("target_tokens": {"data": [1e300]}, "weights": {"data": [1]})")).find("no token"),
            std::string::npos);
}

TEST(RemoteData, SparseTensorsAreBoundedBeforeTheyAreDense) {
  const auto sparse = [](const std::string& shape, const std::string& starts) {
    return Refusal(Datum("[1, 2]", R"("target_tokens": {"data": [], "dtype": "int64", "shape": )" + shape +
                                       R"(, "sparse_crow_indices": )" + starts + R"(, "sparse_col_indices": []})"));
  };
  EXPECT_NE(sparse("[3, 2]", "[0, 0, 0, 0]").find("has 3 rows; wanted 2"), std::string::npos);
  EXPECT_NE(sparse("[2, 33554432]", "[0, 0, 0]").find("has 33554432 columns; wanted 1 to 1024"), std::string::npos);
  DenseBudget budget{.tokens = 2, .cells = 5};
  const auto densify = [&] { Densified({.shape = {2, 2}}, {0, 0, 0}, {}, budget, "x"); };
  EXPECT_EQ(RefusalOf(densify), "");
  EXPECT_NE(RefusalOf(densify).find("stands for 4 dense values"), std::string::npos);  // of a request, not of a tensor
}

TEST(RemoteData, ARequestHasSoManyColumnsAndRows) {
  const auto datum = [](int64_t columns) {
    const RawTensor ones{.values = std::vector<double>(static_cast<size_t>(columns), 1.0), .shape = {1, columns}};
    return RawDatum{.tokens = {1}, .inputs = {{"target_tokens", ones}, {"weights", ones}}};
  };
  const auto refusal = [](std::vector<RawDatum> data) {
    return RefusalOf([&] { CheckLoss({.data = data, .loss_fn = "cross_entropy"}, kLimits); });
  };
  EXPECT_EQ(refusal({datum(1024)}), "");
  EXPECT_NE(refusal({datum(1025)}).find("1025 targets per token; the server takes 1024"), std::string::npos);
  EXPECT_NE(
      refusal(std::vector<RawDatum>(257, datum(1024))).find("data[256]: the request has more than 262144 sequences"),
      std::string::npos);
}

TEST(RemoteData, ProtobufGivesTheSameRows) {
  wire::ForwardBackwardRequest request;
  request.set_model_id("m");
  request.set_seq_id(7);
  request.set_loss_fn("cross_entropy");
  wire::Datum& datum = *request.add_data();
  const std::vector<int32_t> tokens = {1, 2};
  datum.add_model_input()->mutable_encoded_text()->set_tokens(tokens.data(), 8);
  const std::vector<int64_t> targets = {2, 3};
  wire::Tensor& target = (*datum.mutable_loss_fn_inputs())["target_tokens"];
  target.set_dense(targets.data(), 16);
  target.set_dtype(wire::DTYPE_INT64);
  target.add_shape(2);
  const std::vector<float> numbers = {0.25F, -1.0F};
  wire::Tensor& weight = (*datum.mutable_loss_fn_inputs())["weights"];
  weight.set_dense(numbers.data(), 8);
  weight.set_dtype(wire::DTYPE_FLOAT32);
  const ProtoPass pass = ReadPassProto(request.SerializeAsString());
  EXPECT_EQ(pass.model_id, "m");
  EXPECT_EQ(pass.seq_id, 7);
  EXPECT_EQ(pass.refusal, "");
  const LossRequest checked = CheckLoss(pass.loss, kLimits);
  EXPECT_EQ(checked.rows[0].targets, targets);
  EXPECT_EQ(checked.rows[0].inputs.weights, numbers);
  EXPECT_THROW(ReadPassProto("\x0a\xff"), ApiError);
  weight.set_dense("abc");
  EXPECT_NE(ReadPassProto(request.SerializeAsString()).refusal.find("weights"), std::string::npos);
}

TEST(RemoteData, ProtobufResultsHaveOffsetsInBytes) {
  const TrainOutcome outcome{.loss = 2.5, .logprobs = {{-1, -2}, {-3}}};
  wire::ForwardBackwardOutput output;
  ASSERT_TRUE(output.ParseFromString(PassOutputProto(outcome, {0, 0})));
  EXPECT_EQ(output.metrics().at("loss:sum"), 2.5);
  const wire::BatchedTensor& tensor = output.loss_fn_outputs(0).fields().at("logprobs");
  std::vector<int64_t> offsets(3);
  ASSERT_EQ(tensor.offsets().size(), 24U);
  std::memcpy(offsets.data(), tensor.offsets().data(), 24);
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 8, 12}));
}

TEST(RemoteData, UnitsOfWorkTravelWhole) {
  TrainWork work{.action = TrainAction::kStep,
                 .model = "a:train:0",
                 .loss = "ppo",
                 .backward = true,
                 .adam = {.eps = 1e-12, .grad_clip_norm = 0.3}};
  work.rows = {{.tokens = {1, 2}, .targets = {2, 3}, .inputs = {.logprobs = {-0.1F, -0.2F}, .advantages = {1, 2}}}};
  const TrainWork back = TrainWork::Of(work.Bytes());
  EXPECT_EQ(back.Bytes(), work.Bytes());
  EXPECT_EQ(back.adam.eps, 1e-12);
  EXPECT_EQ(back.rows[0].inputs.advantages, work.rows[0].inputs.advantages);
}

TEST(RemoteData, SamplesHaveTheLikelyTokensAndTheEndOfThePromptAlone) {
  const SampleOrder order{.prompt = {1, 2, 3, 4}, .prompt_logprobs = true, .prompt_logprobs_last = 2, .top = 2};
  const SampleResult result{.sequences = {{.tokens = {5}, .logprobs = {-1}, .likely = {{{.token = 5, .logprob = -1}}}}},
                            .prompt_logprobs = {-2, -3, -4}};
  wire::SampleResponse response;
  ASSERT_TRUE(response.ParseFromString(SampleProto(order, result)));
  const wire::TopkLogprobs& likely = response.sequences(0).topk_sampled_logprobs();
  EXPECT_EQ(likely.k(), 2U);
  EXPECT_EQ(likely.length(), 1U);
  EXPECT_EQ(likely.token_ids(), std::string("\x05\0\0\0\0\0\0\0", 8));
  float logprobs[2], prompt[4];
  ASSERT_EQ(likely.logprobs().size(), sizeof(logprobs));
  std::memcpy(logprobs, likely.logprobs().data(), sizeof(logprobs));
  EXPECT_EQ(logprobs[1], -99999.0F);  // there are fewer than asked for
  ASSERT_EQ(response.prompt_logprobs().size(), sizeof(prompt));
  std::memcpy(prompt, response.prompt_logprobs().data(), sizeof(prompt));
  EXPECT_TRUE(prompt[0] != prompt[0] && prompt[1] != prompt[1]);
  EXPECT_EQ(prompt[2], -3);
  EXPECT_EQ(prompt[3], -4);
  EXPECT_EQ(Json::parse(SampleAnswer(order, result).json)["prompt_logprobs"], Json({nullptr, nullptr, -3.0, -4.0}));
}

TEST(RemoteData, SamplesAreReadWithTheirDefaults) {
  const auto read = [](const std::string& more) {
    return ReadSample(Json::parse(R"({"prompt": {"chunks": [{"tokens": [1, 2]}]})" + more + "}"), kLimits);
  };
  const SampleOrder plain = read("");
  EXPECT_EQ(plain.temperature, 1);
  EXPECT_EQ(plain.top_k, 0);
  EXPECT_TRUE(plain.model_stops);
  EXPECT_FALSE(plain.max_tokens);
  EXPECT_FALSE(read(R"(, "sampling_params": {"stop": []})").model_stops);
  EXPECT_EQ(read(R"(, "sampling_params": {"stop": [7], "temperature": 0})").stop_tokens, (std::vector<int64_t>{7}));
  EXPECT_THROW(read(R"(, "topk_prompt_logprobs": 3)"), ApiError);
  EXPECT_THROW(read(R"(, "prompt_logprobs_last_n": 2)"), ApiError);  // of what?
  EXPECT_EQ(read(R"(, "prompt_logprobs": true, "prompt_logprobs_last_n": 2)").prompt_logprobs_last, 2);
  EXPECT_EQ(read(R"(, "topk_sample_logprobs": 3)").top, 3);
  EXPECT_THROW(read(R"(, "topk_sample_logprobs": 21)"), ApiError);
  EXPECT_THROW(read(R"(, "colour": 2)"), ApiError);
}

}  // namespace
}  // namespace trireme::tinker
