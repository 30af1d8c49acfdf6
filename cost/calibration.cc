#include "cost/calibration.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iomanip>
#include <sstream>

#include "core/base/error.h"
#include "cost/layer_cost.h"

namespace trireme {
namespace {

struct Moved {  // a figure that a fit may move
  double* figure;
  double least, most;
};

// One figure at a time, up and down, as long as the loss shrinks.
void Fit(const std::vector<Moved>& figures, const std::function<double()>& loss) {
  for (const Moved& moved : figures) *moved.figure = std::clamp(*moved.figure, moved.least, moved.most);
  double best = loss();
  for (double step = 1; step > 0.005;) {
    bool better = false;
    for (const Moved& moved : figures) {
      for (const double factor : {1 + step, 1 / (1 + step)}) {
        const double before = *moved.figure;
        *moved.figure = std::clamp(before * factor, moved.least, moved.most);
        const double now = loss();
        if (now < best * (1 - 1e-9)) {
          best = now;
          better = true;
        } else {
          *moved.figure = before;
        }
      }
    }
    if (!better) step /= 2;
  }
}

double Squared(double measured, double predicted) {
  const double log = std::log(predicted / measured);
  return log * log;
}

double ForwardOf(const LayerPricer& pricer, const MeasuredProduct& product) {
  return pricer.ProductSeconds(product.m, product.n, product.k, 1, false);
}

double BackwardOf(const LayerPricer& pricer, const MeasuredProduct& product) {
  return pricer.ProductSeconds(product.m, product.k, product.n, 1, false) +
         pricer.ProductSeconds(product.n, product.k, product.m, 1, false);
}

// What takes longer weighs more: a step is a sum of seconds.
void FitProducts(const std::vector<MeasuredProduct>& products, DeviceRates& device) {
  const Assumptions plain;
  ProductRates& rates = device.products;
  Fit({{&rates.efficiency, 0.01, 1}, {&rates.m_half, 1, 4096}, {&rates.n_half, 1, 4096}, {&rates.k_half, 1, 4096}},
      [&] {
        const LayerPricer pricer(device, plain);
        double loss = 0;
        for (const MeasuredProduct& product : products) {
          loss += product.forward * Squared(product.forward, ForwardOf(pricer, product)) +
                  product.backward * Squared(product.backward, BackwardOf(pricer, product));
        }
        return loss;
      });
}

double AttentionSeconds(const DeviceRates& device, const MeasuredAttention& attention, bool forward) {
  const double reached = attention.length / (attention.length + device.attention.length_half);
  const double share = forward ? device.attention.forward : device.attention.backward;
  return (forward ? 1 : 2.5) * attention.flops / (device.peak_tflops * 1e12 * share * reached);
}

void FitAttention(const std::vector<MeasuredAttention>& attention, DeviceRates& device) {
  AttentionRates& rates = device.attention;
  Fit({{&rates.forward, 0.001, 1}, {&rates.backward, 0.001, 1}, {&rates.length_half, 1, 16384}}, [&] {
    double loss = 0;
    for (const MeasuredAttention& one : attention) {
      loss += Squared(one.forward, AttentionSeconds(device, one, true)) +
              Squared(one.backward, AttentionSeconds(device, one, false));
    }
    return loss;
  });
}

double ExchangeSeconds(const DeviceRates& device, const MeasuredExchange& exchange) {
  const Links links(device);
  if (exchange.op == "all_gather") return links.AllGather(exchange.group, exchange.bytes);
  if (exchange.op == "reduce_scatter") return links.ReduceScatter(exchange.group, exchange.bytes);
  if (exchange.op == "all_reduce") return links.AllReduce(exchange.group, exchange.bytes);
  if (exchange.op == "all_to_all") return links.AllToAll(exchange.group, exchange.bytes);
  return links.Message(exchange.group, exchange.bytes);
}

void FitLink(const std::vector<MeasuredExchange>& exchanges, LinkRates& link, const DeviceRates& device) {
  Fit({{&link.gbs, 0.01, 1e5}, {&link.alpha_us, 0.1, 1e5}, {&link.half_mb, 1e-4, 1e3}}, [&] {
    double loss = 0;
    for (const MeasuredExchange& one : exchanges) loss += Squared(one.seconds, ExchangeSeconds(device, one));
    return loss;
  });
}

std::vector<MeasuredExchange> Of(const std::vector<MeasuredExchange>& exchanges, const DeviceRates& device,
                                 bool inside) {
  const Links links(device);
  std::vector<MeasuredExchange> chosen;
  for (const MeasuredExchange& one : exchanges) {
    const int together = links.Together(one.group);
    if (one.group.size > 1 && together == (inside ? one.group.size : 1)) chosen.push_back(one);
  }
  return chosen;
}

std::string Per(double measured, double predicted) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(3) << std::setw(12) << 1e3 * measured << " ms, by the figures "
      << std::setw(12) << 1e3 * predicted << " ms " << std::showpos << std::setprecision(1) << std::setw(7)
      << 100 * (predicted / measured - 1) << " %\n";
  return out.str();
}

}  // namespace

Calibration Calibrate(const DeviceRates& like, const Measurements& measured) {
  Calibration made{.device = like, .sources = {}};
  DeviceRates& device = made.device;
  const auto says = [&](const std::string& source, const std::vector<std::string>& keys) {
    for (const std::string& key : keys) made.sources[key] = source;
  };
  // A host's cores have no data sheet: their peak is what they reach.
  double fastest = measured.matrix_flops;
  for (const MeasuredProduct& product : measured.products) {
    fastest = std::max(fastest, 2 * product.m * product.n * product.k / product.forward);
  }
  if (device.kind == "cpu" || fastest > device.peak_tflops * 1e12) {
    device.peak_tflops = fastest / 1e12;
    says("measured: the fastest product", {"peak_tflops"});
  }
  device.memory_gbs = measured.copy_gbs;
  says("measured: a copy, bytes read and written", {"memory_gbs"});
  FitProducts(measured.products, device);
  says("fitted on measured products", {"products.efficiency", "products.m_half", "products.n_half", "products.k_half"});
  if (!measured.attention.empty()) {
    FitAttention(measured.attention, device);
    says("fitted on measured attention", {"attention.forward", "attention.backward", "attention.length_half"});
  }
  const auto share = [&](const MeasuredTraffic& traffic) {
    return std::clamp(traffic.bytes / traffic.seconds / (device.memory_gbs * 1e9), 0.01, 10.0);
  };
  device.rest_efficiency = share(measured.norm);
  says("measured: norms with their residual sums", {"rest_efficiency"});
  device.update_efficiency = share(measured.update);
  says("measured: AdamW", {"update_efficiency"});
  if (measured.crowding.alone > 0) {
    device.host_crowding = std::clamp(measured.crowding.together / measured.crowding.alone - 1, 0.0, 10.0);
    says("measured: products of all ranks at once, and of one alone", {"host_crowding"});
  }
  const auto links = [&](const std::string& name, LinkRates& link, bool inside) {
    const std::vector<MeasuredExchange> exchanges = Of(measured.exchanges, device, inside);
    if (exchanges.empty()) return;
    FitLink(exchanges, link, device);
    says("fitted on measured collectives", {name + ".gbs", name + ".alpha_us", name + ".half_mb"});
  };
  links("inside", device.inside, true);
  links("between", device.between, false);
  return made;
}

void AddResiduals(const RealSteps& steps, Calibration& calibration) {
  DeviceRates& device = calibration.device;
  const auto& [longer, shorter, update, predicted_update, memory, planned] = steps;
  // measured = residual · predicted + gaps · layer, for both.
  const double gaps = longer.gaps / shorter.gaps;
  double residual = (longer.measured - gaps * shorter.measured) / (longer.predicted - gaps * shorter.predicted);
  double layer = (longer.measured - residual * longer.predicted) / longer.gaps;
  if (layer < 0 || residual <= 0 || !std::isfinite(residual)) {
    layer = 0;
    residual = longer.measured / longer.predicted;
  }
  device.residual = std::clamp(residual, 0.1, 10.0);
  device.layer_us = std::clamp(1e6 * layer / device.residual, 0.0, 1e6);
  device.step_ms = std::clamp(1e3 * (update - predicted_update), 0.0, 1e5);
  device.memory_residual = std::clamp(memory / planned, 0.3, 3.0);
  calibration.sources["residual"] = Concat("two real steps: ", longer.measured, " s and ", shorter.measured,
                                           " s, by the figures ", longer.predicted, " and ", shorter.predicted);
  calibration.sources["layer_us"] = "what the two steps have beside that, per layer and pass";
  calibration.sources["step_ms"] = Concat("an update took ", update, " s, by the figures ", predicted_update);
  calibration.sources["memory_residual"] =
      Concat("tensors of a real step: ", memory / (1 << 20), " MiB, planned ", planned / (1 << 20));
}

std::string ToText(const Measurements& measured, const DeviceRates& device) {
  const Assumptions plain;
  const LayerPricer pricer(device, plain);
  std::ostringstream out;
  for (const MeasuredProduct& one : measured.products) {
    const std::string sizes = Concat("[", one.m, ", ", one.k, "] x [", one.k, ", ", one.n, "]");
    out << "product " << std::left << std::setw(30) << sizes << Per(one.forward, ForwardOf(pricer, one));
    out << "  its gradients" << std::setw(23) << "" << Per(one.backward, BackwardOf(pricer, one));
  }
  for (const MeasuredAttention& one : measured.attention) {
    const std::string length = Concat("attention, ", one.length, " tokens");
    out << std::left << std::setw(38) << length << Per(one.forward, AttentionSeconds(device, one, true));
    out << std::setw(38) << "  its gradients" << Per(one.backward, AttentionSeconds(device, one, false));
  }
  for (const MeasuredExchange& one : measured.exchanges) {
    const std::string what = Concat(one.op, " of ", one.group.size, ", ", one.bytes / 1024, " KiB");
    out << std::left << std::setw(38) << what << Per(one.seconds, ExchangeSeconds(device, one));
  }
  return out.str();
}

}  // namespace trireme
