#include "checkpoint/convert.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "checkpoint/adapter_directory.h"
#include "checkpoint/adapter_writer.h"
#include "checkpoint/agreed_refusal.h"
#include "checkpoint/carried_files.h"
#include "checkpoint/elements.h"
#include "checkpoint/fp8_blocks.h"
#include "checkpoint/import_states.h"
#include "checkpoint/manifest.h"
#include "checkpoint/memory_names.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/shard_plan.h"
#include "checkpoint/store_writer.h"
#include "checkpoint/value_head_names.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/io/atomic_file.h"
#include "core/io/file_system.h"

namespace trireme {
namespace {

bool IsFloat(DType dtype) {
  return dtype == DType::kFp64 || dtype == DType::kFp32 || dtype == DType::kFp16 || dtype == DType::kBf16;
}

DType TargetType(DType own, const ConvertOptions& options) {
  return options.dtype && IsFloat(own) ? *options.dtype : own;
}

// The type that a matrix is rounded to before it is packed.
DType TypeToPack(DType own, const ConvertOptions& options) {
  return TargetType(own == DType::kFp8E4M3 ? DType::kBf16 : own, options);
}

// Where matrices are packed, nothing stays in fp8, whose scales the target's quantization_config would not mean.
bool IsDecodedScale(const HfDirectory& source, const std::string& name, const ConvertOptions& options) {
  if (options.pack == nullptr || !name.ends_with(kFp8ScaleSuffix)) return false;
  const std::string matrix = name.substr(0, name.size() + 1 - sizeof(kFp8ScaleSuffix));
  return source.Has(matrix) && source.Describe(matrix).dtype == DType::kFp8E4M3;
}

// By the source's tensor, the matrices of it that are packed.
std::map<std::string, std::vector<std::string>> PackedBySource(const ConvertOptions& options) {
  std::map<std::string, std::vector<std::string>> names;
  if (options.pack == nullptr) return names;
  for (const auto& [name, slice] : options.pack->matrices) names[slice.source].push_back(name);
  return names;
}

void AppendPacked(const std::string& name, DType dtype, const PackOptions& pack, std::vector<PlannedTensor>& tensors) {
  for (PlannedTensor& part : pack.writer->TensorsOf({name, dtype, pack.matrices.at(name).shape})) {
    part.matrix = name;
    tensors.push_back(std::move(part));
  }
}

// What a change leaves of an fp8 matrix has other scales, so that it must be packed again.
void RefuseChangedFp8(const HfDirectory& source, const std::string& name, DType dtype, const ConvertOptions& options) {
  const bool changed = dtype == DType::kFp8E4M3 && options.change != nullptr && options.change->Changes(name);
  if (!changed || options.pack != nullptr) return;
  throw InputError(source.FileOf(name).string(), ": tensor '", name,
                   "' is in fp8, into which no adapter can be merged as it is; ",
                   "set --quantise fp8 to pack it again");
}

std::vector<PlannedTensor> TensorsOf(const HfDirectory& source, const ConvertOptions& options) {
  std::vector<PlannedTensor> tensors;
  std::optional<DType> first;  // of floating-point tensors
  const auto packed = PackedBySource(options);
  for (const std::string& name : source.Names()) {
    if (options.left_out.contains(name) || IsDecodedScale(source, name, options)) continue;
    const TensorView view = source.Describe(name);
    RefuseChangedFp8(source, name, view.dtype, options);
    if (const auto matrices = packed.find(name); matrices != packed.end()) {
      for (const std::string& matrix : matrices->second) {
        AppendPacked(matrix, TypeToPack(view.dtype, options), *options.pack, tensors);
      }
    } else {
      const bool decoded = options.pack != nullptr && view.dtype == DType::kFp8E4M3;
      tensors.push_back({name, (decoded ? TypeToPack : TargetType)(view.dtype, options), view.shape});
    }
    if (!first && IsFloat(view.dtype)) first = view.dtype;
  }
  if (options.change == nullptr) return tensors;
  for (const std::string& name : options.change->Added()) {
    const TensorView view = options.change->Adds(name)->Describe(name);
    tensors.push_back({name, TargetType(first.value_or(view.dtype), options), view.shape});
  }
  return tensors;
}

// The dtype that all floating-point tensors share, for config.json; scales of packed ones do not count.
std::optional<DType> CommonType(const std::vector<PlannedTensor>& tensors) {
  std::set<DType> types;
  for (const PlannedTensor& tensor : tensors) {
    if (IsFloat(tensor.dtype) && tensor.matrix.empty()) types.insert(tensor.dtype);
  }
  return types.size() == 1 ? std::optional(*types.begin()) : std::nullopt;
}

// The largest tensors first, each to the rank with the least so far: the same on every rank.
std::vector<bool> MyShare(const std::vector<PlannedTensor>& tensors, const ProcessGroup& process_group) {
  std::vector<size_t> order(tensors.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return tensors[a].bytes() > tensors[b].bytes(); });
  std::vector<uint64_t> loads(static_cast<size_t>(process_group.size));
  std::vector<bool> mine(tensors.size());
  for (const size_t i : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += tensors[i].bytes() + 1;
    mine[i] = least - loads.begin() == process_group.rank;
  }
  return mine;
}

// The tensor's elements as they are written: its own bytes, or changed ones in a separate buffer. A change
// that makes numbers infinite is refused, by all ranks together at the end.
class Prepared {
 public:
  explicit Prepared(const ConvertOptions& options) : options_(options), change_(options.change) {}

  const void* Elements(const HfDirectory& source, const PlannedTensor& tensor) {
    if (!tensor.matrix.empty()) return PackedElements(source, tensor);
    const TensorSource* added = change_ != nullptr ? change_->Adds(tensor.name) : nullptr;
    const TensorView& view = added != nullptr ? added->Find(tensor.name) : source.Find(tensor.name);
    const auto count = static_cast<size_t>(trireme::Elements(view.shape));
    const bool changed = change_ != nullptr && change_->Changes(tensor.name);
    if (view.dtype == tensor.dtype && !changed) return view.bytes.data();
    if (view.dtype == DType::kFp8E4M3 && added == nullptr) {
      wide_name_.clear();
      Widen(source, tensor.name, tensor.dtype);
      return memory_.data();
    }
    memory_.resize(tensor.bytes());
    if (changed) {
      wide_name_.clear();
      wide_.resize(count);
      Convert(view.dtype, view.bytes.data(), DType::kFp32, wide_.data(), count);
      change_->Apply(tensor.name, wide_);
      Convert(DType::kFp32, wide_.data(), tensor.dtype, memory_.data(), count);
    } else {
      Convert(view.dtype, view.bytes.data(), tensor.dtype, memory_.data(), count);
    }
    const int64_t lost =
        CountNotFinite(tensor.dtype, memory_.data(), count) - CountNotFinite(view.dtype, view.bytes.data(), count);
    if (lost > 0 && !refusal_) {
      refusal_ = Concat(source.FileOf(tensor.name).string(), ": tensor '", tensor.name, "': ", lost, " of ", count,
                        " elements are not finite in ", Name(tensor.dtype),
                        changed ? " with the adapter merged into them; check its lora_alpha"
                                : "; choose another --dtype, such as bf16");
    }
    return memory_.data();
  }

  const std::optional<std::string>& refusal() const { return refusal_; }

 private:
  const void* PackedElements(const HfDirectory& source, const PlannedTensor& tensor) {
    const MatrixSlice& slice = options_.pack->matrices.at(tensor.matrix);
    const DType dtype = TypeToPack(source.Describe(slice.source).dtype, options_);
    if (wide_name_ != slice.source) Widen(source, slice.source, dtype);
    wide_name_ = slice.source;
    const auto first = wide_.begin() + slice.first;
    const std::vector<float> values(first, first + trireme::Elements(slice.shape));
    const bool finite = CountNotFinite(DType::kFp32, values.data(), values.size()) == 0;
    memory_.assign(tensor.bytes(), std::byte{0});
    try {
      if (!finite)
        throw InputError("tensor '", tensor.matrix, "' has elements that are not finite and cannot be packed");
      memory_ = options_.pack->writer->BytesOf(tensor.name, {tensor.matrix, dtype, slice.shape}, values);
    } catch (const Error& error) {
      if (!refusal_) refusal_ = Concat(source.FileOf(slice.source).string(), ": ", error.what());
    }
    return memory_.data();
  }

  // Of the blocks of a matrix in fp8; of another tensor nothing.
  static std::vector<float> ScalesOf(const HfDirectory& source, const std::string& name) {
    const TensorView matrix = source.Describe(name);
    if (matrix.dtype != DType::kFp8E4M3) return {};
    const std::string where = Concat(source.FileOf(name).string(), ": tensor '", name, "'");
    return Fp8Scales(source.Find(name + kFp8ScaleSuffix), matrix.shape, where);
  }

  // Fills wide_ with a tensor's values, changed, as the type has them, and memory_ with the same in it.
  void Widen(const HfDirectory& source, const std::string& name, DType dtype) {
    const std::vector<float> scales = ScalesOf(source, name);  // first: a view stays valid until the next Find
    const TensorView& view = source.Find(name);
    const auto count = static_cast<size_t>(trireme::Elements(view.shape));
    if (view.dtype == DType::kFp8E4M3) {
      wide_ = DecodeFp8(view, scales);
    } else {
      wide_.resize(count);
      Convert(view.dtype, view.bytes.data(), DType::kFp32, wide_.data(), count);
    }
    if (change_ != nullptr && change_->Changes(name)) change_->Apply(name, wide_);
    memory_.resize(count * static_cast<size_t>(ByteSize(dtype)));
    Convert(DType::kFp32, wide_.data(), dtype, memory_.data(), count);
    Convert(dtype, memory_.data(), DType::kFp32, wide_.data(), count);
  }

  std::optional<std::string> refusal_;
  const ConvertOptions& options_;
  const TensorChange* change_;
  std::vector<std::byte> memory_;
  std::vector<float> wide_;
  std::string wide_name_;  // the packed tensor in wide_; empty: another one
};

// A file into which several ranks write, each at its own offsets.
class SharedFile {
 public:
  explicit SharedFile(std::filesystem::path path) : path_(std::move(path)) {
    fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd_ < 0) Fail("cannot be opened");
  }
  ~SharedFile() { close(fd_); }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  void Write(uint64_t offset, const void* data, size_t bytes) const {
    const auto* next = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = pwrite(fd_, next, std::min(bytes, size_t{1} << 30), static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) Fail("cannot be written");
      next += written;
      offset += static_cast<uint64_t>(written);
      bytes -= static_cast<size_t>(written);
    }
  }
  void Sync() const {
    if (fsync(fd_) != 0) Fail("cannot be synced");
  }

 private:
  [[noreturn]] void Fail(const char* what) const {
    throw RuntimeError(path_.string(), ": ", what, ": ", std::strerror(errno));
  }

  std::filesystem::path path_;
  int fd_ = -1;
};

void WriteShard(const HfDirectory& source, const PlannedShard& shard, const std::filesystem::path& part,
                const std::vector<bool>& mine, bool first_rank, Prepared& prepared) {
  const SharedFile file(part / shard.file);
  if (first_rank) file.Write(0, shard.header.data(), shard.header.size());
  for (size_t i = 0; i < shard.tensors.size(); ++i) {
    if (!mine[i] || prepared.refusal()) continue;
    const PlannedTensor& tensor = shard.tensors[i];
    file.Write(tensor.offset, prepared.Elements(source, tensor), tensor.bytes());
    source.Release(tensor.name);
  }
  file.Sync();
}

// Takes the value head's tensors out of a model's, whose own files do not hold them.
std::vector<PlannedTensor> TakeValueHead(std::vector<PlannedTensor>& tensors) {
  const auto first = std::stable_partition(tensors.begin(), tensors.end(),
                                           [](const PlannedTensor& tensor) { return !IsValueHead(tensor.name); });
  std::vector<PlannedTensor> head(first, tensors.end());
  tensors.erase(first, tensors.end());
  return head;
}

// Small: rank 0 writes it alone.
void WriteValueHead(const HfDirectory& source, const std::vector<PlannedTensor>& head,
                    const std::filesystem::path& part, Prepared& prepared) {
  if (head.empty()) return;
  PlannedShard shard = PlanShards(head, std::numeric_limits<int64_t>::max()).front();
  shard.file = kValueHeadFile;
  WriteShard(source, shard, part, std::vector<bool>(head.size(), true), /*first_rank=*/true, prepared);
}

// Only rank 0; the others wait.
void Prepare(const std::filesystem::path& target, const ConvertOptions& options, const ProcessGroup& process_group) {
  if (process_group.rank == 0) BeginAside(target, options.replace);
  process_group.barrier();
}

bool HasExperts(const std::string& model_config, const std::string& where) {
  const Json config = ParseJson(model_config, where);
  return config.contains("num_experts") || config.contains("num_local_experts") || config.contains("n_routed_experts");
}

// As its tensors are written: decoded.
std::string ConfigOf(const HfDirectory& source) {
  const std::string path = (source.model_files() / "config.json").string(), config = ReadTextFile(path);
  return source.has_packed() ? WithoutQuantisation(config, path) : config;
}

// An adapter is small: rank 0 writes it alone, from memory.
void ExportAdapter(const HfDirectory& source, const std::filesystem::path& target, const ConvertOptions& options,
                   const ProcessGroup& process_group) {
  Prepare(target, options, process_group);
  if (process_group.rank == 0) {
    const std::string& model = source.store()->manifest().model_config();
    const bool experts = HasExperts(model, source.path().string());
    try {
      WriteAdapter(AdapterDirectory(source.path()), PartOf(target),
                   {.dtype = options.dtype,
                    .fuse_experts = experts && !options.experts_apart,
                    .names_in_memory = HasOlderNames(ParseJson(model, source.path().string()))});
      Prepared prepared(options);
      std::vector<PlannedTensor> tensors = TensorsOf(source, options);
      if (options.value_head) WriteValueHead(source, TakeValueHead(tensors), PartOf(target), prepared);
      if (prepared.refusal()) throw InputError(*prepared.refusal());
    } catch (const Error&) {
      RemoveAll(PartOf(target));
      throw;
    }
    Publish(target);
  }
  process_group.barrier();
}

PieceToWrite WholePiece(const std::string& key, DType dtype, const Shape& shape, const void* data) {
  return {.key = key,
          .dtype = dtype,
          .shape = shape,
          .box = {Shape(shape.size(), 0), shape},
          .data = data,
          .strides = RowMajorStrides(shape)};
}

void WriteStates(const StoredStates& states, const std::string& name, RankFileWriter& file) {
  std::vector<std::byte> elements;
  for (const std::string& state : states.Of(name)) {
    const TensorView view = states.Describe(state, name);
    elements.resize(static_cast<size_t>(Elements(view.shape) * ByteSize(view.dtype)));
    states.Read(state, name, elements.data());
    file.Write(WholePiece(state + "/" + name, view.dtype, view.shape, elements.data()));
  }
}

// `states`: nullptr: weights alone.
void Import(const HfDirectory& source, const StoredStates* states, const std::filesystem::path& target,
            const ConvertOptions& options, const ProcessGroup& process_group) {
  const std::vector<PlannedTensor> tensors = TensorsOf(source, options);
  const std::string config = ConfigOf(source);
  const Json parsed = ParseJson(config, (source.model_files() / "config.json").string());
  const std::vector<bool> mine = MyShare(tensors, process_group);
  Prepare(target, options, process_group);
  RankFileWriter file(target, process_group.rank);
  Prepared prepared(options);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!mine[i] || prepared.refusal()) continue;
    const PlannedTensor& tensor = tensors[i];
    file.Write(WholePiece("weights/" + tensor.name, tensor.dtype, tensor.shape, prepared.Elements(source, tensor)));
    source.Release(tensor.name);
    if (states != nullptr) WriteStates(*states, tensor.name, file);
  }
  file.Close();
  AgreeOnRefusal(PartOf(target), prepared.refusal(), process_group);
  if (process_group.rank == 0) {
    CarryFiles(source.model_files(), PartOf(target),
               {.dtype = CommonType(tensors), .config = config, .value_head = true});
    checkpoint::Manifest header;
    header.set_writer(options.writer);
    header.set_family(parsed.is_object() ? parsed.value("model_type", "") : "");
    header.set_model_config(config);
    header.mutable_layout()->set_world(static_cast<uint32_t>(process_group.size));
    if (states != nullptr) {  // without a position in the data: another system's order of rows is not ours
      header.mutable_progress()->set_step(states->step());
      header.mutable_progress()->set_updates(states->updates());
    }
    CommitCheckpoint(target, process_group.size, std::move(header));
  }
  process_group.barrier();
}

}  // namespace

void ExportHuggingFace(const HfDirectory& source, const std::filesystem::path& target, const ConvertOptions& options,
                       const ProcessGroup& process_group) {
  if (HoldsAdapter(source)) return ExportAdapter(source, target, options, process_group);
  std::vector<PlannedTensor> tensors = TensorsOf(source, options);
  const std::vector<PlannedTensor> value_head = TakeValueHead(tensors);
  const std::vector<PlannedShard> shards = PlanShards(tensors, options.shard_bytes);
  const std::filesystem::path part = PartOf(target);
  Prepare(target, options, process_group);
  Prepared prepared(options);
  for (const PlannedShard& shard : shards) {
    WriteShard(source, shard, part, MyShare(shard.tensors, process_group), process_group.rank == 0, prepared);
  }
  if (options.value_head && process_group.rank == 0) WriteValueHead(source, value_head, part, prepared);
  AgreeOnRefusal(part, prepared.refusal(), process_group);
  if (process_group.rank == 0) {
    std::optional<std::string> config = options.config;
    if (source.has_packed() && options.pack == nullptr) {
      config = config ? WithoutQuantisation(*config, target.string()) : ConfigOf(source);
    }
    if (shards.size() > 1) WriteAtomicFile(part / "model.safetensors.index.json", ShardIndex(shards));
    CarryFiles(
        source.model_files(), part,
        {.dtype = CommonType(tensors), .config = config, .value_head = options.value_head && value_head.empty()});
    Publish(target);
  }
  process_group.barrier();
}

bool HoldsAdapter(const HfDirectory& source) {
  return source.store() != nullptr && !source.store()->manifest().adapter_config().empty();
}

void ImportCheckpoint(const HfDirectory& source, const std::filesystem::path& target, const ConvertOptions& options,
                      const ProcessGroup& process_group) {
  Import(source, nullptr, target, options, process_group);
}

void ImportWithStates(const HfDirectory& source, const StoredStates& states, const std::filesystem::path& target,
                      const ConvertOptions& options, const ProcessGroup& process_group) {
  Import(source, &states, target, options, process_group);
}

}  // namespace trireme
