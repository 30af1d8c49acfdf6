// Images in records of preference stages: where each format puts them, which rows have them, and what is refused.
#include "data/answer_images.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/config/load.h"
#include "data/answer_rows.h"
#include "data/answer_samples.h"
#include "data/dataset.h"
#include "data/image_reader.h"
#include "data/mismatched_rows.h"
#include "images/image_source.h"
#include "tests/data/scratch.h"
#include "tests/images/small_images.h"

namespace trireme {
namespace {

constexpr int64_t kPlaceholder = 7;

class AnswerImages : public ScratchTest {
 protected:
  AnswerImages() {
    Write("config.json", R"({"vision_config": {}, "image_token_id": 7})");
    Write("preprocessor_config.json", R"({"patch_size": 14, "min_pixels": 3136, "max_pixels": 4000})");
    const std::vector<uint8_t> file = images::FromBase64(images::kSmallImages[3].base64, "png");
    Write("a.png", {file.begin(), file.end()});
    const ImageReader reader({.model = folder_.string()});
    tokens_ = reader.TokensOf(reader.GridOf((folder_ / "a.png").string()));
    floats_ = reader.GridOf((folder_ / "a.png").string()).patches() * reader.patch_floats();
  }

  static TextAnswers ReadPairOf(const std::string& record, Stage stage = STAGE_DPO) {
    return std::get<TextAnswers>(ReadAnswers(Json::parse(record), {.images = true}, FactsOf(stage)));
  }
  std::string Refused(const std::string& record) const {
    return RefusalOf([&] { ReadAnswers(Json::parse(record), {.images = true}, FactsOf(STAGE_DPO)); });
  }

  // [before, placeholders …, after]
  std::string PromptIds(int before, int after) const {
    std::string ids = Concat("[", before, ", ");
    for (int64_t i = 0; i < tokens_; ++i) ids += Concat(kPlaceholder, ", ");
    return Concat(ids, after, "]");
  }
  DataSets Open(const std::string& rows, const std::string& stage, const std::string& more = "") const {
    Write("rows.jsonl", rows);
    const Config config =
        ParseConfig(Concat("stage: ", stage, "\nmodel: {path: '", folder_.string(), "'}\ndata: {train: ['",
                           (folder_ / "rows.jsonl").string(), "'], max_length: 64, packing: false, cache: '",
                           (folder_ / "cache").string(), "'", more, "}"),
                    "test");
    return OpenDataSets(config, {.vocabulary = 100});
  }

  int64_t tokens_ = 0, floats_ = 0;
};

TEST_F(AnswerImages, StandInThePromptInEveryFormat) {
  const auto expect = [](const TextAnswers& sample) {
    EXPECT_EQ(sample.images, std::vector<std::string>{"a.png"});
    EXPECT_EQ(sample.prompt.back()["content"].dump(), R"([{"type":"image"},{"type":"text","text":"q"}])");
    for (const Json& answer : sample.answers) EXPECT_TRUE(answer[0]["content"].is_string());
  };
  // TRL: parts, with the images beside them or in them.
  expect(ReadPairOf(R"({"images": ["a.png"],
      "prompt": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "q"}]}],
      "chosen": [{"role": "assistant", "content": [{"type": "text", "text": "good"}]}],
      "rejected": [{"role": "assistant", "content": [{"type": "text", "text": "bad"}]}]})"));
  expect(ReadPairOf(R"({"prompt": [{"role": "user", "content": [{"type": "image", "image": "a.png"},
      {"type": "text", "text": "q"}]}], "chosen": [{"role": "assistant", "content": "good"}],
      "rejected": [{"role": "assistant", "content": "bad"}]})"));
  // ms-swift.
  const std::string messages =
      R"("messages": [{"role": "user", "content": "<image>q"}, {"role": "assistant", "content": "good"}])";
  expect(ReadPairOf("{" + messages + R"(, "images": ["a.png"], "rejected_response": "bad"})"));
  expect(ReadPairOf("{" + messages + R"(, "images": [{"path": "a.png"}], "rejected_images": [{"path": "a.png"}],
      "rejected_messages": [{"role": "user", "content": "<image>q"}, {"role": "assistant", "content": "bad"}]})"));
  // LLaMA-Factory: ShareGPT's ranking, Alpaca's, and single answers.
  expect(ReadPairOf(R"({"conversations": [{"from": "human", "value": "<image>q"}], "images": ["a.png"],
      "chosen": {"from": "gpt", "value": "good"}, "rejected": {"from": "gpt", "value": "bad"}})"));
  expect(ReadPairOf(R"({"instruction": "<image>q", "chosen": "good", "rejected": "bad", "images": ["a.png"]})"));
  expect(ReadPairOf(R"({"conversations": [{"from": "human", "value": "<image>q"}, {"from": "gpt", "value": "good"}],
      "images": ["a.png"], "kto_tag": true})",
                    STAGE_KTO));
}

TEST_F(AnswerImages, WhatIsRefusedOfThem) {
  const auto pair = [](const std::string& prompt, const std::string& chosen, const std::string& rejected,
                       const std::string& more) {
    return Concat(R"({"prompt": [{"role": "user", "content": ")", prompt,
                  R"("}], "chosen": [{"role": "assistant", "content": )", chosen,
                  R"(}], "rejected": [{"role": "assistant", "content": )", rejected, "}]", more, "}");
  };
  const std::string images = R"(, "images": ["a.png"])", good = R"("good")", bad = R"("bad")";
  EXPECT_EQ(Refused(pair("<image>q", good, bad, images)), "accepted");
  EXPECT_NE(Refused(pair("<image>q", good, bad, "")).find("1 <image> marks and 0 images"), std::string::npos);
  EXPECT_NE(Refused(pair("q", good, bad, images)).find("0 <image> marks and 1 images"), std::string::npos);
  EXPECT_NE(Refused(pair("q", R"("<image>")", bad, images)).find("the chosen answer has an image"), std::string::npos);
  EXPECT_NE(Refused(pair("q", good, R"([{"type": "image", "image": "a.png"}])", "")).find("the rejected answer has an"),
            std::string::npos);
  EXPECT_NE(Refused(pair("<image>q", good, bad, images + R"(, "rejected_images": ["b.png"])")).find("rejected_images"),
            std::string::npos);
  EXPECT_NE(Refused(R"({"prompt": "q", "chosen": "a", "rejected": "b", "images": ["a.png"]})").find("prompt that is"),
            std::string::npos);
  // A model that does not see: marks are text, images are refused, also those of the rejected side.
  const auto blind = [&](const std::string& record) {
    return RefusalOf([&] { ReadAnswers(Json::parse(record), {}, FactsOf(STAGE_DPO)); });
  };
  EXPECT_EQ(blind(pair("<image>q", good, bad, "")), "accepted");
  EXPECT_NE(blind(pair("<image>q", good, bad, images)).find("images need a model that sees"), std::string::npos);
  EXPECT_NE(blind(pair("q", good, bad, R"(, "rejected_images": ["b.png"])")).find("rejected_images"),
            std::string::npos);
}

TEST_F(AnswerImages, APairHasThemOnceWithItsPromptAndTwiceWithout) {
  const std::string rows = Concat(R"({"prompt_ids": )", PromptIds(1, 2),
                                  R"(, "chosen_ids": [3, 4], "rejected_ids": [5], "images": ["a.png"]})", "\n",
                                  R"({"prompt_ids": [8, 9], "chosen_ids": [3], "rejected_ids": [5, 6]})", "\n");
  const Rows shared = Open(rows, "dpo").train;
  const Row row = shared->Read(0);
  ASSERT_EQ(row.images.size(), 1U);
  EXPECT_EQ(row.images[0].first, 1);
  EXPECT_EQ(row.grids.size(), 1U);
  EXPECT_EQ(std::ssize(*row.patches), floats_);
  EXPECT_EQ(row.shared, (std::vector<int64_t>{0, tokens_ + 1}));
  EXPECT_EQ(shared->Extent(0).images, row.grids);
  EXPECT_EQ(shared->Length(0), std::ssize(row.input_ids));
  EXPECT_TRUE(shared->Read(1).images.empty());
  const Rows apart = Open(rows, "dpo", "}\npreference: {share_prompt: false").train;
  const Row twice = apart->Read(0);
  ASSERT_EQ(twice.images.size(), 2U);
  EXPECT_EQ(twice.images[1].first, twice.starts[1] + 1);
  EXPECT_EQ(twice.input_ids[static_cast<size_t>(twice.images[1].first)], kPlaceholder);
  EXPECT_EQ(std::ssize(*twice.patches), 2 * floats_);
  EXPECT_EQ(apart->Extent(0).images, twice.grids);
}

TEST_F(AnswerImages, AreNotLearntWithAPrompt) {
  const std::string rows = Concat(R"({"prompt_ids": )", PromptIds(1, 2),
                                  R"(, "chosen_ids": [3, 4], "rejected_ids": [5], "images": ["a.png"]})", "\n");
  const Rows train = Open(rows, "orpo").train;
  const Row row = train->Read(0);
  EXPECT_EQ(row.labels[static_cast<size_t>(tokens_) + 1], 2) << "the prompt's text is";
  EXPECT_EQ(std::ranges::count(row.labels, kPlaceholder), 0);
  EXPECT_EQ(train->Trained(0), CountTrained(row));
}

TEST_F(AnswerImages, StayWithTheirPromptsWhenAnswersMove) {
  const std::string rows =
      Concat(R"({"prompt_ids": [8], "completion_ids": [3, 4, 5], "label": true})", "\n", R"({"prompt_ids": )",
             PromptIds(1, 2), R"(, "completion_ids": [6], "label": false, "images": ["a.png"]})", "\n");
  const Rows train = Open(rows, "kto").train;
  const Rows packed = PackRows(train, 64);
  const Row row = MismatchedRows(*packed, {0}, 64).Read(0), before = packed->Read(0);
  ASSERT_EQ(row.images.size(), 1U);
  const auto first = static_cast<size_t>(row.images[0].first);
  EXPECT_EQ(row.images[0].first, before.images[0].first - 2) << "the answer before it is two tokens shorter";
  EXPECT_EQ(row.input_ids[first - 1], 1);
  EXPECT_EQ(std::count(row.input_ids.begin() + static_cast<std::ptrdiff_t>(first), row.input_ids.end(), kPlaceholder),
            tokens_);
  const Row alone = MismatchedRows(*train, {0, 1}, 64).Read(1);
  EXPECT_EQ(alone.images[0].first, 1);
  ASSERT_NE(alone.patches, nullptr);
  EXPECT_EQ(std::ssize(*alone.patches), floats_);
}

TEST_F(AnswerImages, BrokenOnesAreNamedOrSkipped) {
  const std::string good = Concat(R"({"prompt_ids": )", PromptIds(1, 2),
                                  R"(, "chosen_ids": [3, 4], "rejected_ids": [5], "images": ["a.png"]})", "\n");
  const auto with = [&](const std::string& name) {
    std::string record = good;
    return record.replace(record.find("a.png"), 5, name);
  };
  const auto refusal = [&](const std::string& record) { return RefusalOf([&] { Open(good + record, "dpo"); }); };
  Write("torn.png", "no image at all");
  EXPECT_EQ(refusal(with("none.png")).substr(0, 14), "rows.jsonl:2: ");
  EXPECT_NE(refusal(with("none.png")).find("none.png"), std::string::npos);
  EXPECT_NE(refusal(with("torn.png")).find("torn.png"), std::string::npos);
  EXPECT_NE(refusal(R"({"prompt_ids": [1, 7], "chosen_ids": [3], "rejected_ids": [5]})").find("placeholder"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"prompt_ids": [1], "chosen_ids": [7], "rejected_ids": [5]})").find("an answer has an image"),
            std::string::npos);
  EXPECT_EQ(Open(good + with("none.png"), "dpo", ", on_error: skip").train->size(), 1);
}

}  // namespace
}  // namespace trireme
