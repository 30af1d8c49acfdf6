#include "train/states/run_saver.h"

#include <utility>

#include "checkpoint/carried_files.h"
#include "checkpoint/run_checkpoints.h"
#include "checkpoint/store_writer.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/io/atomic_file.h"
#include "train/states/run_header.h"

namespace trireme {

RunSaver::RunSaver(Trainer& trainer, Job& job, RunSaverOptions options) : job_(job), options_(std::move(options)) {
  ShardedOptimizer* optimizer = options_.weights_only ? nullptr : &trainer.optimizer();
  auto copy = std::make_unique<ModelCopy>(trainer.model(), optimizer, options_.trained_only);
  saved_.push_back({.folder = "", .model = options_.model, .header = options_.header, .copy = std::move(copy)});
}

void RunSaver::Add(const std::string& folder, Session& session, ShardedOptimizer* optimizer) {
  const Config& config = session.config();
  saved_.insert(saved_.begin(),
                {.folder = folder,
                 .model = config.model().path(),
                 .header = HeaderOf(config, session.graph(), session.plan(), job_.world()),
                 .copy = std::make_unique<ModelCopy>(session.model(), optimizer, /*trained_only=*/false)});
}

void RunSaver::Save(const checkpoint::Progress& progress) {
  background_.Wait();
  const std::filesystem::path directory = CheckpointPath(options_.output, progress.step());
  if (job_.rank() == 0) {
    // If recreated, it would hold only this checkpoint, and no one would notice that the run's log is gone.
    if (!IsDirectory(options_.output)) {
      throw RuntimeError("run.output ", options_.output.string(), " was removed or moved during the run; ",
                         "the checkpoint of step ", progress.step(), " was not saved");
    }
    BeginAside(directory);
    for (const Saved& saved : saved_) {
      if (!saved.folder.empty()) BeginAside(PartOf(directory) / saved.folder);
    }
  }
  job_.Barrier();
  for (const Saved& saved : saved_) saved.copy->Take();
  background_.Start([this, directory, progress] {
    try {
      WriteFiles(directory, progress);
    } catch (const std::exception& error) {
      throw RuntimeError("the checkpoint of step ", progress.step(), " was not saved: ", error.what());
    }
  });
}

void RunSaver::Finish() {
  background_.Wait();
  job_.Barrier();
}

// Every rank's file of the run's own model is its last: when all of them exist, the others are written.
void RunSaver::WriteFiles(const std::filesystem::path& directory, const checkpoint::Progress& progress) {
  const auto place = [&](const Saved& saved) {
    return saved.folder.empty() ? directory : PartOf(directory) / saved.folder;
  };
  for (const Saved& saved : saved_) {
    RankFileWriter file(place(saved), job_.rank());
    for (const PieceToWrite& piece : saved.copy->pieces()) file.Write(piece);
    file.Close();
  }
  if (job_.rank() != 0) return;
  for (const Saved& saved : saved_) {
    if (!Commit(place(saved), saved, progress)) return;
  }
  RemoveOldCheckpoints(options_.output, options_.keep);
}

bool RunSaver::Commit(const std::filesystem::path& directory, const Saved& saved,
                      const checkpoint::Progress& progress) {
  if (!AwaitRankFiles(directory, job_.world(), [this] { return background_.giving_up(); })) return false;
  CarryOptions carried;
  if (!saved.header.model_config().empty()) carried.config = saved.header.model_config();
  CarryFiles(saved.model, PartOf(directory), carried);
  for (const auto& [path, text] : saved.folder.empty() ? options_.files : std::map<std::string, std::string>()) {
    std::filesystem::create_directories((PartOf(directory) / path).parent_path());
    WriteAtomicFile(PartOf(directory) / path, text);
  }
  checkpoint::Manifest header = saved.header;
  *header.mutable_progress() = progress;
  CommitCheckpoint(directory, job_.world(), std::move(header));
  return true;
}

}  // namespace trireme
