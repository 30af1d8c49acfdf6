// What `trireme calibrate` measures of one rank's device, at the sizes of a model's shards: products, copies,
// attention, norms, AdamW. All ranks measure at once, as they compute at once in a step.
#pragma once

#include <vector>

#include "core/comm/job.h"
#include "core/config.pb.h"
#include "core/tensor/tensor_device.h"
#include "cost/calibration.h"
#include "parallel/graph/graph.h"

namespace trireme {

// Collective; exchanges are left out.
Measurements MeasureDevice(const Config& config, const LayerGraph& graph, const TensorDevice& device, Job& job);

double MedianOf(std::vector<double> values);

}  // namespace trireme
