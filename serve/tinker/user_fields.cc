#include "serve/tinker/user_fields.h"

#include "core/base/error.h"

namespace trireme::tinker {

Json UserMetadata(Fields& fields) {
  const Json* metadata = fields.Find("user_metadata");
  if (metadata == nullptr) return nullptr;
  const auto bytes = std::ssize(JsonLine(*metadata));
  if (bytes > kMostMetadataBytes)
    fields.Fail("user_metadata", Concat("has ", bytes, " bytes of JSON; wanted at most ", kMostMetadataBytes));
  return *metadata;
}

std::string UserName(Fields& fields, const std::string& field) {
  std::string name = fields.Text(field).value_or("");
  if (std::ssize(name) > kMostNameBytes)
    fields.Fail(field, Concat("has ", name.size(), " bytes; wanted at most ", kMostNameBytes));
  return name;
}

}  // namespace trireme::tinker
