// ServiceSamples: samples of remote training through the service that also answers OpenAI's requests: the same engine,
// the same batches.
#pragma once

#include "serve/service.h"
#include "serve/tinker/sampling.h"

namespace trireme::tinker {

class ServiceSamples : public SampleGenerator {
 public:
  // Both outlive it.
  ServiceSamples(Service& service, const ServedModel& model) : service_(service), model_(model) {}
  void Submit(SampleOrder order, std::function<void(SampleResult)> done) override;
  int64_t most_rows() const override { return model_.most_rows; }

 private:
  Service& service_;
  const ServedModel& model_;
};

}  // namespace trireme::tinker
