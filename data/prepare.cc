#include "data/prepare.h"

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/io/digest.h"
#include "core/io/user_cache.h"
#include "data/answer_tokens.h"
#include "data/image_marks.h"
#include "data/progress.h"
#include "data/record_fields.h"
#include "data/record_form.h"
#include "data/records.h"
#include "data/text_tokens.h"
#include "stages/preference_check.h"
#include "stages/retrieval_check.h"
#include "text/all_cores.h"

namespace trireme {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFormat = "rows 6";      // a change of what is stored changes this
constexpr const char* kReading = "reading 7";  // a change of how records are read, or refused, changes this
constexpr int64_t kBlock = 1024;               // records that are read, tokenised and written together
// Rows of stores up to this size are checked at the start, where a damaged one can still be made anew: 0.1 to 0.2 s
// per GiB that is in memory. Larger ones are checked row by row as they are trained on.
constexpr size_t kCheckedAtStart = size_t{1} << 30;
constexpr int64_t kMostShown = 5;  // skipped records whose errors are shown

// The form in which DigestOf and Work name stores; anything else in a damaged link is not opened.
bool IsStoreName(const std::string& name) {
  return name.size() == 32 + 5 && name.ends_with(".rows") && name.find_first_not_of("0123456789abcdef") == 32;
}

LossOn LossOf(const DataConfig& data) {
  switch (data.loss()) {
    case LOSS_ANSWERS:
      return LossOn::kAnswers;
    case LOSS_LAST_ROUND:
      return LossOn::kLastRound;
    case LOSS_ALL:
      return LossOn::kAll;
  }
  return LossOn::kAnswers;
}

LossParts PartsOf(const DataConfig& data) {
  return {{data.loss_weights().begin(), data.loss_weights().end()}, data.skip_empty_think()};
}

// Empty if none is set.
std::string TemplateText(const DataConfig& data) {
  if (data.template_().empty()) return {};
  if (PathExists(data.template_())) return ReadTextFile(data.template_());
  throw InputError("data.template: ", data.template_(), " does not exist; name a file with a Jinja chat template, or ",
                   "leave it out to use the tokenizer's own");
}

// The rows of a record: one, or of a pair its two sides. `folder`: of its file, where its images are.
std::vector<StoredRow> RowsOf(Json record, const SampleOptions& options, const StageFacts& facts,
                              const TextOptions& texts, const SampleTokenizer& with, const fs::path& folder) {
  if (TrainsTexts(facts)) {
    std::vector<StoredRow> rows;
    for (const TextUnit& sample : ReadTexts(std::move(record), options, facts, texts)) {
      rows.push_back(TokeniseTexts(sample, with, texts));
    }
    return rows;
  }
  if (facts.of_answers()) {
    AnswerSample sample = ReadAnswers(std::move(record), options, facts);
    std::visit([&](auto& answers) { answers.images = ResolvedImages(std::move(answers.images), folder); }, sample);
    return TokeniseAnswers(sample, with);
  }
  Sample sample = ReadSample(std::move(record), options);
  if (auto* conversation = std::get_if<Conversation>(&sample)) {
    conversation->images = ResolvedImages(std::move(conversation->images), folder);
  } else if (auto* row = std::get_if<StoredRow>(&sample)) {
    for (RowImage& image : row->images) image.source = ResolvedImages({image.source}, folder)[0];
  }
  return {Tokenise(sample, with)};
}

// The rows of one block of records; none where a record is left out for its error.
struct Block {
  std::vector<std::vector<StoredRow>> rows;
  std::vector<std::string> errors;
};

Block ReadBlock(const RecordFile& records, int64_t begin, int64_t end, const SampleOptions& options,
                const StageFacts& facts, const TextOptions& texts, const SampleTokenizer& with, bool skip) {
  Block block;
  block.rows.resize(end - begin);
  block.errors.resize(end - begin);
  OnAllCores(block.rows.size(), [&](size_t i) {
    const int64_t record = begin + static_cast<int64_t>(i);
    try {
      // A record's location begins with its file's path.
      const fs::path folder = options.images ? fs::path(records.Where(record)).parent_path() : fs::path();
      block.rows[i] = UseRecord(
          records, record, [&](Json value) { return RowsOf(std::move(value), options, facts, texts, with, folder); });
    } catch (const Error& error) {
      if (!skip) throw;
      block.errors[i] = error.what();
    }
  });
  return block;
}

}  // namespace

fs::path DataCacheOf(const DataConfig& data) {
  return data.cache().empty() ? UserCache("data", "data.cache") : fs::path(data.cache());
}

void MakeDataCache(const fs::path& cache) { MakeUserCache(cache, "data", "data.cache"); }

RecordWants WantsOf(Json record, const SampleOptions& options, const StageFacts& facts, const TextOptions& texts) {
  if (TrainsTexts(facts)) {
    const TextUnit sample = ReadTexts(std::move(record), options, facts, texts).at(0);
    return {.tokenizer = !sample.is_tokens(), .chat = sample.is_messages()};
  }
  if (facts.of_answers()) {
    const AnswerSample sample = ReadAnswers(std::move(record), options, facts);
    const auto* texts = std::get_if<TextAnswers>(&sample);
    return {.tokenizer = texts != nullptr, .chat = texts != nullptr && texts->prompt.is_array()};
  }
  const Sample sample = ReadSample(std::move(record), options);
  if (std::holds_alternative<StoredRow>(sample)) return {};
  const bool chat = facts.records == Records::kConversations;
  if (std::holds_alternative<PlainText>(sample) && chat) {
    throw InputError("is plain text, which has no assistant turn");
  }
  return {.tokenizer = true, .chat = chat};
}

Preparer::Preparer(const DataConfig& data, const StageFacts& facts, const ModelConfig& model, bool works,
                   TextOptions texts)
    : data_(data),
      facts_(facts),
      texts_(std::move(texts)),
      works_(works),
      cache_(DataCacheOf(data)),
      sample_options_{RenamedColumns(data), data.system(), SeesImages(model.path()), ReplacedTextsOf(data)},
      tokenizer_({model.path(), data.template_(), facts.records, LossOf(data),
                  facts.of_answers() ? data.max_length() : 0, TemplateValuesOf(data), HasImageSettings(model.path()),
                  model.min_pixels(), model.max_pixels(), PartsOf(data)}) {}

std::string Preparer::OptionsText(const DataFile& file) const {
  std::string text = Concat(kFormat, "\n", kReading, "\n", static_cast<int>(facts_.records),
                            CanLearnPrompt(facts_) ? " with prompts" : "", "\n", data_.loss(), "\n", data_.on_error(),
                            "\n", data_.system(), "\n");
  for (const std::string& entry : data_.columns()) text += entry + "\n";
  for (const std::string& entry : data_.template_values()) text += Concat("value ", entry, "\n");
  for (const std::string& entry : data_.loss_weights()) text += Concat("weight ", entry, "\n");
  for (const std::string& entry : data_.replace()) text += Concat("replace ", entry, "\n");
  if (data_.skip_empty_think()) text += "skip empty think\n";
  if (tokenizer_.options().max_length > 0) text += Concat("max_length ", data_.max_length(), "\n");
  if (TrainsTexts(facts_)) {
    text +=
        Concat("texts ", texts_.truncate, " ", texts_.keys.SerializeAsString(), "\n", Join(texts_.labels, "\n"), "\n");
  }
  if (file.form) text += Concat("form ", file.form->digest, "\n");
  // Stores have the paths of images, which records name relative to their file: an equal file elsewhere has others.
  if (tokenizer_.options().sees)
    text +=
        Concat("images ", tokenizer_.images()->Text(), " in ", fs::absolute(file.path).parent_path().string(), "\n");
  return text;
}

// Named after what is known without reading the file: its path, size and time, and the options.
fs::path Preparer::LinkOf(const DataFile& file) const {
  const fs::path& path = file.path;
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) throw InputError(path.string(), ": cannot be read: ", std::strerror(errno));
  Digest digest;
  digest.Add(fs::absolute(path).string()).Add(OptionsText(file));
  digest.Add(Concat(status.st_size, " ", status.st_mtim.tv_sec, " ", status.st_mtim.tv_nsec));
  for (const char* part : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "chat_template.json"}) {
    struct stat of_file{};
    const fs::path beside = fs::absolute(fs::path(tokenizer_.options().model) / part);
    if (stat(beside.c_str(), &of_file) != 0) continue;
    digest.Add(
        Concat(beside.string(), " ", of_file.st_size, " ", of_file.st_mtim.tv_sec, " ", of_file.st_mtim.tv_nsec));
  }
  digest.Add(TemplateText(data_));
  return cache_ / (digest.Hex() + ".link");
}

std::shared_ptr<const RowStore> Preparer::OpenLinked(const fs::path& link) const {
  if (!PathExists(link)) return nullptr;
  std::istringstream file(ReadTextFile(link.string()));
  std::string name;
  if (!std::getline(file, name) || !IsStoreName(name) || !PathExists(cache_ / name)) return nullptr;
  return OpenStore(cache_ / name);
}

// Nothing if it is damaged: the working process has then removed it, and the others wait until it is rebuilt.
std::shared_ptr<const RowStore> Preparer::OpenStore(const fs::path& path) const {
  try {
    auto store = std::make_shared<RowStore>(path);
    const auto damage = store->bytes() <= kCheckedAtStart ? store->FindDamage() : std::nullopt;
    if (!damage) return store;
    Discard(path, Concat(path.string(), ": row ", *damage, " does not match its digest"));
  } catch (const Error& error) {
    Discard(path, error.what());
  }
  return nullptr;
}

void Preparer::Discard(const fs::path& store, const std::string& why) const {
  if (!works_) return;
  TRIREME_LOG(WARNING) << why << "; the cache is damaged and is rebuilt";
  std::error_code ignored;
  fs::remove(store, ignored);
}

std::shared_ptr<const RowStore> Preparer::Prepare(const DataFile& file) const {
  const fs::path link = LinkOf(file);
  std::shared_ptr<const RowStore> store = OpenLinked(link);
  if (store) return store;
  if (works_) {
    MakeDataCache(cache_);
    const FileLock lock(link.string() + ".lock");
    store = OpenLinked(link);
    return store ? store : Work(file, link);
  }
  // If the working process fails, it ends the whole job, including this wait.
  while (!store) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    store = OpenLinked(link);
  }
  return store;
}

std::string Preparer::DigestOf(const DataFile& file) const {
  Digest digest;
  digest.Add(OptionsText(file)).Add(MappedFile(file.path).bytes());
  for (const char* part : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
                           "chat_template.json"}) {
    const fs::path beside = fs::path(tokenizer_.options().model) / part;
    if (PathExists(beside)) digest.Add(part).Add(MappedFile(beside).bytes());
  }
  digest.Add(TemplateText(data_));
  return digest.Hex();
}

// The first readable record tells whether a tokenizer and a template are needed. If these are
// missing, that is not the records' fault, and nothing is skipped.
void Preparer::OpenTools(const RecordFile& records) const {
  for (int64_t i = 0; i < records.size(); ++i) {
    RecordWants wants;
    try {
      wants = WantsOf(records.Read(i), sample_options_, facts_, texts_);
    } catch (const Error&) {
      continue;
    }
    if (wants.tokenizer) tokenizer_.tokenizer();
    if (wants.chat) tokenizer_.chat();
    if (wants.chat && tokenizer_.options().sees) tokenizer_.images();
    return;
  }
}

std::shared_ptr<const RowStore> Preparer::Work(const DataFile& file, const fs::path& link) const {
  const std::unique_ptr<RecordFile> records = OpenRecords(file);
  if (records->size() == 0) throw InputError(file.path.string(), ": has no rows");
  OpenTools(*records);
  const std::string name = DigestOf(file) + ".rows";
  std::shared_ptr<const RowStore> store = PathExists(cache_ / name) ? OpenStore(cache_ / name) : nullptr;
  if (!store) {
    TokeniseFile(*records, cache_ / name, /*shows=*/true);
    store = std::make_shared<RowStore>(cache_ / name);
  }
  WriteAtomicFile(link, name + "\n");
  return store;
}

std::vector<std::string> Preparer::FindBroken(const DataFile& file, size_t most) const {
  const std::unique_ptr<RecordFile> records = OpenRecords(file);
  std::vector<std::string> broken;
  if (data_.on_error() == ON_DATA_ERROR_SKIP) return broken;
  size_t count = 0;
  for (int64_t begin = 0; begin < records->size(); begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, records->size());
    for (const std::string& error :
         ReadBlock(*records, begin, end, sample_options_, facts_, texts_, tokenizer_, /*skip=*/true).errors) {
      if (!error.empty() && ++count <= most) broken.push_back(error);
    }
  }
  if (count > most)
    broken.push_back(
        Concat(file.path.string(), ": ", count - most, " more of its ", records->size(), " records are broken"));
  return broken;
}

void Preparer::PrepareRecords(const RecordFile& records, const fs::path& store) const {
  MakeDataCache(cache_);
  OpenTools(records);
  TokeniseFile(records, store, /*shows=*/false);
}

std::string Preparer::IdentityOf(const DataFile& file) const {
  std::error_code ignored;
  const fs::path tokenizer = fs::path(tokenizer_.options().model) / "tokenizer.json";
  const auto size = [&](const fs::path& path) { return PathExists(path) ? fs::file_size(path, ignored) : 0; };
  return Concat(OptionsText(file), file.path.filename().string(), " ", size(file.path), " ", size(tokenizer), " ",
                TemplateText(data_));
}

void Preparer::TokeniseFile(const RecordFile& records, const fs::path& store, bool shows) const {
  const bool skip = data_.on_error() == ON_DATA_ERROR_SKIP;
  RowStoreWriter writer(store);
  std::optional<Progress> progress;
  if (shows) progress.emplace("tokenizing " + records.Where(0).substr(0, records.Where(0).rfind(':')), records.size());
  int64_t skipped = 0;
  for (int64_t begin = 0; begin < records.size(); begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, records.size());
    const Block block = ReadBlock(records, begin, end, sample_options_, facts_, texts_, tokenizer_, skip);
    for (size_t i = 0; i < block.rows.size(); ++i) {
      for (const StoredRow& row : block.rows[i]) writer.Add(row);
      if (!block.rows[i].empty()) continue;
      if (++skipped <= kMostShown) {
        TRIREME_LOG(WARNING) << "left out: " << block.errors[i];
      }
    }
    if (progress) progress->Advance(end - begin);
  }
  writer.Commit(skipped);
}

}  // namespace trireme
