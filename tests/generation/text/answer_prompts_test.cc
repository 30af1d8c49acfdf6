// Which tokens of validation rows are prompts, and which the answers to compare with.
#include "generation/text/answer_prompts.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

constexpr int64_t kNo = kNotTrained;

TEST(AnswerPrompts, TheLastTrainedTokensAreTheAnswer) {
  const RowList rows({{.input_ids = {1, 2, 3, 4, 5, 6, 7}, .labels = {kNo, 2, kNo, kNo, 5, 6, kNo}}});
  const std::vector<AnswerPrompt> prompts = AnswerPromptsOf(rows, 0);
  ASSERT_EQ(prompts.size(), 1u);
  EXPECT_EQ(prompts[0].prompt, (Tokens{1, 2, 3, 4}));
  EXPECT_EQ(prompts[0].label, (Tokens{5, 6}));
}

TEST(AnswerPrompts, PackedConversationsAreTakenApart) {
  const RowList rows({{.input_ids = {1, 2, 3, 4, 5, 6}, .labels = {kNo, 2, 3, kNo, kNo, 6}, .starts = {0, 3}},
                      {.input_ids = {7, 8}, .labels = {kNo, 8}}});
  const std::vector<AnswerPrompt> prompts = AnswerPromptsOf(rows, 0);
  ASSERT_EQ(prompts.size(), 3u);
  EXPECT_EQ(prompts[0].prompt, (Tokens{1}));
  EXPECT_EQ(prompts[0].label, (Tokens{2, 3}));
  EXPECT_EQ(prompts[1].prompt, (Tokens{4, 5}));
  EXPECT_EQ(prompts[1].label, (Tokens{6}));
  EXPECT_EQ(prompts[2].prompt, (Tokens{7}));
}

TEST(AnswerPrompts, OnlyTheFirstAreTaken) {
  const RowList rows({{.input_ids = {1, 2, 3, 4}, .labels = {kNo, 2, kNo, 4}, .starts = {0, 2}},
                      {.input_ids = {5, 6}, .labels = {kNo, 6}}});
  EXPECT_EQ(AnswerPromptsOf(rows, 2).size(), 2u);
  EXPECT_EQ(AnswerPromptsOf(rows, 1).size(), 1u);
  EXPECT_EQ(AnswerPromptsOf(rows, 9).size(), 3u);
}

TEST(AnswerPrompts, AConversationWithoutAnAnswerIsLeftOut) {
  const RowList rows({{.input_ids = {1, 2, 3, 4}, .labels = {kNo, kNo, kNo, 4}, .starts = {0, 2}}});
  const std::vector<AnswerPrompt> prompts = AnswerPromptsOf(rows, 0);
  ASSERT_EQ(prompts.size(), 1u);
  EXPECT_EQ(prompts[0].prompt, (Tokens{3}));
}

}  // namespace
}  // namespace trireme
