// A kernel that leaves the order of the scalar and the vector unit to the compiler, in a library that is
// built without its help.
#include "kernel_operator.h"

extern "C" __global__ __aicore__ void unsynchronised(GM_ADDR x, GM_ADDR y) {
  AscendC::TPipe pipe;
  AscendC::TBuf<> buffer;
  pipe.InitBuffer(buffer, 256);
  AscendC::LocalTensor<float> tensor = buffer.Get<float>();
  AscendC::Duplicate(tensor, 1.0f, 64);
  AscendC::Duplicate(tensor, tensor.GetValue(0), 64);
}
