// For the parity tests: takes a tokenizer directory as argument, reads one JSON request per line and writes
// one JSON answer per line.
//   {"encode": TEXT}            {"ids": […]}
//   {"decode": [IDS]}           {"text": …, "pieces": […]} whole, and as a stream gives it
//   {"bytes": [IDS]}            {"bytes": […]} of all of them, one after another; -1 where a token is special
//   {"messages": […], "tools": […], "add_generation_prompt": …, "variables": {…}}
//                               {"text": …, "ids": […], "mask": […], "lost": […]}, or {"error": …}
#include <iostream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "text/chat_template.h"
#include "text/chat_tokens.h"
#include "text/stream_decoder.h"
#include "text/token_bytes.h"

namespace trireme {
namespace {

Json Decode(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  StreamDecoder stream(tokenizer, /*skip_special=*/false);
  Json pieces = Json::array();
  for (const int32_t id : ids) pieces.push_back(stream.Add(id));
  pieces.push_back(stream.Finish());
  return {{"text", tokenizer.Decode(ids)}, {"pieces", pieces}};
}

Json Bytes(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  static const auto tokens = BytesOfTokens(tokenizer.directory());
  Json bytes = Json::array();
  for (const int32_t id : ids) {
    if (!tokens.at(static_cast<size_t>(id))) bytes.push_back(-1);
    for (const char byte : tokens.at(static_cast<size_t>(id)).value_or("")) bytes.push_back(static_cast<uint8_t>(byte));
  }
  return {{"bytes", bytes}};
}

Json Answer(const Tokenizer& tokenizer, const ChatTemplate& chat, const Json& request) {
  if (request.contains("encode")) return {{"ids", tokenizer.Encode(request["encode"].get<std::string>()).ids}};
  if (request.contains("decode")) return Decode(tokenizer, request["decode"].get<std::vector<int32_t>>());
  if (request.contains("bytes")) return Bytes(tokenizer, request["bytes"].get<std::vector<int32_t>>());
  const RenderOptions options{.add_generation_prompt = request.value("add_generation_prompt", false),
                              .tools = request.value("tools", Json()),
                              .variables = request.value("variables", Json::object())};
  const ChatTokens tokens = TokenizeChat(tokenizer, chat, request["messages"], options);
  std::vector<int> mask;
  for (const float weight : tokens.Weights(LossOn::kAnswers, request["messages"])) mask.push_back(weight > 0);
  return {{"text", tokens.text}, {"ids", tokens.ids}, {"mask", mask}, {"lost", tokens.lost}};
}

int Run(const std::string& directory, const std::string& chat_template) {
  const Tokenizer tokenizer(directory);
  const ChatTemplate chat = ChatTemplate::Of(tokenizer, chat_template);
  for (std::string line; std::getline(std::cin, line);) {
    Json answer;
    try {
      answer = Answer(tokenizer, chat, Json::parse(line));
    } catch (const Error& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << JsonLine(answer) << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  try {
    return trireme::Run(argv[1], argc > 2 ? argv[2] : "");
  } catch (const trireme::Error& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
