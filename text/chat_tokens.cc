#include "text/chat_tokens.h"

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr double kMostWeight = 1000;  // more is a mistake

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

}  // namespace

std::vector<float> ChatTokens::Weights(LossOn loss_on, const Json& messages) const {
  const size_t first = loss_on == LossOn::kLastRound ? LastRound(messages) : 0;
  std::vector<float> of_message(messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    of_message[i] = WeightAt(messages[i], "loss", i >= first ? 1 : 0) * WeightAt(messages[i], "loss_scale", 1);
  }
  std::vector<float> weights(ids.size(), loss_on == LossOn::kAll ? 1 : 0);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (message_of[i] >= 0) weights[i] = of_message[static_cast<size_t>(message_of[i])];
  }
  return weights;
}

ChatTokens TokenizeChat(const Tokenizer& tokenizer, const ChatTemplate& chat, const Json& messages,
                        const RenderOptions& options) {
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
  return tokens;
}

}  // namespace trireme
