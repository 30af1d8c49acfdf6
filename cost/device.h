// DeviceRates: what one accelerator and its links can do, as constants that a file holds (devices/*.yaml, or one of
// the user's). Plain numbers: knows no model and measures nothing.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace trireme {

struct ProductRates {     // of matrix products [m, k] x [k, n]
  double efficiency = 0;  // share of the peak that large ones reach
  double m_half = 0;      // sizes at which half of it is reached
  double n_half = 0;
  double k_half = 0;
  double tile_m = 0;  // one core computes a tile at a time
  double tile_n = 0;
  double cores = 0;
};

struct AttentionRates {  // shares of the peak, of the matmuls that a causal mask leaves
  double forward = 0;
  double backward = 0;     // of its five matmuls for the forward pass's two
  double length_half = 0;  // of a sequence: at which half is reached
};

struct LinkRates {
  double ranks = 0;   // that reach each other over these links; 0: any number
  bool mesh = false;  // a direct link to each other rank: gbs is one link's; otherwise what a rank has to all together
  double gbs = 0;     // GB/s, one direction
  double alpha_us = 0;  // until the first byte arrives
  double half_mb = 0;   // of a message: at which half of gbs is reached
};

struct DeviceRates {
  std::string name;
  std::string kind;  // as the key device of a run: npu, cuda, cpu
  double peak_tflops = 0;
  double fp8_tflops = 0;  // 0: has none
  double memory_gib = 0;
  double memory_gbs = 0;
  ProductRates products;
  double fp8_efficiency = 0;
  AttentionRates attention;
  double rest_efficiency = 0;      // share of memory_gbs that norms and activations reach; above 1: in a cache
  double update_efficiency = 0;    // of the optimizer
  double layer_us = 0;             // per layer and pass: launches, and gaps between kernels
  double step_ms = 0;              // per step: the norm of the gradient, the clock of the host
  double exchange_efficiency = 1;  // share of the links' rate that experts' exchanges reach: uneven sizes, sorted rows
  double contention = 0;           // products slow down by this share while collectives run beside them
  double residual = 1;             // measured passes over predicted ones, from a calibration
  double memory_residual = 1;      // measured memory over planned one, from a calibration
  double host_cores = 0;           // ranks of a host that compute side by side; 0: all of them
  double host_crowding = 0;        // the share by which all of these together are slower than one alone
  LinkRates inside;                // of a node
  LinkRates between;               // nodes
};

// One of the devices that the program knows, or a file. An unknown name, and a file with a figure that is missing,
// unknown or absurd, are input errors that name it.
DeviceRates FindDevice(const std::string& name_or_file);
std::vector<std::string> KnownDevices();

// The text of a file; `source` stands for it in errors.
DeviceRates ParseDevice(const std::string& text, const std::string& source);
// The file again; after each figure its source, where there is one by its key.
std::string ToText(const DeviceRates& device, const std::map<std::string, std::string>& sources = {});

}  // namespace trireme
