// Small kernels of one cube core, each wrong in one way; right_product is what they should have been. The line that the
// checked build must name is marked `wrong`.
#include "kernel_operator.h"

using namespace AscendC;

namespace {

constexpr uint32_t kSize = 32, kFractal = 256;  // 32 x 32 halves: four fractals

// C = A B of 32 x 32 halves: A is the first half of x, B the second, C is y.
struct Cube {
  TPipe pipe;
  TBuf<TPosition::A1> a1;
  TBuf<TPosition::B1> b1;
  TBuf<TPosition::A2> a2;
  TBuf<TPosition::B2> b2;
  TBuf<TPosition::CO1> co1;
  GlobalTensor<half> left, right;
  GlobalTensor<float> result;
  LocalTensor<half> a, b, l0a, l0b;
  LocalTensor<float> c;
  LoadData2DParams rows{0, 2, 2, 0, 0, false, 0}, columns{0, 2, 2, 0, 0, true, 0};
  MmadParams product{kSize, kSize, kSize, 0, false, true};
  FixpipeParamsV220 out{kSize, kSize, kSize, kSize, false};

  __aicore__ inline Cube(GM_ADDR x, GM_ADDR y, uint32_t n) {
    left.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(x), n);
    right.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(x) + n, n);
    result.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y), n);
    pipe.InitBuffer(a1, 2 * kSize * kSize);
    pipe.InitBuffer(b1, 2 * kSize * kSize);
    pipe.InitBuffer(a2, 4 * kSize * kSize);
    pipe.InitBuffer(b2, 4 * kSize * kSize);
    pipe.InitBuffer(co1, 4 * kSize * kSize);
    a = a1.Get<half>(), b = b1.Get<half>(), l0a = a2.Get<half>(), l0b = b2.Get<half>(), c = co1.Get<float>();
  }
  template <HardEvent event>
  __aicore__ inline void Wait() {
    SetFlag<event>(0);
    WaitFlag<event>(0);
  }
  __aicore__ inline Nd2NzParams Whole(uint16_t height = kSize) const {
    return {1, height, kSize, 0, kSize, kSize, 1, 1};
  }
  __aicore__ inline void Copied() {
    DataCopy(a, left, Whole());
    DataCopy(b, right, Whole());
    Wait<HardEvent::MTE2_MTE1>();
  }
  __aicore__ inline void LoadsA() {
    for (uint32_t i = 0; i < 2; ++i) LoadData(l0a[i * 2 * kFractal], a[i * kFractal], rows);
  }
  __aicore__ inline void LoadsB() {
    for (uint32_t i = 0; i < 2; ++i) LoadData(l0b[i * 2 * kFractal], b[i * kFractal], columns);
  }
  __aicore__ inline void Loaded() {
    Copied();
    LoadsA();
    LoadsB();
    Wait<HardEvent::MTE1_M>();
  }
  __aicore__ inline void Multiplied() {
    Loaded();
    Mmad(c, l0a, l0b, product);
    Wait<HardEvent::M_FIX>();
  }
};

}  // namespace

#define ON_CUBE_CORES KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY)

extern "C" __global__ __aicore__ void right_product(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Multiplied();
  Fixpipe(cube.result, cube.c, cube.out);
}

extern "C" __global__ __aicore__ void wrong_cube_copied(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  DataCopy(cube.a, cube.left, cube.Whole());
  LoadData(cube.l0a, cube.a, cube.rows);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_loaded(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Copied();
  cube.LoadsA();
  cube.LoadsB();
  Mmad(cube.c, cube.l0a, cube.l0b, cube.product);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_multiplied(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Loaded();
  Mmad(cube.c, cube.l0a, cube.l0b, cube.product);
  Fixpipe(cube.result, cube.c, cube.out);  // wrong
}

// The flag is of another pipe.
extern "C" __global__ __aicore__ void wrong_cube_flag(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Loaded();
  Mmad(cube.c, cube.l0a, cube.l0b, cube.product);
  cube.Wait<HardEvent::MTE1_FIX>();
  Fixpipe(cube.result, cube.c, cube.out);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_loaded_again(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Multiplied();
  LoadData(cube.l0a, cube.a, cube.rows);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_copied_again(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Loaded();
  DataCopy(cube.b, cube.left, cube.Whole());  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_multiplied_again(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Multiplied();
  Fixpipe(cube.result, cube.c, cube.out);
  Mmad(cube.c, cube.l0a, cube.l0b, cube.product);  // wrong
}

// As they are in L1: columns of fractals.
extern "C" __global__ __aicore__ void wrong_cube_order_of_a(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Copied();
  LoadData(cube.l0a, cube.a, {0, 4, 1, 0, 0, false, 0});
  cube.LoadsB();
  cube.Wait<HardEvent::MTE1_M>();
  Mmad(cube.c, cube.l0a, cube.l0b, cube.product);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_order_of_b(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Copied();
  cube.LoadsA();
  LoadData(cube.l0b, cube.b, {0, 4, 1, 0, 0, true, 0});
  cube.Wait<HardEvent::MTE1_M>();
  Mmad(cube.c, cube.l0a, cube.l0b, cube.product);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_loaded_twice(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Copied();
  for (uint32_t i = 0; i < 2; ++i)
    LoadData(cube.l0a[i * 2 * kFractal], cube.a[i * kFractal], {0, 2, 0, 0, 0, false, 0});
  cube.LoadsB();
  cube.Wait<HardEvent::MTE1_M>();
  Mmad(cube.c, cube.l0a, cube.l0b, cube.product);  // wrong
}

// From the middle of one fractal to the middle of the next.
extern "C" __global__ __aicore__ void wrong_cube_lanes(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Copied();
  cube.LoadsA();
  cube.LoadsB();
  LoadData(cube.l0a, cube.a[kFractal + 8 * 16], {0, 1, 1, 0, 0, false, 0});
  cube.Wait<HardEvent::MTE1_M>();
  Mmad(cube.c, cube.l0a, cube.l0b, cube.product);  // wrong
}

// B's second half of k comes first.
extern "C" __global__ __aicore__ void wrong_cube_k(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Copied();
  cube.LoadsA();
  for (uint32_t i = 0; i < 2; ++i) LoadData(cube.l0b[(1 - i) * 2 * kFractal], cube.b[i * kFractal], cube.columns);
  cube.Wait<HardEvent::MTE1_M>();
  Mmad(cube.c, cube.l0a, cube.l0b, cube.product);  // wrong
}

// The last two rows of B were never copied, and nothing cleared them.
extern "C" __global__ __aicore__ void wrong_cube_tail(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  DataCopy(cube.b, cube.right, cube.Whole(30));
  cube.Wait<HardEvent::MTE2_MTE1>();
  LoadData(cube.l0b, cube.b[kFractal], cube.columns);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_stale(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  TPipe pipe;
  TQue<TPosition::A1, 1> a1;
  TBuf<TPosition::A2> a2;
  pipe.InitBuffer(a1, 1, 512);
  pipe.InitBuffer(a2, 512);
  GlobalTensor<half> left;
  left.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(x), n);
  LocalTensor<half> tile = a1.AllocTensor<half>();
  DataCopy(tile, left, Nd2NzParams{1, 16, 16, 0, 16, 16, 1, 1});
  a1.EnQue(tile);
  tile = a1.DeQue<half>();
  a1.FreeTensor(tile);
  LoadData(a2.Get<half>(), tile, LoadData2DParams{0, 1, 1, 0, 0, false, 0});  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_alignment(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Copied();
  LoadData(cube.l0a[16], cube.a, cube.rows);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_capacity(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  TPipe pipe;
  TQue<TPosition::A2, 2> a2;
  pipe.InitBuffer(a2, 2, 40 * 1024);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_beyond_buffer(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Copied();
  LoadData(cube.l0a, cube.a, {0, 5, 1, 0, 0, false, 0});  // wrong
}

// No KERNEL_TASK_TYPE_DEFAULT: vector cores.
extern "C" __global__ __aicore__ void wrong_cube_core(GM_ADDR x, GM_ADDR y, uint32_t n) {
  TPipe pipe;
  TBuf<TPosition::A1> a1;
  pipe.InitBuffer(a1, 512);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_unified_buffer(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  pipe.InitBuffer(in, 1, 512);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_operand(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Copied();
  LoadData(cube.l0a, cube.b, cube.rows);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_wide_transpose(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Copied();
  LoadData(cube.b2.Get<float>(), cube.b1.Get<float>(), cube.columns);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_one_row(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Loaded();
  cube.product.m = 1;
  Mmad(cube.c, cube.l0a, cube.l0b, cube.product);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_small_sum(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Loaded();
  Mmad(cube.c, cube.l0a, cube.l0b, cube.product);
  cube.product.cmatrixInitVal = false;
  Mmad(cube.c, cube.l0a, cube.l0b, cube.product);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_uninitialised_sum(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Loaded();
  cube.product.cmatrixInitVal = false;
  Mmad(cube.c, cube.l0a, cube.l0b, cube.product);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_unit_open(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.product.unitFlag = 2;
  cube.Multiplied();
  cube.out.unitFlag = 3;
  Fixpipe(cube.result, cube.c, cube.out);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_unit_ignored(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.product.unitFlag = 3;
  cube.Multiplied();
  Fixpipe(cube.result, cube.c, cube.out);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_unit_never_set(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Multiplied();
  cube.out.unitFlag = 3;
  Fixpipe(cube.result, cube.c, cube.out);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_unit_closed(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.product.unitFlag = 3;
  cube.Multiplied();
  Mmad(cube.c, cube.l0a, cube.l0b, cube.product);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_columns_overlap(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  DataCopy(cube.a, cube.left, Nd2NzParams(1, kSize, kSize, 0, kSize, 16, 1, 1));  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_quantisation(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Multiplied();
  Fixpipe(cube.left, cube.c, cube.out);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_stride(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Multiplied();
  cube.out.mSize = 24, cube.out.srcStride = 24;
  Fixpipe(cube.result, cube.c, cube.out);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_beyond_result(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Multiplied();
  Fixpipe(cube.result[16], cube.c, cube.out);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_result_read(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Multiplied();
  Fixpipe(cube.result, cube.c, cube.out);
  cube.Wait<HardEvent::MTE1_MTE2>();
  DataCopy(cube.a1.Get<float>(), cube.result, 64);  // wrong
}

extern "C" __global__ __aicore__ void wrong_cube_path(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Copied();
  DataCopy(cube.l0a, cube.a, 256);  // wrong
}

// Both blocks write all of C.
extern "C" __global__ __aicore__ void wrong_cube_race(GM_ADDR x, GM_ADDR y, uint32_t n) {
  ON_CUBE_CORES;
  Cube cube(x, y, n);
  cube.Multiplied();
  Fixpipe(cube.result, cube.c, cube.out);  // wrong
}
