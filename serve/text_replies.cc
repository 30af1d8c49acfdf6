#include "serve/text_replies.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <string>

#include "core/base/clock.h"
#include "net/secret.h"

namespace trireme {
namespace {

Json UsageOf(const std::vector<TextTokens>& texts) {
  int64_t tokens = 0;
  for (const TextTokens& text : texts) tokens += std::ssize(text);
  return {{"prompt_tokens", tokens}, {"total_tokens", tokens}};
}

std::string NewId(const char* kind) { return std::string(kind) + "-" + net::Hex(net::RandomBytes(12)); }

std::string Base64(std::span<const float> values) {
  static_assert(std::endian::native == std::endian::little, "clients read little-endian numbers");
  static constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes(values.size_bytes(), '\0'), text;
  std::memcpy(bytes.data(), values.data(), bytes.size());
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k) three = three << 8U | (k < count ? static_cast<uint8_t>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k) text += k <= count ? kLetters[three >> (18 - 6 * k) & 63U] : '=';
  }
  return text;
}

// Cut to a Matryoshka size, then of length 1 where the model's vectors are.
std::vector<float> VectorOf(std::span<const float> numbers, const EmbeddingRequest& request,
                            const ServedTexts& served) {
  std::vector<float> vector(numbers.begin(), numbers.begin() + request.dimensions);
  if (!served.options.keys.normalize()) return vector;
  const double squares = std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.0);
  const double length = std::max(std::sqrt(squares), 1e-12);
  for (float& number : vector) number = static_cast<float>(number / length);
  return vector;
}

double SigmoidOf(double score) { return 1 / (1 + std::exp(-score)); }

// By the model's problem: probabilities of labels, or the numbers that it predicts.
std::vector<double> ProbabilitiesOf(std::span<const float> scores, Problem problem) {
  std::vector<double> values(scores.begin(), scores.end());
  if (problem == PROBLEM_REGRESSION) return values;
  if (problem == PROBLEM_MULTI_LABEL) {
    for (double& value : values) value = SigmoidOf(value);
    return values;
  }
  const double highest = *std::ranges::max_element(values);
  double sum = 0;
  for (double& value : values) sum += value = std::exp(value - highest);
  for (double& value : values) value /= sum;
  return values;
}

}  // namespace

Json EmbeddingReply(const EmbeddingRequest& request, const ServedTexts& served, const std::vector<float>& numbers) {
  const auto each = static_cast<size_t>(served.numbers);
  Json data = Json::array();
  for (size_t i = 0; i < request.texts.size(); ++i) {
    const std::vector<float> vector = VectorOf(std::span(numbers).subspan(i * each, each), request, served);
    data.push_back(
        {{"object", "embedding"}, {"index", i}, {"embedding", request.base64 ? Json(Base64(vector)) : Json(vector)}});
  }
  return {{"object", "list"}, {"data", data}, {"model", request.model}, {"usage", UsageOf(request.texts)}};
}

Json RerankReply(const RerankRequest& request, const std::vector<float>& numbers) {
  std::vector<size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return numbers[a] > numbers[b]; });
  order.resize(static_cast<size_t>(request.top_n));
  Json results = Json::array();
  for (const size_t index : order) {
    Json result = {{"index", index},
                   {"relevance_score", request.activation ? SigmoidOf(numbers[index]) : double{numbers[index]}}};
    if (request.return_documents) result["document"] = {{"text", request.documents[index]}};
    results.push_back(result);
  }
  return {{"id", NewId("rerank")}, {"model", request.model}, {"usage", UsageOf(request.texts)}, {"results", results}};
}

Json ClassifyReply(const ClassifyRequest& request, const ServedTexts& served, const std::vector<float>& numbers) {
  const auto each = static_cast<size_t>(served.numbers);
  Json data = Json::array();
  for (size_t i = 0; i < request.texts.size(); ++i) {
    const std::span<const float> scores = std::span(numbers).subspan(i * each, each);
    const auto best = static_cast<size_t>(std::ranges::max_element(scores) - scores.begin());
    const std::vector<double> own(scores.begin(), scores.end());
    data.push_back({{"index", i},
                    {"label", served.options.labels.at(best)},
                    {"probs", request.activation ? ProbabilitiesOf(scores, served.options.keys.problem()) : own},
                    {"num_classes", each}});
  }
  return {{"id", NewId("classify")}, {"object", "list"}, {"created", UnixSeconds()},
          {"model", request.model},  {"data", data},     {"usage", UsageOf(request.texts)}};
}

}  // namespace trireme
