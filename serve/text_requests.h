// Requests for vectors, scores and labels of texts: OpenAI's /v1/embeddings, /rerank as Cohere, Jina and vLLM have it,
// vLLM's /classify; as lists of token ids and what the reply is to look like. Each field is honoured or refused. Knows
// neither HTTP nor the model; ApiError says what is wrong.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "data/text_samples.h"
#include "data/tokenise.h"
#include "serve/text_service.h"
#include "web/http/http.h"

namespace trireme {

// What is served, and what one request may ask for.
struct ServedTexts {
  std::string name;
  int64_t created = 0;               // unix seconds
  const SampleTokenizer& tokenizer;  // its records are the stage's: what the model gives
  TextOptions options;               // the stage's keys, and names of labels
  int64_t vocabulary = 0;
  int64_t context = 0;                         // tokens of a text
  int64_t numbers = 0;                         // of a vector, or of labels
  std::map<std::string, std::string> prompts;  // by name: what stands before a text
  std::string default_prompt;                  // the name of the one that stands there unasked; empty: none
  int64_t most_texts = 2048;                   // of one request
};

// Status 404, with the name that there is.
ApiError TextModelNotFound(const std::string& name, const ServedTexts& served);

struct EmbeddingRequest {
  std::string model;  // as asked for
  std::vector<TextTokens> texts;
  int64_t dimensions = 0;  // of the vectors that go back
  bool base64 = false;
};
EmbeddingRequest ReadEmbedding(const Json& body, const ServedTexts& served);

struct RerankRequest {
  std::string model;
  std::vector<TextTokens> texts;  // the query with each document
  std::vector<std::string> documents;
  int64_t top_n = 0;  // how many go back
  bool return_documents = false;
  bool activation = true;  // scores from 0 to 1; false: the model's own
};
RerankRequest ReadRerank(const Json& body, const ServedTexts& served);

struct ClassifyRequest {
  std::string model;
  std::vector<TextTokens> texts;
  bool activation = true;  // probabilities; false: the model's own scores
};
ClassifyRequest ReadClassify(const Json& body, const ServedTexts& served);

}  // namespace trireme
