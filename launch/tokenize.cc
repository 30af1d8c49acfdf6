// `trireme tokenize RUN.yaml --out PREFIX`: the run's training texts as a Megatron .bin and .idx, one
// document per text.
#include <filesystem>
#include <iostream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/cli/command.h"
#include "core/comm/job.h"
#include "data/indexed_file.h"
#include "data/prepare.h"
#include "data/source_name.h"
#include "launch/hub_data.h"
#include "launch/layout.h"
#include "stages/stage.h"

namespace trireme {
namespace {

void RefuseIndexedFile(const std::string& prefix) {
  for (const char* ending : {".bin", ".idx"}) {
    if (PathExists(prefix + ending)) {
      throw InputError("--out ", prefix, ": ", prefix, ending, " already exists; remove it or choose another name");
    }
  }
}

void Tokenize(const Arguments& arguments, Job& job) {
  const Config config = ConfigOf(arguments, job);
  HaveHubData(config, job);
  if (FactsOf(config).records != Records::kText) {
    throw InputError("stage: a .bin cannot hold a loss mask; set stage: pt to tokenize whole texts");
  }
  if (config.data().train().empty()) throw InputError("data.train is empty; name at least one file");
  if (job.rank() != 0) return;
  const std::string prefix = arguments.value("out");
  RefuseIndexedFile(prefix);
  const Preparer preparer(config.data(), FactsOf(config), config.model(), /*works=*/true, TextOptionsOf(config));
  IndexedWriter writer(prefix, preparer.tokenizer().tokenizer().vocabulary());
  int64_t documents = 0, tokens = 0;
  for (const std::string& entry : config.data().train()) {
    for (const DataFile& file : FilesOf(ParseSourceName(entry, "data.train", config), "data.train")) {
      const std::shared_ptr<const RowStore> store = preparer.Prepare(file);
      for (int64_t i = 0; i < store->size(); ++i) {
        const Row row = store->Read(i);
        if (!row.images.empty()) {
          throw InputError(file.path.string(), ": sample ", i + 1,
                           " has images, which a .bin cannot hold; train on the file itself");
        }
        writer.Add(row.input_ids);
      }
      documents += store->size();
      for (int64_t i = 0; i < store->size(); ++i) tokens += store->Length(i);
    }
  }
  writer.Commit();
  std::cout << prefix << ".bin: " << documents << " documents, " << tokens << " tokens\n";
}

}  // namespace

Command TokenizeCommand() {
  return {
      .name = "tokenize",
      .summary = "Writes the texts of data.train as a Megatron .bin and .idx, with model.path's tokenizer.",
      .options = {{.name = "out", .value_name = "PREFIX", .help = "write PREFIX.bin and PREFIX.idx", .required = true}},
      .positionals = {{.name = kRunFile, .help = "the run's configuration"}},
      .takes_config = true,
      .run = Tokenize};
}

}  // namespace trireme
