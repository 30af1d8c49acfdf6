#include "translate/translation.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/problems.h"
#include "core/base/text.h"
#include "core/config/load.h"
#include "core/config/schema.h"
#include "core/config/unused_keys.h"
#include "translate/shell.h"

namespace trireme {
namespace {

const FieldDescriptor& FieldOf(const std::string& key) {
  const FieldDescriptor* field = FindField(key);
  TRIREME_CHECK(field != nullptr) << "a rule names no key: " << key;
  return *field;
}

bool IsText(const FieldDescriptor& field) { return field.cpp_type() == FieldDescriptor::CPPTYPE_STRING; }

// Plain where YAML reads it back as the same text.
std::string Quoted(const std::string& text) {
  static const std::string safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-@";
  const bool inner_ok = text.find_first_not_of(safe + "#*:=") == std::string::npos;
  const bool plain = !text.empty() && inner_ok && safe.find(text[0]) != std::string::npos && text[0] != '-' &&
                     text[0] != '@' && text.back() != ':' && text != "null" && text != "true" && text != "false";
  if (plain) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? "\\n" : c == '\t' ? "\\t" : std::string(1, c);
  }
  return quoted + "\"";
}

// 3.0 where a whole number is wanted, True where a boolean is.
std::string Scalar(const std::string& value, const FieldDescriptor& field) {
  const auto type = field.cpp_type();
  if (IsText(field)) return Quoted(value);
  if (type == FieldDescriptor::CPPTYPE_BOOL) {
    if (value == "True" || value == "1" || value == "yes") return "true";
    if (value == "False" || value == "0" || value == "no") return "false";
  }
  if (type == FieldDescriptor::CPPTYPE_INT32 || type == FieldDescriptor::CPPTYPE_INT64) {
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    if (!value.empty() && *end == '\0' && number == std::floor(number) && std::abs(number) < 1e15) {
      return std::to_string(static_cast<int64_t>(number));
    }
  }
  const bool plain = !value.empty() && value.find_first_of(" \t\n\"'#:{}[],&*!|>%@`") == std::string::npos;
  return plain ? value : Quoted(value);
}

std::string ValueText(const std::vector<std::string>& values, const FieldDescriptor& field) {
  if (!field.is_repeated()) return Scalar(Join(values, " "), field);
  return Concat("[", Join(values, ", ", [&](const std::string& one) { return Scalar(one, field); }), "]");
}

// For a comment: one line, not too long.
std::string OneLine(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text.size() <= 90 ? text : text.substr(0, 87) + "...";
}

void AddComments(std::string& yaml, const std::string& title, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  yaml += Concat("\n# ", title, ":\n");
  for (const std::string& line : lines) yaml += Concat("#   ", line, "\n");
}

// The number as short as it reads back: 0.05, 1e-06.
std::string NumberText(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return std::to_string(static_cast<int64_t>(value));
  char text[32];
  for (int digits = 6; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}

}  // namespace

void Translation::Set(const std::string& key, const std::vector<std::string>& values, const std::string& origin) {
  const FieldDescriptor& field = FieldOf(key);
  for (const std::string& value : values) {
    const std::string unknown = UnknownIn(value);
    if (unknown.empty()) continue;
    const std::string what = Concat(unknown, " has no value in the script; give --define NAME=VALUE");
    if (!IsText(field)) return Refuse(origin, what);
    Warn(origin, what + Concat(", or write it into ", key));
  }
  const std::string text = ValueText(values, field);
  try {
    ParseConfig("", "", {Concat(key, "=", text)});
  } catch (const Error& error) {
    const std::string what = error.what();
    const size_t end = what.find(": wanted");
    return Refuse(origin, Concat(key, end == std::string::npos ? ": " + what : what.substr(end)));
  }
  Remove(key);
  entries_.push_back({key, text, origin});
}

void Translation::Set(const std::string& key, const std::string& value, const std::string& origin) {
  Set(key, std::vector<std::string>{value}, origin);
}

void Translation::Set(const std::string& key, double value, const std::string& origin) {
  Set(key, NumberText(value), origin);
}

void Translation::Default(const std::string& key, const std::string& value, const std::string& system) {
  if (has(key)) return;
  Set(key, value, Concat("default of ", system));
  if (Entry* entry = Find(key)) entry->by_default = true;
}

void Translation::Remove(const std::string& key) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key; });
}

Translation::Entry* Translation::Find(const std::string& key) {
  const auto found = std::ranges::find(entries_, key, &Entry::key);
  return found == entries_.end() ? nullptr : &*found;
}

const Translation::Entry* Translation::Find(const std::string& key) const {
  const auto found = std::ranges::find(entries_, key, &Entry::key);
  return found == entries_.end() ? nullptr : &*found;
}

bool Translation::has(const std::string& key) const { return Find(key) != nullptr; }

std::string Translation::value(const std::string& key, const std::string& otherwise) const {
  const Entry* entry = Find(key);
  if (entry == nullptr) return otherwise;
  return entry->text.starts_with('"') ? entry->text.substr(1, entry->text.size() - 2) : entry->text;
}

void Translation::LeaveOut(const std::string& origin, const std::string& why) {
  left_out_.push_back(Concat(OneLine(origin), ": ", why));
}

void Translation::Warn(const std::string& origin, const std::string& how) {
  const std::string line = Concat(OneLine(origin), ": ", how);
  if (std::ranges::find(warnings_, line) == warnings_.end()) warnings_.push_back(line);
}

void Translation::Refuse(const std::string& origin, const std::string& why) {
  refused_.push_back(Concat(OneLine(origin), ": ", why));
}

void Translation::Finish() {
  for (bool changed = true; changed;) {
    changed = false;
    for (const UnusedKey& unused : UnusedKeys(ParseConfig(Keys(), "run.yaml"))) {
      const Entry* entry = Find(unused.key);
      if (entry == nullptr) continue;
      if (!entry->by_default) LeaveOut(entry->origin, Concat(unused.key, unused.why));
      Remove(unused.key);
      changed = true;
      break;
    }
  }
}

// Sections in the schema's order, each key with its comment.
std::string Translation::Keys() const {
  std::string yaml;
  std::vector<std::string> open;  // sections whose line stands already
  for (const std::string& key : KeysUnder(*Config::descriptor())) {
    const Entry* entry = Find(key);
    if (entry == nullptr) continue;
    std::string indent;
    for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1), indent += "  ") {
      const std::string section = key.substr(0, dot);
      if (std::ranges::find(open, section) != open.end()) continue;
      open.push_back(section);
      const size_t last = section.rfind('.');
      yaml += Concat(indent, section.substr(last == std::string::npos ? 0 : last + 1), ":\n");
    }
    const size_t last = key.rfind('.');
    yaml += Concat(indent, key.substr(last == std::string::npos ? 0 : last + 1), ": ", entry->text, "  # ",
                   OneLine(entry->origin), "\n");
  }
  return yaml;
}

std::string Translation::Yaml(const std::string& from) const {
  std::string yaml = Concat("# Translated by trireme translate from ", OneLine(from), ".\n", Keys());
  AddComments(yaml, "Differs from the run it came from", warnings_);
  AddComments(yaml, "Left out, because it has no meaning here or is always so", left_out_);
  AddComments(yaml, "Missing here, and so not translated", refused_);
  return yaml;
}

}  // namespace trireme
