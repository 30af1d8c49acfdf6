// Text as code points, and as the words that ROUGE counts. Knows no language: words of letters and digits, characters
// of scripts that are written without spaces, marks. No torch.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Of UTF-8; a byte that is not part of a character becomes U+FFFD.
std::u32string CodePointsOf(std::string_view text);

// As LLaMA-Factory's metric splits a text (jieba, then sentences of rouge_chinese), except for scripts without spaces
// (Chinese, Japanese, Thai, …): there each character is a word, since jieba's come from its dictionary. Elsewhere a
// word is a run of letters and digits, "3.14" and "50%" included; a run of any of +#&._%- is one word, each other mark
// one by itself. A blank line between lines with words counts as an empty word, as it does there.
std::vector<std::u32string> WordsOf(const std::u32string& text);

}  // namespace trireme
