// Names that --help shows beside their keys, from the lists themselves.
#pragma once

namespace trireme {

void OfferNamesOfLists();

}  // namespace trireme
