#include "train/methods/method.h"

namespace trireme {

std::vector<SavedModel> SavedModels(Reference* reference) {
  if (reference == nullptr || reference->saved() == nullptr) return {};
  return {{.what = *reference->second(), .session = reference->saved()}};
}

}  // namespace trireme
