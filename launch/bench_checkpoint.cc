// `trireme bench checkpoint`: times saving, loading and converting a model's checkpoint next to plain files
// of the same size. One JSON line per case.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>

#include "checkpoint/convert.h"
#include "checkpoint/manifest.h"
#include "checkpoint/run_checkpoints.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/cli/command.h"
#include "core/io/file_system.h"
#include "launch/layout.h"
#include "launch/process_group.h"
#include "launch/raw_files.h"
#include "train/states/resume.h"
#include "train/states/run_saver.h"

namespace trireme {
namespace {

constexpr int64_t kSaves = 3;  // the best of this many counts

// The slowest rank's time for a collective operation.
double Time(Job& job, const std::function<void()>& work) {
  job.Barrier();
  const Clock::time_point start = Clock::now();
  work();
  return job.Max(SecondsSince(start));
}

class CheckpointBench {
 public:
  CheckpointBench(const Arguments& arguments, Job& job)
      : config_(ModelConfigOf(arguments, job)),
        model_(arguments.value("model")),
        job_(job),
        scratch_(std::filesystem::path(arguments.value("scratch", std::filesystem::temp_directory_path().string())) /
                 "trireme-bench-checkpoint") {
    if (std::filesystem::exists(scratch_)) throw InputError(scratch_.string(), " already exists; remove it");
    job_.Barrier();
    if (job_.rank() == 0) CreateFolder(scratch_);
    job_.Barrier();
  }

  void Run() {
    Saves();
    Load();
    Export();
    job_.Barrier();
    if (job_.rank() == 0) RemoveAll(scratch_);
  }

 private:
  std::filesystem::path RawFile() const { return scratch_ / ("raw-" + std::to_string(job_.rank())); }
  std::filesystem::path SavedFile() const { return Saved() / RankFile(job_.rank()); }
  std::filesystem::path Saved() const { return CheckpointPath(scratch_, kSaves); }

  void Saves() {
    const std::unique_ptr<Session> session = Session::Open(config_, job_);
    session->DrawWeights(1);
    Trainer trainer(*session);
    checkpoint::Manifest header;
    header.set_family(session->graph().family);
    RunSaver saver(trainer, job_, {.output = scratch_, .model = model_, .header = header});
    checkpoint::Progress progress;
    double stall = 1e9, save = 1e9;
    for (int64_t step = 0; step <= kSaves; ++step) {  // the first allocates its memory
      progress.set_step(step);
      double waited = 0;
      const double took = Time(job_, [&] {
        waited = Time(job_, [&] { saver.Save(progress); });
        saver.Finish();
      });
      if (step > 0) {
        stall = std::min(stall, waited);
        save = std::min(save, took);
        if (job_.rank() == 0) RemoveAll(CheckpointPath(scratch_, step - 1));
      }
    }
    mine_ = std::filesystem::file_size(SavedFile());
    const checkpoint::Manifest manifest = ReadManifest(Saved());
    for (const checkpoint::File& file : manifest.files()) bytes_ += file.bytes();
    double raw = 1e9;
    for (int64_t i = 0; i < kSaves; ++i) {
      std::filesystem::remove(RawFile());
      raw = std::min(raw, Time(job_, [&] { SecondsToWrite(RawFile(), mine_); }));
    }
    Print("save", bytes_, save, raw);
    Print("stall", bytes_, stall, job_.Max(SecondsToCopy(mine_)));
  }

  void Load() {
    const std::unique_ptr<Session> session = Session::Open(config_, job_);
    Trainer trainer(*session);
    PrepareStates(StoreReader(Saved()), trainer, job_);
    double load = 1e9, raw = 1e9;
    for (int64_t i = 0; i < kSaves; ++i) {
      ForgetFile(SavedFile());
      load = std::min(load, Time(job_, [&] {
                        StoreReader reader(Saved());
                        LoadStates(reader, trainer, job_);
                      }));
      ForgetFile(SavedFile());
      raw = std::min(raw, Time(job_, [&] { SecondsToRead(SavedFile()); }));
    }
    Print("load", bytes_, load, raw);
  }

  // Compared with reading and writing plain files of the weights' size.
  void Export() {
    const HfDirectory source(Saved());
    const double seconds = Time(job_, [&] { ExportHuggingFace(source, scratch_ / "hf", {}, ProcessGroupOf(job_)); });
    uint64_t weights = 0;
    for (const auto& entry : std::filesystem::directory_iterator(scratch_ / "hf")) {
      if (entry.path().extension() == ".safetensors") weights += entry.file_size();
    }
    const uint64_t share = weights / static_cast<uint64_t>(job_.world());
    const double raw = Time(job_, [&] {
      SecondsToWrite(RawFile(), share);
      SecondsToRead(RawFile());
    });
    Print("convert", weights, seconds, raw);
  }

  void Print(const char* op, uint64_t bytes, double seconds, double raw_seconds) {
    if (job_.rank() != 0) return;
    const double gigabytes = static_cast<double>(bytes) / 1e9;
    std::cout << JsonLine({{"op", op},
                           {"bytes", bytes},
                           {"seconds", seconds},
                           {"gbs", gigabytes / seconds},
                           {"raw_gbs", gigabytes / raw_seconds},
                           {"ratio", raw_seconds / seconds},
                           {"ranks", job_.world()}})
              << std::endl;
  }

  const Config config_;
  const std::filesystem::path model_;
  Job& job_;
  const std::filesystem::path scratch_;
  uint64_t bytes_ = 0, mine_ = 0;  // of the checkpoint: over all ranks, on this one
};

}  // namespace

Command BenchCheckpointCommand() {
  return {.name = "bench checkpoint",
          .summary =
              "Times a checkpoint of a model with random weights: saving it, how long a run stalls for\n"
              "that, loading it under the same layout into allocated memory, and converting it to a Hugging\n"
              "Face directory. raw_gbs: plain files of the same size, written and synced or read; for the stall\n"
              "a copy in memory.",
          .options = {{.name = "model",
                       .value_name = "DIR",
                       .help = "a Hugging Face model directory; only its config.json is read",
                       .required = true},
                      {.name = "scratch",
                       .value_name = "DIR",
                       .help = "where to write and remove files; by default the system's temporary directory"}},
          .positionals = {{.name = kRunFile,
                           .help = "the run whose layout is used; by default all keys have their defaults",
                           .required = false}},
          .takes_config = true,
          .run = [](const Arguments& arguments, Job& job) { CheckpointBench(arguments, job).Run(); }};
}

}  // namespace trireme
