// A conversation as tokens, and which of them are trained on: every assistant turn including its end, as
// set by the options and the messages' own `loss`. A token across the boundary of a turn counts as the
// turn's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/chat_template.h"
#include "text/loss_parts.h"
#include "text/tokenizer.h"

namespace trireme {

enum class LossOn {
  kAnswers,    // every turn of the assistant
  kLastRound,  // the turns after the last user or tool message
  kAll,        // every token
};

struct ChatTokens {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<int32_t> message_of;  // the assistant message whose turn a token belongs to, by index; -1: none
  std::vector<size_t> lost = {};    // messages whose content is not in the text
  std::vector<float> parts = {};    // how many times a token counts as part of its answer; empty: once each

  // What each token counts in the loss: 0 is not trained, 1 the usual. An assistant message's "loss", true, false or a
  // weight, overrides `loss_on`; its "loss_scale", a weight, multiplies it. Other values of them are input errors.
  std::vector<float> Weights(LossOn loss_on, const Json& messages) const;
};

// A token counts as the part of the answer does in which it begins; the end of a turn, from its last special token on,
// once.
ChatTokens TokenizeChat(const Tokenizer& tokenizer, const ChatTemplate& chat, const Json& messages,
                        const RenderOptions& options = {}, const LossParts& parts = {});

}  // namespace trireme
