#include "models/quantisation.h"

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr char kKey[] = "quantization_config";

}  // namespace

void CheckQuantisation(const HfConfig& config) {
  if (!config.Has(kKey)) return;
  const HfConfig how = config.Within(kKey);
  const std::string method = how.Has("quant_method") ? how.Text("quant_method") : "";
  if (method != "fp8") {
    throw InputError(config.source(), ": ", kKey, " has the quant_method '", method,
                     "'; wanted fp8, or plain weights without this key: look for the same model in bf16");
  }
  if (how.Has("fmt")) how.Only("fmt", "e4m3");
  if (how.Has("weight_block_size")) how.Only("weight_block_size", {128, 128});
}

std::string PlainConfig(const std::string& text, const std::filesystem::path& model) {
  Json config = ParseJson(text, (model / "config.json").string());
  if (!config.is_object() || !config.contains(kKey)) return text;
  config.erase(kKey);
  return config.dump(2) + "\n";
}

}  // namespace trireme
