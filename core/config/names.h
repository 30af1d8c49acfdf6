// Keys whose values are names from a list that lives above core/, such as the schedules: the owner of the
// list registers its names. --help then shows them, and any other value is refused where it is read; items of
// a list of names are validated by the list's owner.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// key: "parallel.schedule". Once, when the program starts. `meanings`: one for each name, or none.
void OfferNames(const std::string& key, std::vector<std::string> names, std::vector<std::string> meanings = {});

// Empty if none were registered.
std::vector<std::string> OfferedNames(const std::string& key);
std::vector<std::string> OfferedMeanings(const std::string& key);

}  // namespace trireme
