// AnswerPrompts: validation rows as prompts with the answers that are expected: of each conversation the last answer,
// and what is before it. Conversations may be packed. No torch.
#pragma once

#include <cstdint>
#include <vector>

#include "data/rows.h"
#include "generation/text/prompts.h"

namespace trireme {

struct AnswerPrompt {
  Tokens prompt;
  Tokens label;  // with the token that ends the turn
};

// Of the first `most` conversations; 0: of all. The last trained tokens of a conversation are its last answer; one
// without any is left out.
std::vector<AnswerPrompt> AnswerPromptsOf(const RowSource& rows, int64_t most);

}  // namespace trireme
