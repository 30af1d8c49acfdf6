#include "train/rollouts/prompt_set.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "data/image_marks.h"
#include "data/image_tokens.h"
#include "data/messages.h"
#include "data/model_images.h"
#include "data/record_fields.h"
#include "data/records.h"
#include "data/source_name.h"
#include "data/tools.h"
#include "generation/text/prompts.h"

namespace trireme {
namespace {

// The messages of a conversation up to the last answer, or nothing.
std::optional<Json> ConversationOf(const Json& record, bool images) {
  for (const char* key : {"messages", "conversations", "conversation"}) {
    if (!Has(record, key)) continue;
    Json messages = NormalMessages(ParseIfText(record.at(key), key), images);
    while (!messages.empty() && messages.back().value("role", "") == "assistant") messages.erase(messages.size() - 1);
    if (messages.empty()) throw InputError("'", key, "' has nothing before the answer");
    return messages;
  }
  if (Has(record, "prompt") && record.at("prompt").is_array()) return NormalMessages(record.at("prompt"), images);
  const std::optional<std::string> question = Has(record, "prompt") ? std::nullopt : Question(record);
  return question ? std::optional<Json>(QuestionMessages(record, *question)) : std::nullopt;
}

// As the chat template renders it: one placeholder per image.
std::vector<int32_t> WithoutRepeats(const PolicyPrompt& prompt, const ImageReader* images) {
  std::vector<int32_t> ids(prompt.ids.begin(), prompt.ids.end());
  if (!prompt.images) return ids;
  for (size_t i = prompt.images->size(); i-- > 0;) {
    const auto begin = ids.begin() + (*prompt.images)[i].first;
    ids.erase(begin + 1, begin + images->TokensOf((*prompt.images)[i].grid));
  }
  return ids;
}

PromptImages ImagesAt(std::shared_ptr<const std::vector<RowImage>> images, std::shared_ptr<const ImageReader> reader,
                      std::shared_ptr<ImageCache> cache) {
  PromptImages found;
  // As passes of training know them, so that what a tower made of them is theirs, too.
  for (const RowImage& image : *images) found.each.push_back({image.grid, ContentOf(image)});
  found.write = [images = std::move(images), reader = std::move(reader), cache = std::move(cache)](
                    size_t image, float* patches) { reader->WritePatches(*cache->Get(images->at(image)), patches); };
  return found;
}

// Tools are rendered by a chat template, which texts and ids do not meet.
void RefuseTools(const Json& record) {
  if (ToolsIn(record).is_null()) return;
  throw InputError("has 'tools', which only a prompt of messages can have; write it as messages, or drop them with ",
                   "data.columns: [tools=unused]");
}

void CheckRoom(const Config& config, const std::vector<int64_t>& prompt, const PromptKeys& keys,
               const std::string& where = "") {
  const int64_t tokens = std::ssize(prompt), most = config.data().max_length(), wanted = config.rl().max_new_tokens();
  if (tokens == 0) throw InputError(where, "has an empty prompt");
  if (tokens + wanted <= most) return;
  throw InputError(where, "its prompt of ", tokens, " tokens leaves no room for ", keys.limit, " = ", wanted,
                   " in data.max_length = ", most, "; raise data.max_length to ", tokens + wanted,
                   " or lower the other");
}

// Reads prompts with the tools of a model's directory.
class PromptReader {
 public:
  // images: of a model that sees; null: it does not.
  PromptReader(const Config& config, const Tokenizer* tokenizer, int64_t vocabulary, const PromptKeys& keys,
               std::shared_ptr<const ImageReader> images)
      : config_(config), tokenizer_(tokenizer), vocabulary_(vocabulary), keys_(keys), images_(std::move(images)) {}

  // folder: of the record's file, which paths of its images are relative to.
  PolicyPrompt Read(const Json& record, const std::filesystem::path& folder) {
    if (!record.is_object()) throw InputError("is no object; wanted a prompt");
    RefuseMedia(record, images_ != nullptr);
    folder_ = folder;
    RefuseGrounding(record);  // a channel is a column for the rewards
    PolicyPrompt prompt{.ids = {}, .text = {}, .record = record};
    prompt.ids = IdsOf(record, prompt);
    for (const int64_t id : prompt.ids) {
      if (id >= 0 && id < vocabulary_) continue;
      throw InputError("has the token ", id, "; the model's vocabulary has ", vocabulary_);
    }
    if (tokenizer_ != nullptr) prompt.text = tokenizer_->Decode(WithoutRepeats(prompt, images_.get()));
    CheckRoom(config_, prompt.ids, keys_);
    return prompt;
  }

 private:
  std::vector<int64_t> IdsOf(const Json& record, PolicyPrompt& prompt) {
    if (Has(record, "prompt_ids")) {
      RefuseTools(record);
      const std::vector<int32_t> ids = IdsAt(record, "prompt_ids");
      if (images_) Keep(FindPromptImages(Listed(record), *images_, ids), prompt);
      return {ids.begin(), ids.end()};
    }
    std::optional<Json> messages = ConversationOf(record, images_ != nullptr);
    if (!messages && !Has(record, "prompt")) {
      throw InputError("has no prompt: its keys are ", KeysOf(record), "; wanted prompt, messages, a question such as ",
                       "instruction or query, or prompt_ids; data.columns renames keys");
    }
    if (tokenizer_ == nullptr) {
      throw InputError("is text, and ", config_.model().path(), " has no tokenizer.json; wanted prompt_ids");
    }
    if (!messages) {
      RefuseTools(record);
      if (images_ && !ListedImages(record).empty()) {
        throw InputError("has images beside a prompt that is a text; images stand in messages (docs/vision.md)");
      }
      prompt.asked = TextAt(record, "prompt");
      return Checked(TextPrompt(*tokenizer_, TextAt(record, "prompt")));
    }
    std::vector<std::string> sources;
    if (images_) sources = ResolvedImages(PlaceImages(*messages, ListedImages(record)), folder_);
    AddSystem(*messages, record, config_.data().system());
    prompt.asked = *messages;
    prompt.rendering = {.tools = ToolsIn(record), .variables = TemplateVariables(record)};
    if (!chat_)
      chat_.emplace(ChatTemplate::Of(*tokenizer_, config_.data().template_(), TemplateValuesOf(config_.data())));
    return WithImages(ChatPrompt(*tokenizer_, *chat_, *messages, prompt.rendering), sources, prompt);
  }

  std::vector<std::string> Listed(const Json& record) const { return ResolvedImages(ListedImages(record), folder_); }

  // Rewards see the sources that the prompt was made of.
  static void Keep(std::vector<RowImage> images, PolicyPrompt& prompt) {
    if (images.empty()) return;
    prompt.record.erase("image");
    prompt.record["images"] = Json::array();
    for (const RowImage& image : images) prompt.record["images"].push_back(image.source);
    prompt.images = std::make_shared<const std::vector<RowImage>>(std::move(images));
  }

  // Each placeholder becomes as many as its image has tokens.
  std::vector<int64_t> WithImages(std::vector<int64_t> rendered, const std::vector<std::string>& sources,
                                  PolicyPrompt& prompt) const {
    if (!images_ || sources.empty()) return Checked(std::move(rendered));
    std::vector<int32_t> ids(rendered.begin(), rendered.end());
    std::vector<float> weights(ids.size(), 0);
    Keep(ExpandImages(sources, *images_, ids, weights), prompt);
    return {ids.begin(), ids.end()};
  }

  // Of a prompt without images.
  std::vector<int64_t> Checked(std::vector<int64_t> ids) const {
    if (!images_ || std::ranges::find(ids, images_->placeholder()) == ids.end()) return ids;
    throw InputError("has image placeholders (token ", images_->placeholder(),
                     "), but no image; remove them from its text, or name its images");
  }

  const Config& config_;
  const Tokenizer* tokenizer_;
  const int64_t vocabulary_;
  const PromptKeys& keys_;
  const std::shared_ptr<const ImageReader> images_;
  std::filesystem::path folder_;
  std::optional<ChatTemplate> chat_;
};

}  // namespace

PromptSet::PromptSet(const Config& config, int64_t vocabulary, PromptKeys keys, int64_t most) : keys_(std::move(keys)) {
  const std::string& model = config.model().path();
  if (PathExists(std::filesystem::path(model) / "tokenizer.json")) tokenizer_.emplace(model);
  OpenImages(config);
  PromptReader reader(config, tokenizer(), vocabulary, keys_, image_reader_);
  const std::map<std::string, std::string> columns = RenamedColumns(config.data());
  for (const std::string& entry : config.data().train()) {
    const SourceName name = ParseSourceName(entry, keys_.files, config);
    if (name.count || name.weight) {
      throw InputError(keys_.files, ": ", entry, ": prompts are taken as they are; leave the number after # or @ out");
    }
    for (const DataFile& file : FilesOf(name, keys_.files)) {
      const std::unique_ptr<RecordFile> records = OpenRecords(file);
      for (int64_t i = 0; i < records->size() && (most == 0 || size() < most); ++i) {
        prompts_.push_back(UseRecord(*records, i, [&](Json record) {
          if (record.is_object()) RenameColumns(record, columns);
          return reader.Read(record, file.path.parent_path());
        }));
      }
    }
  }
}

void PromptSet::OpenImages(const Config& config) {
  image_reader_ = ImageReaderOf(config.model());
  if (!image_reader_) return;
  image_cache_ = std::make_shared<ImageCache>(image_reader_, static_cast<size_t>(config.data().image_cache_mb()) << 20);
}

PromptImages PromptSet::ImagesFor(const std::shared_ptr<const std::vector<RowImage>>& images) const {
  return images ? ImagesAt(images, image_reader_, image_cache_) : PromptImages();
}

PromptSet::PromptSet(const Config& config, const RowSource& rows, bool samples) {
  OpenImages(config);
  if (PathExists(std::filesystem::path(config.model().path()) / "tokenizer.json"))
    tokenizer_.emplace(config.model().path());
  for (int64_t i = 0; i < rows.size(); ++i) {
    const Row row = rows.Read(i);
    if (!row.weights.empty())
      throw InputError("data.train: sample ", i + 1,
                       ": has weights (\"loss\"), which stage gkd does not take; leave them out");
    size_t end = row.labels.size();
    while (end > 1 && row.labels[end - 1] == kNotTrained) --end;
    size_t begin = end;
    while (begin > 1 && row.labels[begin - 1] != kNotTrained) --begin;
    const auto at = [&](size_t index) { return row.input_ids.begin() + static_cast<int64_t>(index); };
    PolicyPrompt prompt{.ids = {at(0), at(begin)}, .text = {}, .record = {}, .answer = {at(begin), at(end)}};
    if (!row.images.empty()) {
      if (row.images.back().first >= static_cast<int64_t>(begin)) {
        throw InputError("data.train: sample ", i + 1, ": has an image after the beginning of its last answer");
      }
      prompt.images = std::make_shared<const std::vector<RowImage>>(row.images);
    }
    if (tokenizer()) prompt.text = tokenizer()->Decode(WithoutRepeats(prompt, image_reader_.get()));
    if (samples) CheckRoom(config, prompt.ids, keys_, Concat("data.train: sample ", i + 1, ": "));
    prompts_.push_back(std::move(prompt));
  }
}

Rows PromptSet::AsRows() const {
  std::vector<Row> rows;
  for (const PolicyPrompt& prompt : prompts_) {
    rows.push_back({.input_ids = prompt.ids, .labels = std::vector<int64_t>(prompt.ids.size(), kNotTrained)});
  }
  return std::make_shared<RowList>(std::move(rows));
}

}  // namespace trireme
