// The HTTP server by itself, without a model, with clients that drip, flood, leave, stop reading and send nonsense. A
// thread of its own answers, as the service does. Every wait is for something that must happen: a hang is the failure.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include "core/base/error.h"
#include "core/base/file.h"
#include "tests/web/http/client.h"
#include "web/http/http.h"

namespace trireme {
namespace {

using std::chrono::milliseconds;

HttpLimits Small() {
  return {.header_bytes = 2048,
          .target_bytes = 100,
          .header_lines = 20,
          .body_bytes = 10000,
          .header_seconds = 0.3,
          .body_seconds = 0.3,
          .idle_seconds = 30,
          .write_seconds = 30,
          .connections = 64,
          .connections_per_address = 64,
          .queued_bytes = 64 * 1024};
}

constexpr int64_t kPieces = 40, kPieceBytes = 50'000;

// /echo answers at once, /host with the header it has seen, /pieces piece by piece, /events streams from another thread
// until the client is gone, /silent never answers.
class Served {
 public:
  explicit Served(const HttpLimits& limits = Small())
      : server_(
            {.host = "127.0.0.1"}, limits,
            [](const HttpRequest& request) {
              if (request.header("x-key") == "wrong") throw ApiError{.status = 401, .message = "no"};
              return request.path() == "/small" ? 10 : 0;
            },
            [this](HttpRequest request, std::shared_ptr<HttpReply> reply) {
              Handle(std::move(request), std::move(reply));
            }) {}
  ~Served() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  uint16_t port() const { return server_.port(); }
  int64_t gone() const { return gone_; }
  std::string Echo(const std::string& body) const {
    Client client(port());
    client.Send(Request("/echo", body));
    return client.ReadUntil(body);
  }
  static std::string Request(const std::string& path, const std::string& body) {
    return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  }

 private:
  void Handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
    if (request.path() == "/host") return reply->Send({.type = "text/plain", .body = request.header("host")});
    if (request.path() == "/echo") return reply->Send({.type = "text/plain", .body = request.body});
    if (request.path().starts_with("/pieces")) {
      const bool breaks = request.path().ends_with("/broken");
      return reply->SendPieces({.type = "text/plain"}, kPieces * kPieceBytes, [breaks, i = 0]() mutable {
        if (breaks && i == 3) throw RuntimeError("the disk is gone");
        return i++ < kPieces ? std::string(kPieceBytes, static_cast<char>('A' + i)) : "";
      });
    }
    const bool events = request.path() == "/events";
    threads_.emplace_back([this, events, reply = std::move(reply)] {
      if (events) reply->StartEvents({});
      while (!reply->gone() && !stop_) {
        if (events) reply->Event(std::string(1000, 'x'));
        std::this_thread::sleep_for(milliseconds(1));
      }
      gone_ += reply->gone() ? 1 : 0;
      if (events) reply->EndEvents();
    });
  }

  std::atomic<bool> stop_ = false;
  std::atomic<int64_t> gone_ = 0;
  std::vector<std::thread> threads_;
  HttpServer server_;  // last: its thread uses the others
};

void Await(const std::function<bool()>& what) {
  while (!what()) std::this_thread::sleep_for(milliseconds(5));
}

TEST(HttpServer, AnswersSeveralRequestsOfOneConnection) {
  const Served served;
  Client client(served.port());
  for (const std::string body : {"one", "two", "three"}) {
    client.Send(Served::Request("/echo", body));
    EXPECT_NE(client.ReadUntil(body).find("200 OK"), std::string::npos);
  }
}

// The first is answered; a client that sends several at once sees the end of the connection and asks again.
TEST(HttpServer, AnswersTheFirstOfPipelinedRequests) {
  const Served served;
  Client client(served.port());
  client.Send(Served::Request("/echo", "first") + Served::Request("/echo", "second"));
  const std::string read = client.ReadAll();
  EXPECT_NE(read.find("first"), std::string::npos);
  EXPECT_EQ(read.find("second"), std::string::npos);
  EXPECT_NE(read.find("Connection: close"), std::string::npos);
}

TEST(HttpServer, AnswersInPiecesAsFastAsTheyAreRead) {
  const Served served;
  Client client(served.port(), /*receive_bytes=*/4096);
  client.Send(Served::Request("/pieces", ""));
  std::this_thread::sleep_for(milliseconds(50));
  const std::string last(kPieceBytes, static_cast<char>('A' + kPieces));
  const std::string read = client.ReadUntil(last);
  const size_t body = read.find("\r\n\r\n") + 4;
  EXPECT_NE(read.find("Content-Length: 2000000"), std::string::npos);
  EXPECT_EQ(read.size() - body, 2'000'000U);
  EXPECT_EQ(read[body], 'B');
  client.Send(Served::Request("/echo", "next"));  // the connection is there for more
  EXPECT_NE(client.ReadUntil("next").find("200 OK"), std::string::npos);
}

TEST(HttpServer, AnAnswerThatBreaksEndsShort) {
  const Served served;
  Client client(served.port());
  client.Send(Served::Request("/pieces/broken", ""));
  const std::string read = client.ReadAll();
  EXPECT_EQ(read.size() - read.find("\r\n\r\n") - 4, 3U * kPieceBytes);
  EXPECT_NE(served.Echo("still here").find("still here"), std::string::npos);
}

TEST(HttpServer, KeepsItsLimits) {
  const Served served;
  const auto answer = [&](const std::string& data) {
    Client client(served.port());
    client.Send(data);
    return client.ReadAll().substr(0, 12);
  };
  EXPECT_EQ(answer("nonsense\r\n\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(answer("GET /" + std::string(200, 'y') + " HTTP/1.1\r\nHost: a\r\n\r\n"), "HTTP/1.1 414");
  EXPECT_EQ(answer("GET / HTTP/1.1\r\nX: " + std::string(3000, 'y') + "\r\n\r\n"), "HTTP/1.1 431");
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 30; ++i) many += "A: b\r\n";
  EXPECT_EQ(answer(many + "\r\n"), "HTTP/1.1 431");
  EXPECT_EQ(answer("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n"), "HTTP/1.1 413");
  std::string chunked = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 12; ++i) chunked += "3e8\r\n" + std::string(1000, 'z') + "\r\n";
  EXPECT_EQ(answer(chunked), "HTTP/1.1 413");
  EXPECT_EQ(answer("POST /echo HTTP/1.1\r\nX-Key: wrong\r\nContent-Length: 9000\r\n\r\n"), "HTTP/1.1 401");
  EXPECT_NE(served.Echo("still here").find("still here"), std::string::npos);
}

TEST(HttpServer, AMessageHasTheLimitOfItsPath) {
  const Served served;
  const auto answer = [&](const std::string& data) {
    Client client(served.port());
    client.Send(data);
    return client.ReadAll().substr(0, 12);
  };
  EXPECT_EQ(answer("POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n"), "HTTP/1.1 413");
  EXPECT_EQ(answer("POST /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n"), "HTTP/1.1 413");
}

TEST(HttpServer, TrailersAreNoHeaders) {
  const Served served;
  Client client(served.port());
  client.Send(
      "POST /host HTTP/1.1\r\nHost: right\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nHost: "
      "wrong\r\nAuthorization: "
      "Bearer x\r\n\r\n");
  const std::string response = client.ReadUntil("right");
  EXPECT_NE(response.find("200 OK"), std::string::npos);
  EXPECT_NE(response.find("right"), std::string::npos) << response;
}

TEST(HttpServer, WhatLetsACallerInIsThereOnce) {
  const Served served;
  for (const char* name : {"Host", "Origin", "Authorization"}) {
    Client client(served.port());
    client.Send(Concat("GET /host HTTP/1.1\r\nHost: a\r\n", name, ": a\r\n", name, ": b\r\n\r\n"));
    EXPECT_EQ(client.ReadAll().substr(0, 12), "HTTP/1.1 400") << name;
  }
}

TEST(HttpServer, CutsOffHeadersAndBodiesThatDrip) {
  const Served served;
  for (const std::string begin : {"", "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\n"}) {
    const Client client(served.port());
    client.Send(begin);
    int sent = 0;
    while (client.Send("G")) {  // ends only when the server closes
      std::this_thread::sleep_for(milliseconds(20));
      ++sent;
    }
    EXPECT_GT(sent, 0);
  }
}

TEST(HttpServer, NoticesClientsThatLeave) {
  const Served served;
  for (const char* path : {"/silent", "/events"}) {
    const int64_t before = served.gone();
    {
      const Client client(served.port());
      client.Send(Served::Request(path, ""));
    }
    Await([&] { return served.gone() == before + 1; });
  }
}

TEST(HttpServer, CutsOffClientsThatDoNotRead) {
  const Served served;
  const Client client(served.port(), 4096);
  client.Send(Served::Request("/events", ""));
  Await([&] { return served.gone() == 1; });
}

// Of all connections that a limit allows, each with a request.
std::vector<Client> BusyClients(const Served& served, int count) {
  std::vector<Client> clients;
  for (int i = 0; i < count; ++i) {
    clients.emplace_back(served.port());
    clients.back().Send(Served::Request("/events", ""));
    EXPECT_NE(clients.back().ReadUntil("data: x").find("200 OK"), std::string::npos);
  }
  return clients;
}

TEST(HttpServer, RefusesConnectionsBeyondItsNumber) {
  for (const bool of_address : {true, false}) {
    HttpLimits limits = Small();
    (of_address ? limits.connections_per_address : limits.connections) = 3;
    const Served served(limits);
    std::vector<Client> clients = BusyClients(served, 3);
    Client another(served.port());
    EXPECT_EQ(another.ReadAll().substr(0, 12), "HTTP/1.1 503");
    clients.clear();
    Await([&] { return served.Echo("again").find("200 OK") != std::string::npos; });
  }
}

// Whoever holds connections without a request, before or after one, keeps nobody out.
TEST(HttpServer, OldIdleConnectionsMakeRoom) {
  for (const bool of_address : {true, false}) {
    HttpLimits limits = Small();
    (of_address ? limits.connections_per_address : limits.connections) = 3;
    limits.header_seconds = 30;
    const Served served(limits);
    Client first(served.port()), second(served.port());
    first.Send(Served::Request("/echo", "in"));
    second.Send(Served::Request("/echo", "in"));
    EXPECT_NE(first.ReadUntil("in").find("200 OK"), std::string::npos);
    EXPECT_NE(second.ReadUntil("in").find("200 OK"), std::string::npos);
    Client third(served.port());
    third.Send("GET /echo HTT");  // never ends
    for (int i = 0; i < 20; ++i) EXPECT_NE(served.Echo("new").find("200 OK"), std::string::npos);
    std::vector<Client> later;  // they stay: there is no room for the first three, however soon the server acts
    for (int i = 0; i < 3; ++i) {
      later.emplace_back(served.port());
      later.back().Send(Served::Request("/echo", "new"));
      EXPECT_NE(later.back().ReadUntil("new").find("200 OK"), std::string::npos);
    }
    EXPECT_EQ(first.ReadAll() + second.ReadAll() + third.ReadAll(), "");  // all were closed
  }
}

TEST(HttpServer, ServesManyStreamsAtOnce) {
  const Served served;
  std::vector<Client> clients;
  for (int i = 0; i < 40; ++i) {
    clients.emplace_back(served.port());
    clients.back().Send(Served::Request("/events", ""));
  }
  for (Client& client : clients) EXPECT_NE(client.ReadUntil("data: xxx").find("text/event-stream"), std::string::npos);
  clients.clear();
  Await([&] { return served.gone() == 40; });
}

TEST(HttpServer, SurvivesMutatedRequests) {
  const Served served;
  std::mt19937 random(5);
  const std::string good = Served::Request("/echo", "a body of some size, to be hurt");
  const auto below = [&](size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(random); };
  for (int i = 0; i < 500; ++i) {
    std::string data = good;
    for (size_t k = 0; k < 1 + below(4); ++k) {
      const size_t at = below(data.size());
      switch (below(3)) {
        case 0:
          data[at] = static_cast<char>(below(256));
          break;
        case 1:
          data.erase(at, 1 + below(5));
          break;
        default:
          data.insert(at, data.substr(at, 1 + below(30)));
      }
    }
    const Client client(served.port());
    client.Send(data);
  }
  EXPECT_NE(served.Echo("still here").find("still here"), std::string::npos);
}

// Requests that were let through once, and others near them (tests/corpus); the sanitizers look on.
TEST(HttpServer, SurvivesTheCorpus) {
  const Served served;
  int sent = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(TRIREME_CORPUS) / "http")) {
    const Client client(served.port());
    client.Send(ReadTextFile(entry.path().string()));
    EXPECT_NE(served.Echo("still here").find("still here"), std::string::npos) << entry.path();
    ++sent;
  }
  EXPECT_GT(sent, 40);
}

TEST(HttpServer, RefusesAPortInUse) {
  const Served served;
  EXPECT_THROW(HttpServer({.host = "127.0.0.1", .port = served.port()}, Small(), {}, {}), Error);
  EXPECT_THROW(HttpServer({.host = "no address"}, Small(), {}, {}), Error);
}

}  // namespace
}  // namespace trireme
