// A program as an Ascend user writes it to benchmark HCCL: MPI for launch, events for timing, a check at the
// end. It knows nothing of the twin; conformance_symbols_test compiles it with the public headers and library
// names alone.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "acl/acl.h"
#include "hccl/hccl.h"

#define CHECK_ACL(call)                                                               \
  do {                                                                                \
    const aclError code = (call);                                                     \
    if (code != ACL_SUCCESS) {                                                        \
      std::fprintf(stderr, "%s failed: %d, %s\n", #call, code, aclGetRecentErrMsg()); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                   \
    }                                                                                 \
  } while (0)

#define CHECK_HCCL(call)                                                              \
  do {                                                                                \
    const HcclResult code = (call);                                                   \
    if (code != HCCL_SUCCESS) {                                                       \
      std::fprintf(stderr, "%s failed: %d, %s\n", #call, code, aclGetRecentErrMsg()); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                   \
    }                                                                                 \
  } while (0)

namespace {

// One size: warm-up, then `rounds` all-reduces between two events, then one more whose result is checked.
bool Measure(HcclComm comm, aclrtStream stream, int rank, int size, size_t count) {
  const size_t bytes = count * sizeof(float);
  const int warm_up = 3, rounds = 10;
  void *send = nullptr, *receive = nullptr;
  CHECK_ACL(aclrtMalloc(&send, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_ACL(aclrtMalloc(&receive, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  std::vector<float> host(count, static_cast<float>(rank + 1));
  CHECK_ACL(aclrtMemcpy(send, bytes, host.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
  aclrtEvent start = nullptr, stop = nullptr;
  CHECK_ACL(aclrtCreateEvent(&start));
  CHECK_ACL(aclrtCreateEvent(&stop));
  for (int i = 0; i < warm_up; ++i) {
    CHECK_HCCL(HcclAllReduce(send, receive, count, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream));
  }
  CHECK_ACL(aclrtSynchronizeStream(stream));
  CHECK_ACL(aclrtRecordEvent(start, stream));
  for (int i = 0; i < rounds; ++i) {
    CHECK_HCCL(HcclAllReduce(send, receive, count, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream));
  }
  CHECK_ACL(aclrtRecordEvent(stop, stream));
  CHECK_ACL(aclrtSynchronizeStream(stream));
  float milliseconds = 0;
  CHECK_ACL(aclrtEventElapsedTime(&milliseconds, start, stop));
  CHECK_ACL(aclrtMemcpy(host.data(), bytes, receive, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
  const float wanted = static_cast<float>(size) * (size + 1) / 2;
  size_t wrong = 0;
  for (const float value : host) wrong += value != wanted;
  const double us = milliseconds * 1000.0 / rounds;
  if (rank == 0) std::printf("%12zu %14.2f %10.4f %s\n", bytes, us, bytes / us / 1e3, wrong ? "failed" : "success");
  CHECK_ACL(aclrtDestroyEvent(start));
  CHECK_ACL(aclrtDestroyEvent(stop));
  CHECK_ACL(aclrtFree(send));
  CHECK_ACL(aclrtFree(receive));
  return wrong == 0 && milliseconds > 0;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK_ACL(aclInit(nullptr));
  uint32_t devices = 0;
  CHECK_ACL(aclrtGetDeviceCount(&devices));
  CHECK_ACL(aclrtSetDevice(rank % static_cast<int>(devices)));
  HcclRootInfo root;
  if (rank == 0) CHECK_HCCL(HcclGetRootInfo(&root));
  MPI_Bcast(&root, HCCL_ROOT_INFO_BYTES, MPI_CHAR, 0, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  HcclComm comm = nullptr;
  CHECK_HCCL(HcclCommInitRootInfo(size, &root, rank, &comm));
  aclrtStream stream = nullptr;
  CHECK_ACL(aclrtCreateStream(&stream));
  if (rank == 0) std::printf("%12s %14s %10s %s\n", "bytes", "us", "GB/s", "check");
  bool good = true;
  for (size_t bytes = 8; bytes <= (8 << 20); bytes *= 4) good = Measure(comm, stream, rank, size, bytes / 4) && good;
  CHECK_HCCL(HcclCommDestroy(comm));
  CHECK_ACL(aclrtDestroyStream(stream));
  CHECK_ACL(aclrtResetDevice(rank % static_cast<int>(devices)));
  CHECK_ACL(aclFinalize());
  MPI_Finalize();
  return good ? 0 : 1;
}
