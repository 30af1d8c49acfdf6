#include "train/run_saver.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "checkpoint/carried_files.h"
#include "checkpoint/elements.h"
#include "checkpoint/run_checkpoints.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/plan/file_pieces.h"
#include "core/tensor/dtype.h"

namespace trireme {
namespace {

constexpr char kWeights[] = "weights";  // the other states have no file copies

// Large copies bypass the caches, which is faster than copy_ at this size.
void CopyOnAllCores(void* target, const void* source, size_t bytes) {
  constexpr int64_t kPiece = 8 << 20;
  const auto size = static_cast<int64_t>(bytes), pieces = (size + kPiece - 1) / kPiece;
  at::parallel_for(0, pieces, 1, [&](int64_t first, int64_t last) {
    const int64_t begin = first * kPiece, end = std::min(last * kPiece, size);
    std::memcpy(static_cast<char*>(target) + begin, static_cast<const char*>(source) + begin,
                static_cast<size_t>(end - begin));
  });
}

}  // namespace

RunSaver::RunSaver(Trainer& trainer, Job& job, RunSaverOptions options)
    : trainer_(trainer), job_(job), options_(std::move(options)) {}

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
  }
  job_.Barrier();
  Copy();
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

// Copies the weights and all states, except the master weights if those are the weights.
void RunSaver::Copy() {
  size_t index = 0;
  ShardedOptimizer& optimizer = trainer_.optimizer();
  for (Bucket* bucket : trainer_.model().buckets()) {
    if (options_.trained_only && !bucket->trained()) continue;
    if (!optimizer.IsTiedCopy(*bucket)) CopyShare(index++, *bucket, kWeights, bucket->share_values());
  }
  optimizer.ForEachShare([&](const ShareState& state) {
    const bool is_value =
        state.state == "master" && state.bucket->share_values().scalar_type() == state.share.scalar_type();
    if (!state.is_copy && !is_value) CopyShare(index++, *state.bucket, state.state, state.share);
  });
}

void RunSaver::CopyShare(size_t index, Bucket& bucket, const std::string& state, const at::Tensor& share) {
  if (index == host_.size()) {
    host_.push_back(at::empty(share.sizes(), share.options().device(at::kCPU)));
    Describe(bucket, state, host_.back());
  }
  if (share.is_cpu() && share.is_contiguous()) {
    CopyOnAllCores(host_[index].data_ptr(), share.data_ptr(), share.nbytes());
  } else {
    host_[index].copy_(share);
  }
}

void RunSaver::Describe(Bucket& bucket, const std::string& state, const at::Tensor& host) {
  const DType dtype = FromTorch(host.scalar_type());
  for (const FlatPart& part : bucket.parts()) {
    const Shard shard = bucket.ShardOf(part, state, dtype, host.data_ptr());
    for (const FilePiece& piece : FilePieces(bucket.entries()[part.parameter]->parameter, shard)) {
      if (piece.replica != 0) continue;
      std::vector<std::string> names = {piece.tensor->name};
      if (state == kWeights)
        names.insert(names.end(), piece.tensor->repeated.begin(), piece.tensor->repeated.end());
      for (const std::string& name : names) {
        pieces_.push_back({.key = state + "/" + name,
                           .dtype = dtype,
                           .shape = piece.tensor->shape,
                           .box = piece.box,
                           .data = Advance(shard.data, dtype, piece.offset),
                           .strides = piece.strides});
      }
    }
  }
}

void RunSaver::WriteFiles(const std::filesystem::path& directory, const checkpoint::Progress& progress) {
  RankFileWriter file(directory, job_.rank());
  for (const PieceToWrite& piece : pieces_) file.Write(piece);
  file.Close();
  if (job_.rank() != 0) return;
  if (!AwaitRankFiles(directory, job_.world(), [this] { return background_.giving_up(); })) return;
  CarryOptions carried;
  if (!options_.header.model_config().empty()) carried.config = options_.header.model_config();
  CarryFiles(options_.model, PartOf(directory), carried);
  checkpoint::Manifest header = options_.header;
  *header.mutable_progress() = progress;
  CommitCheckpoint(directory, job_.world(), std::move(header));
  RemoveOldCheckpoints(options_.output, options_.keep);
}

}  // namespace trireme
