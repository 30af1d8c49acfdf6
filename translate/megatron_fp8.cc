// Megatron's FP8 flags: products in e4m3 become model.fp8: rows, and what its recipe does otherwise is said.
#include "core/base/error.h"
#include "translate/megatron.h"

namespace trireme {
namespace {

// What has which scale there.
struct Recipe {
  const char *name, *scales;
};

constexpr Recipe kRecipes[] = {{"blockwise", "each 128 numbers of a token and each 128 x 128 weights"},
                               {"tensorwise", "a whole tensor"},
                               {"delayed", "a whole tensor, of its largest values before"}};

const char* ScalesOf(const std::string& name) {
  for (const Recipe& one : kRecipes) {
    if (name == one.name) return one.scales;
  }
  return nullptr;
}

}  // namespace

std::vector<RuleRow> MegatronFp8Rules() {
  return {
      {"fp8_format fp8_recipe", Elsewhere()},
      {"fp8_param_gather", NotNeeded("weights are gathered in model.dtype, and rounded by who multiplies")},
  };
}

void SetMegatronFp8(const Given& given, Translation& result) {
  const Setting *format = given.Find("fp8_format"), *named = given.Find("fp8_recipe");
  if (format == nullptr || format->off()) {
    if (named != nullptr) result.LeaveOut(named->origin, "products are in FP8 with fp8_format alone");
    return;
  }
  const std::string recipe = given.Value("fp8_recipe", "delayed");
  const std::string origin = named != nullptr ? named->origin : format->origin;
  const char* scales = ScalesOf(recipe);
  if (scales == nullptr)
    return result.Refuse(origin, "model.fp8: rows has a scale for each token and output channel, not for 32 numbers");
  if (format->value() != "e4m3" && format->value() != "hybrid")
    return result.Refuse(format->origin, "products are in e4m3");
  result.Set("model.fp8", std::string("rows"), format->origin);
  result.Warn(origin, Concat("a scale for ", scales,
                             " there; for each token and each output channel here, a power of "
                             "two. The weights' gradients and experts are products in model.dtype here"));
  if (format->value() == "hybrid") result.Warn(format->origin, "gradients are in e5m2 there, in e4m3 here");
}

}  // namespace trireme
