// Preparing a file of records: tokenized once, cached under a digest of everything that determines the
// result, and mapped from there by every process. One process per host does the work, the others wait for its
// file; no communication. A damaged cache is reported and rebuilt: tables are checked when it is opened, rows
// of a store of at most kCheckedAtStart bytes too, and every row again when it is read.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/config.pb.h"
#include "data/records.h"
#include "data/row_store.h"
#include "data/samples.h"
#include "data/text_samples.h"
#include "data/tokenise.h"
#include "stages/stage.h"

namespace trireme {

// What a record needs of the model's directory; throws where it is broken. Tokens need nothing.
struct RecordWants {
  bool tokenizer = false, chat = false;
};
RecordWants WantsOf(Json record, const SampleOptions& options, const StageFacts& facts, const TextOptions& texts = {});

// Where data is cached: data.cache, or the user's cache directory.
std::filesystem::path DataCacheOf(const DataConfig& data);
// Makes it; an input error if it cannot be written: the user's may be in a read-only home directory, as on many
// clusters.
void MakeDataCache(const std::filesystem::path& cache);

class Preparer {
 public:
  // `model`: whose path is the directory with the tokenizer. `works`: whether this process tokenizes; otherwise it
  // waits until another one has. texts: of stages of whole texts. `data` outlives it.
  Preparer(const DataConfig& data, const StageFacts& facts, const ModelConfig& model, bool works,
           TextOptions texts = {});

  std::shared_ptr<const RowStore> Prepare(const DataFile& file) const;
  // Tokenizes these records into a store of their own, which is not looked for in the cache.
  void PrepareRecords(const RecordFile& records, const std::filesystem::path& store) const;
  // Of what a file's rows depend on, but for its records: its name and size, the options, the tokenizer.
  std::string IdentityOf(const DataFile& file) const;
  // What is wrong with the file's records, each with its location: the first `most` of them, and how many
  // there are beyond. Empty if the run would accept the file, also if data.on_error skips broken ones.
  std::vector<std::string> FindBroken(const DataFile& file, size_t most) const;
  // The options with which records are read, for inspection.
  const SampleOptions& sample_options() const { return sample_options_; }
  const SampleTokenizer& tokenizer() const { return tokenizer_; }
  const TextOptions& text_options() const { return texts_; }

 private:
  std::string OptionsText(const DataFile& file) const;
  std::filesystem::path LinkOf(const DataFile& file) const;
  std::shared_ptr<const RowStore> OpenLinked(const std::filesystem::path& link) const;
  std::shared_ptr<const RowStore> OpenStore(const std::filesystem::path& store) const;
  void Discard(const std::filesystem::path& store, const std::string& why) const;
  std::shared_ptr<const RowStore> Work(const DataFile& file, const std::filesystem::path& link) const;
  std::string DigestOf(const DataFile& file) const;
  void OpenTools(const RecordFile& records) const;
  void TokeniseFile(const RecordFile& records, const std::filesystem::path& store, bool shows) const;

  const DataConfig& data_;
  const StageFacts& facts_;
  const TextOptions texts_;
  const bool works_;
  const std::filesystem::path cache_;
  const SampleOptions sample_options_;
  const SampleTokenizer tokenizer_;
};

}  // namespace trireme
