#include "cost/links.h"

#include <algorithm>
#include <cmath>

#include "core/base/rounding.h"

namespace trireme {
namespace {

double Rate(const LinkRates& link, double gbs, double bytes) {
  return gbs * 1e9 * bytes / (bytes + link.half_mb * 1e6);
}

}  // namespace

int Links::Together(const GroupShape& group) const {
  const int node = static_cast<int>(device_.inside.ranks);
  return std::clamp(node / group.stride, 1, group.size);
}

double Links::Inside(int members, double bytes) const {
  if (members < 2 || bytes <= 0) return 0;
  const LinkRates& link = device_.inside;
  const double gbs = link.mesh ? link.gbs * (members - 1) : link.gbs;
  const double steps = link.mesh ? 1 : members - 1;
  return steps * link.alpha_us * 1e-6 + bytes / Rate(link, gbs, bytes);
}

double Links::Between(int nodes, double bytes) const {
  if (nodes < 2 || bytes <= 0) return 0;
  const LinkRates& link = device_.between;
  return std::ceil(std::log2(nodes)) * link.alpha_us * 1e-6 + bytes / Rate(link, link.gbs, bytes);
}

// Rings through all nodes: inside a node each rank moves nearly all bytes, and its own share of them leaves the node.
double Links::AllGather(const GroupShape& group, double bytes) const {
  if (group.size < 2) return 0;
  const int together = Together(group), nodes = DivideUp(group.size, together);
  const double inside = bytes * (together - 1) / together, between = bytes / together * (nodes - 1) / nodes;
  return std::max(Inside(together, inside), Between(nodes, between));
}

double Links::AllToAll(const GroupShape& group, double bytes) const {
  if (group.size < 2) return 0;
  const int together = Together(group), nodes = DivideUp(group.size, together);
  const double per_rank = bytes / group.size;
  return std::max(Inside(together, per_rank * (together - 1)), Between(nodes, per_rank * (group.size - together)));
}

double Links::Message(const GroupShape& group, double bytes) const {
  if (group.size < 2) return 0;
  return Together(group) > 1 ? Inside(2, bytes) : Between(2, bytes);
}

}  // namespace trireme
