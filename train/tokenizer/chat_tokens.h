// A conversation as tokens, and which of them are learnt: every turn of the assistant with what ends it, as
// the options and the messages' own `loss` say. A token that lies across the border of a turn counts as the
// turn's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/tokenizer/chat_template.h"
#include "train/tokenizer/tokenizer.h"

namespace trireme {

enum class LossOn {
  kAnswers,    // every turn of the assistant
  kLastRound,  // the turns behind the last message of a user or tool
  kAll,        // every token
};

struct ChatTokens {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<int32_t>
      message_of;  // whose turn a token is, as the index of the assistant's message; -1: of none
  std::vector<size_t> lost = {};  // messages whose content is not in the text

  // 1 where a token is learnt; a message's "loss": true or false goes before `loss_on`.
  std::vector<uint8_t> Mask(LossOn loss_on, const Json& messages) const;
};

ChatTokens TokenizeChat(const Tokenizer& tokenizer, const ChatTemplate& chat, const Json& messages,
                        const RenderOptions& options = {});

}  // namespace trireme
