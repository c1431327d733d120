// What every transport must refuse, show, wake up for and survive.
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "tests/transports/transport_fixture.h"
#include "transports/net_devices.h"

namespace banyan::test::transport_rules_test {
namespace {

TEST_P(TransportTest, IsNoneWhereThereAreNoPeers) {
  run_threads(2, [](MeshWiring& wiring) {
    const auto transport = kind().connect(wiring, {});
    ASSERT_TRUE(transport.ok()) << transport.status().message();
    EXPECT_EQ(*transport, nullptr);
  });
}

TEST_P(TransportTest, AMismatchWritesNothingAndStaysAtTheHead) {
  run_threads(2, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    for (const size_t bytes : {8, 100'000}) {
      const Envelope right = envelope_of(bytes, 9);
      const Bytes body = message_of(3, bytes);
      if (wiring.rank() == 0) {
        driver.post(send_to(1, right, body.data(), 1));
        EXPECT_EQ(driver.wait(1).code, Code::kOk);
        continue;
      }
      std::vector<Envelope> wrong(8, right);
      wrong[0].call += 1;
      wrong[1].bytes += 1;
      wrong[2].signature.count += 1;
      wrong[3].signature.root += 1;
      wrong[4].signature.collective = Collective::kBroadcast;
      wrong[5].signature.type = DataType::kFloat32;
      wrong[6].signature.op = ReduceOp::kMax;
      wrong[7].signature.algorithm = 1;
      Bytes in(bytes + 1, std::byte{0x55});
      for (const Envelope& envelope : wrong) {
        driver.post(receive_from(0, envelope, in.data(), 7));
        const Completion completion = driver.wait(7);
        EXPECT_EQ(completion.code, Code::kMismatch);
        EXPECT_EQ(completion.seen, right);
      }
      EXPECT_EQ(in, Bytes(bytes + 1, std::byte{0x55}));
      EXPECT_EQ(driver->peek(0, Lane::kCollective), right);
      driver.post(receive_from(0, right, in.data(), 8));
      EXPECT_EQ(driver.wait(8).code, Code::kOk);
      EXPECT_TRUE(std::equal(body.begin(), body.end(), in.begin()));
    }
  });
}

TEST_P(TransportTest, DropsWhatBelongsToAnotherEpoch) {
  run_threads(2, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    for (const Lane lane : {Lane::kCollective, Lane::kMessage}) {
      for (const size_t bytes : {0, 16, 20'000, 40'000, 300'000, 1'200'000}) {
        Envelope late = envelope_of(bytes, 5);
        late.epoch = kEpoch - 1;
        const Bytes body = message_of(4, bytes);
        const Bytes good = message_of(6, 16);
        Bytes in(16);
        if (wiring.rank() == 0) {
          driver.post(send_to(1, late, body.data(), 1, lane));
          driver.post(send_to(1, late, body.data(), 2, lane));
          driver.post(send_to(1, envelope_of(16, 6), good.data(), 3, lane));
          for (const uint64_t cookie : {1, 2, 3}) EXPECT_EQ(driver.wait(cookie).code, Code::kOk);
        } else {
          driver.post(receive_from(0, envelope_of(16, 6), in.data(), 3, lane));
          EXPECT_EQ(driver.wait(3).code, Code::kOk);
          EXPECT_EQ(in, good);
        }
      }
    }
  });
}

TEST_P(TransportTest, PeekShowsTheHeadOfEachLane) {
  run_threads(2, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    const Bytes body = message_of(5, 40'000);
    Bytes in(40'000);
    if (wiring.rank() == 0) {
      EXPECT_FALSE(driver->peek(1, Lane::kCollective));
      driver.post(send_to(1, envelope_of(40'000, 1), body.data(), 1));
      driver.post(send_to(1, envelope_of(8, 2), body.data(), 2, Lane::kMessage));
      EXPECT_EQ(driver.wait(1).code, Code::kOk);
      EXPECT_EQ(driver.wait(2).code, Code::kOk);
      return;
    }
    const TimePoint deadline = deadline_after(kPatience);
    while ((!driver->peek(0, Lane::kCollective) || !driver->peek(0, Lane::kMessage)) &&
           Clock::now() < deadline) {
      driver.step();
    }
    EXPECT_EQ(driver->peek(0, Lane::kCollective), envelope_of(40'000, 1));
    EXPECT_EQ(driver->peek(0, Lane::kMessage), envelope_of(8, 2));
    driver.post(receive_from(0, envelope_of(40'000, 1), in.data(), 1));
    EXPECT_EQ(driver.wait(1).code, Code::kOk);
    EXPECT_EQ(in, body);
    EXPECT_FALSE(driver->peek(0, Lane::kCollective));
    driver.post(receive_from(0, envelope_of(8, 2), in.data(), 2, Lane::kMessage));
    EXPECT_EQ(driver.wait(2).code, Code::kOk);
    EXPECT_FALSE(driver->peek(0, Lane::kMessage));
    EXPECT_FALSE(driver->peek(1, Lane::kMessage)) << "a rank that is not served";
  });
}

bool readable(int descriptor, int timeout_ms) {
  pollfd entry{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, timeout_ms) == 1;
}

// Sleeps in the kernel until poll() has something to say. A lost wake-up is a failure, not a wait.
Completion sleep_until(Driver& driver, uint64_t cookie) {
  while (true) {
    if (const auto found = driver.take(cookie)) return *found;
    if (driver->arm()) {
      const bool woken = readable(driver->descriptor(), 10'000);
      driver->disarm();
      if (!woken) {
        ADD_FAILURE() << "nothing woke the sleeper";
        return {.cookie = cookie, .code = Code::kTimeout, .seen = {}};
      }
    }
    driver.step();
  }
}

TEST_P(TransportTest, SleepersAreWoken) {
  run_threads(2, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    const int peer = 1 - wiring.rank();
    for (int i = 0; i < 300; ++i) {
      const size_t bytes = i % 50 == 0 ? 500'000 : i % 7 == 0 ? 33'000 : 4;
      const Bytes body = message_of(i, bytes);
      Bytes in(bytes);
      const Lane lane = i % 3 == 0 ? Lane::kMessage : Lane::kCollective;
      if (wiring.rank() == i % 2) {
        driver.post(send_to(peer, envelope_of(bytes, i), body.data(), i, lane));
      } else {
        driver.post(receive_from(peer, envelope_of(bytes, i), in.data(), i, lane));
      }
      EXPECT_EQ(sleep_until(driver, i).code, Code::kOk);
      if (wiring.rank() != i % 2) {
        EXPECT_EQ(in, body);
      }
    }
  });
}

// Whether it can be armed, and nothing rings then, when what is under way is worked off.
bool becomes_quiet(Driver& driver) {
  const TimePoint deadline = deadline_after(kPatience);
  bool quiet = false;
  while (!quiet && Clock::now() < deadline) {
    driver.step();
    if (!driver->arm()) continue;
    quiet = !readable(driver->descriptor(), 20);
    driver->disarm();
  }
  return quiet;
}

TEST_P(TransportTest, ArmedWithNothingToDoIsQuiet) {
  run_threads(2, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    EXPECT_TRUE(becomes_quiet(driver));
    EXPECT_FALSE(readable(driver->descriptor(), 0));
  });
}

TEST_P(TransportTest, SendsFromItsOwnMemory) {
  run_threads(3, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    constexpr size_t kBytes = 300'000;
    auto memory = driver->allocate(kBytes + 64, deadline_after(10));
    if (!memory.ok()) {
      EXPECT_EQ(memory.status().code(), Code::kUnsupported);
      EXPECT_EQ(driver->release(nullptr).code(), Code::kInvalidArgument);
      return;
    }
    auto other = driver->allocate(100, deadline_after(10));
    ASSERT_TRUE(other.ok());
    std::byte* const out = *memory + 5;
    for (size_t i = 0; i < kBytes; ++i) out[i] = pattern(wiring.rank(), i);
    const int next = (wiring.rank() + 1) % 3;
    const int before = (wiring.rank() + 2) % 3;
    for (const size_t bytes : {size_t{10}, size_t{5000}, kBytes}) {
      Bytes in(bytes);
      driver.post(receive_from(before, envelope_of(bytes), in.data(), 1));
      driver.post(send_to(next, envelope_of(bytes), out, 2));
      EXPECT_EQ(driver.wait(1).code, Code::kOk);
      EXPECT_EQ(driver.wait(2).code, Code::kOk);
      EXPECT_EQ(in, message_of(before, bytes));
    }
    EXPECT_EQ(driver->release(*memory + 1).code(), Code::kInvalidArgument);
    EXPECT_TRUE(driver->release(*memory).ok());
    EXPECT_EQ(driver->release(*memory).code(), Code::kInvalidArgument);
    EXPECT_TRUE(driver->release(*other).ok());
    auto again = driver->allocate(kBytes, deadline_after(10));
    ASSERT_TRUE(again.ok());
    EXPECT_EQ((*again)[100], std::byte{0}) << "released memory went back to the system";
    EXPECT_FALSE(driver->allocate(SIZE_MAX / 2, deadline_after(10)).ok());
  });
}

// Sends until nothing more is taken, and lets the last one be done while the receiver is slow. What
// is done need not have left: from settled() on, the receiver needs the sender no more.
TEST_P(TransportTest, WhatIsSettledArrivesWithoutItsSender) {
  constexpr size_t kBytes = 8000;
  constexpr int kMost = 20'000;
  constexpr double kStuckSeconds = 0.05;
  std::atomic<int> total = 0;
  run_threads(2, [&](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    const Bytes body = message_of(1, kBytes);
    if (wiring.rank() == 0) {
      for (int i = 0; total.load() == 0; ++i) {
        const Transfer send = send_to(1, envelope_of(kBytes, i), body.data(), i);
        if (!driver->post(send).ok()) {
          total.store(i + 1);
          driver.post(send);
        }
        const TimePoint stuck = deadline_after(kStuckSeconds);
        std::optional<Completion> done = driver.take(i);
        for (; !done && Clock::now() < stuck; done = driver.take(i)) driver.step();
        if (done && i + 1 < kMost) continue;
        total.store(i + 1);
        if (!done) done = driver.wait(i);
        EXPECT_EQ(done->code, Code::kOk);
      }
      const TimePoint deadline = deadline_after(kPatience);
      while (!driver->settled() && Clock::now() < deadline) driver.step();
    } else {
      Bytes in(kBytes);
      while (total.load() == 0) std::this_thread::yield();
      for (int i = 0; i < total.load(); ++i) {
        driver.post(receive_from(0, envelope_of(kBytes, i), in.data(), i));
        ASSERT_EQ(driver.wait(i).code, Code::kOk) << i << " of " << total.load();
        EXPECT_EQ(in, body);
        // So that its socket is still full when the last send is done.
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    }
    EXPECT_TRUE(wiring.allgather({}).ok());  // the sender rests here
  });
}

// Whoever sent a message need not look until then, and sleeps.
TEST_P(TransportTest, AMessageIsDoneWhenItIsAccepted) {
  run_threads(2, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    for (const size_t bytes : {0, 8, 4000, 200'000}) {
      Bytes body = message_of(7, bytes);
      if (wiring.rank() == 0) {
        driver.post(send_to(1, envelope_of(bytes), body.data(), 1, Lane::kMessage));
        driver.barrier();  // the peer has not even posted its receive
        EXPECT_TRUE(becomes_quiet(driver)) << bytes << " bytes";
        EXPECT_FALSE(driver.take(1));
        EXPECT_TRUE(wiring.allgather({}).ok());
        EXPECT_EQ(sleep_until(driver, 1).code, Code::kOk);
      } else {
        const TimePoint enough = deadline_after(0.02);
        while (Clock::now() < enough) driver.step();
        driver.barrier();
        EXPECT_TRUE(wiring.allgather({}).ok());
        // The sender is asleep by then, and nothing else tells when it is.
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        driver.post(receive_from(0, envelope_of(bytes), body.data(), 1, Lane::kMessage));
        EXPECT_EQ(driver.wait(1).code, Code::kOk);
      }
    }
    driver.barrier();
  });
}

// A sender whose call has failed has its memory back: from then on the message arrives as it was
// sent, or not at all.
TEST_P(TransportTest, WhatWasAbandonedArrivesWholeOrNotAtAll) {
  for (const size_t bytes : {20, 1000, 70'000, 3'000'000})
    run_threads(2, [bytes](MeshWiring& wiring) {
      Driver driver(kind(), wiring);
      ASSERT_TRUE(driver.ok());
      Bytes body = message_of(7, bytes);
      if (wiring.rank() == 0) {
        driver.post(send_to(1, envelope_of(bytes), body.data(), 1, Lane::kMessage));
        driver.barrier();
        driver->abandon();
        std::fill(body.begin(), body.end(), std::byte{0x55});
        EXPECT_TRUE(wiring.allgather({}).ok());
        EXPECT_TRUE(wiring.allgather({}).ok());
        driver.vanish();
        return;
      }
      Bytes in(bytes);
      driver.barrier();
      EXPECT_TRUE(wiring.allgather({}).ok());
      driver.post(receive_from(0, envelope_of(bytes), in.data(), 1, Lane::kMessage));
      const TimePoint enough = deadline_after(0.05);
      std::optional<Completion> completion;
      while (!completion && Clock::now() < enough) {
        driver.step();
        completion = driver.take(1);
      }
      if (completion && completion->code == Code::kOk) {
        EXPECT_EQ(in, body) << bytes;
      }
      EXPECT_TRUE(wiring.allgather({}).ok());
      driver.vanish();
    });
}

TEST_P(TransportTest, APeerThatVanishesHarmsNobody) {
  run_threads(3, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    Bytes body = message_of(8, 100'000);
    Bytes in(100'000);
    if (wiring.rank() == 2) {
      driver.barrier();
      driver.vanish();
      EXPECT_TRUE(wiring.allgather({}).ok());
      EXPECT_TRUE(wiring.allgather({}).ok());
      return;
    }
    const int peer = 1 - wiring.rank();
    driver.post(receive_from(2, envelope_of(100'000), in.data(), 50));
    driver.post(send_to(2, envelope_of(8), body.data(), 80, Lane::kMessage));
    driver.barrier();
    EXPECT_TRUE(wiring.allgather({}).ok());
    // Nothing that concerns the dead succeeds or crashes, and the living go on.
    for (int i = 0; i < 100; ++i) {
      const Status status = driver->post(send_to(2, envelope_of(100'000), body.data(), 60));
      if (!status.ok()) {
        EXPECT_TRUE(status.code() == Code::kBusy || status.code() == Code::kPeerLost);
      }
      driver.post(receive_from(peer, envelope_of(100'000, i), in.data(), 70));
      driver.post(send_to(peer, envelope_of(100'000, i), body.data(), 71));
      EXPECT_EQ(driver.wait(70).code, Code::kOk);
      EXPECT_EQ(driver.wait(71).code, Code::kOk);
    }
    for (const uint64_t cookie : {50, 80}) {
      const auto lost = driver.take(cookie);
      EXPECT_EQ(lost ? lost->code : Code::kPeerLost, Code::kPeerLost);
    }
    driver.barrier();
    driver.vanish();
  });
}

TEST_P(TransportTest, RefusesWhatItCannotDo) {
  run_threads(2, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    const int peer = 1 - wiring.rank();
    Bytes in(64);
    for (const int rank : {-1, wiring.rank(), 2, 1 << 20}) {
      EXPECT_EQ(driver->post(receive_from(rank, envelope_of(8), in.data(), 1)).code(),
                Code::kInvalidArgument);
    }
    EXPECT_EQ(driver->post(send_to(peer, envelope_of(8), nullptr, 1)).code(),
              Code::kInvalidArgument);
    Transfer odd = receive_from(peer, envelope_of(10), in.data(), 1);
    odd.combine = add_uint32;
    odd.local = in.data();
    odd.message_element = odd.local_element = 4;
    EXPECT_EQ(driver->post(odd).code(), Code::kInvalidArgument);
  });
}

const TransportKind& ucx() {
  const auto kinds = transport_kinds();
  return *std::find_if(kinds.begin(), kinds.end(),
                       [](const TransportKind& kind) { return kind.name == "ucx"; });
}

TEST(ConnectingUcx, RefusesADeviceThatThisMachineHasNot) {
  if (!ucx().missing().empty()) GTEST_SKIP() << ucx().missing();
  if (net_devices().empty()) GTEST_SKIP() << "this machine does not say which devices it has";
  run_threads(2, [](MeshWiring& wiring) {
    wiring.use_net_devices("no-such-device");
    const Status status = ucx().connect(wiring, wiring.others()).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                testing::HasSubstr("BANYAN_NET_DEVICES=no-such-device: word 1 "));
  });
}

// It works where it is asked for GPUs, also where it knows none, and reaches none where it is told
// not to.
TEST(ConnectingUcx, ReachesGpusOnlyWhereItMay) {
  if (!ucx().missing().empty()) GTEST_SKIP() << ucx().missing();
  for (const bool may : {false, true})
    run_threads(2, [&](MeshWiring& wiring) {
      wiring.use_gpu_direct(may);
      Driver driver(ucx(), wiring);
      ASSERT_TRUE(driver.ok());
      EXPECT_TRUE(may || !driver->carries_from(MemoryKind::kDevice));
      EXPECT_EQ(driver->carries_from(MemoryKind::kHost), 0U);
      driver.barrier();
      driver.vanish();
    });
}

// UCX's own warnings would be lines of the program. The lengths: a frame, one of several parts of
// UCX, and one that it asks for leave to send.
TEST(ConnectingUcx, EndsInSilenceWithMessagesThatNobodyReceived) {
  if (!ucx().missing().empty()) GTEST_SKIP() << ucx().missing();
  testing::internal::CaptureStdout();
  run_threads(2, [](MeshWiring& wiring) {
    Driver driver(ucx(), wiring);
    ASSERT_TRUE(driver.ok());
    const Bytes body = message_of(5, 300'000);
    if (wiring.rank() == 0)
      for (const size_t bytes : {8, 8192, 300'000})
        driver.post(send_to(1, envelope_of(bytes), body.data(), 1));
    for (const TimePoint end = deadline_after(0.2); Clock::now() < end;) driver.step();
    driver.barrier();
    driver->abandon();
    driver.vanish();
  });
  EXPECT_THAT(testing::internal::GetCapturedStdout(), testing::Not(testing::HasSubstr("was not")));
}

// Rank 0 hears of a failure elsewhere and goes; rank 1 waits for it no longer than it may.
TEST(ConnectingUcx, EndsWithNewsAndWithTheTime) {
  if (!ucx().missing().empty()) GTEST_SKIP() << ucx().missing();
  const TimePoint begin = Clock::now();
  run_threads(2, [&](MeshWiring& wiring) {
    const bool first = wiring.rank() == 0;
    if (first) wiring.tell(deadline_after(kPatience), {Code::kAborted, "elsewhere"});
    if (!first) wiring.tell(deadline_after(0.3), {});
    const auto transport = ucx().connect(wiring, wiring.others());
    const Code code = transport.status().code();
    if (first) {
      EXPECT_EQ(code, Code::kAborted) << transport.status().message();
    } else {
      EXPECT_TRUE(code == Code::kTimeout || code == Code::kPeerLost) << static_cast<int>(code);
    }
    EXPECT_TRUE(wiring.allgather({}).ok());
  });
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(8));
}

}  // namespace
}  // namespace banyan::test::transport_rules_test
