// A tokenizer out of texts, as a directory's files: tokenizer.json, tokenizer_config.json and a chat
// template. For models that start from nothing; a model with weights has its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

// Byte-level BPE of at most `vocabulary` tokens, special ones included; chats in ChatML. Files that are there
// already are refused.
void TrainTokenizer(const std::vector<std::string>& texts, int64_t vocabulary,
                    const std::filesystem::path& directory);

}  // namespace trireme
