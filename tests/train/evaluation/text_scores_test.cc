// Scores of texts. The numbers are those of LLaMA-Factory's own lines (the F1 of rouge_chinese 1.0.3 over the words of
// jieba 0.42.1, joined by spaces; sentence_bleu of nltk 3.10.4 over list(text) with SmoothingFunction().method3), run
// in Python; in Chinese texts with list(text) in place of jieba.cut(text), since words there are characters here.
#include "train/evaluation/text_scores.h"

#include <gtest/gtest.h>

#include <vector>

#include "train/evaluation/text_words.h"

namespace trireme {
namespace {

struct Case {
  std::string prediction, label;
  double exact_match, rouge_1, rouge_2, rouge_l, bleu_4;
};

const std::vector<Case> kCases = {
    {"The cat sat on the mat.", "The cat is on the mat.", 0, 85.714285, 66.666666, 85.714285, 79.448372},
    {"It is 3.14, or 50% of it?\n\nSee e-mail.", "It was 3.14: 50%?\nSee the e-mail...", 0, 64.285714, 29.629629,
     62.068965, 51.607611},
    {"cat", "The cat sat on the mat.", 0, 25, 0, 25, 0.107015},
    {"the the the the the the the the", "the cat the cat", 0, 66.666666, 0, 33.333333, 19.775877},
    {"tac no", "cat on", 0, 0, 0, 0, 12.703319},
    {"dog", "cat", 0, 0, 0, 0, 0},
    {"", "cat", 0, 0, 0, 0, 0},
    {"cat", "", 0, 0, 0, 0, 0},
    {"今天是星期一。", "今天是星期二，明天是星期三。", 0, 70.588235, 50, 57.142857, 23.671529},
    {"Hello world\n", "Hello world", 1, 100, 100, 100, 90.3602},
};

TEST(TextScores, AreThoseOfTheLibraries) {
  for (const Case& one : kCases) {
    const TextScores scores = ScoreText(one.prediction, one.label);
    constexpr double kClose = 2e-6;
    EXPECT_EQ(scores.exact_match, one.exact_match) << one.prediction;
    EXPECT_NEAR(scores.rouge_1, one.rouge_1, kClose) << one.prediction;
    EXPECT_NEAR(scores.rouge_2, one.rouge_2, kClose) << one.prediction;
    EXPECT_NEAR(scores.rouge_l, one.rouge_l, kClose) << one.prediction;
    EXPECT_NEAR(scores.bleu_4, one.bleu_4, kClose) << one.prediction;
  }
}

TEST(TextScores, AnExactMatchMayDifferInSpacesAtEitherEndOnly) {
  EXPECT_EQ(ScoreText(" Friday.\n", "Friday.").exact_match, 1);
  EXPECT_EQ(ScoreText("Fri day.", "Friday.").exact_match, 0);
  EXPECT_EQ(ScoreText("friday.", "Friday.").exact_match, 0);
  EXPECT_EQ(ScoreText(" ", "").exact_match, 1);
}

std::vector<std::u32string> Words(const std::string& text) { return WordsOf(CodePointsOf(text)); }
using List = std::vector<std::u32string>;

TEST(TextWords, AreRunsOfLettersAndSingleMarks) {
  EXPECT_EQ(Words("Don't pay 3.50 (50%)!"), (List{U"Don", U"'", U"t", U"pay", U"3.50", U"(", U"50%", U")", U"!"}));
  EXPECT_EQ(Words("v1.2.3 wait... a--b"), (List{U"v1.2", U".", U"3", U"wait", U"...", U"a", U"--", U"b"}));
  EXPECT_EQ(Words("Größe, Привет мир — ça"), (List{U"Größe", U",", U"Привет", U"мир", U"—", U"ça"}));
}

TEST(TextWords, AreCharactersWhereNothingIsWrittenBetweenWords) {
  EXPECT_EQ(Words("在abc吃，すし"), (List{U"在", U"abc", U"吃", U"，", U"す", U"し"}));
  EXPECT_EQ(Words("한국어 말"), (List{U"한국어", U"말"}));
}

TEST(TextWords, BlankLinesBetweenLinesAreEmptyWords) {
  EXPECT_EQ(Words("a\n\nb\n\n"), (List{U"a", U"", U"b"}));
  EXPECT_EQ(Words("\na?\nb"), (List{U"a", U"?", U"", U"b"}));
  EXPECT_EQ(Words(" \n a"), (List{U"", U"a"}));
  EXPECT_EQ(Words(" \n "), List{});
}

TEST(TextWords, BrokenBytesAreOneCharacterEach) {
  EXPECT_EQ(CodePointsOf("a\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x98\x80"), U"aé你😀");
  EXPECT_EQ(CodePointsOf("\xFF"
                         "b\xE4\xBD"),
            U"\uFFFD"
            U"b\uFFFD\uFFFD");
}

}  // namespace
}  // namespace trireme
