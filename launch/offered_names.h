// Registers the names that --help shows with their keys, from the lists themselves.
#pragma once

namespace trireme {

void OfferNamesOfLists();

}  // namespace trireme
