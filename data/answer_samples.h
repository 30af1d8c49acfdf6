// Records of preference data: a prompt with two answers of which one was chosen, or with one answer and a label; in
// TRL's, ms-swift's and LLaMA-Factory's formats, found by their columns, or as tokens. Knows no tokenizer.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "core/base/json.h"
#include "core/config.pb.h"
#include "data/samples.h"
#include "stages/stage.h"

namespace trireme {

// Prompt and answers are texts, or all of them messages. Of a pair the chosen answer is the first.
struct TextAnswers {
  Json prompt;
  std::vector<Json> answers;
  std::vector<float> values;  // of each answer: its label (1, 0), or the pair's margin
  Json tools = nullptr;
  Json variables = Json::object();       // of the chat template
  std::vector<std::string> images = {};  // sources, in the order of the prompt's parts {"type": "image"}
};

struct TokenAnswers {
  std::vector<int32_t> prompt;
  std::vector<std::vector<int32_t>> answers;
  std::vector<float> values;
  std::vector<std::string> images = {};  // sources, in the order of the prompt's placeholders
};

using AnswerSample = std::variant<TextAnswers, TokenAnswers>;

// As the stage wants it: two answers, or single ones with labels, which a pair gives two of. An input error says what
// was found and wanted: equal or empty answers, a label or a margin that is none, an unknown format. It does not name
// the place.
AnswerSample ReadAnswers(Json record, const SampleOptions& options, const StageFacts& facts);

// A conversation with its answer, or a pair, whose sides are to be scored: without labels, and they may be equal.
AnswerSample ReadScored(Json record, const SampleOptions& options);

}  // namespace trireme
