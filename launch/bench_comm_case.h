// The operations that `trireme bench comm` times, each twice: through a communicator, and as MPI's
// collective on the same data; with the closed form of the result. How they are timed is decided in
// bench_comm.cc.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/device/buffer.h"
#include "core/plan/dtype.h"

namespace trireme {

enum class BenchMemory { kDevice, kHost };

struct BenchSpec {
  std::string op;
  DType dtype = DType::kFp32;
  size_t bytes = 0;  // as defined for each operation, see --help
  BenchMemory memory = BenchMemory::kDevice;
  bool against_mpi = false;
};

const std::vector<std::string>& BenchOperations();

// Throws an input error if MPI has no such type to reduce.
void CheckMpiCanDo(const std::string& op, DType dtype);

// One operation of one size, ready to run: buffers are allocated and filled.
class CommBenchCase {
 public:
  CommBenchCase(const BenchSpec& spec, Communicator& world);

  size_t bytes() const;  // the requested size, rounded to whole elements on every rank
  void RunOurs();        // the call and the wait for it
  void RunMpi();         // the same by MPI
  // Throws if a result differs from the closed form. Run must have been called before.
  void VerifyOurs() const;
  void VerifyMpi() const;

 private:
  enum class Kind { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kSendReceive };
  struct Shape {
    Kind kind;
    size_t count;         // as passed to the call
    size_t source_count;  // elements of the whole source and target
    size_t target_count;
  };

  static Shape ShapeOf(const BenchSpec& spec, int ranks);
  int WantedValue(size_t i) const;
  void Verify(const std::byte* target, const char* whose) const;

  const BenchSpec spec_;
  Communicator& world_;
  const Shape shape_;
  const size_t width_;
  std::vector<std::byte> host_source_;
  std::vector<std::byte> host_target_;  // used if memory is kHost
  std::vector<std::byte> mpi_target_;
  DeviceBuffer device_source_;
  DeviceBuffer device_target_;
  const void* source_ = nullptr;  // what our call reads and writes
  void* target_ = nullptr;
};

}  // namespace trireme
