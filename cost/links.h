// How long messages and collectives of a group take on a device's links: latency, bandwidth, and the message size at
// which half of it is reached. A group is where the mesh puts it: every stride-th rank. Knows no tensor.
#pragma once

#include "cost/device.h"

namespace trireme {

struct GroupShape {
  int size = 1;
  int stride = 1;  // between neighbours, in ranks
};

class Links {
 public:
  explicit Links(const DeviceRates& device) : device_(device) {}

  // Seconds. bytes: of the whole result of a gather, of the whole input of a reduction, of what each rank sends.
  double AllGather(const GroupShape& group, double bytes) const;
  double ReduceScatter(const GroupShape& group, double bytes) const { return AllGather(group, bytes); }
  double AllReduce(const GroupShape& group, double bytes) const { return 2 * AllGather(group, bytes); }
  double AllToAll(const GroupShape& group, double bytes) const;
  double Message(const GroupShape& group, double bytes) const;  // between neighbours

  // Members of such a group that are in one node.
  int Together(const GroupShape& group) const;

 private:
  // Bytes that a rank exchanges with the others of its node, in equal parts.
  double Inside(int members, double bytes) const;
  double Between(int nodes, double bytes) const;

  const DeviceRates& device_;
};

}  // namespace trireme
