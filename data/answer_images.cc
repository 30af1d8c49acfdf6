#include "data/answer_images.h"

#include <algorithm>

#include "core/base/error.h"
#include "data/image_marks.h"
#include "data/record_fields.h"

namespace trireme {
namespace {

bool HasImage(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return false;
  if (content->is_string()) return content->get_ref<const std::string&>().find("<image>") != std::string::npos;
  return content->is_array() && std::any_of(content->begin(), content->end(), IsImagePart);
}

}  // namespace

std::vector<std::string> PlacePromptImages(Json& prompt, const std::vector<Json>& answers,
                                           const std::vector<std::string>& listed) {
  if (!prompt.is_array()) {
    if (listed.empty()) return {};
    throw InputError("has ", listed.size(), " images beside a prompt that is a text; images stand in messages: write ",
                     "the prompt as [{\"role\": \"user\", \"content\": \"<image>…\"}] (docs/vision.md)");
  }
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].is_array() || !std::any_of(answers[i].begin(), answers[i].end(), HasImage)) continue;
    const char* const which = answers.size() < 2 ? "only" : i == 0 ? "chosen" : "rejected";
    throw InputError("the ", which, " answer has an image or an <image> mark; images stand in the prompt, which all ",
                     "answers share: move it there, or remove it");
  }
  return PlaceImages(prompt, listed);
}

void RefuseRejectedImages(const Json& record) {
  if (!Has(record, "rejected_images") || record["rejected_images"].empty()) return;
  if (record["rejected_images"] == "" || record["rejected_images"] == "[]") return;
  if (Has(record, "images") && record["images"] == record["rejected_images"]) return;
  throw InputError("has 'rejected_images' other than its images; both answers are compared over one prompt, with one ",
                   "list of images: remove the key, or drop it with data.columns: [rejected_images=unused]");
}

}  // namespace trireme
