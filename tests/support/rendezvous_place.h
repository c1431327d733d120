// A rendezvous to test with: opened on loopback, joined by ranks that are threads.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <barrier>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "src/bootstrap/rendezvous.h"
#include "src/bootstrap/rendezvous_socket.h"

namespace banyan {

inline Log silent() {
  LogLevels levels;
  levels.of.fill(LogLevel::kOff);
  return *Log::open(levels, "", -1);
}

inline Address loopback(uint16_t port = 0) {
  Address address;
  address.ip = {127, 0, 0, 1};
  address.port = port;
  return address;
}

// An open rendezvous.
struct Place {
  Key key{};
  Address address;

  explicit Place(double seconds = 20, PortRange ports = {}) {
    key = *random_key();
    const auto opened =
        open_rendezvous({loopback(), ports, key, deadline_after(seconds)}, silent());
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    if (opened.ok()) address = *opened;
  }
  Result<std::unique_ptr<Exchange>> join(int rank, int size, double seconds = 20) const {
    return join_rendezvous({.rank = rank,
                            .size = size,
                            .candidates = {address},
                            .must_listen = true,
                            .key = key,
                            .deadline = deadline_after(seconds)},
                           silent());
  }
};

// All begin when all are there.
inline void together(int count, const std::function<void(int)>& body) {
  std::barrier<> all(count);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      all.arrive_and_wait();
      body(i);
    });
  for (std::thread& thread : threads) thread.join();
}

inline Bytes message(int rank, int round, size_t bytes) {
  Bytes made(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    made[i] = static_cast<std::byte>(i * 5 + static_cast<size_t>(rank * 17 + round));
  }
  return made;
}

inline bool has(const Status& status, std::string_view text) {
  return status.message().find(text) != std::string_view::npos;
}

// Rounds of any length, and then all leave.
inline void converse(Exchange& exchange) {
  const auto length = [](int rank, int round) {
    if (round == 1) return size_t{0};
    if (round == 2 && rank % 2 == 1) return kExchangeMost;
    return static_cast<size_t>(rank) * 100 + static_cast<size_t>(round);
  };
  for (int round = 0; round < 4; ++round) {
    const auto all = exchange.allgather(
        message(exchange.rank(), round, length(exchange.rank(), round)), deadline_after(20));
    ASSERT_TRUE(all.ok()) << all.status().message();
    ASSERT_EQ(all->size(), static_cast<size_t>(exchange.size()));
    for (int rank = 0; rank < exchange.size(); ++rank) {
      EXPECT_EQ((*all)[static_cast<size_t>(rank)], message(rank, round, length(rank, round)));
    }
  }
}

// Whether anything still listens there.
inline bool listens(const Address& address) {
  const auto socket = begin_connect(address);
  if (!socket.ok()) return false;
  pollfd entry{socket->get(), POLLOUT, 0};
  return ::poll(&entry, 1, 1000) == 1 && connect_result(socket->get()) == 0;
}

}  // namespace banyan
