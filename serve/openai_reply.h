// A request's answer in OpenAI's forms: one object at the end, or server-sent events as text becomes certain.
// Chats and text completions differ in names and in the form of log-probabilities.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/generation_service.h"

namespace trireme {

// The model's tokenizer outlives it.
std::unique_ptr<Listener> MakeOpenAiReply(const ServedModel& model, const CompletionRequest& request,
                                          std::shared_ptr<HttpReply> reply, std::map<std::string, std::string> headers);

}  // namespace trireme
