// Keys whose values are names of a list that lives above core/, such as the operators: whoever has the list
// offers its names, and --help shows them. Refusing other names is the list's own business.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// key: "ops.off". Once, when the program starts.
void OfferNames(const std::string& key, std::vector<std::string> names);

// Nothing where nobody has offered any.
std::vector<std::string> OfferedNames(const std::string& key);

}  // namespace trireme
