// Edit distance by dynamic programming; a swap of neighbours counts once, being the most common typo.
#include "core/base/nearest.h"

#include <algorithm>

namespace trireme {

int EditDistance(const std::string& a, const std::string& b) {
  const int rows = static_cast<int>(a.size()), columns = static_cast<int>(b.size());
  std::vector<std::vector<int>> cost(rows + 1,
                                     std::vector<int>(columns + 1));  // of a's first i and b's first j
  for (int i = 0; i <= rows; ++i) cost[i][0] = i;
  for (int j = 0; j <= columns; ++j) cost[0][j] = j;
  for (int i = 1; i <= rows; ++i) {
    for (int j = 1; j <= columns; ++j) {
      const int replace = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replace});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[rows][columns];
}

std::optional<std::string> Nearest(const std::string& word, const std::vector<std::string>& known) {
  std::optional<std::string> nearest;
  int least = static_cast<int>(word.size()) / 3 + 1;
  for (const std::string& candidate : known) {
    const int distance = EditDistance(word, candidate);
    if (distance < least || (distance == least && !nearest)) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace trireme
