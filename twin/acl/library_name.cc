// libacl_rt and libmsprofiler: names that programs for CANN link beside libascendcl. All functions are there.
extern "C" __attribute__((visibility("default"))) const char twin_library_name[] = "see libascendcl";
