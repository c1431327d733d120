// What every transport must do: carry, combine, keep order, be busy rather than unbounded.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "tests/transports/transport_fixture.h"
#include "transports/quick_lane.h"

namespace banyan::test::transport_test {
namespace {

// 24 B and 32 KiB are where shm changes from line to slot and from one slot to several, 64 KiB (or
// 8 KiB), 192 KiB and every 512 KiB where ucx changes its frames.
constexpr size_t kSizes[] = {0,      1,      24,     25,     31,
                             32,     33,     4095,   8191,   8192,
                             8193,   16384,  32767,  32768,  32769,
                             65535,  65536,  65537,  98304,  99999,
                             196608, 262145, 524288, 524289, (1 << 20) + 1,
                             5 << 20};

// Everybody sends `bytes` to everybody in both lanes, from and to unaligned memory.
void exchange(MeshWiring& wiring, Driver& driver, size_t bytes) {
  const int self = wiring.rank();
  struct Pair {
    Bytes out;
    Bytes in;
  };
  std::vector<Pair> pairs;
  for (int peer = 0; peer < wiring.size(); ++peer) {
    for (int lane = 0; lane < kLaneCount; ++lane) {
      Bytes out(1);
      const Bytes body = message_of(self * 100 + peer * 10 + lane, bytes);
      out.insert(out.end(), body.begin(), body.end());
      pairs.push_back({std::move(out), Bytes(bytes + 4, std::byte{0xee})});
    }
  }
  const Envelope envelope = envelope_of(bytes);
  for (const int peer : wiring.others()) {
    for (int lane = 0; lane < kLaneCount; ++lane) {
      Pair& pair = pairs[peer * kLaneCount + lane];
      driver.post(receive_from(peer, envelope, pair.in.data() + 3, peer * 10 + lane,
                               static_cast<Lane>(lane)));
      driver.post(send_to(peer, envelope, pair.out.data() + 1, 1000 + peer * 10 + lane,
                          static_cast<Lane>(lane)));
    }
  }
  for (const int peer : wiring.others()) {
    for (int lane = 0; lane < kLaneCount; ++lane) {
      EXPECT_EQ(driver.wait(peer * 10 + lane).code, Code::kOk);
      EXPECT_EQ(driver.wait(1000 + peer * 10 + lane).code, Code::kOk);
      const Bytes& in = pairs[peer * kLaneCount + lane].in;
      const Bytes expected = message_of(peer * 100 + self * 10 + lane, bytes);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), in.begin() + 3)) << bytes;
      EXPECT_EQ(in[2], std::byte{0xee});
      EXPECT_EQ(in.back(), std::byte{0xee});
    }
  }
}

TEST_P(TransportTest, CarriesEverySizeBetweenTwoRanks) {
  run_threads(2, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    for (const size_t bytes : kSizes) exchange(wiring, driver, bytes);
  });
}

TEST_P(TransportTest, ConnectsAnyNumberOfRanks) {
  for (int size = 2; size <= 5; ++size) {
    run_threads(size, [](MeshWiring& wiring) {
      Driver driver(kind(), wiring);
      ASSERT_TRUE(driver.ok());
      for (const size_t bytes : {0, 5, 700, 70'001}) exchange(wiring, driver, bytes);
    });
  }
}

// Elements of two bytes on the wire, of eight in memory.
void add_wide(void* dst, const void* local, const void* incoming, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    double a = 0;
    uint16_t b = 0;
    std::memcpy(&a, static_cast<const std::byte*>(local) + i * 8, 8);
    std::memcpy(&b, static_cast<const std::byte*>(incoming) + i * 2, 2);
    a += b;
    std::memcpy(static_cast<std::byte*>(dst) + i * 8, &a, 8);
  }
}

// Whoever uses a quick lane meets whoever does not, in any order.
TEST_P(TransportTest, QuickLanesCarryWhatQueuesCarry) {
  std::atomic<bool> has_none{false};
  run_threads(2, [&](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    const int peer = 1 - wiring.rank();
    QuickLane* quick = driver->quick_lane(peer, Lane::kCollective);
    if (quick == nullptr) {
      has_none = true;
      return;
    }
    const TimePoint deadline = deadline_after(kPatience);
    const auto go_on = [&] {
      quick->progress();
      return Clock::now() < deadline;
    };
    size_t longest = 4096;
    while (quick->takes(send_to(peer, envelope_of(longest + 1), nullptr, 0))) ++longest;
    const size_t sizes[] = {0, 1, 24, 25, 4096, longest};
    for (uint32_t call = 1; call <= 96; ++call) {
      const size_t bytes = sizes[call % std::size(sizes)];
      const Envelope envelope = envelope_of(bytes, call);
      const Bytes out = message_of(wiring.rank() + 2 * call, bytes);
      Bytes in(bytes);
      if (call / 6 % 2 == 0) {
        while (quick->send(out.data(), envelope) == QuickLane::Departure::kNoRoom)
          ASSERT_TRUE(go_on());
      } else {
        driver.post(send_to(peer, envelope, out.data(), 1));
      }
      if (call / 12 % 2 == 0) {
        auto arrival = QuickLane::Arrival::kNotThere;
        while (arrival == QuickLane::Arrival::kNotThere && go_on())
          arrival = quick->receive(receive_from(peer, envelope, in.data(), 0));
        ASSERT_EQ(arrival, QuickLane::Arrival::kTaken) << call;
      } else {
        driver.post(receive_from(peer, envelope, in.data(), 2));
        ASSERT_EQ(driver.wait(2).code, Code::kOk);
      }
      if (call / 6 % 2 != 0) {
        ASSERT_EQ(driver.wait(1).code, Code::kOk);
      }
      ASSERT_EQ(in, message_of(peer + 2 * call, bytes)) << call;
    }
    // What is not expected is for the queues to deal with.
    const Envelope sent = envelope_of(8, 100);
    std::byte memory[8] = {};
    ASSERT_EQ(quick->send(memory, sent), QuickLane::Departure::kSent);
    const Transfer other = receive_from(peer, envelope_of(4, 100), memory, 3);
    auto arrival = QuickLane::Arrival::kNotThere;
    while (arrival == QuickLane::Arrival::kNotThere && go_on()) arrival = quick->receive(other);
    EXPECT_EQ(arrival, QuickLane::Arrival::kOther);
    driver.post(other);
    EXPECT_EQ(driver.wait(3).code, Code::kMismatch);
  });
  // A transport need not have them: loopback, the plain one, does not.
  if (has_none) GTEST_SKIP() << "this transport has queues only, and no quick lanes";
}

// Whoever has sent by a quick lane may wait for its delivery as for any other completion.
TEST_P(TransportTest, ReportsADeliveryWhereALaneIsQuick) {
  run_threads(2, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    const int peer = 1 - wiring.rank();
    QuickLane* quick = driver->quick_lane(peer, Lane::kMessage);
    if (quick == nullptr) {
      EXPECT_EQ(driver->report_delivery(peer, Lane::kMessage, 7).code(), Code::kUnsupported);
      return;
    }
    std::byte memory[8] = {};
    const Envelope envelope = envelope_of(sizeof memory);
    if (wiring.rank() == 0) {
      ASSERT_EQ(quick->send(memory, envelope), QuickLane::Departure::kSent);
      ASSERT_EQ(driver->report_delivery(peer, Lane::kMessage, 7).code(), Code::kOk);
      EXPECT_EQ(driver.wait(7).code, Code::kOk);
      EXPECT_TRUE(quick->delivered());
    } else {
      driver.post(receive_from(peer, envelope, memory, 1, Lane::kMessage));
      EXPECT_EQ(driver.wait(1).code, Code::kOk);
    }
  });
}

TEST_P(TransportTest, CombinesWhatItReceives) {
  run_threads(2, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    const int peer = 1 - wiring.rank();
    for (const size_t count : {0, 1, 6, 7, 8192, 8193, 70'000, 300'001}) {
      std::vector<uint32_t> out(count);
      std::vector<uint32_t> local(count);
      std::iota(out.begin(), out.end(), 1000 * wiring.rank());
      std::iota(local.begin(), local.end(), 5);
      std::vector<uint32_t> in(count);
      const Envelope envelope = envelope_of(count * 4);
      Transfer receive = receive_from(peer, envelope, reinterpret_cast<std::byte*>(in.data()), 1);
      receive.combine = add_uint32;
      receive.local = reinterpret_cast<const std::byte*>(local.data());
      receive.message_element = receive.local_element = 4;
      driver.post(send_to(peer, envelope, reinterpret_cast<const std::byte*>(out.data()), 2));
      driver.post(receive);
      EXPECT_EQ(driver.wait(1).code, Code::kOk);
      EXPECT_EQ(driver.wait(2).code, Code::kOk);
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(in[i], 5 + i + 1000 * peer + i) << i << " of " << count;
      }
    }
  });
}

TEST_P(TransportTest, CombinesElementsOfAnotherLength) {
  run_threads(2, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    const int peer = 1 - wiring.rank();
    for (const size_t count : {1, 12, 13, 16'385, 150'001}) {
      std::vector<uint16_t> out(count);
      for (size_t i = 0; i < count; ++i) out[i] = static_cast<uint16_t>(i * 3 + wiring.rank());
      std::vector<double> sum(count, 0.5);  // in place
      const Envelope envelope = envelope_of(count * 2);
      Transfer receive = receive_from(peer, envelope, reinterpret_cast<std::byte*>(sum.data()), 1);
      receive.combine = add_wide;
      receive.local = reinterpret_cast<const std::byte*>(sum.data());
      receive.message_element = 2;
      receive.local_element = 8;
      driver.post(receive);
      driver.post(send_to(peer, envelope, reinterpret_cast<const std::byte*>(out.data()), 2));
      EXPECT_EQ(driver.wait(1).code, Code::kOk);
      EXPECT_EQ(driver.wait(2).code, Code::kOk);
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(sum[i], 0.5 + static_cast<uint16_t>(i * 3 + peer)) << i << " of " << count;
      }
    }
  });
}

TEST_P(TransportTest, KeepsTheOrderOfALane) {
  run_threads(2, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    constexpr int kMessages = 400;
    const auto bytes_of = [](int i) -> size_t {
      return i % 17 == 0 ? 70'000 + i : i % 5 == 0 ? 3000 + i : i % 29;
    };
    std::vector<Bytes> memory;
    for (int i = 0; i < kMessages; ++i) {
      memory.push_back(wiring.rank() == 0 ? message_of(i, bytes_of(i)) : Bytes(bytes_of(i)));
    }
    for (int i = 0; i < kMessages; ++i) {
      const Envelope envelope = envelope_of(bytes_of(i), i);
      driver.post(wiring.rank() == 0 ? send_to(1, envelope, memory[i].data(), i)
                                     : receive_from(0, envelope, memory[i].data(), i));
    }
    for (int i = 0; i < kMessages; ++i) {
      EXPECT_EQ(driver.wait(i).code, Code::kOk);
      EXPECT_EQ(memory[i], message_of(i, bytes_of(i))) << i;
    }
  });
}

TEST_P(TransportTest, IsBusyRatherThanUnbounded) {
  run_threads(2, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    int posted = 0;
    if (wiring.rank() == 0) {
      const Bytes body = message_of(1, 1000);
      while (posted < 100'000) {
        const Status status = driver->post(
            send_to(1, envelope_of(1000, posted), body.data(), posted, Lane::kMessage));
        if (!status.ok()) {
          EXPECT_EQ(status.code(), Code::kBusy);
          break;
        }
        ++posted;
      }
      EXPECT_GT(posted, 0);
      EXPECT_LT(posted, 100'000);
      auto told = wiring.allgather(std::as_bytes(std::span(&posted, 1)));
      ASSERT_TRUE(told.ok());
      for (int i = 0; i < posted; ++i) EXPECT_EQ(driver.wait(i).code, Code::kOk);
    } else {
      auto told = wiring.allgather({});
      ASSERT_TRUE(told.ok());
      std::memcpy(&posted, (*told)[0].data(), sizeof posted);
      Bytes in(1000);
      for (int i = 0; i < posted; ++i) {
        driver.post(receive_from(0, envelope_of(1000, i), in.data(), i, Lane::kMessage));
        EXPECT_EQ(driver.wait(i).code, Code::kOk);
        EXPECT_EQ(in, message_of(1, 1000));
      }
      // Receives are bounded too.
      int receives = 0;
      while (receives < 100'000 &&
             driver->post(receive_from(0, envelope_of(8), in.data(), 1)).ok()) {
        ++receives;
      }
      EXPECT_LT(receives, 100'000);
    }
  });
}

TEST_P(TransportTest, ABlockedLaneBlocksNoOther) {
  run_threads(2, [](MeshWiring& wiring) {
    Driver driver(kind(), wiring);
    ASSERT_TRUE(driver.ok());
    const Bytes body = message_of(2, 100'000);
    Bytes in(100'000);
    uint64_t sends = 0;
    if (wiring.rank() == 0) {
      while (
          driver->post(send_to(1, envelope_of(100'000), body.data(), 100 + sends, Lane::kMessage))
              .ok()) {
        ++sends;
      }
      for (int i = 0; i < 50; ++i) driver.post(send_to(1, envelope_of(100'000), body.data(), i));
      for (int i = 0; i < 50; ++i) EXPECT_EQ(driver.wait(i).code, Code::kOk);
    } else {
      for (int i = 0; i < 50; ++i) {
        driver.post(receive_from(0, envelope_of(100'000), in.data(), i));
        EXPECT_EQ(driver.wait(i).code, Code::kOk);
        EXPECT_EQ(in, body);
      }
    }
    auto told = wiring.allgather(std::as_bytes(std::span(&sends, 1)));
    ASSERT_TRUE(told.ok());
    std::memcpy(&sends, (*told)[0].data(), sizeof sends);
    for (uint64_t i = 0; i < sends; ++i) {
      if (wiring.rank() == 1) {
        driver.post(receive_from(0, envelope_of(100'000), in.data(), 100 + i, Lane::kMessage));
      }
      EXPECT_EQ(driver.wait(100 + i).code, Code::kOk);
    }
  });
}
// UCX's hooks into memory management crash under ThreadSanitizer; RDMA alone needs them.
class WithoutHooks : public testing::Environment {
  void SetUp() override { setenv("UCX_MEM_EVENTS", "n", 0); }  // NOLINT: no other thread yet
};
const testing::Environment* const without_hooks =
    testing::AddGlobalTestEnvironment(new WithoutHooks);

// This stands for the tests of all sources that have such.
INSTANTIATE_TEST_SUITE_P(All, TransportTest,
                         testing::Range(0, static_cast<int>(transport_kinds().size())),
                         [](const testing::TestParamInfo<int>& row) {
                           return std::string(transport_kinds()[row.param].name);
                         });
std::vector<std::string_view> chosen(std::string_view text) {
  const auto parsed = parse_transports(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  std::vector<std::string_view> names;
  if (!parsed.ok()) return names;
  for (const int index : *parsed) names.push_back(transport_kinds()[index].name);
  return names;
}

using Names = std::vector<std::string_view>;

TEST(ParseTransports, NamesAndExclusions) {
  EXPECT_EQ(chosen("shm"), Names{"shm"});
  EXPECT_EQ(chosen(" loopback , shm "), (Names{"loopback", "shm"})) << "preferred first";
  EXPECT_EQ(chosen("^ucx"), (Names{"shm", "loopback"}));
  EXPECT_EQ(chosen("^ucx,loopback"), Names{"shm"});
  EXPECT_EQ(chosen("").front(), "shm");
  EXPECT_EQ(chosen("").back(), "loopback");
}

TEST(ParseTransports, ErrorsSayWhatAndWhere) {
  const auto unknown = parse_transports("shm,tcp").status();
  EXPECT_EQ(unknown.code(), Code::kInvalidArgument);
  for (const std::string_view part : {"word 2", "'tcp'", "shm, ucx, loopback"}) {
    EXPECT_NE(unknown.message().find(part), std::string_view::npos) << unknown.message();
  }
  for (const std::string_view wrong :
       {"shm,^ucx", "shm,shm", ",", "shm,", "^", "^shm,ucx,loopback", "SHM", "sh"}) {
    EXPECT_EQ(parse_transports(wrong).status().code(), Code::kInvalidArgument) << wrong;
  }
}

TEST(ParseTransports, ErrorsQuoteTheWholeText) {
  EXPECT_NE(parse_transports("^").status().message().find("'^'"), std::string_view::npos);
  EXPECT_NE(parse_transports("^shm,sh").status().message().find("'^shm,sh'"),
            std::string_view::npos);
}

TEST(ParseTransports, SaysWhyOneIsMissing) {
  for (const TransportKind& kind : transport_kinds()) {
    const std::string why = kind.missing();
    const auto status = parse_transports(kind.name).status();
    EXPECT_EQ(status.ok(), why.empty());
    if (why.empty()) continue;
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_NE(status.message().find(why), std::string_view::npos);
  }
}

}  // namespace
}  // namespace banyan::test::transport_test
