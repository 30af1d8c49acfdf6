// Calibration: a device's figures from what was measured on it. Fits the formulas that predict (ProductSeconds, Links),
// so that a file of figures means the same everywhere. Measures nothing: launch/calibrate.cc does.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cost/device.h"
#include "cost/links.h"

namespace trireme {

struct MeasuredProduct {  // [m, k] x [k, n] forward; backward both gradients
  double m = 0, n = 0, k = 0;
  double forward = 0, backward = 0;  // seconds
};

struct MeasuredAttention {
  double length = 0;
  double flops = 0;  // of the forward pass
  double forward = 0, backward = 0;
};

struct MeasuredTraffic {  // of memory
  double bytes = 0, seconds = 0;
};

struct MeasuredExchange {
  std::string op;  // all_gather, reduce_scatter, all_reduce, all_to_all, send_recv
  GroupShape group;
  double bytes = 0, seconds = 0;
};

struct MeasuredCrowding {          // the same work
  double alone = 0, together = 0;  // seconds, of one rank and of all at once
};

struct Measurements {
  double matrix_flops = 0;  // per second, of large square products
  double copy_gbs = 0;
  std::vector<MeasuredProduct> products;
  std::vector<MeasuredAttention> attention;  // empty: the model has none
  MeasuredTraffic norm, update;
  std::vector<MeasuredExchange> exchanges;  // empty: one rank
  MeasuredCrowding crowding;                // 0: not of a host's cores, or one rank
};

struct Calibration {
  DeviceRates device;
  std::map<std::string, std::string> sources;  // of figures, by their key
};

// What was not measured stays as in `like`, and says so.
Calibration Calibrate(const DeviceRates& like, const Measurements& measured);

// Two real steps of different length, without their updates.
struct RealSteps {
  struct Step {
    double measured = 0, predicted = 0;  // seconds; predicted without the gaps of layers
    double gaps = 0;                     // of a layer, that it contains
  };
  Step longer, shorter;
  double update = 0, predicted_update = 0;  // seconds; predicted without the step's fixed part
  double memory_bytes = 0, planned_memory_bytes = 0;
};

// What the formulas leave: the factor of passes and of memory, a layer's gaps, a step's fixed part.
void AddResiduals(const RealSteps& steps, Calibration& calibration);

// Each measurement beside what the figures say, one a line.
std::string ToText(const Measurements& measured, const DeviceRates& device);

}  // namespace trireme
