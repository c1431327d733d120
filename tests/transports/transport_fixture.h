// The suites of transports share this: messages, a driver, and the fixture, one test for each row
// of the list, with threads as ranks.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "src/base/clock.h"
#include "tests/transports/wiring.h"
#include "transports/transport.h"

namespace banyan::test {

constexpr double kPatience = 30;

inline Envelope envelope_of(uint64_t bytes, uint32_t call = 1) {
  return {.call = call,
          .epoch = kEpoch,
          .bytes = bytes,
          .signature = {.count = bytes,
                        .root = 0,
                        .collective = Collective::kAllreduce,
                        .type = DataType::kUint8,
                        .op = ReduceOp::kSum,
                        .algorithm = 0}};
}

inline std::byte pattern(uint64_t seed, size_t i) {
  return static_cast<std::byte>((seed * 131 + i * 7 + i / 251) & 0xff);
}

inline Bytes message_of(uint64_t seed, size_t bytes) {
  Bytes result(bytes);
  for (size_t i = 0; i < bytes; ++i) result[i] = pattern(seed, i);
  return result;
}

// A transport with a memory for completions that came while another was waited for.
class Driver {
 public:
  Driver(const TransportKind& kind, MeshWiring& wiring) : wiring_(wiring) {
    auto transport = kind.connect(wiring, wiring.others());
    EXPECT_TRUE(transport.ok()) << transport.status().message();
    if (transport.ok()) transport_ = std::move(*transport);
  }
  // Whatever this rank has posted reaches the others before it leaves.
  ~Driver() {  // NOLINT(bugprone-exception-escape): what fails here ends the test anyway
    if (transport_ == nullptr) return;
    const TimePoint deadline = deadline_after(kPatience);
    while (transport_->flush().code() == Code::kBusy && Clock::now() < deadline) step();
    leave();
  }

  Transport& operator*() { return *transport_; }
  Transport* operator->() { return transport_.get(); }
  bool ok() const { return transport_ != nullptr; }

  // A barrier that keeps the transport moving, for those whose peers need that.
  void barrier() {
    done_.store(false);
    std::thread waiter([this] {
      EXPECT_TRUE(wiring_.allgather({}).ok());
      done_.store(true);
    });
    while (!done_.load()) step();
    waiter.join();
  }
  // As barrier(), then the transport is gone.
  void leave() {
    if (transport_ == nullptr) return;
    barrier();
    transport_.reset();
  }
  void vanish() { transport_.reset(); }

  void post(const Transfer& transfer) {
    const TimePoint deadline = deadline_after(kPatience);
    Status status = transport_->post(transfer);
    while (status.code() == Code::kBusy && Clock::now() < deadline) {
      step();
      status = transport_->post(transfer);
    }
    EXPECT_TRUE(status.ok()) << status.message();
  }

  Completion wait(uint64_t cookie) {
    const TimePoint deadline = deadline_after(kPatience);
    while (Clock::now() < deadline) {
      if (const auto found = take(cookie)) return *found;
      step();
    }
    ADD_FAILURE() << "no completion of " << cookie;
    return {.cookie = cookie, .code = Code::kTimeout, .seen = {}};
  }

  std::optional<Completion> take(uint64_t cookie) {
    const auto found = std::find_if(seen_.begin(), seen_.end(), [&](const Completion& completion) {
      return completion.cookie == cookie;
    });
    if (found == seen_.end()) return std::nullopt;
    const Completion result = *found;
    seen_.erase(found);
    return result;
  }

  void step() {
    std::array<Completion, 4> completions;
    auto count = transport_->poll(completions);
    ASSERT_TRUE(count.ok()) << count.status().message();
    seen_.insert(seen_.end(), completions.begin(), completions.begin() + *count);
    if (*count == 0) std::this_thread::yield();
  }

 private:
  MeshWiring& wiring_;
  std::unique_ptr<Transport> transport_;
  std::vector<Completion> seen_;
  std::atomic<bool> done_ = false;
};

inline Transfer send_to(int peer, const Envelope& envelope, const std::byte* memory,
                        uint64_t cookie, Lane lane = Lane::kCollective) {
  Transfer transfer;
  transfer.direction = Direction::kSend;
  transfer.lane = lane;
  transfer.peer = peer;
  transfer.envelope = envelope;
  transfer.memory = const_cast<std::byte*>(memory);  // a source is never written
  transfer.cookie = cookie;
  return transfer;
}

inline Transfer receive_from(int peer, const Envelope& envelope, std::byte* memory, uint64_t cookie,
                             Lane lane = Lane::kCollective) {
  Transfer transfer = send_to(peer, envelope, memory, cookie, lane);
  transfer.direction = Direction::kRecv;
  return transfer;
}

inline void add_uint32(void* dst, const void* local, const void* incoming, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t a = 0;
    uint32_t b = 0;
    std::memcpy(&a, static_cast<const std::byte*>(local) + i * 4, 4);
    std::memcpy(&b, static_cast<const std::byte*>(incoming) + i * 4, 4);
    a += b;
    std::memcpy(static_cast<std::byte*>(dst) + i * 4, &a, 4);
  }
}

class TransportTest : public testing::TestWithParam<int> {
 protected:
  static const TransportKind& kind() { return transport_kinds()[GetParam()]; }
  void SetUp() override {
    const std::string why = kind().missing();
    if (!why.empty()) GTEST_SKIP() << kind().name << ": " << why;
  }
};

}  // namespace banyan::test
