#include "train/remote/full_checkpoint.h"

#include <ATen/ATen.h>

#include <optional>

#include "checkpoint/carried_files.h"
#include "checkpoint/convert.h"
#include "checkpoint/store_writer.h"
#include "train/remote/agreed.h"
#include "train/states/model_copy.h"
#include "train/states/resume.h"
#include "train/states/run_header.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// From the rank's files to a checkpoint, and from that to the Hugging Face files one folder above it.
void FinishFiles(const Session& session, int64_t steps, const fs::path& directory, bool optimizer) {
  const Config& config = session.config();
  const fs::path stored = directory / kStateFolder, exported = directory / ".exported";
  checkpoint::Manifest header = HeaderOf(config, session.graph(), session.plan(), session.job().world());
  *header.mutable_progress() = ProgressOf(config, {.step = steps, .updates = steps});
  CarryFiles(config.model().path(), PartOf(stored), {.config = header.model_config()});
  CommitCheckpoint(stored, session.job().world(), header);
  ExportHuggingFace(HfDirectory(stored), exported, {.value_head = false}, {.rank = 0, .size = 1, .barrier = [] {}});
  for (const fs::directory_entry& file : fs::directory_iterator(exported))
    fs::rename(file.path(), directory / file.path().filename());
  fs::remove(exported);
  if (!optimizer) fs::remove_all(stored);
}

}  // namespace

void SaveFullModel(Trainer& trainer, const fs::path& directory, bool optimizer) {
  Session& session = trainer.session();
  Job& job = session.job();
  const fs::path stored = directory / kStateFolder;
  AgreeOn(job, [&] {
    if (job.rank() == 0) BeginAside(stored);
  });
  ModelCopy copy(trainer.model(), optimizer ? &trainer.optimizer() : nullptr, /*trained_only=*/false);
  copy.Take();
  AgreeOn(job, [&] {
    RankFileWriter file(stored, job.rank());
    for (const PieceToWrite& piece : copy.pieces()) file.Write(piece);
    file.Close();
  });
  AgreeOn(job, [&] {
    if (job.rank() == 0) FinishFiles(session, trainer.optimizer().step(), directory, optimizer);
  });
}

void LoadFullModel(Trainer& trainer, const fs::path& directory, bool optimizer) {
  Session& session = trainer.session();
  Job& job = session.job();
  std::optional<StoreReader> reader;
  AgreeOn(job, [&] {
    reader.emplace(directory / kStateFolder);
    CheckResumable(*reader, session.graph(), session.config().optimizer());
    reader->Verify(job.rank(), job.world());
    if (job.rank() == 0) reader->VerifyFiles();
  });
  AgreeOn(job, [&] { LoadStates(*reader, trainer, job); });
  if (optimizer) return;
  trainer.optimizer().ForEachShard(
      [](const ShardState& state) {
        if (state.state != "master") at::Tensor(state.shard).zero_();
      },
      /*changes=*/true);
  trainer.optimizer().StatesLoaded(0);
}

}  // namespace trireme
