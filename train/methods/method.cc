#include "train/methods/method.h"

#include "train/step/model_folders.h"

namespace trireme {

std::vector<OtherModel> SavedModels(Reference* reference) {
  if (reference == nullptr || reference->saved() == nullptr) return {};
  return {{.name = "reference", .folder = kReferenceFolder, .session = reference->saved()}};
}

}  // namespace trireme
