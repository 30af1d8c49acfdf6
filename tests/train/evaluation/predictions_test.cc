// The file of predictions, and their mean scores.
#include "train/evaluation/predictions.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/base/file.h"

namespace trireme {
namespace {

TEST(Predictions, NothingIsOverwritten) {
  const std::filesystem::path folder = testing::TempDir() + "trireme_predictions_" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const auto write = [&](const std::string& text) {
    const Prediction one{.prompt = "ask", .prediction = text, .label = "a \"b\"", .finish_reason = "stop"};
    return WritePredictions(folder, "predictions-4", PredictionLines({one}));
  };
  EXPECT_EQ(write("first"), folder / "predictions-4.jsonl");
  EXPECT_EQ(write("second"), folder / "predictions-4-1.jsonl");
  EXPECT_EQ(write("third"), folder / "predictions-4-2.jsonl");
  EXPECT_EQ(ReadTextFile((folder / "predictions-4.jsonl").string()),
            "{\"prompt\":\"ask\",\"prediction\":\"first\",\"label\":\"a \\\"b\\\"\",\"finish_reason\":\"stop\"}\n");
  std::filesystem::remove_all(folder);
}

TEST(Predictions, ScoresAreMeansOverAnswers) {
  const std::map<std::string, double> means =
      MeanScores({{.prompt = {}, .prediction = "one two", .label = "one two", .finish_reason = {}},
                  {.prompt = {}, .prediction = "dog", .label = "cat", .finish_reason = {}}});
  ASSERT_EQ(means.size(), 5u);
  EXPECT_EQ(means.at("exact_match"), 0.5);
  for (const char* name : {"rouge-1", "rouge-2", "rouge-l", "bleu-4"}) EXPECT_NEAR(means.at(name), 50, 1e-5) << name;
}

}  // namespace
}  // namespace trireme
