#include "train/plan/check_inputs.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "data/dataset.h"
#include "data/prepare.h"
#include "data/source_name.h"
#include "stages/policy_check.h"
#include "stages/stage.h"

namespace trireme {
namespace {

constexpr size_t kMostShown = 5;  // broken records per file

// The files of records that data.train and data.valid name; indexed data is already tokenized.
std::vector<DataFile> RecordFiles(const Config& config, Problems& problems) {
  std::vector<DataFile> files;
  const auto add = [&](const std::string& entry, const std::string& key) {
    problems.Try([&] {
      for (const DataFile& file : FilesOf(ParseSourceName(entry, key, config), key)) {
        if (!IndexedPrefix(file.path)) files.push_back(file);
      }
    });
  };
  for (const std::string& entry : config.data().train()) add(entry, "data.train");
  for (const std::string& entry : config.data().valid()) add(entry, "data.valid");
  return files;
}

// By the first record that can be read; broken ones are for CheckData to name.
RecordWants WantsOfFile(const DataFile& file, const Preparer& preparer, const StageFacts& facts) {
  const std::unique_ptr<RecordFile> records = OpenRecords(file);
  for (int64_t i = 0; i < records->size(); ++i) {
    try {
      return WantsOf(records->Read(i), preparer.sample_options(), facts, preparer.text_options());
    } catch (const Error&) {
    }
  }
  return {};
}

void CheckTemplateFile(const DataConfig& data) {
  if (data.template_().empty() || PathExists(data.template_())) return;
  throw InputError("data.template: ", data.template_(), " does not exist; name a file with a Jinja chat template, or ",
                   "leave it out to use the tokenizer's own");
}

// Every rank only checks that it exists. Reading takes a second and is left to the rank that tokenizes.
void RefuseWithoutTokenizer(const std::string& model) {
  if (!PathExists(std::filesystem::path(model) / "tokenizer.json")) const Tokenizer refused(model);
}

// Reports the broken records of a file that cannot be prepared, or else why it cannot.
void NameBroken(const Preparer& preparer, const DataFile& file, const Error& error, Problems& problems) {
  if (error.kind() != ErrorKind::kInput) throw Error(error);
  const std::vector<std::string> broken = preparer.FindBroken(file, kMostShown);
  if (broken.empty()) problems.Add(error);
  for (const std::string& record : broken) problems.Add(record);
}

}  // namespace

void CheckDataTools(const Config& config, Problems& problems) {
  problems.Try([&] { CheckTemplateFile(config.data()); });
  if (FactsOf(config).on_completions()) return;  // prompts are read as they are, by their method
  std::vector<DataFile> files = RecordFiles(config, problems);
  if (files.empty()) return;
  if (config.data().streaming())
    files.erase(files.begin() + 1, files.end());  // the others are opened when their turn comes
  RecordWants wants;
  problems.Try([&] {
    const Preparer preparer(config.data(), FactsOf(config), config.model(), /*works=*/true, TextOptionsOf(config));
    for (const DataFile& file : files) {
      problems.Try([&] {
        const RecordWants more = WantsOfFile(file, preparer, FactsOf(config));
        wants.tokenizer |= more.tokenizer;
        wants.chat |= more.chat;
      });
    }
  });
  const std::string& model = config.model().path();
  if (model.empty()) return;
  if (wants.tokenizer) problems.Try([&] { RefuseWithoutTokenizer(model); });
  if (wants.chat && config.data().template_().empty()) problems.Try([&] { ChatTemplate::SourceOf(model); });
}

void CheckData(const Config& config, int64_t vocabulary) {
  if (config.data().train().empty() || FactsOf(config).on_completions()) return;
  if (config.data().streaming()) {  // the first records stand for all
    OpenDataSets(config, {.vocabulary = vocabulary, .works = true, .reports = true}).train->Length(0);
    return;
  }
  Problems problems;
  const Preparer preparer(config.data(), FactsOf(config), config.model(), /*works=*/true, TextOptionsOf(config));
  for (const DataFile& file : RecordFiles(config, problems)) {
    try {
      preparer.Prepare(file);
    } catch (const Error& error) {
      NameBroken(preparer, file, error, problems);
    }
  }
  problems.ThrowIfAny();
  OpenDataSets(config, {.vocabulary = vocabulary, .works = true, .reports = true});
}

}  // namespace trireme
