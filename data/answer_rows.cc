#include "data/answer_rows.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/base/error.h"
#include "data/answer_samples.h"
#include "data/answer_tokens.h"
#include "data/image_reader.h"
#include "data/records.h"
#include "data/row_images.h"
#include "data/row_keys.h"
#include "stages/preference_check.h"

namespace trireme {
namespace {

void Cut(Row& side, int64_t longest) {
  if (longest == 0 || std::ssize(side.input_ids) <= longest) return;
  side.input_ids.resize(static_cast<size_t>(longest));
  side.labels.resize(static_cast<size_t>(longest));
}

int64_t LabelsOf(const Row& side) {
  return std::count_if(side.labels.begin(), side.labels.end(), [](int64_t label) { return label != kNotTrained; });
}

// Tokens before the answer.
int64_t PromptOf(const Row& side) {
  const auto trained = [](int64_t label) { return label != kNotTrained; };
  return std::find_if(side.labels.begin(), side.labels.end(), trained) - side.labels.begin();
}

// By label of a side: what it counts in the comparison. `shorter`: tokens of the shorter answer.
std::vector<float> WeightsOf(const Row& side, int64_t shorter, double beyond) {
  std::vector<float> weights(side.labels.size(), 0.0F);
  int64_t position = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (side.labels[i] != kNotTrained) weights[i] = position++ < shorter ? 1.0F : static_cast<float>(beyond);
  }
  return weights;
}

// Tokens at the beginning of a pair's second side that its first side has in common with it and that predict nothing of
// its answer: all of the prompt but its last token, which predicts the answers' first ones, different ones.
int64_t SharedTokens(int64_t prompt) { return std::max<int64_t>(prompt - 1, 0); }

class Units : public RowSource {
 public:
  Units(std::shared_ptr<const RowStore> store, const AnswerOptions& options)
      : store_(std::move(store)), options_(options), sides_(options.pairs ? 2 : 1) {
    for (int64_t first = 0; first + sides_ <= store_->size(); first += sides_) {
      if (options_.truncate || !IsLong(first)) firsts_.push_back(first);
    }
  }
  int64_t size() const override { return std::ssize(firsts_); }
  int64_t Length(int64_t row) const override {
    int64_t length = 0;
    for (int side = 0; side < sides_; ++side) length += SideLength(firsts_[row] + side);
    if (!options_.share_prompt) return length;
    const int64_t second = firsts_[row] + 1;  // all after its prompt is trained
    return length - SharedTokens(store_->Length(second) - store_->Trained(second));
  }
  int64_t Trained(int64_t row) const override {
    if (options_.learn_prompt || IsLong(firsts_[row])) return CountTrained(Read(row));
    int64_t trained = 0;
    for (int side = 0; side < sides_; ++side) trained += store_->Trained(firsts_[row] + side);
    return trained;
  }
  RowExtent Extent(int64_t row) const override {
    RowExtent extent{.documents = {Length(row)}, .images = store_->Extent(firsts_[row]).images};
    if (sides_ == 2 && !options_.share_prompt) {
      const std::vector<ImageGrid> again = store_->Extent(firsts_[row] + 1).images;
      extent.images.insert(extent.images.end(), again.begin(), again.end());
    }
    return extent;
  }
  Row Read(int64_t row) const override {
    std::vector<Row> sides;
    for (int side = 0; side < sides_; ++side) {
      sides.push_back(store_->Read(firsts_[row] + side));
      sides.back().values = {store_->Value(firsts_[row] + side)};
    }
    return JoinAnswers(std::move(sides), options_);
  }

 private:
  int64_t SideLength(int64_t side) const {
    const int64_t length = store_->Length(side);
    return options_.longest > 0 ? std::min(length, options_.longest) : length;
  }
  bool IsLong(int64_t first) const {
    for (int side = 0; side < sides_; ++side) {
      if (SideLength(first + side) < store_->Length(first + side)) return true;
    }
    return false;
  }

  const std::shared_ptr<const RowStore> store_;
  const AnswerOptions options_;
  const int sides_;
  std::vector<int64_t> firsts_;  // the store's row of each unit's first side
};

// The sides of a sample that is given as tokens.
std::vector<Row> GivenTokens(const AnswerSample& sample, int64_t vocabulary, Records records) {
  if (!std::holds_alternative<TokenAnswers>(sample)) {
    throw InputError("is text; wanted tokens: ", records == Records::kPairs ? "prompt_ids, chosen_ids and rejected_ids"
                                                                            : "prompt_ids, completion_ids and label");
  }
  TokenAnswers tokens = std::get<TokenAnswers>(sample);
  tokens.images.clear();  // the row's own, which its caller reads
  std::vector<Row> sides;
  for (const StoredRow& side : TokeniseAnswers(tokens, SampleTokenizer({.records = records}), vocabulary)) {
    sides.push_back({{side.ids.begin(), side.ids.end()}, {side.labels.begin(), side.labels.end()}});
    sides.back().values = {side.value};
  }
  return sides;
}

// A side's images: those in the tokens that it shares stand in the row already. All are in the prompt.
void AddSideImages(Row& side, int64_t shared, Row& joined) {
  const int64_t moved = std::ssize(joined.input_ids) - shared;
  if (!side.images.empty() && side.grids.empty()) {  // named alone: their places are found in the whole row
    if (shared == 0) joined.images.insert(joined.images.end(), side.images.begin(), side.images.end());
    return;
  }
  for (size_t i = 0; i < side.grids.size(); ++i) {
    const bool again = side.images.empty() ? shared > 0 : side.images[i].first < shared;
    if (again) continue;
    joined.grids.push_back(side.grids[i]);
    if (side.images.empty()) continue;
    joined.images.push_back(std::move(side.images[i]));
    joined.images.back().first += moved;
  }
  if (!side.patches || shared > 0) return;
  auto all =
      joined.patches ? std::make_shared<std::vector<float>>(*joined.patches) : std::make_shared<std::vector<float>>();
  all->insert(all->end(), side.patches->begin(), side.patches->end());
  joined.patches = std::move(all);
}

void LearnPrompt(Row& side, int64_t placeholder) {
  std::transform(side.input_ids.begin() + 1, side.input_ids.end(), side.labels.begin() + 1,
                 [&](int64_t id) { return id == placeholder ? kNotTrained : id; });
}

// The token of images of the model in a directory that says what its images are.
int64_t PlaceholderIn(const ModelConfig& model) {
  return HasImageSettings(model.path()) ? ImageReader({.model = model.path()}).placeholder() : -1;
}

void RefuseImagesInAnswer(const Row& side, const ImageInputs& images) {
  for (size_t i = 0; i < side.labels.size(); ++i) {
    if (side.labels[i] != images.placeholder) continue;
    throw InputError("an answer has an image placeholder (token ", images.placeholder, "); images stand in prompt_ids");
  }
}

}  // namespace

bool CountsNoTokens(const ExpertsConfig& experts) {
  return experts.balance_coefficient() == 0 && experts.z_coefficient() == 0 && experts.bias_speed() == 0 &&
         experts.overflow() == OVERFLOW_KEEP;
}

AnswerOptions AnswerOptionsOf(const Config& config) {
  const StageFacts& facts = FactsOf(config);
  const bool pairs = facts.records == Records::kPairs, compares = pairs && facts.head == HeadKind::kLogits;
  return {.pairs = pairs,
          .longest = config.data().max_length(),
          .truncate = config.data().over_length() == OVER_LENGTH_TRUNCATE,
          .ld_alpha = LongerAnswerWeight(config),
          .share_prompt = compares && config.preference().share_prompt() && CountsNoTokens(config.experts()),
          .learn_prompt = LearnsPrompt(config),
          .placeholder = LearnsPrompt(config) ? PlaceholderIn(config.model()) : -1};
}

Row JoinAnswers(std::vector<Row> sides, const AnswerOptions& options) {
  Row joined;
  int64_t shorter = -1;  // answer, in tokens
  for (Row& side : sides) {
    Cut(side, options.longest);
    side.labels[0] = kNotTrained;
    const int64_t tokens = LabelsOf(side);
    shorter = shorter < 0 ? tokens : std::min(shorter, tokens);
    joined.answer_tokens.push_back(tokens);
  }
  const bool weighted = options.ld_alpha != 1 || options.learn_prompt;
  for (size_t i = 0; i < sides.size(); ++i) {
    Row& side = sides[i];
    const int64_t shared = options.share_prompt && i > 0 ? SharedTokens(PromptOf(side)) : 0;
    if (options.share_prompt) joined.shared.push_back(shared);
    if (weighted) {
      const std::vector<float> weights = WeightsOf(side, shorter, options.ld_alpha);
      joined.weights.insert(joined.weights.end(), weights.begin() + shared, weights.end());
    }
    if (options.learn_prompt && i == 0) LearnPrompt(side, options.placeholder);
    AddSideImages(side, shared, joined);
    joined.starts.push_back(std::ssize(joined.input_ids));
    joined.samples.push_back(0);
    joined.values.push_back(side.values.empty() ? 0 : side.values[0]);
    joined.input_ids.insert(joined.input_ids.end(), side.input_ids.begin() + shared, side.input_ids.end());
    joined.labels.insert(joined.labels.end(), side.labels.begin() + shared, side.labels.end());
  }
  return joined;
}

Rows AnswerRows(std::shared_ptr<const RowStore> store, const AnswerOptions& options) {
  return std::make_shared<Units>(std::move(store), options);
}

int64_t UnitsOf(const RowStore& store, const AnswerOptions& options) { return store.size() / (options.pairs ? 2 : 1); }

int64_t LongUnitsOf(const RowStore& store, const AnswerOptions& options) {
  const int sides = options.pairs ? 2 : 1;
  int64_t count = 0;
  for (int64_t first = 0; first + sides <= store.size(); first += sides) {
    int64_t longest = store.Length(first);
    if (options.pairs) longest = std::max(longest, store.Length(first + 1));
    count += longest > options.longest;
  }
  return count;
}

std::vector<Row> ReadAnswerRows(const std::string& path, int64_t vocabulary, const Config& config,
                                const ImageInputs* images) {
  AnswerOptions options = AnswerOptionsOf(config);
  options.longest = 0;  // given tokens are taken as they are
  options.placeholder = images != nullptr ? images->placeholder : -1;
  const auto records = OpenRecords(path);
  std::vector<Row> rows;
  for (int64_t i = 0; i < records->size(); ++i) {
    std::vector<Row> sides = UseRecord(*records, i, [&](Json record) {
      RefuseOtherKeys(record, {"prompt_ids", "chosen_ids", "rejected_ids", "completion_ids", "label", "kto_tag",
                               "margin", "pixel_values", "image_grid_thw", "images"});
      std::vector<Row> given = GivenTokens(ReadAnswers(record, {.images = images != nullptr}, FactsOf(config)),
                                           vocabulary, FactsOf(config).records);
      for (Row& side : given) {
        ReadRowImages(record, "the row", std::filesystem::path(path).parent_path(), images, side);
        if (images != nullptr) RefuseImagesInAnswer(side, *images);
      }
      return given;
    });
    if (options.pairs) {
      rows.push_back(JoinAnswers(std::move(sides), options));
    } else {
      for (Row& side : sides) rows.push_back(JoinAnswers({std::move(side)}, options));
    }
  }
  if (rows.empty()) throw InputError(path, ": has no rows");
  return rows;
}

}  // namespace trireme
