// How close a text is to the expected one: exact match, ROUGE and BLEU by LLaMA-Factory's definition (rouge_chinese's
// ROUGE-1, -2 and -L over words, nltk's sentence_bleu with smoothing method 3 over characters). No torch.
#pragma once

#include <string>

namespace trireme {

struct TextScores {
  double exact_match = 0;                        // 1: equal but for spaces at either end; otherwise 0
  double rouge_1 = 0, rouge_2 = 0, rouge_l = 0;  // F1 over words (text_words.h), in percent
  double bleu_4 = 0;                             // over characters, in percent
};

TextScores ScoreText(const std::string& prediction, const std::string& label);

}  // namespace trireme
