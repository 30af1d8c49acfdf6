// The route table by itself: which handler a request has, and how the others are refused.
#include "web/http/routes.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

RouteTable<std::string> Table() {
  RouteTable<std::string> table;
  table.Add("GET", "/", "page");
  table.Add("GET", "/runs", "list");
  table.Add("*", "/runs/search", "search");
  table.Add("GET", "/runs/{run}", "one");
  table.Add("DELETE", "/runs/{run}", "drop");
  table.Add("GET", "/runs/{run}/parts/{part...}", "part");
  table.Add("GET", "/events", "events", {.head = false});
  table.Add("POST", "/start", "start", {.json = true, .body_bytes = 10});
  return table;
}

HttpRequest Asked(const std::string& method, const std::string& target, const std::string& body = "") {
  return {.method = method,
          .target = target,
          .headers = {{"content-type", "Application/JSON; charset=utf-8"}},
          .body = body};
}

ApiError Refusal(const HttpRequest& request) {
  try {
    Table().Find(request);
  } catch (const ApiError& error) {
    return error;
  }
  return {.status = 200};
}

TEST(RouteTableTest, ChoosesByMethodAndPath) {
  const RouteTable<std::string> table = Table();
  const auto found = [&](const std::string& method, const std::string& target) {
    return std::string(table.Find(Asked(method, target)).handler);
  };
  EXPECT_EQ(found("GET", "/"), "page");
  EXPECT_EQ(found("HEAD", "/?a=1"), "page");
  EXPECT_EQ(found("GET", "/runs"), "list");
  EXPECT_EQ(found("GET", "/runs/a"), "one");
  EXPECT_EQ(found("DELETE", "/runs/a"), "drop");
  EXPECT_EQ(found("PATCH", "/runs/search"), "search");  // added first
  EXPECT_EQ(found("GET", "/events"), "events");
  EXPECT_EQ(found("POST", "/start"), "start");
  EXPECT_EQ(table.Text().substr(0, 16), "GET /, GET /runs");
}

TEST(RouteTableTest, DecodesWhatStandsInBraces) {
  const PathValues values = Table().Find(Asked("GET", "/runs/a%2Fb%zz/parts/x/y%20z?q=1")).values;
  EXPECT_EQ(values.at("run"), "a/b%zz");
  EXPECT_EQ(values.at("part"), "x/y z");
}

TEST(RouteTableTest, RefusesTheRest) {
  for (const char* path :
       {"/nothing", "/runs/", "/runs//", "/runs/a/parts", "/runs/a/parts/", "/runs/a/b", "//", "", "runs"}) {
    EXPECT_EQ(Refusal(Asked("GET", path)).status, 404) << path;
  }
  EXPECT_EQ(Refusal(Asked("GET", "/ru%6es")).status, 404);  // keys are checked by the path as it is sent
  const ApiError method = Refusal(Asked("POST", "/runs/a"));
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.allow, "GET, HEAD, DELETE");
  EXPECT_EQ(ResponseOf(method).headers.at("Allow"), "GET, HEAD, DELETE");
  EXPECT_EQ(Refusal(Asked("HEAD", "/events")).allow, "GET");
  EXPECT_EQ(Refusal(Asked("POST", "/start", "12345678901")).status, 413);
  HttpRequest form = Asked("POST", "/start", "a=1");
  form.headers["content-type"] = "text/plain";
  EXPECT_EQ(Refusal(form).status, 415);
}

TEST(QueryTest, IsDecodedOnce) {
  const HttpRequest request = Asked("GET", "/x?a=1%262&count=20&b=&c=x");
  EXPECT_EQ(QueryValue(request, "a"), "1&2");
  EXPECT_EQ(QueryValue(request, "b"), "");
  EXPECT_EQ(QueryValue(request, "count"), "20");
  EXPECT_EQ(QueryValue(request, "d"), std::nullopt);
  EXPECT_EQ(QueryValue(Asked("GET", "/x"), "a"), std::nullopt);
  EXPECT_EQ(QueryNumber(request, "count"), 20);
  EXPECT_EQ(QueryNumber(request, "b"), std::nullopt);
  EXPECT_THROW(QueryNumber(request, "c"), ApiError);
  EXPECT_THROW(QueryNumber(Asked("GET", "/x?n=-1"), "n"), ApiError);
  EXPECT_THROW(QueryNumber(Asked("GET", "/x?n=12abc"), "n"), ApiError);
}

}  // namespace
}  // namespace trireme
