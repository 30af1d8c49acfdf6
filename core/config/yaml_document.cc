// YAML parsing over yaml-cpp: one pass over the events to reject constructs, one to build the nodes.
#include "core/config/yaml_document.h"

#include <yaml-cpp/eventhandler.h>

#include <sstream>

#include "core/base/error.h"

namespace trireme {
namespace {

// yaml-cpp's tags of unquoted and quoted values.
constexpr const char* kPlainTag = "?";
constexpr const char* kQuotedTag = "!";

// Nodes no longer show anchors and aliases; events do.
class Refusals : public YAML::EventHandler {
 public:
  explicit Refusals(const YamlSource& source) : source_(source) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) throw InputError(source_.At(mark), "a second YAML document; wanted only one");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { Refuse(mark, kPlainTag, anchor); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override { Refuse(mark, kPlainTag, anchor); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string&) override {
    Refuse(mark, tag, anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Refuse(mark, tag, anchor);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Refuse(mark, tag, anchor);
  }
  void OnMapEnd() override {}

 private:
  void Refuse(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor) {
      throw InputError(source_.At(mark), "anchors and aliases are not supported; write the value itself");
    }
    if (!tag.empty() && tag != kPlainTag && tag != kQuotedTag) {
      throw InputError(source_.At(mark), "tags are not supported; write the value without ", tag);
    }
  }

  const YamlSource& source_;
  int documents_ = 0;
};

}  // namespace

std::string YamlSource::At(const YAML::Mark& mark) const {
  return has_lines ? Concat(name, ":", mark.line + 1, ": ") : name + ": ";
}

YAML::Node ParseYaml(const std::string& text, const YamlSource& source) {
  try {
    std::istringstream events(text);
    YAML::Parser parser(events);
    Refusals refusals(source);
    while (parser.HandleNextDocument(refusals)) {
    }
    return YAML::Load(text);
  } catch (const YAML::ParserException& error) {
    throw InputError(source.At(error.mark), "not YAML: ", error.msg);
  }
}

bool IsPlainScalar(const YAML::Node& node) { return node.IsScalar() && node.Tag() == kPlainTag; }

std::string FoundText(const YAML::Node& node) {
  if (node.IsSequence()) return "a list";
  if (node.IsMap()) return "keys";
  if (!node.IsScalar()) return "nothing";
  return Concat("'", node.Scalar(), "'", IsPlainScalar(node) ? "" : " in quotes");
}

}  // namespace trireme
