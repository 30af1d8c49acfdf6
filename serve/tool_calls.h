// Tool calls in what a model wrote: each family has a form of its own, a list of them is in tool_calls.cc. Text in as
// it becomes certain, content and whole calls out; what only looks like a call is content. Knows no protocol.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trireme {

struct ToolCall {
  std::string name;
  std::string arguments;  // a JSON object as text
};

// A form: marks around calls, and how to read what is between them. In tool_calls.cc.
struct ToolFormat;
using ToolForm = const ToolFormat*;

// By its name, "hermes"; nullptr: unknown.
ToolForm FindToolForm(const std::string& name);
std::vector<std::string> ToolFormNames();
// That which a chat template shows to the model; nullptr: it shows none.
ToolForm ToolFormOf(const std::string& chat_template);

struct ToolPiece {
  std::string content;
  std::vector<ToolCall> calls;
};

class ToolCallReader {
 public:
  explicit ToolCallReader(ToolForm form) : form_(form) {}

  ToolPiece Take(const std::string& text);
  // The rest, at the end of the answer.
  ToolPiece Finish();
  bool found() const { return found_; }  // at least one call

 private:
  void Scan(ToolPiece& piece);
  bool ScanOutside(ToolPiece& piece);
  bool ScanInside(ToolPiece& piece);
  void Content(const std::string& text, ToolPiece& piece);

  const ToolForm form_;
  std::string buffer_;   // not yet decided
  std::string opening_;  // the mark before it, inside a call
  bool inside_ = false, begun_ = false, found_ = false;
};

}  // namespace trireme
