// A sample as a row of tokens with labels: which tokens are trained on, by kind of record and options.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "data/image_reader.h"
#include "data/samples.h"
#include "stages/stage.h"
#include "text/chat_tokens.h"

namespace trireme {

// What turns samples into rows. The tokenizer and its chat template are opened when a sample first needs
// them.
class SampleTokenizer {
 public:
  struct Options {
    std::string model;          // the directory with the tokenizer
    std::string chat_template;  // a file; empty: the tokenizer's own
    Records records = Records::kConversations;
    LossOn loss_on = LossOn::kAnswers;
    int64_t max_length = 0;  // of a prompt with its answer; 0: any
    Json template_values = Json::object();
    bool sees = false;                       // the model has a vision tower, and settings of its image processor
    int64_t min_pixels = 0, max_pixels = 0;  // of images; 0: as the model's processor says
    LossParts parts = {};                    // of conversations' answers
  };
  explicit SampleTokenizer(Options options) : options_(std::move(options)) {}

  const Options& options() const { return options_; }
  const Tokenizer& tokenizer() const;
  const ChatTemplate& chat() const;
  const std::shared_ptr<const ImageReader>& images() const;  // of a model that sees

 private:
  const Options options_;
  mutable std::once_flag tokenizer_opened_, chat_opened_, images_opened_;
  mutable std::optional<Tokenizer> tokenizer_;
  mutable std::optional<ChatTemplate> chat_;
  mutable std::shared_ptr<const ImageReader> images_;
};

// Plain text with its end token, every token trained on; a conversation as its template renders it.
// Tokens are used as they are. An input error states what is missing; it does not name the location.
StoredRow Tokenise(const Sample& sample, const SampleTokenizer& with);

}  // namespace trireme
