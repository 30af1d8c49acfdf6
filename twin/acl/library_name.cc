// Names that programs for CANN, or the torch_npu wheel, link beside libascendcl. All functions are there: who
// looks one up in such a library finds it in the one that it links.
extern "C" __attribute__((visibility("default"))) const char twin_library_name[] = "see libascendcl";
