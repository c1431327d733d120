// What one rank does where the others say nothing.
// SPDX-License-Identifier: Apache-2.0

#include "src/communicator/membership.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/base/bell.h"
#include "src/base/clock.h"

namespace banyan {
namespace {

// Who has no Driver gets at neither the worker nor what is in it.
template <typename Type>
concept GivesItsEngine = requires(Type& of) {
  of.engine();
};
template <typename Type>
concept GivesItsWorker = requires(Type& of) {
  of.worker();
};
static_assert(!GivesItsEngine<Membership> && !GivesItsWorker<Membership>);
static_assert(GivesItsEngine<Worker> && !std::is_copy_constructible_v<Worker>);
static_assert(!std::is_copy_constructible_v<Driver> && !std::is_copy_assignable_v<Driver>);

// Rank 1 of two on different hosts. The other end of its link is here, and no thread serves it.
struct Lonely {
  explicit Lonely(double timeout_s) {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    other_end = Descriptor(ends[0]);
    Links links;
    links.rank = 1;
    links.size = 2;
    links.peers.resize(2);
    links.sockets.resize(2);
    links.sockets[0] = Descriptor(ends[1]);
    links.epoch = 1;
    Settings settings;
    settings.timeout_s = timeout_s;
    membership = std::make_unique<Membership>(
        std::move(settings), std::move(links), std::move(*VerdictBoard::alone(2)),
        Bells{std::move(*make_bell()), std::move(*make_bell())},
        std::vector<std::unique_ptr<Transport>>(), std::vector<int>{-1, -1}, Medium{}, Hierarchy{});
  }

  Descriptor other_end;
  std::unique_ptr<Membership> membership;
};

TEST(Membership, GivesUpInTimeWhereNobodyDecides) {
  Lonely rank(0.2);
  const TimePoint begin = Clock::now();
  const Status status = Driver(*rank.membership)->give_up("there is no memory");
  const std::chrono::duration<double> took = Clock::now() - begin;
  EXPECT_GE(took.count(), Monitor::kMostPatienceSeconds) << "others may still decide";
  EXPECT_LT(took.count(), 20);
  EXPECT_EQ(status.code(), Code::kSystem);
  EXPECT_EQ(status.message(), "rank 1 cannot take part in a call: there is no memory");
  // A proposal and then the verdict have left for the other rank.
  std::array<std::byte, 3 * kFrameBytes> frames{};
  EXPECT_EQ(recv(rank.other_end.get(), frames.data(), frames.size(), MSG_DONTWAIT),
            static_cast<ssize_t>(2 * kFrameBytes));
}

}  // namespace
}  // namespace banyan
