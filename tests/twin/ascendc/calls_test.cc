// Kernels called as functions, without a stream: ICPU_RUN_KF runs all blocks before it returns.
#include <gtest/gtest.h>

#include "tikicpulib.h"

namespace {

struct Work {
  uint32_t count;
  float factor;
};

extern "C" __global__ __aicore__ void called(GM_ADDR x, GM_ADDR y, Work work) {
  using namespace AscendC;
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 32);
  GlobalTensor<float> in, out;
  in.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x), work.count);
  out.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y), work.count);
  const auto block = static_cast<uint32_t>(GetBlockIdx());
  DataCopy(buffer.Get<float>(), in[block * 8], 8);
  PipeBarrier<PIPE_ALL>();
  if (TILING_KEY_IS(1)) Muls(buffer.Get<float>(), buffer.Get<float>(), work.factor, 8);
  if (TILING_KEY_IS(2)) Adds(buffer.Get<float>(), buffer.Get<float>(), work.factor, 8);
  PipeBarrier<PIPE_ALL>();
  SyncAll();
  DataCopy(out[(block + 1) % static_cast<uint32_t>(GetBlockNum()) * 8], buffer.Get<float>(), 8);
}

// A block that waits for nobody.
extern "C" __global__ __aicore__ void stuck(GM_ADDR x) {
  if (AscendC::GetBlockIdx() == 0) AscendC::SyncAll();
}

TEST(Called, RunsEveryBlockWithItsStructAndKey) {
  AscendC::SetKernelMode(AscendC::KernelMode::AIV_MODE);
  auto *x = static_cast<float*>(AscendC::GmAlloc(24 * sizeof(float))),
       *y = static_cast<float*>(AscendC::GmAlloc(24 * sizeof(float)));
  for (int i = 0; i < 24; ++i) x[i] = static_cast<float>(i);
  for (const uint64_t key : {1u, 2u}) {
    ICPU_SET_TILING_KEY(key);
    ICPU_RUN_KF(called, 3, reinterpret_cast<uint8_t*>(x), reinterpret_cast<uint8_t*>(y), Work{24, 3.0f});
    for (int i = 0; i < 24; ++i)
      EXPECT_EQ(y[(i + 8) % 24], key == 1 ? static_cast<float>(i) * 3 : static_cast<float>(i) + 3) << i;
  }
  AscendC::GmFree(x);
  AscendC::GmFree(y);
}

TEST(CalledDeathTest, EndsWithTheFailureMessage) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(ICPU_RUN_KF(stuck, 2, static_cast<uint8_t*>(nullptr)), testing::ExitedWithCode(1),
              "stuck: block 0 of 2: SyncAll: waits forever");
}

}  // namespace
