// A kernel that relies on the compiler to order the scalar and the vector unit, in a library built without
// automatic synchronisation.
#include "kernel_operator.h"

extern "C" __global__ __aicore__ void unsynchronised(GM_ADDR x, GM_ADDR y) {
  AscendC::TPipe pipe;
  AscendC::TBuf<> buffer;
  pipe.InitBuffer(buffer, 256);
  AscendC::LocalTensor<float> tensor = buffer.Get<float>();
  AscendC::Duplicate(tensor, 1.0f, 64);
  AscendC::Duplicate(tensor, tensor.GetValue(0), 64);
}
