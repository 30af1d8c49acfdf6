// Checkpoints: the saved adapters of remote training on disk: DIR/owner/run/kind/name, each a PEFT directory with a
// record beside its files. A directory has its name only when it is whole. Names and paths come from clients: every
// part is checked, nothing leaves DIR, and what belongs to another owner is not there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/json.h"

namespace trireme::tinker {

inline constexpr char kTrainingKind[] = "weights", kSamplerKind[] = "sampler_weights",
                      kExternalKind[] = "external_weights";

// "tinker://run/weights/name"; twinkle:// is read, too.
struct CheckpointPath {
  std::string run, kind, name;
  std::string Text() const { return "tinker://" + run + "/" + kind + "/" + name; }
};
// Throws ApiError 400.
CheckpointPath ParsePath(const std::string& text);
// Letters, digits, '.', '_' and '-', not beginning with a dot, at most 128.
bool IsCheckpointName(const std::string& name);

struct CheckpointRecord {
  CheckpointPath path;
  Json facts;  // what was recorded: base_model, lora_rank, train_attn, train_mlp, time, expires (in UnixSeconds), …
  int64_t bytes = 0;
};

// One whose time is over is not there any more; its files go when the owner's are listed, or when its name is used
// again.
class Checkpoints {
 public:
  // Makes the directory and its salt if they are not there, and puts in order what a killed server left. Throws
  // InputError if it cannot, or if another server uses the directory.
  explicit Checkpoints(std::filesystem::path directory, std::function<int64_t()> clock = UnixSeconds);
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  int64_t now() const { return clock_(); }

  // The owner's name on disk: a salted digest, the same after a restart.
  std::string OwnerOf(const std::string& key) const;

  // Where a save is written, aside; Commit gives it its name. Existing ones are replaced only with `overwrite`.
  std::filesystem::path Aside(const std::string& owner, const CheckpointPath& path) const;
  void Commit(const std::filesystem::path& aside, const std::string& owner, const CheckpointPath& path,
              const Json& facts) const;

  std::filesystem::path DirectoryOf(const std::string& owner, const CheckpointPath& path) const;
  bool Exists(const std::string& owner, const CheckpointPath& path) const;
  // Throws ApiError 404 if it is not this owner's.
  CheckpointRecord Find(const std::string& owner, const CheckpointPath& path) const;
  std::vector<CheckpointRecord> All(const std::string& owner) const;  // oldest first
  void Remove(const std::string& owner, const CheckpointPath& path) const;
  // It is there until then, in UnixSeconds; nothing: for ever.
  void SetExpiry(const std::string& owner, const CheckpointPath& path, std::optional<int64_t> expires) const;
  // Its files, without the server's record.
  std::vector<std::filesystem::path> FilesOf(const std::string& owner, const CheckpointPath& path) const;

 private:
  void Lock();
  void Recover() const;
  static void RecoverKind(const std::filesystem::path& kind);
  bool Expired(const std::filesystem::path& place) const;
  static void Discard(const std::filesystem::path& place);

  const std::filesystem::path directory_;
  const std::function<int64_t()> clock_;
  std::string salt_;
  int lock_ = -1;
};

}  // namespace trireme::tinker
