#include "data/stream.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/config/unused_keys.h"
#include "core/io/digest.h"
#include "data/prepare.h"
#include "data/source_name.h"
#include "data/stream_rows.h"
#include "stages/stage.h"

namespace trireme {
namespace {

std::vector<DataFile> StreamedFiles(const Config& config) {
  std::vector<DataFile> files;
  for (const std::string& entry : config.data().train()) {
    const SourceName name = ParseSourceName(entry, "data.train", config);
    if (name.count || name.weight) {
      throw InputError("data.train: ", entry,
                       ": streamed data is taken as it is; leave the number after # or @ (or num_samples) ",
                       "out, or set data.streaming to false");
    }
    for (const DataFile& file : FilesOf(name, "data.train")) {
      if (IndexedPrefix(file.path)) {
        throw InputError("data.train: ", file.path.string(),
                         " is tokenized already and needs no data.streaming; leave that out");
      }
      files.push_back(file);
    }
  }
  return files;
}

std::string StreamDigest(const Config& config, const std::vector<DataFile>& files, const Preparer& preparer) {
  const DataConfig& data = config.data();
  Digest digest;
  digest.Add(Concat("stream 1 ", data.shuffle_buffer(), " ", data.shuffle(), " ", data.packing(), " ",
                    data.max_length(), " ", data.over_length(), " ", config.run().seed(), " ",
                    config.run().global_batch()));
  for (const DataFile& file : files) digest.Add(preparer.IdentityOf(file));
  return digest.Hex();
}

Rows RowsOfChunk(std::shared_ptr<const RowStore> store, const Config& config, int64_t vocabulary) {
  if (store->highest_id() >= vocabulary) {
    throw InputError("data.train: has the token ", store->highest_id(), "; the model's vocabulary of ", vocabulary,
                     " is smaller. Does the tokenizer belong to the model?");
  }
  Rows rows = TakenOf(std::move(store), config);
  return config.data().packing() ? PackRows(std::move(rows), LongestRow(config)) : rows;
}

}  // namespace

void CheckStreaming(const Config& config) {
  if (!config.data().streaming()) return;
  const auto refuse = [](bool is_set, const char* what, const char* instead) {
    if (is_set) throw InputError("data.streaming: ", what, "; ", instead);
  };
  RefuseUnusedKeys(config, "data.streaming");
  refuse(config.run().steps() == 0, "how many rows there are is not known before they were read", "set run.steps");
  refuse(config.data().valid_ratio() > 0 || config.data().split_size() > 0,
         "data.valid_ratio and data.split need all rows at once", "set data.valid");
  refuse(config.save().every_epoch() || config.eval().every_epoch(), "where an epoch ends is not known beforehand",
         "set save.every and eval.every");
}

Rows OpenStream(const Config& config, const DataPlace& place) {
  CheckStreaming(config);
  const auto preparer = std::make_shared<const Preparer>(config.data(), FactsOf(config), config.model(), place.works);
  StreamOptions options{.files = StreamedFiles(config),
                        .rows = int64_t{config.run().steps()} * config.run().global_batch(),
                        .batch = config.run().global_batch(),
                        .buffer = config.data().shuffle_buffer(),
                        .shuffle = config.data().shuffle(),
                        .seed = static_cast<uint64_t>(config.run().seed()),
                        .index = std::filesystem::path(config.run().output()) / "stream.jsonl",
                        .works = place.works,
                        .reports = place.reports};
  options.digest = StreamDigest(config, options.files, *preparer);
  Digest name;  // two runs may read the same data, each at its own pace
  name.Add(options.digest).Add(std::filesystem::absolute(config.run().output()).string());
  options.chunks = DataCacheOf(config.data()) / name.Hex();
  return std::make_shared<StreamRows>(std::move(options), preparer,
                                      [&config, vocabulary = place.vocabulary](auto store) {
                                        return RowsOfChunk(std::move(store), config, vocabulary);
                                      });
}

}  // namespace trireme
