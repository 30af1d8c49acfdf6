// The list of formats of packed weights. A new one is a file with a function that describes it, and a line here.
#include "checkpoint/packed_format.h"
#include "core/base/error.h"

// clang-format off
#define TRIREME_PACKED_FORMATS(FORMAT) \
  FORMAT(Mxfp4Format)                  \
  FORMAT(GptqFormat)                   \
  FORMAT(AwqFormat)                    \
  FORMAT(CompressedTensorsFormat)
// clang-format on

namespace trireme {

#define DECLARE(function) PackedFormat function();
TRIREME_PACKED_FORMATS(DECLARE)
#undef DECLARE

const std::vector<PackedFormat>& PackedFormats() {
#define LIST(function) function(),
  static const std::vector<PackedFormat> formats = {TRIREME_PACKED_FORMATS(LIST)};
#undef LIST
  return formats;
}

std::string WithoutQuantisation(const std::string& config, const std::string& where) {
  Json parsed = ParseJson(config, where);
  if (!parsed.is_object() || parsed.erase("quantization_config") == 0) return config;
  return parsed.dump(2) + "\n";
}

std::string WithQuantisation(const std::string& config, const std::string& where, const Json& how) {
  Json parsed = ParseJson(config, where);
  if (!parsed.is_object()) throw InputError(where, ": is not a JSON object");
  parsed["quantization_config"] = how;
  return parsed.dump(2) + "\n";
}

}  // namespace trireme
