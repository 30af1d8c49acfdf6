// Which build this is. The checked one knows for each call where in the kernel it stands; in the fast one
// that place is empty and costs nothing. The only file that asks which build it is, but for policy.h.
#pragma once

#ifdef TWIN_ASCENDC_CHECKED
#define TWIN_ASCENDC_BUILD checked
#else
#define TWIN_ASCENDC_BUILD fast
#endif

namespace AscendC {
inline namespace TWIN_ASCENDC_BUILD {

#ifdef TWIN_ASCENDC_CHECKED
struct Where {
  const char* file;
  int line;
  static constexpr Where Here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};
#else
struct Where {
  static constexpr Where Here() { return {}; }
};
#endif

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
