// Images in `trireme generate`: those of prompts' files, of --image and of a chat. No torch.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/cli/arguments.h"
#include "core/config.pb.h"
#include "generation/text/image_prompts.h"
#include "parallel/graph/graph.h"

namespace trireme {

// A prompt with its images, which are none for a model that does not see.
struct SeenPrompt {
  Tokens tokens;
  PromptImages images = {};
};

// What a conversation's images are read with, made when the first is there.
class GenerateImages {
 public:
  GenerateImages(const Config& config, const LayerGraph& graph) : config_(config), kind_(graph.images) {}

  bool sees() const { return kind_.has_value(); }
  // `rendered`: with one placeholder per image. `where` names the prompt in errors.
  SeenPrompt Read(Tokens rendered, const std::vector<std::string>& sources, const std::string& where) const;
  // That they are images which the model takes, by their headers.
  void CheckFiles(const std::vector<std::string>& sources) const;
  // Rows of tokens, with the images that they name or whose patches they have.
  std::vector<SeenPrompt> ReadRows(const std::string& path, int64_t vocabulary) const;

 private:
  const PromptImageReader& Reader() const;
  void Check(const SeenPrompt& prompt, const std::string& where) const;

  const Config& config_;
  const std::optional<ImageInputs> kind_;
  mutable std::unique_ptr<const PromptImageReader> reader_;
};

// Of --image: for a model that sees, in a chat.
std::vector<std::string> ChatImages(const Arguments& arguments, bool talks, bool sees);

// A user's message with images before its text, as chat templates read them.
Json UserMessage(const std::string& text, size_t images);

}  // namespace trireme
