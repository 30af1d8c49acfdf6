#include "data/image_edges.h"

#include <filesystem>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// A special token's text: of the settings themselves, or of what they list as further ones.
std::string TokenText(const Json& settings, const char* key, const char* otherwise) {
  for (const Json& place : {settings, settings.value("extra_special_tokens", Json())}) {
    if (!place.is_object() || !place.contains(key)) continue;
    const Json& token = place.at(key);
    if (token.is_string()) return token.get<std::string>();
    if (token.is_object() && token.contains("content") && token.at("content").is_string())
      return token.at("content").get<std::string>();
  }
  return otherwise;
}

int32_t IdOf(const Json& added, const std::string& text, const std::string& path) {
  for (const Json& token : added) {
    if (token.is_object() && token.value("content", Json()) == text) return token.value("id", int32_t{-1});
  }
  throw InputError(path, ": added_tokens has no ", text,
                   ", which the image processor puts around images; copy the tokenizer ",
                   "from the model's repository");
}

}  // namespace

ImageEdges ReadImageEdges(const std::string& model) {
  const fs::path settings = fs::path(model) / "tokenizer_config.json", tokens = fs::path(model) / "tokenizer.json";
  if (!PathExists(tokens)) return {};  // without a tokenizer only rows of tokens are read, which have them
  const Json given = PathExists(settings) ? ReadJsonFile(settings.string()) : Json::object();
  const Json added = ReadJsonFile(tokens.string()).value("added_tokens", Json::array());
  return {.before = {IdOf(added, TokenText(given, "start_image_token", "<img>"), tokens.string())},
          .after = {IdOf(added, TokenText(given, "end_image_token", "</img>"), tokens.string())}};
}

}  // namespace trireme
