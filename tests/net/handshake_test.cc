// Both sides of a handshake over a socket pair: who gets through, who does not, and what an attacker can
// replay.
#include "net/handshake.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <string>

#include "net/fd.h"
#include "net/secret.h"

namespace net {
namespace {

using State = Handshake::State;
using Side = Handshake::Side;

struct Pair {
  Pair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    server = Fd(ends[0]);
    client = Fd(ends[1]);
  }
  Fd server, client;
};

std::string Received(int socket) {
  std::array<char, 4096> bytes;
  const ssize_t count = recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
  return count <= 0 ? "" : std::string(bytes.data(), static_cast<size_t>(count));
}

void Say(int socket, const std::string& bytes) {
  EXPECT_EQ(send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

// The states of server and client once neither has anything left to send.
std::pair<State, State> Meet(const Key& server_key, const Key& client_key) {
  Pair pair;
  Handshake server(pair.server.get(), Side::kServer, server_key);
  Handshake client(pair.client.get(), Side::kClient, client_key);
  for (int i = 0; i < 4; ++i) {
    client.Advance();
    server.Advance();
  }
  return {server.state(), client.state()};
}

TEST(Handshake, TheSameKeyOpens) {
  const Key key{NewSecret(), "test"};
  EXPECT_EQ(Meet(key, key), std::pair(State::kProven, State::kProven));
}

TEST(Handshake, AnotherSecretOrPurposeDoesNot) {
  const Key key{NewSecret(), "test"};
  EXPECT_EQ(Meet(key, {NewSecret(), "test"}), std::pair(State::kRefused, State::kRefused));
  EXPECT_EQ(Meet(key, {key.secret, "other"}), std::pair(State::kRefused, State::kRefused));
}

TEST(Handshake, WhatFollowsStaysInTheSocket) {
  const Key key{NewSecret(), "test"};
  Pair pair;
  Handshake server(pair.server.get(), Side::kServer, key);
  Handshake client(pair.client.get(), Side::kClient, key);
  client.Advance();
  Say(pair.client.get(), "the first message");  // before the server has read
  EXPECT_EQ(server.Advance(), State::kProven);
  EXPECT_EQ(Received(pair.server.get()), "the first message");
}

TEST(Handshake, AReplayedProofIsRefused) {
  const Key key{NewSecret(), "test"};
  std::string greeting, proof;
  {
    Pair pair;
    Handshake server(pair.server.get(), Side::kServer, key);
    Handshake client(pair.client.get(), Side::kClient, key);
    client.Advance();
    const std::string said = Received(pair.server.get());
    greeting = said.substr(0, 40);
    proof = said.substr(40);
    ASSERT_EQ(proof.size(), kProofBytes);
  }
  Pair pair;
  Handshake server(pair.server.get(), Side::kServer, key);
  Say(pair.client.get(), greeting + proof);
  EXPECT_EQ(server.Advance(), State::kRefused);
}

// An attacker that mirrors the server's own bytes obtains no client proof that way.
TEST(Handshake, MirroringDoesNotOpen) {
  const Key key{NewSecret(), "test"};
  Pair pair;
  Handshake server(pair.server.get(), Side::kServer, key);
  for (int i = 0; i < 4 && server.state() == State::kWaiting; ++i) {
    Say(pair.client.get(), Received(pair.client.get()) + std::string(kProofBytes, '\0'));
    server.Advance();
  }
  EXPECT_EQ(server.state(), State::kRefused);
}

// An impostor that pretends to be the server and accepts everything is detected.
TEST(Handshake, AServerProvesItselfToo) {
  const Key key{NewSecret(), "test"};
  Pair pair;
  Handshake client(pair.client.get(), Side::kClient, key);
  Say(pair.server.get(), "TRIREME\1" + std::string(32, 'n') + "+" + std::string(kProofBytes, 'p'));
  EXPECT_EQ(client.Advance(), State::kRefused);
}

// Nor may it answer with the client's own proof.
TEST(Handshake, AServerThatMirrorsTheClientsProofIsRefused) {
  const Key key{NewSecret(), "test"};
  Pair pair;
  Handshake client(pair.client.get(), Side::kClient, key);
  Say(pair.server.get(), "TRIREME\1" + std::string(32, 'n'));
  EXPECT_EQ(client.Advance(), State::kWaiting);
  const std::string proof = Received(pair.server.get()).substr(40);  // after the greeting
  ASSERT_EQ(proof.size(), kProofBytes);
  Say(pair.server.get(), "+" + proof);
  EXPECT_EQ(client.Advance(), State::kRefused);
}

TEST(Handshake, AnotherProtocolIsRefusedAtItsFirstBytes) {
  const Key key{NewSecret(), "test"};
  for (const std::string words : {"GET / HTTP/1.1\r\n", "S", "TRIREME\2", "\n"}) {
    Pair pair;
    Handshake server(pair.server.get(), Side::kServer, key);
    Say(pair.client.get(), words);
    EXPECT_EQ(server.Advance(), State::kRefused) << words;
  }
}

TEST(Handshake, ByteByByteWorks) {
  const Key key{NewSecret(), "test"};
  Pair server_side, client_side;
  Handshake server(server_side.server.get(), Side::kServer, key);
  Handshake client(client_side.client.get(), Side::kClient, key);
  const auto pass = [](int from, int to, auto& reader) {
    for (const char byte : Received(from)) {
      Say(to, std::string(1, byte));
      reader.Advance();
    }
  };
  for (int i = 0; i < 3; ++i) {
    pass(client_side.server.get(), server_side.client.get(), server);
    pass(server_side.client.get(), client_side.server.get(), client);
  }
  EXPECT_EQ(server.state(), State::kProven);
  EXPECT_EQ(client.state(), State::kProven);
}

TEST(Handshake, AClosedConnectionIsGone) {
  const Key key{NewSecret(), "test"};
  Pair pair;
  Handshake server(pair.server.get(), Side::kServer, key);
  pair.client = Fd();
  EXPECT_EQ(server.Advance(), State::kGone);
}

}  // namespace
}  // namespace net
