// Library names that programs for CANN, or the torch_npu wheel, link beside libascendcl. A symbol looked up
// in such a library resolves to the one in libascendcl, which it links.
extern "C" __attribute__((visibility("default"))) const char twin_library_name[] = "see libascendcl";
