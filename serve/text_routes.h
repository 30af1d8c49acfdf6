// TextRoutes: what each path of a server whose model gives vectors, scores or labels does: reads the request, hands its
// texts to the queue, replies when their numbers are there.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "serve/api_routes.h"
#include "serve/text_requests.h"
#include "serve/text_service.h"

namespace trireme {

class TextRoutes : public ApiRoutes {
 public:
  // All references outlive it.
  TextRoutes(TextQueue& queue, const ServedTexts& served, const Callers& callers);
  ~TextRoutes() override;

 private:
  using Reply = std::function<Json(const std::vector<float>& numbers)>;
  class Waiting;

  void AddAll();
  // The path that the model serves; every other one of these kinds says so.
  void AddOwn(const std::string& path, RespondToBody respond);
  HttpResponse Models(const std::string& name) const;
  void Submit(const Call& call, std::vector<TextTokens> texts, Reply reply);

  TextQueue& queue_;
  const ServedTexts& served_;
};

}  // namespace trireme
