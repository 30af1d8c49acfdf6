// Models by their name on a hub ("Qwen/Qwen3-8B"): where huggingface_hub and ModelScope keep what they have downloaded. Looks at
// directories only; downloads nothing.
#pragma once

#include <string>

namespace trireme {

// A path that exists is returned as it is, and so is anything that is not shaped like a name: OWNER/NAME, perhaps with @REVISION.
// Otherwise the directory of that model in a local cache. An input error, which begins with `key`, says where it was looked for.
std::string ModelDirectory(const std::string& path, const std::string& key);

}  // namespace trireme
