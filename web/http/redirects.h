// Asks a server, and those that it redirects to. The key and cookies are for the first server only. No torch.
#pragma once

#include <functional>

#include "web/http/http_client.h"

namespace trireme {

// Whether a response that redirects to another server (not: elsewhere on the same) already says all that is wanted.
using RedirectSuffices = std::function<bool(const HttpHead&)>;

// Throws a runtime error after too many redirections, and where one leads nowhere.
HttpResult AskFollowing(HttpTarget target, HttpQuestion question, const RedirectSuffices& suffices = {});

}  // namespace trireme
