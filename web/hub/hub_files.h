// Which files of a model on a hub are needed here: weights as safetensors, and the small files beside them. No torch.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// Of all files of a model those to download, with config.json (or adapter_config.json) at the end: a directory without
// it is not taken for a model, so that one whose download was interrupted is not used.
std::vector<std::string> NeededFiles(const std::vector<std::string>& all);

// config.json, or adapter_config.json.
bool MakesAModel(const std::string& file);

// Whether it may be the name of a file below a folder: no way out of it, no control characters.
bool IsSafeName(const std::string& file);

// As in an address; a path keeps its slashes.
std::string PercentEncoded(const std::string& text);
std::string PercentEncodedPath(const std::string& path);

}  // namespace trireme
