// Fields: a JSON object of a request, read field by field. Every field is honoured or refused: what nobody
// has asked for is refused at the end, with the nearest known name. null counts as absent.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "web/http/http.h"

namespace trireme {

class Fields {
 public:
  // `object` outlives it. `inside`: the name of the field that it is, for errors; empty: the whole request.
  Fields(const Json& object, std::string inside);

  const Json* Find(const std::string& name);  // nullptr: absent
  std::optional<std::string> Text(const std::string& name);
  std::optional<bool> Switch(const std::string& name);
  std::optional<int64_t> Integer(const std::string& name, int64_t least, int64_t most);
  std::optional<double> Number(const std::string& name, double least, double most);

  void Accept(std::initializer_list<const char*> names);  // without effect on tokens
  // With any value but one that asks for nothing: false, 0, an empty list or object.
  void Refuse(const std::string& name, const std::string& why);
  void RefuseAny(const std::string& name, const std::string& why);  // also those
  void Finish() const;

  std::string PathOf(const std::string& name) const { return inside_.empty() ? name : inside_ + "." + name; }
  [[noreturn]] void Fail(const std::string& name, const std::string& message) const;

 private:
  const Json& object_;
  const std::string inside_;
  std::set<std::string> known_;
};

}  // namespace trireme
