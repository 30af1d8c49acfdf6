// Numbers of the host, added up over all ranks of a session on its device, in single precision. Collective.
#pragma once

#include <vector>

#include "session/session.h"

namespace trireme {

std::vector<double> SumOverRanks(const std::vector<double>& values, Session& session);
// In place; the same shape on every rank.
void SumOverRanks(std::vector<float>& values, Session& session);
void SumOverRanks(std::vector<std::vector<float>>& rows, Session& session);

}  // namespace trireme
