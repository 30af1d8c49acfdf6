// Records of whole texts, for stages embedding, reranker and classification: texts that belong together, a query with
// its documents, a text with its labels; in the formats of sentence-transformers, FlagEmbedding, ms-swift and
// transformers, found by their columns, or as tokens. Knows no tokenizer.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/config.pb.h"
#include "data/samples.h"
#include "stages/stage.h"

namespace trireme {

// What a run makes of such records.
struct TextOptions {
  RetrievalConfig keys = {};
  std::vector<std::string> labels = {};  // of a classifier, in the order of their numbers
  int64_t truncate = 0;                  // the longest text in tokens, beyond which it is cut; 0: nothing is
};
TextOptions TextOptionsOf(const Config& config);

// One row of training. Texts are strings, lists of messages, or lists of token ids, all of one kind. embedding: the
// anchor, then its documents, the positive first; reranker: the query, then its documents; of tokens only the
// documents, each with its query in it; classification: one text.
struct TextUnit {
  std::vector<Json> texts;
  std::vector<float> values;        // of each document; of a classified text its label, or a number for each label
  Json variables = Json::object();  // of the chat template

  bool is_tokens() const { return texts[0].is_array() && !texts[0].empty() && texts[0][0].is_number(); }
  bool is_messages() const { return texts[0].is_array() && !is_tokens(); }
};

// A record with several positives for one anchor is as many samples. An input error says what was found and wanted; it
// does not name the place.
std::vector<TextUnit> ReadTexts(Json record, const SampleOptions& options, const StageFacts& facts,
                                const TextOptions& texts);

}  // namespace trireme
