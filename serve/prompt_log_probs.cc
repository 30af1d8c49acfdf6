#include "serve/prompt_log_probs.h"

#include <string>

namespace trireme {
namespace {

// rank: 1 for the likeliest; null where it is none of those that were looked for.
Json Entry(const TokenLogProb& of, Json rank, const Tokenizer& tokenizer) {
  const std::vector<int32_t> ids = {static_cast<int32_t>(of.token)};
  return {{"logprob", std::max(of.log_prob, kLeastLogProb)},
          {"rank", std::move(rank)},
          {"decoded_token", tokenizer.Decode(ids, /*skip_special=*/false)}};
}

}  // namespace

Json PromptLogProbs(const std::vector<std::vector<TokenLogProb>>& log_probs, int64_t top, const Tokenizer& tokenizer) {
  Json prompt = Json::array({nullptr});
  for (const std::vector<TokenLogProb>& all : log_probs) {
    const std::vector<TokenLogProb> shown = Likeliest(all, top);
    Json token = Json::object();
    token[std::to_string(shown.at(0).token)] = Entry(shown[0], nullptr, tokenizer);
    for (size_t rank = 1; rank < shown.size(); ++rank) {
      token[std::to_string(shown[rank].token)] = Entry(shown[rank], rank, tokenizer);
    }
    prompt.push_back(std::move(token));
  }
  return prompt;
}

}  // namespace trireme
