// PromptSet: the prompts of data.train, or data.valid, that completions are sampled for, with the columns of their
// records, which rewards may ask for. Records are {"prompt": text or messages}, {"messages": […]} whose last answer is
// left out, a question under any of its names, or {"prompt_ids": […]}, for models that see with images. Read whole by
// every rank. No torch.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/config.pb.h"
#include "data/image_rows.h"
#include "data/row_views.h"
#include "generation/prompt_images.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace trireme {

struct PolicyPrompt {
  std::vector<int64_t> ids;
  std::string text;                  // as the model reads it; empty without a tokenizer
  Json record;                       // all its columns
  std::vector<int64_t> answer = {};  // the data's own, for distillation
  Json asked = {};                   // what the ids were made of: messages, or a text; null: ids were given
  RenderOptions rendering = {};      // of messages: the record's tools and the template's variables
  // What placeholders in the ids stand for, in their order; null: nothing. The record's `images` are their sources.
  std::shared_ptr<const std::vector<RowImage>> images = {};
};

// What a set of prompts is, for messages: the keys that name its files and limit its completions.
struct PromptKeys {
  std::string files = "data.train", limit = "rl.max_new_tokens";
};

class PromptSet {
 public:
  // Refuses, with file and line, records that are no prompts, and prompts without room for rl.max_new_tokens in
  // data.max_length. The first `most` prompts; 0: all.
  PromptSet(const Config& config, int64_t vocabulary, PromptKeys keys = {}, int64_t most = 0);
  // The same with answers, from rows of stage sft: what is trained last in a row is its answer, what is before it the
  // prompt. `samples`: prompts leave room for rl.max_new_tokens.
  PromptSet(const Config& config, const RowSource& rows, bool samples);

  const PromptKeys& keys() const { return keys_; }
  int64_t size() const { return std::ssize(prompts_); }
  const PolicyPrompt& at(int64_t index) const { return prompts_.at(static_cast<size_t>(index)); }
  // A row per prompt, of which nothing is trained.
  Rows AsRows() const;
  // For the engine. `images`: a prompt's, or null.
  PromptImages ImagesFor(const std::shared_ptr<const std::vector<RowImage>>& images) const;
  // Null if the model's directory has none.
  const Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }

 private:
  void OpenImages(const Config& config);

  const PromptKeys keys_ = {};
  std::optional<Tokenizer> tokenizer_;
  std::shared_ptr<const ImageReader> image_reader_;  // of a model that sees
  std::shared_ptr<ImageCache> image_cache_;
  std::vector<PolicyPrompt> prompts_;
};

}  // namespace trireme
