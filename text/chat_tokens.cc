#include "text/chat_tokens.h"

#include <span>
#include <string_view>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr double kMostWeight = 1000;  // more is a mistake
constexpr size_t kLongestEnd = 16;    // tokens that a template may write after the last special one

// Where the last round begins: after the last message that is not the assistant's.
size_t LastRound(const Json& messages) {
  size_t last = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].value("role", "") != "assistant") last = i;
  }
  return last;
}

float WeightAt(const Json& message, const char* key, float otherwise) {
  const auto found = message.find(key);
  if (found == message.end() || found->is_null()) return otherwise;
  if (found->is_boolean()) return found->get<bool>() ? 1 : 0;
  const double weight = found->is_number() ? found->get<double>() : -1;
  if (weight >= 0 && weight <= kMostWeight) return static_cast<float>(weight);
  throw InputError("has a message with \"", key, "\": ", found->dump().substr(0, 60),
                   "; wanted true, false, or a weight from 0 to ", kMostWeight);
}

// Tokens of the same message that follow each other.
struct TurnTokens {
  size_t begin = 0, end = 0;
};

// Where the end of the turn begins: at its last special token, or where it has none, behind the last one.
size_t EndOfTurn(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, TurnTokens turn) {
  for (size_t i = turn.end; i > turn.begin && i + kLongestEnd > turn.end; --i) {
    const std::span<const int32_t> one(&ids[i - 1], 1);
    if (tokenizer.Decode(one, /*skip_special=*/true).empty() && !tokenizer.Decode(one).empty()) return i - 1;
  }
  return turn.end;
}

// What each token of the turn counts as a part of its answer.
void WeighTurn(const Tokenizer& tokenizer, const std::vector<TokenSpan>& spans, TurnTokens turn, const LossParts& parts,
               ChatTokens& tokens) {
  const size_t end = EndOfTurn(tokenizer, tokens.ids, turn);
  if (end == turn.begin) return;
  const size_t first = spans[turn.begin].begin, bytes = spans[end - 1].end - first;
  const std::vector<float> weights = parts.Weights(std::string_view(tokens.text).substr(first, bytes));
  for (size_t i = turn.begin; i < end; ++i) {
    const size_t at = spans[i].begin - first;
    if (at < weights.size()) tokens.parts[i] = weights[at];
  }
}

void WeighParts(const Tokenizer& tokenizer, const std::vector<TokenSpan>& spans, const LossParts& parts,
                ChatTokens& tokens) {
  tokens.parts.assign(tokens.ids.size(), 1);
  for (size_t begin = 0; begin < tokens.ids.size();) {
    size_t end = begin + 1;
    while (end < tokens.ids.size() && tokens.message_of[end] == tokens.message_of[begin]) ++end;
    if (tokens.message_of[begin] >= 0) WeighTurn(tokenizer, spans, {begin, end}, parts, tokens);
    begin = end;
  }
}

}  // namespace

std::vector<float> ChatTokens::Weights(LossOn loss_on, const Json& messages) const {
  const size_t first = loss_on == LossOn::kLastRound ? LastRound(messages) : 0;
  std::vector<float> of_message(messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    of_message[i] = WeightAt(messages[i], "loss", i >= first ? 1 : 0) * WeightAt(messages[i], "loss_scale", 1);
  }
  std::vector<float> weights(ids.size(), loss_on == LossOn::kAll ? 1 : 0);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (message_of[i] < 0) continue;
    weights[i] = of_message[static_cast<size_t>(message_of[i])] * (parts.empty() ? 1 : parts[i]);
  }
  return weights;
}

ChatTokens TokenizeChat(const Tokenizer& tokenizer, const ChatTemplate& chat, const Json& messages,
                        const RenderOptions& options, const LossParts& parts) {
  RenderedChat rendered = chat.RenderTurns(messages, options);
  Encoded encoded = tokenizer.Encode(rendered.text, {.spans = true});
  ChatTokens tokens{std::move(rendered.text), std::move(encoded.ids), {}, std::move(rendered.lost)};
  tokens.message_of.assign(tokens.ids.size(), -1);
  size_t turn = 0;
  for (size_t i = 0; i < encoded.spans.size(); ++i) {
    const TokenSpan span = encoded.spans[i];
    while (turn < rendered.turns.size() && rendered.turns[turn].end <= span.begin) ++turn;
    if (turn == rendered.turns.size()) break;
    if (span.end > rendered.turns[turn].begin)
      tokens.message_of[i] = static_cast<int32_t>(rendered.turns[turn].message);
  }
  if (!parts.empty()) WeighParts(tokenizer, encoded.spans, parts, tokens);
  return tokens;
}

}  // namespace trireme
