#include "translate/swift_prepared.h"

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"

namespace trireme {
namespace {

// What decides how records become tokens and which of them are held out.
const std::vector<std::string> kAboutData = {
    "dataset",        "val_dataset", "split_dataset_ratio", "max_length",  "truncation_strategy",
    "loss_scale",     "columns",     "use_chat_template",   "system",      "template",
    "agent_template", "model_name",  "enable_thinking",     "model_author"};

bool IsAboutData(const Setting& setting) { return std::ranges::find(kAboutData, setting.name) != kAboutData.end(); }

std::filesystem::path Plain(const std::string& path) { return std::filesystem::path(path).lexically_normal(); }

// "./prepared" of "prepared/train".
const Given* Preparing(const std::vector<Given>& preparations, const std::string& part) {
  for (const Given& one : preparations) {
    if (Plain(one.Value("output_dir", "")) == Plain(part).parent_path()) return &one;
  }
  return nullptr;
}

}  // namespace

bool PreparesData(const std::vector<std::string>& words) {
  const auto swift = std::ranges::find(words, std::string("swift"));
  const bool exports = swift != words.end() && swift + 1 != words.end() && *(swift + 1) == "export";
  return exports && std::ranges::find(words, std::string("--to_cached_dataset")) != words.end();
}

void TakePreparedData(const std::vector<Given>& preparations, Given& run) {
  const Setting* cached = run.Find("cached_dataset");
  if (cached == nullptr || cached->values.size() != 1) return;
  const Given* preparation = Preparing(preparations, cached->value());
  const Setting* valid = run.Find("cached_val_dataset");
  if (preparation == nullptr || (valid != nullptr && Preparing(preparations, valid->value()) != preparation)) return;
  std::erase_if(run.settings, [](const Setting& one) {
    return IsAboutData(one) || one.name == "cached_dataset" || one.name == "cached_val_dataset";
  });
  for (Setting setting : preparation->settings) {
    if (!IsAboutData(setting)) continue;
    setting.origin = "swift export " + setting.origin;
    run.settings.push_back(setting);
  }
}

}  // namespace trireme
