#include "serve/fields.h"

#include <cmath>

#include "core/base/error.h"
#include "core/base/nearest.h"

namespace trireme {
namespace {

std::string Shortened(const Json& value) {
  const std::string text = JsonLine(value);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

}  // namespace

Fields::Fields(const Json& object, std::string inside) : object_(object), inside_(std::move(inside)) {
  if (object.is_object()) return;
  throw ApiError{.message = inside_.empty() ? "the body is not a JSON object" : inside_ + ": wanted an object",
                 .param = inside_};
}

void Fields::Fail(const std::string& name, const std::string& message) const {
  throw ApiError{.message = PathOf(name) + ": " + message, .param = PathOf(name), .code = "invalid_value"};
}

const Json* Fields::Find(const std::string& name) {
  known_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> Fields::Text(const std::string& name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) Fail(name, Concat("wanted a text, not ", Shortened(*value)));
  return value->get<std::string>();
}

std::optional<bool> Fields::Switch(const std::string& name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) Fail(name, Concat("wanted true or false, not ", Shortened(*value)));
  return value->get<bool>();
}

std::optional<int64_t> Fields::Integer(const std::string& name, int64_t least, int64_t most) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const bool fits = value->is_number_integer() &&
                    !(value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX));
  if (!fits || value->get<int64_t>() < least || value->get<int64_t>() > most) {
    Fail(name, Concat("wanted a whole number from ", least, " to ", most, ", not ", Shortened(*value)));
  }
  return value->get<int64_t>();
}

std::optional<double> Fields::Number(const std::string& name, double least, double most) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const bool fits = value->is_number() && std::isfinite(value->get<double>()) && value->get<double>() >= least &&
                    value->get<double>() <= most;
  if (!fits) Fail(name, Concat("wanted a number from ", least, " to ", most, ", not ", Shortened(*value)));
  return value->get<double>();
}

void Fields::Accept(std::initializer_list<const char*> names) {
  for (const char* name : names) known_.insert(name);
}

void Fields::Refuse(const std::string& name, const std::string& why) {
  const Json* value = Find(name);
  if (value == nullptr || *value == Json(false) || (value->is_structured() && value->empty())) return;
  RefuseAny(name, why);
}

void Fields::RefuseAny(const std::string& name, const std::string& why) {
  if (Find(name) == nullptr) return;
  throw ApiError{.message = PathOf(name) + ": " + why, .param = PathOf(name), .code = "unsupported_parameter"};
}

void Fields::Finish() const {
  for (const auto& [name, value] : object_.items()) {
    if (known_.contains(name)) continue;
    const auto nearest = Nearest(name, {known_.begin(), known_.end()});
    throw ApiError{
        .message = "unknown field '" + name.substr(0, 60) + "'" + (nearest ? "; did you mean '" + *nearest + "'?" : ""),
        .param = PathOf(name.substr(0, 60)),
        .code = "unknown_parameter"};
  }
}

}  // namespace trireme
