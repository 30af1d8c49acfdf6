// The list: one line a system.
#include "translate/system.h"

namespace trireme {

const std::vector<const System*>& Systems() {
  static const std::vector<const System*> systems = {
      &SwiftSystem(), &MegatronSwiftSystem(), &LlamaFactorySystem(), &MegatronSystem(),
      &TrlSystem(),   &VerlSystem(),          &VerlSftSystem(),
  };
  return systems;
}

}  // namespace trireme
