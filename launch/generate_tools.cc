#include "launch/generate_tools.h"

#include <algorithm>

#include "core/base/error.h"

namespace trireme {
namespace {

bool IsTool(const Json& tool) {
  const Json& function = tool.is_object() && tool.contains("function") ? tool["function"] : tool;
  return function.is_object() && function.contains("name") && function["name"].is_string() && function["name"] != "";
}

ToolPiece PartsOf(ToolForm form, const std::string& text) {
  ToolCallReader reader(form);
  ToolPiece whole = reader.Take(text);
  const ToolPiece rest = reader.Finish();
  whole.content += rest.content;
  whole.calls.insert(whole.calls.end(), rest.calls.begin(), rest.calls.end());
  return whole;
}

Json CallsOf(const ToolPiece& piece) {
  Json calls = Json::array();
  for (const ToolCall& call : piece.calls)
    calls.push_back({{"name", call.name}, {"arguments", TryParseJson(call.arguments)}});
  return calls;
}

}  // namespace

Json ReadToolsFile(const std::string& path) {
  Json tools = ReadJsonFile(path);
  if (tools.is_object() && tools.contains("tools")) tools = Json(tools["tools"]);
  if (tools.is_array() && !tools.empty() && std::ranges::all_of(tools, IsTool)) return tools;
  throw InputError("--tools ", path,
                   ": wanted a list of functions such as [{\"type\": \"function\", \"function\": {\"name\": \"f\", ",
                   "\"parameters\": {…}}}], or an object with such \"tools\"");
}

Json AssistantMessage(ToolForm form, const std::string& text) {
  if (form == nullptr) return {{"role", "assistant"}, {"content", text}};
  const ToolPiece piece = PartsOf(form, text);
  if (piece.calls.empty()) return {{"role", "assistant"}, {"content", text}};
  Json message = {{"role", "assistant"}, {"content", piece.content}, {"tool_calls", Json::array()}};
  for (const Json& call : CallsOf(piece)) message["tool_calls"].push_back({{"type", "function"}, {"function", call}});
  return message;
}

Json ToolCallsIn(ToolForm form, const std::string& text) {
  return form == nullptr ? Json::array() : CallsOf(PartsOf(form, text));
}

}  // namespace trireme
