#include "web/http/redirects.h"

#include "core/base/error.h"

namespace trireme {

HttpResult AskFollowing(HttpTarget target, HttpQuestion question, const RedirectSuffices& suffices) {
  constexpr int kMostRedirects = 10;
  for (int i = 0; i <= kMostRedirects; ++i) {
    HttpResult result = AskHttp(target, question);
    if (!result.redirects()) return result;
    const auto next = ResolveLocation(target, result.header("location"));
    if (!next)
      throw RuntimeError(question.who, " redirects to '", result.header("location").substr(0, 200),
                         "', which is not an address");
    if (!SameOrigin(target, *next)) {
      if (suffices && suffices(result)) return result;
      question.api_key.clear();
      std::erase_if(question.headers, [](const auto& header) { return header.first == "Cookie"; });
    }
    target = *next;
  }
  throw RuntimeError(question.who, " redirects more than ", kMostRedirects, " times");
}

}  // namespace trireme
