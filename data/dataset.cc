#include "data/dataset.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/config/schema.h"
#include "data/answer_rows.h"
#include "data/image_rows.h"
#include "data/indexed_rows.h"
#include "data/model_images.h"
#include "data/prepare.h"
#include "data/rows_without_patches.h"
#include "data/source_name.h"
#include "data/stream.h"
#include "data/text_rows.h"
#include "data/text_samples.h"
#include "data/text_tokens.h"
#include "models/text_labels.h"
#include "stages/retrieval_check.h"
#include "stages/stage.h"

namespace trireme {
namespace {

OverLength PolicyOf(const DataConfig& data) {
  switch (data.over_length()) {
    case OVER_LENGTH_DROP:
      return OverLength::kDrop;
    case OVER_LENGTH_TRUNCATE:
      return OverLength::kTruncate;
    case OVER_LENGTH_SPLIT:
      return OverLength::kSplit;
  }
  return OverLength::kDrop;
}

class Opener {
 public:
  Opener(const Config& config, const DataPlace& place)
      : config_(config),
        place_(place),
        preparer_(config.data(), FactsOf(config), config.model(), place.works, TextOptionsOf(config)) {}

  // All entries of a list together, each limited in length; for indexed data the given part of data.split.
  Rows OpenList(const google::protobuf::RepeatedPtrField<std::string>& entries, const std::string& key, int part = 0) {
    part_ = part;
    std::vector<SourceName> names;
    for (const std::string& entry : entries) names.push_back(ParseSourceName(entry, key, config_));
    const auto weighed = std::ranges::count_if(names, [](const SourceName& name) { return name.weight.has_value(); });
    if (weighed > 0 && weighed < static_cast<std::ptrdiff_t>(names.size())) {
      throw InputError(key, ": ", weighed, " of ", names.size(), " entries have a weight; give one to each or to none");
    }
    std::vector<Rows> parts;
    std::vector<double> weights;
    for (const SourceName& name : names) {
      parts.push_back(OpenEntry(name, key));
      weights.push_back(name.weight.value_or(1));
    }
    return weighed > 0 ? BlendRows(std::move(parts), weights) : JoinRows(std::move(parts));
  }

  // Of all that was opened so far.
  void CheckLabels() const {
    CheckTextLabels();
    if (FactsOf(config_).records != Records::kJudged || (labels_[0] > 0 && labels_[1] > 0)) return;
    throw InputError("data.train: all ", labels_[0] + labels_[1], " answers have the label ",
                     labels_[1] > 0 ? "true" : "false", "; stage ", FactsOf(config_).name,
                     " needs desirable (true) and undesirable (false) ones");
  }

 private:
  // Texts of one label alone teach nothing.
  void CheckTextLabels() const {
    const StageFacts& facts = FactsOf(config_);
    const RetrievalConfig& keys = config_.retrieval();
    if (!TrainsTexts(facts) || text_labels_.size() != 1) return;
    const float only = *text_labels_.begin();
    if (facts.records == Records::kLabelled && keys.problem() == PROBLEM_SINGLE_LABEL) {
      const std::vector<std::string> names = LabelNamesOf(keys, config_.model().path());
      throw InputError("data.train: all texts have the label ", names.at(static_cast<size_t>(only)),
                       "; stage classification needs texts of at least two labels");
    }
    const bool contrasts =
        keys.loss() == EMBEDDING_LOSS_CONTRASTIVE || keys.loss() == EMBEDDING_LOSS_ONLINE_CONTRASTIVE;
    const bool judged = facts.records == Records::kRanked || (facts.records == Records::kTexts && contrasts);
    if (!judged || only == kSomePositive) return;
    throw InputError("data.train: all documents have the label ", only == kNonePositive ? 0 : 1, "; stage ", facts.name,
                     " needs relevant and irrelevant ones");
  }

  Rows OpenEntry(const SourceName& name, const std::string& key) {
    std::vector<Rows> files;
    for (const DataFile& file : FilesOf(name, key)) files.push_back(OpenFile(file));
    Rows rows = JoinRows(std::move(files));
    if (!name.count) return rows;
    return SampleRows(std::move(rows), *name.count, static_cast<uint64_t>(config_.run().seed()), name.path.string());
  }

  Rows OpenFile(const DataFile& file) {
    const std::filesystem::path& path = file.path;
    if (const auto prefix = IndexedPrefix(path)) {
      if (!FactsOf(config_).of_answers() && !TrainsTexts(FactsOf(config_))) return OpenIndexed(*prefix);
      throw InputError(path.string(), ": indexed data has no ", TrainsTexts(FactsOf(config_)) ? "labels" : "answers",
                       "; stage ", FactsOf(config_).name, " wants records");
    }
    if (config_.data().split_size() > 0) {
      throw InputError("data.split is for .bin files with their .idx, which ", path.string(),
                       " is not; write data.valid_ratio");
    }
    return OpenPrepared(file);
  }

  Rows OpenIndexed(const std::filesystem::path& prefix) const {
    const DataConfig& data = config_.data();
    return OpenIndexedRows(prefix, {.length = data.max_length(),
                                    .isolate = data.packing(),
                                    .shuffle = data.shuffle(),
                                    .seed = static_cast<uint64_t>(config_.run().seed()),
                                    .split = {data.split().begin(), data.split().end()},
                                    .part = part_,
                                    .vocabulary = place_.vocabulary});
  }

  Rows OpenPrepared(const DataFile& file) {
    const std::filesystem::path& path = file.path;
    const std::shared_ptr<const RowStore> store = preparer_.Prepare(file);
    if (store->highest_id() >= place_.vocabulary) {
      throw InputError(path.string(), ": has the token ", store->highest_id(), "; the model's vocabulary of ",
                       place_.vocabulary, " is smaller. Does the tokenizer belong to the model?");
    }
    const DataConfig& data = config_.data();
    Rows rows = TakenOf(store, config_);
    CountLabels(*store);
    if (rows->size() > 0) {
      if (place_.reports) {
        for (const std::string& line : LeftOutOf(path, *store, config_)) TRIREME_LOG(WARNING) << line;
      }
      return rows;
    }
    if (TrainsTexts(FactsOf(config_)) && store->size() > 0) {
      throw InputError(path.string(), ": each of its ", store->size(), " records has a text of more than ",
                       "data.max_length = ", data.max_length(), " tokens; raise it, or set data.over_length: truncate");
    }
    const bool fits = store->size() > 0 && Shortest(*store) <= data.max_length();
    throw InputError(
        path.string(), ": of its ", store->size() + store->skipped(), " samples none can be trained on; ",
        fits ? Concat("those of at most data.max_length = ", data.max_length(),
                      " tokens have none that is trained: their labels are all -100, or their loss is false")
             : Concat("data.max_length = ", data.max_length(), ", the shortest has ", Shortest(*store), " tokens"));
  }

  void CountLabels(const RowStore& store) {
    for (int64_t i = 0; i < store.size(); ++i) ++labels_[store.Value(i) > 0.5F];
    if (!TrainsTexts(FactsOf(config_))) return;
    for (int64_t i = 0; i < store.size(); ++i) text_labels_.insert(store.Value(i));
  }

  static int64_t Shortest(const RowStore& store) {
    int64_t shortest = store.size() > 0 ? store.Length(0) : 0;
    for (int64_t i = 1; i < store.size(); ++i) shortest = std::min(shortest, store.Length(i));
    return shortest;
  }

  const Config& config_;
  const DataPlace& place_;
  const Preparer preparer_;
  int part_ = 0;
  int64_t labels_[2] = {};       // answers with label false, and true
  std::set<float> text_labels_;  // of classified texts; of others what text_tokens.h says
};

bool NamesValid(const DataConfig& data) {
  return !data.valid().empty() || data.valid_ratio() > 0 || (data.split_size() > 1 && data.split(1) > 0);
}

// Evaluation needs data, and validation data needs evaluation.
void CheckEvaluation(const Config& config, bool reports) {
  const int every = config.eval().every();
  const bool by_epoch = config.eval().every_epoch();
  if (every > 0 && !NamesValid(config.data())) {
    throw InputError("eval.every = ", every,
                     " has nothing to evaluate on; set data.valid or data.valid_ratio, or eval.every: 0");
  }
  const bool at_start = config.eval().at_start();
  if ((by_epoch || at_start) && !NamesValid(config.data())) {
    throw InputError(by_epoch ? "eval.every_epoch" : "eval.at_start",
                     " has nothing to evaluate on; set data.valid or data.valid_ratio, or leave it out");
  }
  if (every == 0 && !by_epoch && !at_start && NamesValid(config.data()) && reports) {
    TRIREME_LOG(WARNING) << "the validation data is not used; set eval.every";
  }
}

// With the patches of images, for a model that sees.
DataSets WithImages(DataSets sets, const Config& config) {
  const std::shared_ptr<const ImageReader> reader = ImageReaderOf(config.model());
  if (!reader) return sets;
  for (Rows* rows : {&sets.train, &sets.valid}) {
    if (*rows) *rows = ImageRows(std::move(*rows), reader, static_cast<size_t>(config.data().image_cache_mb()) << 20);
  }
  return sets;
}

// Validation data is not streamed.
DataSets OpenStreamed(const Config& config, const DataPlace& place) {
  CheckEvaluation(config, place.reports);
  DataSets sets{.train = OpenStream(config, place), .valid = nullptr};
  if (config.data().valid().empty()) return sets;
  sets.valid = Opener(config, place).OpenList(config.data().valid(), "data.valid");
  if (config.data().packing()) sets.valid = PackRows(sets.valid, LongestRow(config));
  return sets;
}

DataSets OpenWhole(const Config& config, const DataPlace& place) {
  const DataConfig& data = config.data();
  if (!data.valid().empty() + (data.valid_ratio() > 0) + (data.split_size() > 0) > 1) {
    throw InputError("data.valid names ", data.valid_size(), " files, data.valid_ratio is ", data.valid_ratio(),
                     " and data.split has ", data.split_size(), " parts; set only one of the three");
  }
  CheckEvaluation(config, place.reports);
  Opener opener(config, place);
  SplitRows split = SetAside(opener.OpenList(data.train(), "data.train"), data.valid_ratio(),
                             static_cast<uint64_t>(config.run().seed()));
  opener.CheckLabels();
  if (data.split_size() > 1 && data.split(1) > 0) split.valid = opener.OpenList(data.train(), "data.train", 1);
  if (!data.valid().empty()) split.valid = opener.OpenList(data.valid(), "data.valid");
  const int64_t samples = split.train->size();
  if (!data.packing()) return {split.train, split.valid, samples};
  const int64_t length = LongestRow(config);
  return {PackRows(split.train, length), split.valid ? PackRows(split.valid, length) : nullptr, samples};
}

// The same rows at every evaluation, so that two of them can be compared.
DataSets WithFewerToEvaluate(DataSets sets, const Config& config) {
  const int64_t batches = config.eval().batches(), rows = batches * config.run().global_batch();
  if (batches == 0 || !sets.valid || sets.valid->size() <= rows) return sets;
  std::vector<int64_t> first(static_cast<size_t>(rows));
  std::iota(first.begin(), first.end(), 0);
  sets.valid = TakeRows(std::move(sets.valid), std::move(first));
  return sets;
}

}  // namespace

DataSets OpenDataSetsWithoutPatches(const Config& config, const DataPlace& place) {
  if (config.data().train().empty()) throw InputError("data.train is empty; name at least one file");
  DataSets sets = config.data().streaming() ? OpenStreamed(config, place) : OpenWhole(config, place);
  return WithFewerToEvaluate(std::move(sets), config);
}

DataSets OpenDataSets(const Config& config, const DataPlace& place) {
  return WithImages(OpenDataSetsWithoutPatches(config, place), config);
}

int64_t LongestRow(const Config& config) {
  const int64_t texts = FactsOf(config).records == Records::kPairs ? 2 : TextsPerRecord(config);
  return int64_t{config.data().max_length()} * texts;
}

Rows TakenOf(std::shared_ptr<const RowStore> store, const Config& config) {
  if (TrainsTexts(FactsOf(config))) return TextRows(std::move(store), config.data().max_length());
  if (FactsOf(config).of_answers()) return AnswerRows(std::move(store), AnswerOptionsOf(config));
  return LimitLength(std::move(store), config.data().max_length(), PolicyOf(config.data()));
}

std::vector<std::string> LeftOutOf(const std::filesystem::path& path, const RowStore& store, const Config& config) {
  const DataConfig& data = config.data();
  const bool answers = FactsOf(config).of_answers(), texts = TrainsTexts(FactsOf(config));
  std::vector<std::string> lines;
  const int64_t samples = answers ? UnitsOf(store, AnswerOptionsOf(config)) : store.size();
  if (store.skipped() > 0) {
    lines.push_back(Concat(path.string(), ": ", store.skipped(), " of ", samples + store.skipped(),
                           " records skipped for their errors (data.on_error: skip)"));
  }
  int64_t over = 0, longest = 0, nothing = 0;
  for (int64_t i = 0; i < store.size(); ++i) {
    const int64_t length = store.Length(i);
    over += length > data.max_length() && !answers;
    longest = std::max(longest, length);
    nothing += length <= data.max_length() && store.Trained(i) == 0 && !texts;
  }
  if (texts) over = LongTextRows(store, data.max_length());
  if (answers) over = LongUnitsOf(store, AnswerOptionsOf(config));
  if (over > 0) {
    const auto* policy = OverLengthPolicy_descriptor()->FindValueByNumber(data.over_length());
    lines.push_back(Concat(path.string(), ": ", over, " of ", samples,
                           " samples are longer than data.max_length = ", data.max_length(), ", the longest has ",
                           longest, " tokens; data.over_length: ", SpellingOf(*policy)));
  }
  if (nothing > 0) lines.push_back(Concat(path.string(), ": ", nothing, " samples have nothing to train on; skipped"));
  return lines;
}

}  // namespace trireme
