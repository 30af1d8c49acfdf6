// The bucket's two halves: values and their all-gather, gradients and their reduction.
#include "parallel/sharding/bucket.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "core/base/error.h"
#include "core/tensor/device_copies.h"
#include "ops/flat/split_master.h"

namespace trireme {
namespace {

std::vector<int64_t> LocalSizes(const std::vector<Weights::Entry*>& entries) {
  std::vector<int64_t> sizes;
  for (const Weights::Entry* entry : entries) {
    const PackedWeight* packed = entry->weight.packed.get();
    sizes.push_back(packed != nullptr ? packed->parts().bytes : Elements(entry->placement.LocalShape()));
  }
  return sizes;
}

int64_t Bytes(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.numel() * static_cast<int64_t>(tensor.element_size()) : 0;
}

}  // namespace

Bucket::Bucket(std::string layer, std::vector<Weights::Entry*> entries, Communicator& data,
               const BucketOptions& options)
    : layer_(std::move(layer)),
      entries_(std::move(entries)),
      data_(data),
      options_(options),
      layout_(LocalSizes(entries_), data.size()),
      shard_(split() ? layout_.ShardAt(data.rank()) : layout_.Whole()),
      parts_(layout_.PartsIn(shard_)),
      values_(layout_.total(), options.type, options.device) {
  TRIREME_CHECK(!entries_.empty()) << "bucket " << layer_ << " has no parameters";
  values_.HoldZeros();
  if (options_.trained) gradients_ = FlatMemory(layout_.total(), at::kFloat, options.device);
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Placement& placement = entries_[i]->placement;
    TRIREME_CHECK(placement.declaration().grid == entries_[0]->placement.declaration().grid)
        << "bucket " << layer_ << " mixes the grids of " << entries_[0]->weight.name << " and " << placement.name();
    const FlatRange range = layout_.RangeOf(i);
    if (PackedWeight* packed = entries_[i]->weight.packed.get()) {
      packed->bytes = values_.tensor().narrow(0, range.begin, range.size());
      continue;
    }
    const auto local = [&](const at::Tensor& flat) {
      return flat.narrow(0, range.begin, range.size()).view(placement.LocalShape());
    };
    entries_[i]->weight.value = local(values_.tensor());
    entries_[i]->weight.gradient = options_.trained ? local(gradients_.tensor()) : at::Tensor();
  }
}

BucketMemory Bucket::memory() const {
  const int64_t leaving = splits_gradients() && reduction_.under_way() ? Bytes(gradients_.tensor()) : 0;
  const bool offloaded = kept_.defined() && (kept_.is_same(host_) || keeps_on_host());
  return {
      .value_bytes = values_.held_bytes() + (offloaded ? 0 : Bytes(kept_)) + Bytes(fresh_),
      .gradient_bytes = gradients_.held_bytes() + leaving + Bytes(arriving_) + (split() ? Bytes(shard_gradient_) : 0),
      .master_bytes = has_separate_master() ? Bytes(master_) : 0};
}

bool Bucket::has_separate_master() const {
  return master_.defined() && !(kept_.defined() ? master_.is_same(kept_) : master_.is_alias_of(values_.tensor()));
}

at::Tensor Bucket::OwnShard(const at::Tensor& whole) const { return whole.narrow(0, shard_.begin, shard_.size()); }

void Bucket::SealValues() {
  TRIREME_CHECK(whole_ && !master_.defined()) << "bucket " << layer_ << " is sealed twice";
  const at::Tensor mine = OwnShard(values_.tensor());
  if (splits_values()) kept_ = mine.clone();
  if (options_.trained && (options_.type == at::kFloat || options_.masters == Masters::kNone)) {
    master_ = kept_.defined() ? kept_ : mine;
  } else if (options_.trained && options_.masters == Masters::kSplit) {
    master_ = at::zeros({shard_.size()}, mine.options().dtype(at::kShort));
  } else if (options_.trained) {
    master_ = mine.to(at::kFloat);
  }
  if (master_on_host_) KeepMasterOnHost();
  FreeValues();
  const bool own_master = master_.defined() && master_.is_same(kept_);
  if (options_.offload_values && kept_.defined() && !own_master && !options_.device.is_cpu()) KeepShardOnHost();
}

// Pinned, so that copies are queued; they are all on the compute stream, one after another.
void Bucket::KeepShardOnHost() {
  pinned_ = PinnedBuffer(kept_.nbytes());
  const at::Tensor host = at::from_blob(pinned_.data(), kept_.sizes(), kept_.options().device(at::kCPU));
  host.copy_(kept_);
  kept_ = host;
}

// A no-op if the tensors are on the host anyway.
void Bucket::KeepMasterOnHost() {
  master_on_host_ = true;
  if (master_.defined()) master_ = master_.to(at::kCPU);
}

void Bucket::MoveMaster(at::Device device) {
  if (has_separate_master() && !master_on_host_) master_ = master_.to(device);
}

// Waits, because a gather in flight reads or writes the shard, and the caller may read and write the master.
at::Tensor Bucket::shard_master() {
  TRIREME_CHECK(master_.defined()) << "bucket " << layer_ << " is not sealed, or not trained";
  if (gather_.under_way()) AwaitValues();
  return master_;
}

at::Tensor Bucket::JoinedMaster() { return JoinMaster(shard_values(), shard_master()); }

void Bucket::TakeJoinedMaster(const at::Tensor& master) {
  const at::Tensor values = BeginValues();
  SplitMaster(master, values, master_);
  EndValues();
}

at::Tensor Bucket::shard_values() {
  if (gather_.under_way()) AwaitValues();
  if (keeps_on_host()) ComputeStreamOf(options_.device).Synchronize();  // what the last update sent
  return kept_.defined() ? kept_ : OwnShard(values_.tensor());
}

at::Tensor Bucket::BeginValues() {
  TRIREME_CHECK(master_.defined()) << "bucket " << layer_ << " is not sealed, or not trained";
  gather_.Wait();
  if (!split()) return master_.is_alias_of(values_.tensor()) ? at::Tensor() : values_.tensor();
  whole_ = false;
  if (!splits_values()) {
    // In a separate buffer: an all-gather must not read from its own output.
    fresh_ = has_split_master() ? OwnShard(values_.tensor()).clone()
                                : at::empty({shard_.size()}, values_.tensor().options());
    return fresh_;
  }
  if (values_.held()) values_.Release();
  if (keeps_on_host()) return fresh_ = at::empty({shard_.size()}, values_.tensor().options());
  return master_.is_same(kept_) ? at::Tensor() : kept_;
}

void Bucket::EndValues() {
  if (!splits_values()) StartGather();
  if (!keeps_on_host()) return;
  CopyAsync(pinned_.data(), fresh_.data_ptr(), pinned_.bytes(), CopyKind::kDeviceToHost,
            ComputeStreamOf(options_.device));
  fresh_.reset();
}

void Bucket::StartGather() {
  if (whole_ || gather_.under_way()) return;
  values_.Hold();
  if (keeps_on_host()) {
    fresh_ = at::empty({shard_.size()}, values_.tensor().options());
    CopyAsync(fresh_.data_ptr(), pinned_.data(), pinned_.bytes(), CopyKind::kHostToDevice,
              ComputeStreamOf(options_.device));
  }
  gather_ = StartAllGather(splits_values() && !keeps_on_host() ? kept_ : fresh_, values_.tensor(), data_);
}

void Bucket::AwaitValues() {
  if (whole_) return;
  StartGather();
  gather_.Wait();
  fresh_.reset();
  whole_ = true;
}

void Bucket::FreeValues() {
  if (!splits_values()) return;
  TRIREME_CHECK(kept_.defined()) << "bucket " << layer_ << " is freed before SealValues";
  gather_.Wait();
  if (values_.held()) values_.Release();
  whole_ = false;
}

void Bucket::OffloadValues() {
  TRIREME_CHECK(!options_.trained) << "bucket " << layer_ << " is trained: its values change on the device";
  if (options_.device.is_cpu()) return;
  if (!host_.defined()) host_ = (kept_.defined() ? kept_ : values_.tensor()).to(at::kCPU);
  if (kept_.defined()) {
    FreeValues();
    kept_ = host_;
  } else {
    values_.Release();
  }
}

void Bucket::ReloadValues() {
  if (!host_.defined()) return;
  if (kept_.defined()) {
    kept_ = host_.to(options_.device);
  } else {
    values_.Hold();
    values_.tensor().copy_(host_);
  }
}

void Bucket::MixValues(Bucket& other, double weight) {
  TRIREME_CHECK(!options_.trained && !host_.defined()) << "bucket " << layer_ << " is trained or offloaded";
  TRIREME_CHECK(layer_ == other.layer_ && layout_.total() == other.layout_.total())
      << "buckets " << layer_ << " and " << other.layer_ << " differ";
  FreeValues();
  other.AwaitValues();
  const at::Tensor mine = kept_.defined() ? kept_ : values_.tensor();
  const at::Tensor theirs = OwnShard(other.values_.tensor());
  mine.copy_(theirs.to(at::kFloat) * weight + mine.to(at::kFloat) * (1 - weight));
  other.FreeValues();
}

void Bucket::PrepareGradients() {
  if (!options_.trained) return;
  TRIREME_CHECK(splits_gradients() || data_.size() == 1 || !summed_)
      << "bucket " << layer_ << " is already reduced; zero " << options_.zero
      << " reduces once between two ZeroGradients";
  HoldGradients();
  open_ = true;
}

// Gradients that every accumulation overwrites first need no zeros, but gaps between parameters do.
void Bucket::HoldGradients() {
  if (gradients_.held() || !when_reduced_ || layout_.has_gaps()) return gradients_.HoldZeros();
  gradients_.Hold();
  for (const Weights::Entry* entry : entries_) entry->weight.stale = true;
}

void Bucket::DropGradients() {
  TRIREME_CHECK(data_.size() == 1) << "bucket " << layer_ << ": gradients are dropped by their reduction";
  shard_gradient_.reset();
  if (gradients_.held()) gradients_.Release();
}

void Bucket::StartReduce() {
  if (!options_.trained) return;
  TRIREME_CHECK(open_) << "bucket " << layer_ << " is reduced without PrepareGradients";
  open_ = false;
  ClearStale();
  if (data_.size() == 1) {
    if (when_reduced_) when_reduced_();
    return;
  }
  if (splits_gradients()) {
    ReduceAndRelease();
  } else {
    ReduceOnce();
  }
  summed_ = true;
}

// Zeroes gradients that nothing has added to since ZeroGradients.
void Bucket::ClearStale() {
  if (!gradients_.held()) return;
  for (const Weights::Entry* entry : entries_) entry->weight.gradient_sum();
}

void Bucket::ReduceOnce() {
  if (!split()) {
    reduction_ = StartAllReduce(gradients_.tensor(), data_);
    return;
  }
  if (!shard_gradient_.defined()) shard_gradient_ = at::empty({shard_.size()}, gradients_.tensor().options());
  reduction_ = StartReduceScatter(gradients_.tensor(), shard_gradient_, data_);
}

// Releases the memory of the full gradient with the reduction. The first one writes straight into the shard.
void Bucket::ReduceAndRelease() {
  FinishReduction();
  if (!shard_gradient_.defined()) shard_gradient_ = at::empty({shard_.size()}, gradients_.tensor().options());
  if (summed_) arriving_ = at::empty_like(shard_gradient_);
  reduction_ = StartReduceScatter(gradients_.Release(), summed_ ? arriving_ : shard_gradient_, data_);
}

void Bucket::FinishReduction() {
  reduction_.Wait();
  if (arriving_.defined()) shard_gradient_.add_(arriving_);
  arriving_.reset();
}

void Bucket::SettleReduction(bool latest) {
  const bool may_wait = !latest && !options_.device.is_cpu();
  if (reduction_.under_way() && (may_wait || reduction_.done())) FinishReduction();
}

void Bucket::AwaitGradients() {
  if (!options_.trained) return;
  FinishReduction();
  TRIREME_CHECK(!open_ || data_.size() == 1) << "bucket " << layer_ << " has gradients that are not reduced";
  open_ = false;
  ClearStale();
  if (!split()) {
    gradients_.HoldZeros();
    shard_gradient_ = gradients_.tensor();
  } else if (!summed_) {
    shard_gradient_ = at::zeros({shard_.size()}, gradients_.tensor().options());
  }
}

void Bucket::StartReplicaSum() {
  if (options_.replicas != nullptr) replica_sum_ = StartAllReduce(shard_gradient(), *options_.replicas);
}

at::Tensor Bucket::shard_gradient() const {
  TRIREME_CHECK(shard_gradient_.defined()) << "bucket " << layer_ << " has no gradient before AwaitGradients";
  return shard_gradient_;
}

void Bucket::ZeroGradients() {
  if (!options_.trained) return;
  FinishReduction();
  if (gradients_.held()) {  // the gaps between parameters are never written and stay zero
    for (const Weights::Entry* entry : entries_) entry->weight.stale = true;
  }
  summed_ = open_ = false;
}

void Bucket::ReleaseGradients() {
  if (!options_.trained) return;
  TRIREME_CHECK(!open_ && !summed_ && !reduction_.under_way()) << "bucket " << layer_ << " has gradients that count";
  shard_gradient_.reset();
  if (gradients_.held()) gradients_.Release();
}

Shard Bucket::ShardOf(const FlatPart& part, const std::string& state, DType dtype, void* shard_data) const {
  const Placement& placement = entries_[part.parameter]->placement;
  const AxisNames distinct = split() ? ShardAxes(placement.mesh(), placement.declaration().grid) : AxisNames{};
  return FlatShard(placement, data_.members()[data_.rank()], {part.elements.begin, part.elements.end, distinct},
                   state + "/" + placement.name(), dtype,
                   static_cast<std::byte*>(shard_data) + part.offset * ByteSize(dtype));
}

}  // namespace trireme
