#include "core/config/names.h"

#include <map>
#include <utility>

namespace trireme {
namespace {

std::map<std::string, std::vector<std::string>>& Offered() {
  static std::map<std::string, std::vector<std::string>> offered;
  return offered;
}

}  // namespace

void OfferNames(const std::string& key, std::vector<std::string> names) { Offered()[key] = std::move(names); }

std::vector<std::string> OfferedNames(const std::string& key) {
  const auto found = Offered().find(key);
  return found == Offered().end() ? std::vector<std::string>{} : found->second;
}

}  // namespace trireme
