// How a kernel for the host gets onto a stream of the twin: what the generated aclrtlaunch_<kernel> functions
// call. Knows blocks and arguments only; what a block may do on its core is the kernel interface's matter.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// One block of a kernel. `args` are the launch's arguments, the same for all blocks, aligned for any type.
// May throw: the launch, and with it the stream, then fails with ACL_ERROR_RT_AICORE_EXCEPTION and the
// exception's text.
typedef void (*TwinKernelBody)(uint32_t block, uint32_t blocks, const void* args);

// Queues blocks 0 … blocks-1 on the stream (nullptr: the default one) and returns; `args` are copied. An
// aclError. The blocks run on as many threads as there are cores; a further one joins for each that waits
// (twinBlockWaits).
__attribute__((visibility("default"))) int twinLaunchKernel(const char* name, uint32_t blocks, void* stream,
                                                            TwinKernelBody body, const void* args,
                                                            size_t args_bytes);

// Instead of a stream: the launch runs at once on the calling thread and up to `threads` - 1 others, and its
// error is the launch's result. For programs whose tensors lie in plain host memory; needs no device.
__attribute__((visibility("default"))) void* twinCallersThreads(uint32_t threads);

// Whether the bytes lie within one allocation, where they lie in a device's memory at all.
__attribute__((visibility("default"))) int twinIsAllocated(const void* pointer, size_t bytes);

// A block calls it before it waits for another block of its launch, once for each wait: only then is it
// certain that all blocks come to life at once. Does nothing on other threads.
__attribute__((visibility("default"))) void twinBlockWaits(void);

// Whether a block of the caller's launch has failed or the stream is being aborted, so that waiting on is in
// vain.
__attribute__((visibility("default"))) int twinLaunchFailed(void);

#ifdef __cplusplus
}
#endif
