// Routes: what each path of a server whose model writes text does: reads the request, hands work to the service. What
// takes its time (bodies, chat templates, the tokenizer) is done on the thread of ApiRoutes.
#pragma once

#include <string>

#include "serve/api_routes.h"
#include "serve/generation_service.h"

namespace trireme {

class Routes : public ApiRoutes {
 public:
  // All references outlive it.
  // adapter_directory: adapters below it may be loaded at run time; empty: none may.
  Routes(GenerationService& service, const ServedModel& model, const Callers& callers, std::string adapter_directory);
  ~Routes() override;

 private:
  void AddAll();

  HttpResponse Models(const std::string& name) const;
  HttpResponse Tokenize(const Json& body) const;
  void Generate(const Call& call, CompletionRequest request);
  void ChangeAdapter(bool load, const Call& call, const Json& body);

  GenerationService& service_;
  const ServedModel& model_;
  const std::string adapter_directory_;
};

}  // namespace trireme
