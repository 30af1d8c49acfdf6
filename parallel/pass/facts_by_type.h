// FactsByType: what an objective knows of a micro batch, or of the whole batch, beside what every pass needs. At most
// one value of each type. The type belongs to the objective that reads it (parallel/objectives); whoever prepares the
// batch fills it in; the layers between know none of them. No torch.
#pragma once

#include <any>
#include <map>
#include <typeindex>

namespace trireme {

class FactsByType {
 public:
  // An empty one where nobody filled it in.
  template <typename Facts>
  const Facts& Get() const {
    static const Facts kEmpty = {};
    const auto found = facts_.find(typeid(Facts));
    return found == facts_.end() ? kEmpty : *std::any_cast<Facts>(&found->second);
  }

  template <typename Facts>
  Facts& Edit() {
    std::any& facts = facts_[typeid(Facts)];
    if (!facts.has_value()) facts = Facts{};
    return *std::any_cast<Facts>(&facts);
  }

 private:
  std::map<std::type_index, std::any> facts_;
};

}  // namespace trireme
