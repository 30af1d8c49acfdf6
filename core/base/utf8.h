// Whether bytes are UTF-8, for texts from files of unknown origin.
#pragma once

#include <string_view>

namespace trireme {

// The index of the first byte that is not part of a character (overlong forms and surrogates are none); npos: there is
// none.
size_t FirstNotUtf8(std::string_view text);

}  // namespace trireme
