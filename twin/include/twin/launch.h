// How a host kernel is launched on a stream of the twin: what the generated aclrtlaunch_<kernel> functions
// call. Knows only blocks and arguments; what a block may do on its core is up to the kernel interface.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// One block of a kernel. `args` are the launch's arguments, the same for all blocks, aligned for any type.
// May throw: the launch, and with it the stream, then fails with ACL_ERROR_RT_AICORE_EXCEPTION and the
// exception's message.
typedef void (*TwinKernelBody)(uint32_t block, uint32_t blocks, const void* args);

// Queues blocks 0 … blocks-1 on the stream (nullptr: the default stream) and returns an aclError; `args` are
// copied. The blocks run on as many threads as there are cores; one more joins for each block that waits
// (twinBlockWaits).
__attribute__((visibility("default"))) int twinLaunchKernel(const char* name, uint32_t blocks, void* stream,
                                                            TwinKernelBody body, const void* args, size_t args_bytes);

// Without a stream: the launch runs at once on the calling thread and up to `threads` - 1 others, and its
// error is the return value. For programs whose tensors are in plain host memory; needs no device.
__attribute__((visibility("default"))) void* twinCallersThreads(uint32_t threads);

// For addresses in device memory: whether the bytes lie within one allocation. True for any other address.
__attribute__((visibility("default"))) int twinIsAllocated(const void* pointer, size_t bytes);

// A block calls it before each wait for another block of its launch: only then are all blocks guaranteed to
// be running at the same time. Does nothing on other threads.
__attribute__((visibility("default"))) void twinBlockWaits(void);

// Whether a block of the caller's launch has failed or the stream is being aborted, so that waiting any
// longer is pointless.
__attribute__((visibility("default"))) int twinLaunchFailed(void);

#ifdef __cplusplus
}
#endif
