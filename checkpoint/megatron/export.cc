#include "checkpoint/megatron/export.h"

#include <optional>
#include <string>

#include "checkpoint/agreed_refusal.h"
#include "checkpoint/carried_files.h"
#include "checkpoint/megatron/dist_writer.h"
#include "checkpoint/megatron/rank_writer.h"
#include "checkpoint/megatron/written_arguments.h"
#include "checkpoint/megatron/written_layout.h"
#include "checkpoint/pickle/pickled.h"
#include "checkpoint/pickle/torch_writer.h"
#include "checkpoint/store_writer.h"
#include "core/base/error.h"
#include "core/io/atomic_file.h"
#include "core/io/file_system.h"

namespace trireme {
namespace {

// Weights without a run: Megatron begins at iteration 0 with them, and asks for no optimizer.
constexpr char kIteration[] = "release";
constexpr char kBackend[] =
    R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", )"
    R"("common_backend_version": 1})";

void WriteCommon(const std::filesystem::path& iteration, const std::string& arguments) {
  const std::string value = PickledDict({{PickledText("args"), arguments},
                                         {PickledText("checkpoint_version"), PickledFloat(3)},
                                         {PickledText("iteration"), PickledInt(0)}});
  AtomicFile file(iteration / "common.pt");
  TorchFileWriter([&](const void* data, size_t bytes) { file.Write(data, bytes); }, "common", value).Close();
  file.Commit();
}

// The one that all tensors have, for config.json.
std::optional<DType> CommonType(const WrittenModel& model) {
  const DType first = model.tensors().front().dtype;
  for (const WrittenTensor& tensor : model.tensors()) {
    if (tensor.dtype != first) return std::nullopt;
  }
  return first;
}

class Exporter {
 public:
  Exporter(const WrittenModel& model, const MegatronExport& options, const std::filesystem::path& target,
           const ProcessGroup& process_group)
      : model_(model),
        options_(options),
        part_(PartOf(target)),
        process_group_(process_group),
        chunks_(model, options, part_ / kIteration, process_group.size) {}

  // What this rank refuses; the others learn of it.
  std::optional<std::string> WriteShare() const {
    try {
      if (options_.format == MegatronExport::Format::kTorch) {
        WriteRankFiles(model_, options_, part_ / kIteration, process_group_.rank, process_group_.size);
      } else {
        chunks_.WriteChunks(process_group_.rank);
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInput) throw;
      return error.what();
    }
    return std::nullopt;
  }

  // After all shares.
  void WriteRest(const std::filesystem::path& model_files) const {
    if (options_.format == MegatronExport::Format::kTorchDist) {
      WriteCommon(part_ / kIteration, PickledArguments(model_, options_));
      WriteAtomicFile(part_ / kIteration / "metadata.json", kBackend);
      WriteDistMetadata(part_ / kIteration / ".metadata", chunks_.Metadata());
    }
    WriteAtomicFile(part_ / "latest_checkpointed_iteration.txt", kIteration);
    CarryFiles(model_files, part_, {.dtype = CommonType(model_), .config = options_.config});
  }

 private:
  const WrittenModel& model_;
  const MegatronExport& options_;
  std::filesystem::path part_;
  const ProcessGroup& process_group_;
  DistWriter chunks_;
};

}  // namespace

void ExportMegatron(const HfDirectory& source, const std::filesystem::path& target, const MegatronExport& options,
                    const ProcessGroup& process_group) {
  MegatronExport complete = options;
  const WrittenModel model(source, complete);
  complete.layout.latent_attention = model.names().latent();
  RefuseOtherSizes(model, complete);
  if (process_group.rank == 0) {
    BeginAside(target, options.replace);
    CreateFolder(PartOf(target) / kIteration);
  }
  process_group.barrier();
  const Exporter exporter(model, complete, target, process_group);
  AgreeOnRefusal(PartOf(target), exporter.WriteShare(), process_group);
  if (process_group.rank == 0) {
    exporter.WriteRest(source.model_files());
    Publish(target);
  }
  process_group.barrier();
}

std::string MegatronFlags(const MegatronExport& options) {
  const MegatronLayout& layout = options.layout;
  std::string flags =
      Concat("--ckpt-format ", options.format == MegatronExport::Format::kTorch ? "torch" : "torch_dist",
             " --tensor-model-parallel-size ", layout.tensor, " --pipeline-model-parallel-size ", layout.pipeline);
  const auto add = [&](const char* flag, int64_t size) { flags += Concat(" ", flag, " ", size); };
  if (layout.expert > 1) add("--expert-model-parallel-size", layout.expert);
  if (layout.expert_tensor != layout.tensor) add("--expert-tensor-parallel-size", layout.expert_tensor);
  return flags + " --transformer-impl " + (options.transformer_engine ? "transformer_engine" : "local");
}

}  // namespace trireme
