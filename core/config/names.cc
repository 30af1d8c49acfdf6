#include "core/config/names.h"

#include <map>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

struct Offer {
  std::vector<std::string> names, meanings;
};

std::map<std::string, Offer>& Offers() {
  static std::map<std::string, Offer> offers;
  return offers;
}

const Offer& OfferFor(const std::string& key) {
  static const Offer none;
  const auto found = Offers().find(key);
  return found == Offers().end() ? none : found->second;
}

}  // namespace

void OfferNames(const std::string& key, std::vector<std::string> names, std::vector<std::string> meanings) {
  TRIREME_CHECK(meanings.empty() || meanings.size() == names.size()) << key;
  Offers()[key] = {std::move(names), std::move(meanings)};
}

std::vector<std::string> OfferedNames(const std::string& key) { return OfferFor(key).names; }
std::vector<std::string> OfferedMeanings(const std::string& key) { return OfferFor(key).meanings; }

}  // namespace trireme
