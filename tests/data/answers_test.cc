// Preference records in every format, what is refused of them, and units that stay whole.
#include "data/answer_samples.h"

#include "data/answer_rows.h"
#include "data/dataset.h"
#include "data/mismatched_rows.h"
#include "data/prepare.h"
#include "data/row_views.h"
#include "tests/data/scratch.h"

namespace trireme {
namespace {

class AnswerSamples : public ScratchTest {
 protected:
  static TextAnswers Read(const std::string& record, Stage stage = STAGE_DPO) {
    return std::get<TextAnswers>(ReadAnswers(Json::parse(record), {}, FactsOf(stage)));
  }
  std::string Refused(const std::string& record, Stage stage = STAGE_DPO) const {
    return RefusalOf([&] { ReadAnswers(Json::parse(record), {}, FactsOf(stage)); });
  }
  // "u:q | a:good | a:bad", or the texts alone.
  static std::string Plain(const Json& part) {
    if (part.is_string()) return part.get<std::string>();
    std::string text;
    for (const Json& message : part) {
      text += message["role"].get<std::string>().substr(0, 1) + ":" + message["content"].get<std::string>() + " ";
    }
    return text;
  }
  static std::string Plain(const TextAnswers& sample) {
    std::string text = Plain(sample.prompt);
    for (const Json& answer : sample.answers) text += "| " + Plain(answer);
    return text;
  }
};

TEST_F(AnswerSamples, WhatIsScoredNeedsNoLabel) {
  const auto read = [](const std::string& record) { return ReadScored(Json::parse(record), {}); };
  const auto plain = [&](const std::string& record) { return Plain(std::get<TextAnswers>(read(record))); };
  EXPECT_EQ(plain(R"({"prompt": "q", "completion": "a"})"), "q| a");
  EXPECT_EQ(plain(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})"),
            "u:q | a:a ");
  EXPECT_EQ(plain(R"({"prompt": "q", "chosen": "a", "rejected": "a"})"), "q| a| a") << "sides may be equal";
  EXPECT_EQ(std::get<TokenAnswers>(read(R"({"input_ids": [5, 6]})")).answers,
            (std::vector<std::vector<int32_t>>{{5, 6}}));
  EXPECT_EQ(
      std::get<TokenAnswers>(read(R"({"prompt_ids": [1], "chosen_ids": [5], "rejected_ids": [6]})")).answers.size(),
      2U);
  const auto refused = [&](const std::string& record) { return RefusalOf([&] { read(record); }); };
  EXPECT_NE(refused(R"({"prompt": "q"})").find("is nothing to score: its keys are prompt"), std::string::npos);
  EXPECT_NE(refused(R"({"input_ids": []})").find("'input_ids' is empty"), std::string::npos);
  EXPECT_NE(refused(R"({"prompt": "q", "completion": ""})").find("the only answer is empty"), std::string::npos);
}

TEST_F(AnswerSamples, PairsInEveryFormat) {
  // TRL: text, messages, and prompts that stand in both answers.
  EXPECT_EQ(Plain(Read(R"({"prompt": "q ", "chosen": "good", "rejected": "bad"})")), "q | good| bad");
  EXPECT_EQ(Plain(Read(R"({"prompt": [{"role": "user", "content": "q"}],
      "chosen": [{"role": "assistant", "content": "good"}], "rejected": [{"role": "assistant", "content": "bad"}]})")),
            "u:q | a:good | a:bad ");
  EXPECT_EQ(Plain(Read(R"({"chosen": "The sky is blue", "rejected": "The sky is green"})")),
            "The sky is|  blue|  green");
  EXPECT_EQ(Plain(Read(R"({"chosen": "ä1", "rejected": "ö1"})")), "| ä1| ö1") << "no half of a character is shared";
  EXPECT_EQ(Plain(Read(R"({"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "good"}],
      "rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "bad"}]})")),
            "u:q | a:good | a:bad ");
  EXPECT_EQ(
      Plain(Read(R"({"prompt": "q", "chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "x"}],
      "rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "y"}]})")),
      "u:q | a:x | a:y ");
  EXPECT_EQ(Plain(Read(R"({"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "x"}],
      "rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "x"},
                   {"role": "user", "content": "r"}, {"role": "assistant", "content": "y"}]})")),
            "u:q | a:x | a:x u:r a:y ")
      << "an answer that begins the other one is no prompt";
  // ms-swift.
  const std::string messages =
      R"("messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "good"}])";
  EXPECT_EQ(Plain(Read("{" + messages + R"(, "rejected_response": "bad"})")), "u:q | a:good | a:bad ");
  EXPECT_EQ(Plain(Read("{" + messages + R"(, "rejected_messages":
      [{"role": "user", "content": "q"}, {"role": "assistant", "content": "bad"}]})")),
            "u:q | a:good | a:bad ");
  // LLaMA-Factory: Alpaca's ranking, ShareGPT's.
  EXPECT_EQ(
      Plain(Read(R"({"instruction": "do", "input": "this", "chosen": "good", "rejected": "bad", "system": "s"})")),
      "s:s u:do\nthis | a:good | a:bad ");
  EXPECT_EQ(Plain(Read(R"({"conversations": [{"from": "human", "value": "q"}],
      "chosen": {"from": "gpt", "value": "good"}, "rejected": {"from": "gpt", "value": "bad"}})")),
            "u:q | a:good | a:bad ");
}

TEST_F(AnswerSamples, SingleAnswersWithLabels) {
  const TextAnswers trl = Read(R"({"prompt": "q", "completion": "a", "label": false})", STAGE_KTO);
  EXPECT_EQ(Plain(trl), "q| a");
  EXPECT_EQ(trl.values, std::vector<float>{0});
  const TextAnswers swift =
      Read(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "label": true})",
           STAGE_KTO);
  EXPECT_EQ(Plain(swift), "u:q | a:a ");
  EXPECT_EQ(swift.values, std::vector<float>{1});
  EXPECT_EQ(Plain(Read(R"({"instruction": "q", "output": "a", "kto_tag": true})", STAGE_KTO)), "u:q | a:a ");
  // A pair is a good answer and a bad one.
  EXPECT_EQ(Read(R"({"prompt": "q", "chosen": "good", "rejected": "bad"})", STAGE_KTO).values,
            (std::vector<float>{1, 0}));
}

TEST_F(AnswerSamples, WhatIsRefused) {
  EXPECT_EQ(Refused(R"({"prompt": "q", "chosen": "a", "rejected": "a"})"),
            "both answers are equal, so that neither can be preferred");
  EXPECT_EQ(Refused(R"({"prompt": "q", "chosen": "", "rejected": "a"})"), "the chosen answer is empty");
  EXPECT_EQ(Refused(R"({"prompt": "q", "chosen": [], "rejected": [{"role": "assistant", "content": "a"}]})"),
            "the chosen answer is empty");
  EXPECT_EQ(Refused(R"({"prompt": "q", "chosen": "b", "rejected": "a", "margin": "much"})"),
            "'margin' is \"much\"; wanted a number");
  EXPECT_EQ(Refused(R"({"prompt": "q", "completion": "a", "label": "yes"})", STAGE_KTO),
            "'label' is \"yes\"; wanted true or false");
  EXPECT_EQ(Refused(R"({"prompt": "q", "completion": "a"})", STAGE_KTO),
            "has no label; wanted label (or kto_tag): true or false");
  EXPECT_NE(
      Refused(R"({"query": "q", "response": "a"})").find("not a record for stage dpo: it has the keys query, response"),
      std::string::npos);
  EXPECT_EQ(Refused(R"({"prompt_ids": [1], "chosen_ids": [2], "rejected_ids": []})"), "the rejected answer is empty");
  EXPECT_EQ(Refused(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "x"}],
      "rejected_messages": [{"role": "user", "content": "other"}, {"role": "assistant", "content": "y"}]})"),
            "messages and rejected_messages have different prompts; wanted the same up to the last question");
}

TEST_F(AnswerSamples, AMessagesOwnLossIsRefusedUnlessItHappensAnyway) {
  const auto record = [](const std::string& prompt, const std::string& answer) {
    return R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "x")" + prompt +
           R"(}, {"role": "user", "content": "r"}, {"role": "assistant", "content": "good")" + answer +
           R"(}], "rejected_response": "bad"})";
  };
  const std::string why =
      "; stage dpo compares whole answers, so that messages have no weights of their own; remove the key";
  EXPECT_EQ(Refused(record("", R"(, "loss": 0.5)")), "a message of the answer has \"loss\": 0.5" + why);
  EXPECT_EQ(Refused(record("", R"(, "loss": false)")), "a message of the answer has \"loss\": false" + why);
  EXPECT_EQ(Refused(record("", R"(, "loss_scale": 2)")), "a message of the answer has \"loss_scale\": 2" + why);
  EXPECT_EQ(Refused(record(R"(, "loss": true)", "")), "a message of the prompt has \"loss\": true" + why);
  EXPECT_EQ(Plain(Read(record(R"(, "loss": false)", R"(, "loss": true, "loss_scale": 1)"))),
            "u:q a:x u:r | a:good | a:bad ");
  EXPECT_NE(Refused(record(R"(, "loss": false)", ""), STAGE_ORPO).find("stage orpo"), std::string::npos)
      << "its prompts may be trained";
  EXPECT_EQ(Refused(R"({"prompt_ids": [1], "chosen_ids": [2], "rejected_ids": [3], "loss_scale": [1, 2]})"),
            "has 'loss_scale'; stage dpo weighs all tokens of an answer alike; remove the key");
}

class AnswerRowsTest : public ScratchTest {
 protected:
  Config ConfigFor(const std::string& rows, Stage stage) {
    Config config;
    config.set_stage(stage);
    config.mutable_data()->add_train(Write("rows.jsonl", rows));
    config.mutable_data()->set_cache((folder_ / "cache").string());
    config.mutable_data()->set_max_length(8);
    config.mutable_data()->set_packing(false);
    return config;
  }
};

constexpr char kPairs[] =
    "{\"prompt_ids\": [1, 2], \"chosen_ids\": [3, 4, 5], \"rejected_ids\": [6]}\n"
    "{\"prompt_ids\": [7], \"chosen_ids\": [8], \"rejected_ids\": [9, 10, 11, 12, 13, 14, 15, 16]}\n"
    "{\"prompt_ids\": [1], \"chosen_ids\": [2], \"rejected_ids\": [3]}\n";

TEST_F(AnswerRowsTest, StagesThatReadRecordsAlikeShareTheCache) {
  const Config config = ConfigFor(kPairs, STAGE_DPO);
  const auto identity = [&](Stage stage) {
    return Preparer(config.data(), FactsOf(stage), config.model(), true).IdentityOf(config.data().train(0));
  };
  EXPECT_EQ(identity(STAGE_DPO), identity(STAGE_SIMPO));
  EXPECT_NE(identity(STAGE_DPO), identity(STAGE_ORPO)) << "which refuses records that the others take";
  EXPECT_NE(identity(STAGE_DPO), identity(STAGE_KTO));
  EXPECT_EQ(identity(STAGE_GKD), identity(STAGE_SFT));
  EXPECT_NE(identity(STAGE_PT), identity(STAGE_SFT));
}

TEST_F(AnswerRowsTest, APairIsARowOfTwoDocuments) {
  Config config = ConfigFor(kPairs, STAGE_DPO);
  config.mutable_preference()->set_share_prompt(false);
  const DataSets dropped = OpenDataSets(config, {.vocabulary = 100});
  ASSERT_EQ(dropped.train->size(), 2) << "the second is too long on one side";
  const Row row = dropped.train->Read(0);
  EXPECT_EQ(row.input_ids, (std::vector<int64_t>{1, 2, 3, 4, 5, 1, 2, 6}));
  EXPECT_EQ(row.labels, (std::vector<int64_t>{-100, -100, 3, 4, 5, -100, -100, 6}));
  EXPECT_EQ(row.starts, (std::vector<int64_t>{0, 5}));
  EXPECT_EQ(row.samples, (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(row.answer_tokens, (std::vector<int64_t>{3, 1}));
  EXPECT_TRUE(row.weights.empty());
  EXPECT_EQ(dropped.train->Trained(0), 4);
  EXPECT_EQ(dropped.train->Length(0), 8);

  config.mutable_data()->set_over_length(OVER_LENGTH_TRUNCATE);
  const DataSets cut = OpenDataSets(config, {.vocabulary = 100});
  ASSERT_EQ(cut.train->size(), 3);
  EXPECT_EQ(cut.train->Read(1).answer_tokens, (std::vector<int64_t>{1, 7}));
  EXPECT_EQ(cut.train->Length(1), 10);
  EXPECT_EQ(cut.train->Trained(1), 8);
}

TEST_F(AnswerRowsTest, APromptStandsInARowOnceUpToTheTokenThatPredictsTheAnswers) {
  Config config = ConfigFor(kPairs, STAGE_DPO);
  config.mutable_data()->set_over_length(OVER_LENGTH_TRUNCATE);
  const DataSets data = OpenDataSets(config, {.vocabulary = 100});
  const Row row = data.train->Read(0);
  EXPECT_EQ(row.input_ids, (std::vector<int64_t>{1, 2, 3, 4, 5, 2, 6}));
  EXPECT_EQ(row.labels, (std::vector<int64_t>{-100, -100, 3, 4, 5, -100, 6}));
  EXPECT_EQ(row.starts, (std::vector<int64_t>{0, 5}));
  EXPECT_EQ(row.shared, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(row.answer_tokens, (std::vector<int64_t>{3, 1}));
  for (int64_t i = 0; i < data.train->size(); ++i) {
    const Row read = data.train->Read(i);
    EXPECT_EQ(data.train->Length(i), std::ssize(read.input_ids)) << "row " << i;
    EXPECT_EQ(data.train->Trained(i), CountTrained(read)) << "row " << i;
  }
}

// Its tokens count nothing in the comparison. ms-swift learns the answer alone.
TEST_F(AnswerRowsTest, OrpoLearnsThePromptOfTheChosenAnswerUnlessToldOtherwise) {
  Config config = ConfigFor(kPairs, STAGE_ORPO);
  const Row learnt = OpenDataSets(config, {.vocabulary = 100}).train->Read(0);
  EXPECT_EQ(learnt.labels, (std::vector<int64_t>{-100, 2, 3, 4, 5, -100, 6}));
  config.mutable_preference()->set_orpo_prompt_nll(false);
  const Row alone = OpenDataSets(config, {.vocabulary = 100}).train->Read(0);
  EXPECT_EQ(alone.labels, (std::vector<int64_t>{-100, -100, 3, 4, 5, -100, 6}));
  EXPECT_EQ(alone.answer_tokens, learnt.answer_tokens);
}

TEST_F(AnswerRowsTest, PromptsAreComputedTwiceWhereRoutersCountTheirTokens) {
  Config config = ConfigFor(kPairs, STAGE_DPO);
  config.mutable_experts()->set_balance_coefficient(0.01);
  EXPECT_TRUE(OpenDataSets(config, {.vocabulary = 100}).train->Read(0).shared.empty());
}

TEST_F(AnswerRowsTest, PacksKeepPairsWhole) {
  Config config = ConfigFor(kPairs, STAGE_DPO);
  config.mutable_data()->set_packing(true);
  config.mutable_preference()->set_ld_alpha(0.5);
  const DataSets data = OpenDataSets(config, {.vocabulary = 100});
  ASSERT_EQ(data.train->size(), 1);
  const Row row = data.train->Read(0);
  EXPECT_EQ(row.starts, (std::vector<int64_t>{0, 5, 7, 9}));
  EXPECT_EQ(row.samples, (std::vector<int64_t>{0, 0, 2, 2}));
  EXPECT_EQ(row.shared, (std::vector<int64_t>{0, 1, 0, 0}));
  EXPECT_EQ(row.answer_tokens, (std::vector<int64_t>{3, 1, 1, 1}));
  EXPECT_EQ(row.weights, (std::vector<float>{0, 0, 1, 0.5F, 0.5F, 0, 1, 0, 1, 0, 1}));
}

TEST_F(AnswerRowsTest, OrpoLearnsThePromptOfTheChosenSideAlone) {
  const DataSets data = OpenDataSets(ConfigFor(kPairs, STAGE_ORPO), {.vocabulary = 100});
  const Row row = data.train->Read(0);
  EXPECT_EQ(row.labels, (std::vector<int64_t>{-100, 2, 3, 4, 5, -100, 6}));
  EXPECT_EQ(row.weights, (std::vector<float>{0, 0, 1, 1, 1, 0, 1}));
  EXPECT_EQ(row.answer_tokens, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(data.train->Trained(0), 5);
}

TEST_F(AnswerRowsTest, APairThatIsTooLongOnEitherSideIsReported) {
  const Config config = ConfigFor(kPairs, STAGE_DPO);
  const Preparer preparer(config.data(), FactsOf(config), config.model(), true);
  const std::string& path = config.data().train(0);
  EXPECT_EQ(LeftOutOf("rows.jsonl", *preparer.Prepare(path), config),
            std::vector<std::string>{"rows.jsonl: 1 of 3 samples are longer than data.max_length = 8, the longest has "
                                     "9 tokens; data.over_length: drop"});
}

constexpr char kLabelled[] =
    "{\"prompt_ids\": [1, 2], \"completion_ids\": [3, 4], \"label\": true}\n"
    "{\"prompt_ids\": [5], \"completion_ids\": [6], \"label\": false}\n"
    "{\"prompt_ids\": [7, 8, 9], \"completion_ids\": [10, 11, 12], \"label\": true}\n";

TEST_F(AnswerRowsTest, AnswersMoveToTheNextPrompt) {
  const DataSets data = OpenDataSets(ConfigFor(kLabelled, STAGE_KTO), {.vocabulary = 100});
  ASSERT_EQ(data.train->size(), 3);
  EXPECT_EQ(data.train->Read(1).values, std::vector<float>{0});
  const MismatchedRows moved(*data.train, {0, 1, 2}, 4);
  EXPECT_EQ(moved.Read(0).input_ids, (std::vector<int64_t>{1, 2, 10, 11})) << "cut to 4";
  EXPECT_EQ(moved.Read(0).labels, (std::vector<int64_t>{-100, -100, 10, 11}));
  EXPECT_EQ(moved.Read(1).input_ids, (std::vector<int64_t>{5, 3, 4}));
  EXPECT_EQ(moved.Read(2).input_ids, (std::vector<int64_t>{7, 8, 9, 6}));
  const Rows pack = PackRows(data.train, 16);
  EXPECT_EQ(MismatchedRows(*pack, {0}, 16).Read(0).input_ids,
            (std::vector<int64_t>{1, 2, 10, 11, 12, 5, 3, 4, 7, 8, 9, 6}));
}

TEST_F(AnswerRowsTest, AnswersMoveWithinTheirBatch) {
  const DataSets data = OpenDataSets(ConfigFor(kLabelled, STAGE_KTO), {.vocabulary = 100});
  const MismatchedBatches moved(*data.train, {{2, 0}, {1}, {0, 1, 2}}, 4);
  ASSERT_EQ(moved.size(), 6);
  EXPECT_EQ(moved.Read(0).input_ids, (std::vector<int64_t>{7, 8, 9, 3}));
  EXPECT_EQ(moved.Read(1).input_ids, (std::vector<int64_t>{1, 2, 10, 11}));
  EXPECT_EQ(moved.Read(2).input_ids, (std::vector<int64_t>{5, 6})) << "alone in its batch";
  const MismatchedRows last(*data.train, {0, 1, 2}, 4);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(moved.Read(3 + i).input_ids, last.Read(i).input_ids) << i;
  EXPECT_EQ(moved.RowsOf(0), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(moved.RowsOf(1), (std::vector<int64_t>{2}));
  EXPECT_EQ(moved.RowsOf(2), (std::vector<int64_t>{3, 4, 5}));
}

TEST_F(AnswerRowsTest, WhatIsRefusedSaysWhere) {
  const auto refusal = [&](const std::string& rows, Stage stage) {
    return RefusalOf([&] { OpenDataSets(ConfigFor(rows, stage), {.vocabulary = 100}); });
  };
  const std::string good = "{\"prompt_ids\": [1], \"chosen_ids\": [2], \"rejected_ids\": [3]}\n";
  EXPECT_EQ(refusal(good + "{\"prompt_ids\": [1], \"chosen_ids\": [2], \"rejected_ids\": [2]}\n", STAGE_DPO),
            "rows.jsonl:2: both answers are equal, so that neither can be preferred");
  EXPECT_EQ(
      refusal(good + "{\"prompt_ids\": [1,2,3,4,5,6,7,8], \"chosen_ids\": [2], \"rejected_ids\": [3]}\n", STAGE_DPO),
      "rows.jsonl:2: the prompt alone has 8 tokens, which leaves no room for an answer within data.max_length = 8; "
      "raise it, or leave the record out with data.on_error: skip");
  EXPECT_EQ(
      refusal("{\"prompt_ids\": [1], \"completion_ids\": [2], \"label\": true}\n", STAGE_KTO),
      "data.train: all 1 answers have the label true; stage kto needs desirable (true) and undesirable (false) ones");

  Config skipping = ConfigFor(good + "{\"prompt_ids\": [1], \"chosen_ids\": [2], \"rejected_ids\": [2]}\n", STAGE_DPO);
  skipping.mutable_data()->set_on_error(ON_DATA_ERROR_SKIP);
  EXPECT_EQ(OpenDataSets(skipping, {.vocabulary = 100}).train->size(), 1);
}

}  // namespace
}  // namespace trireme
