#include "launch/bench_comm_case.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/comm/mpi_library.h"
#include "launch/pattern.h"

namespace trireme {
namespace {

int Next(int rank, int ranks) { return (rank + 1) % ranks; }
int Previous(int rank, int ranks) { return (rank + ranks - 1) % ranks; }

// nullptr if MPI has no such type; such data can still be moved as bytes.
MPI_Datatype MpiType(DType dtype) {
  switch (dtype) {
    case DType::kFp64:
      return Mpi().fp64;
    case DType::kFp32:
      return Mpi().fp32;
    case DType::kInt64:
      return Mpi().int64;
    case DType::kInt32:
      return Mpi().int32;
    case DType::kInt16:
      return Mpi().int16;
    case DType::kInt8:
      return Mpi().int8;
    default:
      return nullptr;
  }
}

}  // namespace

const std::vector<std::string>& BenchOperations() {
  static const std::vector<std::string> names = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                                 "send_recv"};
  return names;
}

void CheckMpiCanDo(const std::string& op, DType dtype) {
  const bool reduces = op == "all_reduce" || op == "reduce_scatter";
  if (!reduces || MpiType(dtype) != nullptr) return;
  throw InputError("--against mpi: MPI cannot reduce ", Name(dtype), " (", op,
                   "); use --dtype fp32, or leave --against out");
}

CommBenchCase::Shape CommBenchCase::ShapeOf(const BenchSpec& spec, int ranks) {
  const size_t elements = spec.bytes / static_cast<size_t>(ByteSize(spec.dtype));
  const size_t whole = std::max<size_t>(1, elements);
  const size_t share = std::max<size_t>(1, elements / ranks);
  if (spec.op == "all_reduce") return {Kind::kAllReduce, whole, whole, whole};
  if (spec.op == "all_gather") return {Kind::kAllGather, share, share, share * ranks};
  if (spec.op == "reduce_scatter") return {Kind::kReduceScatter, share, share * ranks, share};
  if (spec.op == "all_to_all") return {Kind::kAllToAll, share, share * ranks, share * ranks};
  return {Kind::kSendReceive, whole, whole, whole};
}

CommBenchCase::CommBenchCase(const BenchSpec& spec, Communicator& world)
    : spec_(spec),
      world_(world),
      shape_(ShapeOf(spec, world.size())),
      width_(static_cast<size_t>(ByteSize(spec.dtype))),
      host_source_(
          MakePattern(spec.dtype, shape_.source_count, [&world](size_t i) { return PatternValue(world.rank(), i); })) {
  const size_t target_bytes = shape_.target_count * width_;
  // Touched once here, so that no page fault is timed.
  if (spec.against_mpi) mpi_target_.assign(target_bytes, std::byte{0xff});
  if (spec.memory == BenchMemory::kHost) {
    host_target_.assign(target_bytes, std::byte{0xff});
    source_ = host_source_.data();
    target_ = host_target_.data();
    return;
  }
  device_source_ = DeviceBuffer(host_source_.size());
  device_target_ = DeviceBuffer(target_bytes);
  Copy(device_source_.data(), host_source_.data(), host_source_.size(), CopyKind::kHostToDevice);
  FillAsync(device_target_.data(), 0xff, target_bytes, world.stream());
  world.stream().Synchronize();
  source_ = device_source_.data();
  target_ = device_target_.data();
}

size_t CommBenchCase::bytes() const { return std::max(shape_.source_count, shape_.target_count) * width_; }

void CommBenchCase::RunOurs() {
  switch (shape_.kind) {
    case Kind::kAllReduce:
      return world_.AllReduce(source_, target_, shape_.count, spec_.dtype, ReduceOp::kSum).Wait();
    case Kind::kAllGather:
      return world_.AllGather(source_, target_, shape_.count, spec_.dtype).Wait();
    case Kind::kReduceScatter:
      return world_.ReduceScatter(source_, target_, shape_.count, spec_.dtype, ReduceOp::kSum).Wait();
    case Kind::kAllToAll:
      return world_.AllToAll(source_, target_, shape_.count, spec_.dtype).Wait();
    case Kind::kSendReceive:
      break;
  }
  const std::array<Transfer, 2> both = {
      Transfer{Transfer::Direction::kSend, Next(world_.rank(), world_.size()), const_cast<void*>(source_),
               shape_.count},
      Transfer{Transfer::Direction::kReceive, Previous(world_.rank(), world_.size()), target_, shape_.count}};
  world_.BatchSendReceive(both, spec_.dtype).Wait();
}

void CommBenchCase::RunMpi() {
  const MPI_Datatype type = MpiType(spec_.dtype);
  const int count = static_cast<int>(shape_.count);
  const int bytes = static_cast<int>(shape_.count * width_);
  const void* source = host_source_.data();
  void* target = mpi_target_.data();
  switch (shape_.kind) {
    case Kind::kAllReduce:
      Mpi().Allreduce(source, target, count, type, Mpi().sum, Mpi().world);
      return;
    case Kind::kAllGather:
      Mpi().Allgather(source, bytes, Mpi().bytes, target, bytes, Mpi().bytes, Mpi().world);
      return;
    case Kind::kReduceScatter:
      Mpi().Reduce_scatter_block(source, target, count, type, Mpi().sum, Mpi().world);
      return;
    case Kind::kAllToAll:
      Mpi().Alltoall(source, bytes, Mpi().bytes, target, bytes, Mpi().bytes, Mpi().world);
      return;
    case Kind::kSendReceive:
      break;
  }
  constexpr int kTag = 7002;
  Mpi().Sendrecv(source, bytes, Mpi().bytes, Next(world_.rank(), world_.size()), kTag, target, bytes, Mpi().bytes,
                 Previous(world_.rank(), world_.size()), kTag, Mpi().world, MPI_STATUS_IGNORE);
}

int CommBenchCase::WantedValue(size_t i) const {
  const int rank = world_.rank();
  const int ranks = world_.size();
  switch (shape_.kind) {
    case Kind::kAllReduce:
      return PatternSum(ranks, i);
    case Kind::kAllGather:
      return PatternValue(static_cast<int>(i / shape_.count), i % shape_.count);
    case Kind::kReduceScatter:
      return PatternSum(ranks, rank * shape_.count + i);
    case Kind::kAllToAll:
      return PatternValue(static_cast<int>(i / shape_.count), rank * shape_.count + i % shape_.count);
    case Kind::kSendReceive:
      break;
  }
  return PatternValue(Previous(rank, ranks), i);
}

void CommBenchCase::Verify(const std::byte* target, const char* whose) const {
  const std::string difference =
      ComparePattern(spec_.dtype, target, shape_.target_count, [this](size_t i) { return WantedValue(i); });
  if (difference.empty()) return;
  throw RuntimeError("wrong result of ", whose, " ", spec_.op, ", ", bytes(), " bytes of ", Name(spec_.dtype),
                     ", on rank ", world_.rank(), " of ", world_.size(), ": ", difference);
}

void CommBenchCase::VerifyOurs() const {
  if (spec_.memory == BenchMemory::kHost) return Verify(host_target_.data(), "our");
  std::vector<std::byte> host(shape_.target_count * width_);
  Copy(host.data(), target_, host.size(), CopyKind::kDeviceToHost);
  Verify(host.data(), "our");
}

void CommBenchCase::VerifyMpi() const { Verify(mpi_target_.data(), "MPI's"); }

}  // namespace trireme
