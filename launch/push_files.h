// What `trireme push` sends of a directory, and the model card that goes with it. Opens no connection.
#pragma once

#include <string>
#include <vector>

#include "web/hub/upload_file.h"

namespace trireme {

struct PushedFiles {
  std::vector<UploadFile> files;      // in the order of their paths
  std::vector<std::string> left_out;  // optimizer states, hidden and unfinished files
  bool has_made_card = false;         // the directory has no README.md: one is among the files
};

// Of a Hugging Face directory with weights, or a PEFT adapter. An input error for others: a checkpoint, a directory
// without weights or without those that its index names.
PushedFiles FilesToPush(const std::string& directory, const std::string& name);

}  // namespace trireme
