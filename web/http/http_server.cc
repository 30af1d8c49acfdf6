// Boost.Asio behind http.h: listens and accepts. One thread runs everything here and in the connections
// (http_connection.h); replies from other threads are posted to it.
#include "web/http/http_connection.h"

#include <boost/asio/post.hpp>

#include <chrono>
#include <thread>
#include <utility>

#include "core/base/error.h"

namespace trireme {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;

class HttpServer::Parts {
 public:
  Parts(const HttpAddress& address, const HttpLimits& limits, HttpCheck check, HttpHandler handler)
      : acceptor_(shared_.context) {
    shared_.tls = OpenTls(address.tls_certificate, address.tls_key);
    shared_.limits = limits;
    shared_.check = std::move(check);
    shared_.handler = std::move(handler);
    Listen(address.host, address.port);
    Accept();
    thread_ = std::thread([this] { shared_.context.run(); });
  }
  ~Parts() {
    for (int i = 0; i < 200 && shared_.answering > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    shared_.context.stop();
    thread_.join();
  }
  uint16_t port() const { return port_; }
  void StopAccepting() {
    asio::post(shared_.context, [this] {
      error_code ignored;
      acceptor_.close(ignored);
    });
  }

 private:
  void Listen(const std::string& host, uint16_t port) {
    error_code error;
    const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
    if (error)
      throw InputError("--host ", host, ": wanted an IP address of this machine, such as 127.0.0.1 or 0.0.0.0");
    const tcp::endpoint endpoint(address, port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      throw InputError("cannot listen on ", host, ":", port, ": ", error.message(),
                       "; choose another --port or --host");
    }
    port_ = acceptor_.local_endpoint().port();
  }

  void Accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (error) return RetryAccept();  // out of file descriptors: the next one may succeed
      auto connection = std::make_shared<Connection>(std::move(socket), shared_);
      MakeRoom(connection->address());
      const bool full = shared_.connections > shared_.limits.connections || IsFull(connection->address());
      full ? connection->Refuse() : connection->Start();
      Accept();
    });
  }

  bool IsFull(const std::string& address) const {
    const auto found = shared_.connections_of.find(address);
    return found != shared_.connections_of.end() && found->second > shared_.limits.connections_per_address;
  }

  // For a client that comes, one that has asked for nothing goes: of the same address if that has too many, otherwise
  // of the one that has most.
  void MakeRoom(const std::string& address) {
    const bool full = IsFull(address);
    if (!full && shared_.connections <= shared_.limits.connections) return;
    Connection* chosen = nullptr;
    for (Connection* idle : shared_.idle) {
      const bool fits = full ? idle->address() == address : chosen == nullptr || Count(*idle) > Count(*chosen);
      if (fits) chosen = idle;
      if (fits && full) break;
    }
    if (chosen != nullptr) chosen->shared_from_this()->Close();
  }
  int64_t Count(const Connection& connection) const { return shared_.connections_of.at(connection.address()); }

  void RetryAccept() {
    retry_.expires_after(std::chrono::milliseconds(100));
    retry_.async_wait([this](error_code error) {
      if (!error) Accept();
    });
  }

  HttpShared shared_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_{shared_.context};
  uint16_t port_ = 0;
  std::thread thread_;
};

HttpServer::HttpServer(const HttpAddress& address, const HttpLimits& limits, HttpCheck check, HttpHandler handler)
    : parts_(std::make_unique<Parts>(address, limits, std::move(check), std::move(handler))) {}
HttpServer::~HttpServer() = default;
uint16_t HttpServer::port() const { return parts_->port(); }
void HttpServer::StopAccepting() { parts_->StopAccepting(); }

}  // namespace trireme
