// Replies with vectors, scores and labels, of the numbers that a model gave each text: OpenAI's form of embeddings,
// Cohere's, Jina's and vLLM's of rerankings, vLLM's of classifications.
#pragma once

#include <vector>

#include "core/base/json.h"
#include "serve/text_requests.h"

namespace trireme {

// numbers: text by text, as many for each.
Json EmbeddingReply(const EmbeddingRequest& request, const ServedTexts& served, const std::vector<float>& numbers);
Json RerankReply(const RerankRequest& request, const std::vector<float>& numbers);
Json ClassifyReply(const ClassifyRequest& request, const ServedTexts& served, const std::vector<float>& numbers);

}  // namespace trireme
