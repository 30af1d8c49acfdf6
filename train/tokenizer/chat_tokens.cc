#include "train/tokenizer/chat_tokens.h"

#include <algorithm>

namespace trireme {
namespace {

// Whether each message is trained on if it is an assistant's.
std::vector<uint8_t> LearntMessages(LossOn loss_on, const Json& messages) {
  std::vector<uint8_t> learnt(messages.size(), 1);
  if (loss_on == LossOn::kLastRound) {
    size_t last = 0;
    for (size_t i = 0; i < messages.size(); ++i) {
      if (messages[i].value("role", "") != "assistant") last = i;
    }
    std::fill(learnt.begin(), learnt.begin() + static_cast<std::ptrdiff_t>(last), 0);
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto loss = messages[i].find("loss");
    if (loss != messages[i].end() && loss->is_boolean()) learnt[i] = loss->get<bool>();
  }
  return learnt;
}

}  // namespace

std::vector<uint8_t> ChatTokens::Mask(LossOn loss_on, const Json& messages) const {
  if (loss_on == LossOn::kAll) return std::vector<uint8_t>(ids.size(), 1);
  const std::vector<uint8_t> learnt = LearntMessages(loss_on, messages);
  std::vector<uint8_t> mask(ids.size(), 0);
  for (size_t i = 0; i < ids.size(); ++i) mask[i] = message_of[i] >= 0 && learnt[message_of[i]];
  return mask;
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
