// Which build this is. The checked build knows the source location of each call; in the fast build the
// location is empty and costs nothing. Besides policy.h, the only file that asks which build it is.
#pragma once

#include "ascendc/core.h"

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
  uint32_t call;  // the same for all that one call in a kernel touches
  static Where Here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line, ++twin::ascendc::ThisCore().calls};
  }
};
#else
struct Where {
  static constexpr Where Here() { return {}; }
};
#endif

}  // namespace TWIN_ASCENDC_BUILD
}  // namespace AscendC
