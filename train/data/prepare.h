// Preparing a file of records: tokenised once, kept in a cache under a digest of all that decides the result,
// and mapped from there by every process. One process a host works, the others wait for its file; no
// communication. A cache that is damaged is named and made anew: tables are checked when it is opened, rows of a
// store of at most kCheckedAtStart bytes too, and every row again when it is read.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/config.pb.h"
#include "train/data/records.h"
#include "train/data/row_store.h"
#include "train/data/samples.h"
#include "train/data/tokenise.h"

namespace trireme {

// What a record needs of the model's directory; throws where it is broken. Tokens need nothing.
struct RecordWants {
  bool tokenizer = false, chat = false;
};
RecordWants WantsOf(Json record, const SampleOptions& options, Stage stage);

class Preparer {
 public:
  // `model`: the directory with the tokenizer. `works`: whether this process tokenises; otherwise it waits
  // until another one did. `data` outlives it.
  Preparer(const DataConfig& data, Stage stage, const std::string& model, bool works);

  std::shared_ptr<const RowStore> Prepare(const std::filesystem::path& path) const;
  // What is wrong with the file's records, each with its place: the first `most` of them, and how many there
  // are beyond. Empty where the run would take the file, also where data.on_error leaves broken ones out.
  std::vector<std::string> FindBroken(const std::filesystem::path& path, size_t most) const;
  // What a single file's records are read with, for those who want to look at them.
  const SampleOptions& sample_options() const { return sample_options_; }
  const SampleTokenizer& tokenizer() const { return tokenizer_; }

 private:
  std::string OptionsText() const;
  std::filesystem::path LinkOf(const std::filesystem::path& path) const;
  std::shared_ptr<const RowStore> OpenLinked(const std::filesystem::path& link) const;
  std::shared_ptr<const RowStore> OpenStore(const std::filesystem::path& store) const;
  void Discard(const std::filesystem::path& store, const std::string& why) const;
  std::shared_ptr<const RowStore> Work(const std::filesystem::path& path,
                                       const std::filesystem::path& link) const;
  std::string DigestOf(const std::filesystem::path& path) const;
  void OpenTools(const RecordFile& records) const;
  void TokeniseFile(const RecordFile& records, const std::filesystem::path& store) const;

  const DataConfig& data_;
  const bool works_;
  const std::filesystem::path cache_;
  const SampleOptions sample_options_;
  const SampleTokenizer tokenizer_;
};

}  // namespace trireme
