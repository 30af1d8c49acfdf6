// Keys whose values are names of a list that lives above core/, such as the schedules: whoever has the list
// offers its names. --help then shows them, and a value that is none of them is refused where it is read;
// items of a list of names are the list's own to refuse.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// key: "parallel.schedule". Once, when the program starts. `meanings`: one for each name, or none.
void OfferNames(const std::string& key, std::vector<std::string> names,
                std::vector<std::string> meanings = {});

// Nothing where nobody has offered any.
std::vector<std::string> OfferedNames(const std::string& key);
std::vector<std::string> OfferedMeanings(const std::string& key);

}  // namespace trireme
