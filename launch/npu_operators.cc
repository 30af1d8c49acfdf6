#include "launch/npu_operators.h"

#include <iostream>

#include "core/npu/operators.h"

namespace trireme {

Json NpuOperatorFacts() {
  Json facts = {{"there", 0}, {"used", 0}, {"missing", Json::array()}, {"operators", Json::array()}};
  int there = 0, used = 0;
  for (const NpuOperator& entry : ListNpuOperators()) {
    there += entry.there ? 1 : 0;
    used += entry.used ? 1 : 0;
    if (entry.used && !entry.there) facts["missing"].push_back(entry.name);
    facts["operators"].push_back({{"name", entry.name},
                                  {"used", entry.used},
                                  {"there", entry.there},
                                  {"calls", entry.calls},
                                  {"largest_bytes", entry.largest_bytes}});
  }
  facts["there"] = there;
  facts["used"] = used;
  return facts;
}

void PrintNpuOperators(const Json& facts) {
  std::cout << "aclnn operators on device npu: * is used by Trireme, - is missing\n";
  for (const Json& entry : facts["operators"]) {
    const bool there = entry["there"].get<bool>();
    std::cout << (!there ? "- " : entry["used"].get<bool>() ? "* " : "  ") << entry["name"].get<std::string>() << "\n";
  }
  std::cout << facts["there"] << " exist; " << facts["used"] << " are used, " << facts["missing"].size()
            << " of them missing\n";
}

}  // namespace trireme
