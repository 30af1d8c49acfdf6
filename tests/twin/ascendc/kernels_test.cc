// Kernels on streams, in both builds: blocks that wait for each other, and for each kind of mistake an error
// that names kernel, block, buffer and line.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "wrong_kernels_list.h"

// Read by the thread sanitizer: the checked build, not TSan, finds kernels that race on purpose.
extern "C" const char* __tsan_default_suppressions() { return "race:^wrong_race\n"; }

namespace {

constexpr uint32_t kCount = 1024;

using LaunchFunction = std::function<uint32_t(uint32_t, void*, void*, void*, uint32_t)>;

const std::map<std::string, LaunchFunction>& Kernels() {
  static const std::map<std::string, LaunchFunction> kernels = {WRONG_KERNELS_LIST};
  return kernels;
}

// Where the kernel's marked lines are, as error messages name them: "wrong_kernels.cpp:52".
std::vector<std::string> MarkedLines(const std::string& kernel) {
  std::vector<std::string> places;
  for (const std::string file : {"wrong_kernels.cpp", "wrong_block_kernels.cpp", "wrong_cube_kernels.cpp"}) {
    std::ifstream source(WRONG_KERNELS_FOLDER "/" + file);
    std::string line;
    bool inside = false;
    for (int number = 1; std::getline(source, line); ++number) {
      if (line.rfind("extern", 0) == 0) inside = line.find("void " + kernel + "(") != std::string::npos;
      if (inside && line.find("// wrong") != std::string::npos) {
        places.push_back(file + ":" + std::to_string(number));
      }
    }
  }
  return places;
}

class KernelRun : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const aclError once = aclInit(nullptr);
    ASSERT_EQ(once, ACL_SUCCESS);
  }
  void SetUp() override {
    ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
    ASSERT_EQ(aclrtCreateStream(&stream_), ACL_SUCCESS);
    for (void** memory : {&x_, &y_}) {
      ASSERT_EQ(aclrtMalloc(memory, kCount * sizeof(float), ACL_MEM_MALLOC_NORMAL_ONLY), ACL_SUCCESS);
      ASSERT_EQ(aclrtMemset(*memory, kCount * sizeof(float), 0, kCount * sizeof(float)), ACL_SUCCESS);
    }
  }
  void TearDown() override {
    unsetenv("TWIN_CHECKED");
    unsetenv("TWIN_AUTO_SYNC");
    aclrtResetDevice(0);
  }

  // The stream's error message after the kernel; empty on success.
  std::string Run(const std::string& kernel, uint32_t blocks) {
    EXPECT_EQ(Kernels().at(kernel)(blocks, stream_, x_, y_, kCount), 0u);
    if (aclrtSynchronizeStream(stream_) == ACL_SUCCESS) return "";
    const char* words = aclGetRecentErrMsg();
    return words == nullptr ? "failed without a message" : words;
  }

  aclrtStream stream_ = nullptr;
  void *x_ = nullptr, *y_ = nullptr;
};

TEST_F(KernelRun, BlocksSynchroniseAndAdd) {
  auto *x = static_cast<float*>(x_), *y = static_cast<float*>(y_);
  for (const char* checked : {"0", "1"}) {
    setenv("TWIN_CHECKED", checked, 1);
    for (const uint32_t blocks : {1u, 2u, 40u, 48u}) {
      for (uint32_t i = 0; i < kCount; ++i) x[i] = static_cast<float>(i) + 0.5f, y[i] = 0;
      EXPECT_EQ(Run("right_blocks", blocks), "") << blocks;
      for (uint32_t i = 0; i < blocks; ++i) EXPECT_EQ(y[i], 2 * x[i]) << i;
      EXPECT_EQ(y[kCount - 1], static_cast<float>(blocks * (blocks - 1))) << blocks;
      std::fill(x, x + kCount, 0.0f);
      y[kCount - 1] = y[kCount - 2] = 0;
      EXPECT_EQ(Run("right_relay", blocks), "") << blocks;
      EXPECT_EQ(y[kCount - 1], static_cast<float>(blocks)) << blocks;
      EXPECT_EQ(y[kCount - 2], static_cast<float>(blocks)) << blocks;
    }
  }
}

TEST_F(KernelRun, BlocksWaitForEachOther) {
  auto *x = static_cast<float*>(x_), *y = static_cast<float*>(y_);
  for (const char* checked : {"0", "1"}) {
    setenv("TWIN_CHECKED", checked, 1);
    for (const uint32_t blocks : {2u, 6u, 16u}) {
      std::fill(x, x + kCount, 0.0f), std::fill(y, y + kCount, 0.0f);
      EXPECT_EQ(Run("right_exchange", blocks), "") << blocks;
      for (uint32_t i = 0; i < blocks * 64; ++i) ASSERT_EQ(y[i], 3.0f) << i;
      EXPECT_EQ(Run("right_two_sets", blocks), "") << blocks;
      std::fill(y, y + kCount, 0.0f);
      EXPECT_EQ(Run("right_pairs", blocks), "") << blocks;
      for (uint32_t i = 0; i < blocks / 2 * 64; ++i) ASSERT_EQ(y[i], 4.0f) << i;
    }
  }
}

TEST_F(KernelRun, VectorFunctionsInOrderNeedNoAutomaticSynchronisation) {
  auto *x = static_cast<float*>(x_), *y = static_cast<float*>(y_);
  setenv("TWIN_CHECKED", "1", 1);
  setenv("TWIN_AUTO_SYNC", "0", 1);
  for (uint32_t i = 0; i < 64; ++i) x[i] = static_cast<float>(i);
  EXPECT_EQ(Run("right_vector_order", 1), "");
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(y[i], (x[i] + 1) * (i < 32 ? 2.0f : 3.0f) + 1) << i;
}

TEST_F(KernelRun, TensorsPassTheVectorUnitBy) {
  auto *x = static_cast<float*>(x_), *y = static_cast<float*>(y_);
  for (uint32_t i = 0; i < 64; ++i) x[i] = static_cast<float>(i);
  for (const char* auto_sync : {"0", "1"}) {
    setenv("TWIN_CHECKED", "1", 1);
    setenv("TWIN_AUTO_SYNC", auto_sync, 1);
    EXPECT_EQ(Run("right_passed_through", 1), "");
    for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(y[i], x[i % 64]) << i;
  }
}

// A product on a cube core, of numbers that need no rounding.
TEST_F(KernelRun, CubeCoresMultiply) {
  auto* x = static_cast<uint16_t*>(x_);
  for (uint32_t i = 0; i < 2 * kCount; ++i) x[i] = i % 3 == 0 ? 0x3c00 : (i % 5 == 0 ? 0xc000 : 0);  // 1, -2 or 0
  const auto value = [&](uint32_t i) { return x[i] == 0x3c00 ? 1.0f : (x[i] == 0xc000 ? -2.0f : 0.0f); };
  for (const char* checked : {"0", "1"}) {
    setenv("TWIN_CHECKED", checked, 1);
    EXPECT_EQ(Run("right_product", 1), "");
    for (uint32_t i = 0; i < kCount; ++i) {
      float wanted = 0;
      for (uint32_t k = 0; k < 32; ++k) wanted += value(i / 32 * 32 + k) * value(kCount + k * 32 + i % 32);
      ASSERT_EQ(static_cast<float*>(y_)[i], wanted) << i;
    }
  }
}

// No block is left that could end the wait: an error in the fast build too.
TEST_F(KernelRun, NobodyWaitsForever) {
  for (const char* kernel : {"wrong_sync_missed", "wrong_cross_core_never_set"}) {
    setenv("TWIN_CHECKED", "0", 1);
    EXPECT_NE(Run(kernel, 3).find("waits forever: all other blocks have ended or are waiting too"), std::string::npos);
    aclrtDestroyStreamForce(stream_);
    ASSERT_EQ(aclrtCreateStream(&stream_), ACL_SUCCESS);
  }
}

struct Wrong {
  const char *kernel, *words;  // part of the message, besides kernel, block and line
  uint32_t blocks = 1;
  const char* block = "";     // the block that is named; empty: any
  bool synchronised = false;  // correct with the compiler's automatic synchronisation
};

class WrongKernel : public KernelRun, public ::testing::WithParamInterface<Wrong> {
 protected:
  void ExpectNamed();
};

// With automatic synchronisation, the default, and without.
TEST_P(WrongKernel, IsNamedWithItsLine) {
  setenv("TWIN_CHECKED", "1", 1);
  setenv("TWIN_AUTO_SYNC", "0", 1);
  ExpectNamed();
  aclrtDestroyStreamForce(stream_);
  ASSERT_EQ(aclrtCreateStream(&stream_), ACL_SUCCESS);
  unsetenv("TWIN_AUTO_SYNC");
  if (GetParam().synchronised) {
    EXPECT_EQ(Run(GetParam().kernel, GetParam().blocks), "");
  } else {
    ExpectNamed();
  }
}

void WrongKernel::ExpectNamed() {
  const auto& [kernel, words, blocks, block, synchronised] = GetParam();
  const std::string said = Run(kernel, blocks);
  const auto says = [&](const std::string& part) { return said.find(part) != std::string::npos; };
  EXPECT_TRUE(says(std::string(kernel) + ": block " + (blocks == 1 ? "0" : block))) << said;
  EXPECT_TRUE(says(" of " + std::to_string(blocks) + ": ")) << said;
  EXPECT_TRUE(says(words)) << said;
  const std::vector<std::string> places = MarkedLines(kernel);
  ASSERT_FALSE(places.empty());
  bool at_one = false;
  for (const std::string& place : places) {
    const bool here = says(place + ")");
    at_one = at_one || here;
    const std::string line = place.substr(place.find(':') + 1);
    EXPECT_TRUE(here || says("line " + line + ")")) << place << ": " << said;
  }
  EXPECT_TRUE(at_one) << said;
}

INSTANTIATE_TEST_SUITE_P(
    Each, WrongKernel,
    ::testing::Values(Wrong{"wrong_capacity", "InitBuffer: 92160 bytes requested, but 102400 of 188416 are in use"},
                      Wrong{"wrong_alignment", "Adds: byte 12 of the VECIN queue of line"},
                      Wrong{"wrong_copy_alignment", "DataCopy: byte 4 of the TBuf of line"},
                      Wrong{"wrong_bounds", "Duplicate: bytes 0 to 260 of the TBuf of line"},
                      Wrong{"wrong_alloc", "AllocTensor: none of this VECOUT queue's 1 buffers is free"},
                      Wrong{"wrong_empty_queue", "DeQue: there is nothing in this VECIN queue"},
                      Wrong{"wrong_queued_twice", "EnQue: the VECIN queue of line"},
                      Wrong{"wrong_freed_twice", "FreeTensor: the VECIN queue of line"},
                      Wrong{"wrong_use_after_free", "buffer 0 is free: this pipe does not own its tensor"},
                      Wrong{"wrong_queue_of_another", "FreeTensor: the tensor does not belong to this VECOUT queue"},
                      Wrong{"wrong_never_freed", "never freed when the kernel ends"},
                      Wrong{"wrong_unwritten", "Exp: reads byte 40 of the TBuf of line"},
                      Wrong{"wrong_stale", "which was never written"},
                      Wrong{"wrong_global_read", "DataCopy: bytes 3968 to 4224 of global memory that has 4096"},
                      Wrong{"wrong_global_write", "DataCopyPad: bytes 4096 to 4100 of global memory that has 4096"},
                      Wrong{"wrong_allocation", "256 bytes of global memory outside any allocation"},
                      Wrong{"wrong_in_to_vector", "PIPE_V reads byte 0 of the TBuf"},
                      Wrong{"wrong_vector_to_out", "PIPE_MTE3 reads byte 0 of the TBuf"},
                      Wrong{"wrong_overwritten", "while PIPE_MTE3 may still read it (DataCopy, line"},
                      Wrong{"wrong_vector_to_scalar", "while PIPE_V may still write it (Duplicate, line", 1, "", true},
                      Wrong{"wrong_scalar_to_vector", "while PIPE_S may still write it (SetValue, line", 1, "", true},
                      Wrong{"wrong_scalar_overwritten", "while PIPE_S may still read it (GetValue, line", 1, "", true},
                      Wrong{"wrong_vector_order", "while PIPE_V may still write it (Duplicate, line", 1, "", true},
                      Wrong{"wrong_vector_overwritten", "while PIPE_V may still read it (Exp, line", 1, "", true},
                      Wrong{"wrong_vector_in_place", "while PIPE_V may still read it (Exp, line", 1, "", true},
                      Wrong{"wrong_scalar_barrier", "PipeBarrier: PIPE_S: the scalar unit waits for itself"},
                      Wrong{"wrong_in_to_scalar", "while PIPE_MTE2 may still write it (DataCopy, line", 1, "", true},
                      Wrong{"wrong_scalar_to_out", "PIPE_MTE3 reads byte 0 of the TBuf", 1, "", true},
                      Wrong{"wrong_in_to_out", "PIPE_MTE3 reads byte 0 of the VECIN queue"},
                      Wrong{"wrong_scalar_between_copies", "PIPE_MTE3 reads byte 0 of the VECIN queue", 1, "", true},
                      Wrong{"wrong_scalar_in_scratch", "while PIPE_MTE2 may still write it (DataCopy", 1, "", true},
                      Wrong{"wrong_scalar_beside_copies", "PIPE_MTE3 reads byte 0 of the TBuf"},
                      Wrong{"wrong_passed_to_vector", "PIPE_V reads byte 0 of the VECCALC queue"},
                      Wrong{"wrong_global_order", "PIPE_MTE2 reads global memory while PIPE_MTE3 may still write it"},
                      Wrong{"wrong_flag_never_waited", "flag PIPE_MTE2 to PIPE_V, id 3, is set and never waited for"},
                      Wrong{"wrong_flag_never_set", "flag 3 was never set"},
                      Wrong{"wrong_flag_set_twice", "flag 3 is already set"},
                      Wrong{"wrong_flag_id", "event id 8; wanted 0 to 7"},
                      Wrong{"wrong_cast_mode", "Cast: this pair of types needs a rounding mode"},
                      Wrong{"wrong_compare_rest", "CompareScalar: the count is not a multiple of 256 bytes"},
                      Wrong{"wrong_padding", "DataCopyPad: each padding is at most 32 bytes"},
                      Wrong{"wrong_open_padding", "Exp: reads byte 20 of the VECIN queue of line"},
                      Wrong{"wrong_in_one_block", "Duplicate: bytes 0 to 400 of the TBuf of line", 3, "1"},
                      Wrong{"wrong_sync_missed", "SyncAll: waits forever", 3},
                      Wrong{"wrong_race_of_writes", " writes bytes 0 to 256 of global memory, which block ", 2},
                      Wrong{"wrong_race_with_a_read", "bytes 0 to 256 of global memory, which block ", 2},
                      Wrong{"wrong_race_after_sync", "and nothing orders the two", 2},
                      Wrong{"wrong_race_with_an_atomic", " adds atomically to", 2},
                      Wrong{"wrong_race_of_scalars", " writes bytes 28 to 32 of global memory, which block ", 2},
                      Wrong{"wrong_race_between_pairs", " writes bytes 0 to 256 of global memory, which block ", 4},
                      Wrong{"wrong_cross_core_never_set", "this block has not set flag 5"},
                      Wrong{"wrong_cross_core_never_waited", "cross-core flag 5 is set and never waited for"},
                      Wrong{"wrong_cross_core_too_often", "flag 5 was set more than 16 times"},
                      Wrong{"wrong_cross_core_pipe", "the flag is set while PIPE_MTE3 may still write global memory"},
                      Wrong{"wrong_cross_core_pairs", "3 blocks do not form pairs", 3},
                      Wrong{"wrong_cross_core_cube", "mode 2 is between a cube core and its vector cores"},
                      Wrong{"wrong_cross_core_id", "flag ids are 0 to 15"},
                      Wrong{"wrong_wait_for_oneself", "a block cannot wait for itself"},
                      Wrong{"wrong_flag_workspace", "IBSet: the workspace needs 32 bytes per block and event"},
                      Wrong{"wrong_sync_workspace", "SyncAll: the local workspace needs 32 bytes per block"},
                      Wrong{"wrong_old_flag", "flag PIPE_MTE2 to PIPE_V, id 2, is set and never waited for"},
                      Wrong{"wrong_old_wait", "wait_flag: flag 2 was never set"},
                      Wrong{"wrong_operator", "Add: reads byte 0 of the TBuf of line"},
                      Wrong{"wrong_element", "operator(): bytes 4096 to 4100 of global memory that has 4096"},
                      Wrong{"wrong_local_element", "operator(): the tensor is not in any buffer of this core"},
                      Wrong{"wrong_tiling_key", "TILING_KEY_IS: no tiling key is set"},
                      Wrong{"wrong_merge",
                            "MrgSort: more than one repeat needs four contiguous lists of equal length"}),
    [](const auto& info) { return std::string(info.param.kernel); });

INSTANTIATE_TEST_SUITE_P(
    CubeCore, WrongKernel,
    ::testing::Values(
        Wrong{"wrong_cube_copied", "PIPE_MTE1 reads byte 0 of the TBuf"},
        Wrong{"wrong_cube_loaded", "PIPE_M reads byte 0 of the TBuf"},
        Wrong{"wrong_cube_multiplied", "PIPE_FIX reads byte 0 of the TBuf"},
        Wrong{"wrong_cube_flag", "while PIPE_M may still write it (Mmad, line"},
        Wrong{"wrong_cube_loaded_again", "while PIPE_M may still read it (Mmad, line"},
        Wrong{"wrong_cube_copied_again", "while PIPE_MTE1 may still read it (LoadData, line"},
        Wrong{"wrong_cube_multiplied_again", "while PIPE_FIX may still read it (Fixpipe, line"},
        Wrong{"wrong_cube_order_of_a",
              "fractal 0, 1 of A (ZZ) is from row 16, column 0, the first of its lanes from row 0, column 0"},
        Wrong{"wrong_cube_order_of_b",
              "fractal 0, 1 of B (ZN) is from row 0, column 16, the first of its lanes from row 0, column 0"},
        Wrong{"wrong_cube_loaded_twice", "it was loaded twice"},
        Wrong{"wrong_cube_lanes", "not 16 adjacent lanes of one matrix"},
        Wrong{"wrong_cube_k", "along k, fractal 1 of A is 16 after the first, of B -16"},
        Wrong{"wrong_cube_tail", "LoadData: reads byte 960 of the TBuf"},
        Wrong{"wrong_cube_stale", "the A1 queue of line"},
        Wrong{"wrong_cube_alignment", "is 32 bytes past a multiple of 512"},
        Wrong{"wrong_cube_capacity", "81920 bytes requested, but 0 of 65536 of L0A are in use"},
        Wrong{"wrong_cube_beyond_buffer", "a fractal is beyond the source's tensor"},
        Wrong{"wrong_cube_core", "a vector core has no A1 buffers"},
        Wrong{"wrong_cube_unified_buffer", "a cube core has no VECIN buffers"},
        Wrong{"wrong_cube_operand", "A1 is loaded into A2, B1 into B2"},
        Wrong{"wrong_cube_wide_transpose", "ifTranspose needs a 16-bit type"},
        Wrong{"wrong_cube_one_row", "m = 1 is a matrix-vector product"},
        Wrong{"wrong_cube_small_sum", "call PipeBarrier<PIPE_M>() in between"},
        Wrong{"wrong_cube_uninitialised_sum", "Mmad: reads byte 0 of the TBuf"},
        Wrong{"wrong_cube_unit_open", "left its unit flag open"},
        Wrong{"wrong_cube_unit_ignored", "set a unit flag; give Fixpipe unitFlag 3"},
        Wrong{"wrong_cube_unit_never_set", "unitFlag 3, but no product set a unit flag"},
        Wrong{"wrong_cube_unit_closed", "no Fixpipe with unitFlag 3 came since"},
        Wrong{"wrong_cube_columns_overlap", "columns of nValue rows overlap"},
        Wrong{"wrong_cube_quantisation", "quantPre does not convert between these types"},
        Wrong{"wrong_cube_stride", "srcStride is the padded m, a multiple of 16"},
        Wrong{"wrong_cube_beyond_result", "of global memory that has 4096"},
        Wrong{"wrong_cube_result_read", "PIPE_MTE2 reads global memory while PIPE_FIX may still write it"},
        Wrong{"wrong_cube_path", "there is no such path"},
        Wrong{"wrong_cube_race", "of global memory, which block ", 2}),
    [](const auto& info) { return std::string(info.param.kernel); });

// Every kernel of the two files is in the table above: none is missing.
TEST(WrongKernels, AreAllProvoked) {
  std::ifstream table(KERNELS_TEST_SOURCE);
  const std::string text(std::istreambuf_iterator<char>(table), {});
  for (const auto& [kernel, launch] : Kernels()) {
    EXPECT_NE(text.find("\"" + kernel + "\""), std::string::npos) << kernel;
  }
  EXPECT_GT(Kernels().size(), 30u);
}

}  // namespace
