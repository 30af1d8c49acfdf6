// Trains a tokenizer on texts and writes its files: tokenizer.json, tokenizer_config.json and a chat
// template. For models trained from scratch; a model with weights has its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

// Byte-level BPE of at most `vocabulary` tokens, special ones included; chats in ChatML. Existing files
// are an input error.
void TrainTokenizer(const std::vector<std::string>& texts, int64_t vocabulary, const std::filesystem::path& directory);

}  // namespace trireme
