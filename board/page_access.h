// PageAccess: how a browser, which cannot set headers everywhere, presents an API key: a login turns it into a cookie
// that scripts cannot read and other sites cannot send. The key itself is in no cookie, and in no address but
// the one that a board prints of a key that it made for its start. On the server's thread only.
#pragma once

#include <deque>
#include <string>
#include <utility>

#include "serve/callers.h"
#include "web/http/http.h"

namespace trireme {

class PageAccess {
 public:
  explicit PageAccess(const Callers& callers) : callers_(callers) {}  // which outlives it

  // Whether the headers allow the request, before its body is read; throws an ApiError if not. The page itself and the
  // login need no key.
  void Check(const HttpRequest& request) const;
  // The request with the key of its cookie, if it presents none itself.
  HttpRequest WithKey(HttpRequest request) const;

  // POST {"key"}: 204 and the cookie, or 401.
  HttpResponse Login(const HttpRequest& request);
  HttpResponse Logout(const HttpRequest& request);
  // GET /?token=KEY: the cookie, and on to the page without the key in its address; or 401.
  HttpResponse Enter(const HttpRequest& request, const std::string& key);

 private:
  struct Entry {
    std::string proof;          // of the cookie: comparing it reveals nothing
    std::string authorization;  // as a client would have sent it
  };

  const Callers& callers_;
  const std::string secret_ = NewSecretText();
  std::deque<Entry> entries_;  // oldest first

  static std::string NewSecretText();
  // The cookie of a new login; throws an ApiError if the key is wrong.
  std::string NewLogin(const HttpRequest& request, const std::string& key);
  const Entry* FindEntry(const HttpRequest& request) const;
};

}  // namespace trireme
