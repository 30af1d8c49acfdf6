#include "text/token_bytes.h"

#include <array>
#include <charconv>
#include <functional>
#include <map>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"

namespace trireme {
namespace {

using BytesOfWord = std::function<std::optional<std::string>(const std::string&)>;

std::string Utf8(int code) {  // below U+0800
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

// GPT-2's alphabet: printable bytes stand for themselves, the others in order for characters from U+0100 on.
std::map<std::string, char> ByteAlphabet() {
  std::map<std::string, char> alphabet;
  int next = 0x100;
  for (int byte = 0; byte < 0x100; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    alphabet[Utf8(printable ? byte : next++)] = static_cast<char>(byte);
  }
  return alphabet;
}

std::optional<std::string> FromAlphabet(const std::map<std::string, char>& alphabet, const std::string& word) {
  std::string bytes;
  for (size_t i = 0; i < word.size();) {
    const size_t length = static_cast<uint8_t>(word[i]) < 0x80 ? 1 : 2;
    const auto found = alphabet.find(word.substr(i, length));
    if (found == alphabet.end()) return std::nullopt;
    bytes += found->second;
    i += length;
  }
  return bytes;
}

// "▁" is a blank; "<0x0A>" is a byte.
std::string FromMarks(const std::string& word) {
  constexpr std::string_view kMark = "\xE2\x96\x81";
  int byte = 0;
  if (word.size() == 6 && word.starts_with("<0x") && word.ends_with('>') &&
      std::from_chars(word.data() + 3, word.data() + 5, byte, 16).ptr == word.data() + 5) {
    return std::string(1, static_cast<char>(byte));
  }
  std::string bytes = word;
  for (size_t at = bytes.find(kMark); at != std::string::npos; at = bytes.find(kMark, at)) {
    bytes.replace(at, kMark.size(), " ");
  }
  return bytes;
}

BytesOfWord DecoderOf(const nlohmann::json& tokenizer) {
  const std::string decoder = tokenizer.value("decoder", nlohmann::json()).dump();
  if (decoder.find("\"ByteLevel\"") != std::string::npos) {
    return [alphabet = ByteAlphabet()](const std::string& word) { return FromAlphabet(alphabet, word); };
  }
  for (const char* kind : {"\"ByteFallback\"", "\"Metaspace\""}) {
    if (decoder.find(kind) != std::string::npos) return FromMarks;
  }
  throw InputError(
      "the bytes of the tokenizer's tokens are not known: its decoder is neither ByteLevel, ByteFallback nor "
      "Metaspace");
}

}  // namespace

std::vector<std::optional<std::string>> BytesOfTokens(const std::string& directory) {
  const std::string path = directory + "/tokenizer.json";
  const nlohmann::json tokenizer = ParseSortedJson(ReadTextFile(path), path);  // the other kind finds keys one by one
  const BytesOfWord bytes_of = DecoderOf(tokenizer);
  std::vector<std::optional<std::string>> tokens;
  const auto set = [&](int64_t id, std::optional<std::string> bytes) {
    if (id < 0 || id >= int64_t{1} << 24) throw InputError("tokenizer.json: a token has the id ", id);
    if (id >= std::ssize(tokens)) tokens.resize(static_cast<size_t>(id) + 1);
    tokens[static_cast<size_t>(id)] = std::move(bytes);
  };
  const nlohmann::json& vocabulary = tokenizer.at("model").at("vocab");
  if (vocabulary.is_object()) {
    for (const auto& [word, id] : vocabulary.items()) set(id.get<int64_t>(), bytes_of(word));
  } else {  // of Unigram: pairs of a word and its score
    for (size_t id = 0; id < vocabulary.size(); ++id) {
      set(static_cast<int64_t>(id), bytes_of(vocabulary[id].at(0).get<std::string>()));
    }
  }
  for (const nlohmann::json& added : tokenizer.value("added_tokens", nlohmann::json::array())) {
    const std::optional<std::string> text = added.at("content").get<std::string>();
    set(added.at("id").get<int64_t>(), added.value("special", false) ? std::nullopt : text);
  }
  return tokens;
}

}  // namespace trireme
