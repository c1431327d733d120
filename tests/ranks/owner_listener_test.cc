// Whoever listens to a thread that makes calls hears of each one, and of the communicator's failure
// also while nothing is under way.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "src/communicator/owner.h"
#include "tests/ranks/coded.h"
#include "tests/ranks/ranks_fixture.h"
#include "tests/support/toy_codec.h"

namespace banyan::test::owner_listener_test {
namespace {

TimePoint patience() {
  return deadline_after(20 * time_factor());
}

// A coded sum that keeps what is left, whose numbers are written when it begins.
struct Kept {
  Kept(const Rank& self, size_t count, size_t its_salt)
      : salt(its_salt), numbers(small_numbers(count, self.rank(), salt)), send(count) {
    made = coded_allreduce("direct", kToy, kNoCodec, send, recv);
    made.problem.keeps_left = true;
  }
  Kept(const Kept&) = delete;

  size_t salt;
  std::vector<float> numbers, send, recv, left;
  std::vector<Left> table;
  Call made;
  uint64_t sent = 0;
  Clock::duration codec_time{};
  int began = 0, ended = 0;
  Status status;
};

// Owns what is heard; the owner's thread writes it before it says that a call has ended.
class Heard final : public Owner::Listener {
 public:
  Status begins(uint64_t tag, Call& call, const Schedule& schedule) override {
    Kept& kept = *calls.at(tag);
    ++kept.began;
    if (!refuses.ok()) return refuses;
    kept.send = kept.numbers;
    kept.left.assign(schedule.left_count, std::numeric_limits<float>::quiet_NaN());
    kept.table = schedule.lefts;
    call.left = reinterpret_cast<std::byte*>(kept.left.data());
    return {};
  }
  void ended(uint64_t tag, const Status& status, uint64_t sent,
             Clock::duration codec_time) override {
    Kept& kept = *calls.at(tag);
    ++kept.ended;
    kept.status = status;
    kept.sent = sent;
    kept.codec_time = codec_time;
    if (failures != 0) ++late_ends;
    if (then) then(tag);
    ++ends;
  }
  void failed(const Status& status) override {
    failure = status;
    ++failures;
  }

  Status refuses;  // to begin
  std::map<uint64_t, std::unique_ptr<Kept>> calls;
  std::function<void(uint64_t)> then;
  std::atomic<int> ends{0}, failures{0};
  int late_ends = 0;
  Status failure;
};

void wait_for(Rank& self, const std::atomic<int>& number, int least) {
  self.expect(self.wait_until([&] { return number.load() >= least; }), "it was not heard");
}

class Listeners : public WithRanks {};

// What the contribution of this rank has lost, and what its share of the sum has, which the result
// has not.
void expect_right(Rank& self, const Kept& kept) {
  const size_t count = kept.numbers.size();
  self.expect(kept.began == 1 && kept.ended == 1 && kept.status.ok(), "a call's beginning and end");
  self.expect(kept.recv == toy_sums(count, self.size(), kept.salt), "its sum");
  self.expect(kept.left.size() == count + part_of(count, self.size(), self.rank()).count, "room");
  self.expect(kept.sent > 0 && kept.sent < 8 * count, fmt::format("{} bytes sent", kept.sent));
  self.expect(kept.codec_time > Clock::duration(), "no time passed");
  bool all = true;
  for (const float left : kept.left) all = all && !std::isnan(left);
  self.expect(all, "some of what is left was not written");
  const std::vector<float> sums = sums_of_small_numbers(count, self.size(), kept.salt);
  std::vector<float> left(count);
  for (const auto& [place, elements] : kept.table)
    for (uint64_t i = 0; i < elements.count; ++i) left[elements.begin + i] += kept.left[place + i];
  std::vector<float> all_left(count * static_cast<size_t>(self.size()));
  if (count > 128) return;  // gather() takes no more
  self.gather(left.data(), all_left.data(), count * sizeof(float));
  for (size_t i = 0; i < count; ++i) {
    float sum = kept.recv[i];
    for (size_t rank = 0; rank < static_cast<size_t>(self.size()); ++rank)
      sum += all_left[rank * count + i];
    if (!self.expect(sum == sums[i], fmt::format("element {}: {}", i, sum))) return;
  }
}

// Each next one is submitted as the one before it ends, by the thread that then must not wait: the
// first one's place is the only one. Among calls that have no tag.
TEST_P(Listeners, HearOfEachCallAndSubmitTheNext) {
  for (const size_t most : {1, 4})
    run_joined(3, [&](Rank& self, banyan_comm_t comm) {
      constexpr uint64_t kCalls = 40;
      use_toys(comm);
      Heard heard;
      for (uint64_t tag = 0; tag < kCalls; ++tag)
        heard.calls[tag] = std::make_unique<Kept>(self, tag % 10 == 9 ? 70'000 : 50 + tag,
                                                  static_cast<size_t>(tag));
      const std::unique_ptr<Owner> owner = own(comm, most, &heard);
      std::atomic<int> refused{0};
      heard.then = [&](uint64_t tag) {
        if (tag + 1 == kCalls) return;
        if (!owner->submit(heard.calls[tag + 1]->made, {}, tag + 1).ok()) ++refused;
      };
      if (most > 1) {
        std::vector<float> recv;
        const std::vector<float> send = small_numbers(1000, self.rank(), 3);
        const Result<Submission> other =
            owner->submit(coded_allreduce("direct", kNoCodec, kNoCodec, send, recv));
        self.expect(other.ok() && other->wait(patience()) && other->status().ok(), "without a tag");
        self.expect(recv == sums_of_small_numbers(1000, self.size(), 3), "its sum");
        self.expect(heard.ends == 0, "it was heard of a call without a tag");
      }
      self.expect(owner->submit(heard.calls[0]->made, {}, 0).ok(), "there is room");
      wait_for(self, heard.ends, kCalls);
      self.expect(refused == 0, "one was refused");
      for (const auto& [tag, kept] : heard.calls) expect_right(self, *kept);
      self.expect(heard.failures == 0, "a failure");
    });
}

// Callers help at once, a little later, when the owner rests, two at a time, or not at all; whoever
// drives, each call ends. A wake that is lost would leave one hanging.
TEST_P(Listeners, HearOfCallsThatCallersHelpWith) {
  run_joined(2, [&](Rank& self, banyan_comm_t comm) {
    constexpr uint64_t kCalls = 400;
    use_toys(comm);
    Heard heard;
    for (uint64_t tag = 0; tag < kCalls; ++tag)
      heard.calls[tag] = std::make_unique<Kept>(self, 50 + tag % 7, static_cast<size_t>(tag));
    const std::unique_ptr<Owner> owner = own(comm, 4, &heard);
    for (uint64_t tag = 0; tag < kCalls; ++tag) {
      if (tag % 100 == 99) std::this_thread::sleep_for(std::chrono::milliseconds(5));  // it rests
      if (!self.expect(owner->submit(heard.calls[tag]->made, {}, tag).ok(), "there is room"))
        return;
      const auto over = [&] { return heard.ends.load() > static_cast<int>(tag); };
      if (tag % 3 == 1)
        std::this_thread::sleep_for(std::chrono::microseconds(tag % 50));  // it began
      std::thread second;
      if (tag % 10 == 7) second = std::thread([&] { owner->help(over); });
      if (tag % 4 != 3) owner->help(over);
      if (second.joinable()) second.join();
      wait_for(self, heard.ends, static_cast<int>(tag) + 1);
    }
    owner->help([] { return false; });  // there is nothing to do
    for (const auto& [tag, kept] : heard.calls) expect_right(self, *kept);
  });
}

// Callers that help again and again keep the owner's thread from looking itself.
TEST_P(Listeners, HearOfAFailureWhileACallerHelpsInALoop) {
  run(3, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    Heard heard;
    std::unique_ptr<Owner> owner = own(comm, 4, &heard);
    self.meet();
    constexpr int kBefore = 10'000;  // by then the owner's thread naps
    const TimePoint deadline = deadline_after(5 * time_factor());
    for (int helps = 0; heard.failures == 0 && Clock::now() < deadline; ++helps) {
      owner->help([] { return false; });
      if (helps == kBefore && self.rank() == 1)
        owner->fail({Code::kMismatch, -1, "tensor 7 is not there"});
    }
    self.expect(heard.failures == 1, "the failure was not told");
    owner.reset();
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
  });
}

void expect_failure(Rank& self, const Heard& heard, Code code, std::string_view text) {
  self.expect(heard.failures == 1, fmt::format("{} failures were told", heard.failures.load()));
  self.expect(heard.failure.code() == code, heard.failure.message());
  self.expect(heard.failure.message().find(text) != std::string_view::npos,
              heard.failure.message());
  self.expect(heard.late_ends == 0, "a call ended after the failure was told");
}

// A call that is submitted after the failure ends with it, and never begins.
void expect_no_more(Rank& self, Owner& owner, Heard& heard, uint64_t tag) {
  const int ends = heard.ends;
  const Result<Submission> later = owner.submit(heard.calls.at(tag)->made, patience(), tag);
  self.expect(later.ok() && later->wait(patience()), "a later call");
  wait_for(self, heard.ends, ends + 1);
  const Kept& kept = *heard.calls.at(tag);
  self.expect(kept.began == 0 && kept.ended == 1 && kept.sent == 0, "it began");
  self.expect(kept.status.message() == heard.failure.message(), "it has another verdict");
}

// With an owner for each rank, which has made a call and rests, `end` is done by the victim.
void end_while_resting(Rank& self, int victim,
                       const std::function<void(banyan_comm_t, Owner&)>& end, Code code,
                       std::string_view text) {
  banyan_comm_t comm = self.join();
  if (comm == nullptr) return;
  use_toys(comm);
  Heard heard;
  for (uint64_t tag = 0; tag < 2; ++tag)
    heard.calls[tag] = std::make_unique<Kept>(self, 1000, static_cast<size_t>(tag));
  std::unique_ptr<Owner> owner = own(comm, 4, &heard);
  self.expect(owner->submit(heard.calls[0]->made, {}, 0).ok(), "there is room");
  wait_for(self, heard.ends, 1);
  self.meet();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // they rest after a millisecond
  self.expect(heard.failures == 0, "a failure before it");
  self.meet();
  self.mark(1);
  if (self.rank() == victim) end(comm, *owner);
  wait_for(self, heard.failures, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it could be told again
  if (self.rank() != victim || code != Code::kPeerLost) expect_failure(self, heard, code, text);
  expect_no_more(self, *owner, heard, 1);
  self.expect(heard.failures == 1, "the failure was told again");
  owner.reset();
  self.expect_ok(banyan_comm_destroy(comm), "destroy");
}

// From the lowest rank and from another one, and where nobody else is.
TEST_P(Listeners, HearWhatAnotherRankSaysWhileTheyRest) {
  for (const auto& [size, victim] : {std::pair(3, 0), std::pair(3, 2), std::pair(1, 0)})
    run(size, [&, who = victim](Rank& self) {
      end_while_resting(
          self, who,
          [](banyan_comm_t, Owner& owner) {
            std::thread([&] { owner.fail({Code::kMismatch, -1, "tensor 7 is not there"}); }).join();
          },
          Code::kMismatch, "tensor 7 is not there");
    });
}

TEST_P(Listeners, HearThatARankAbortsWhileTheyRest) {
  run(3, [](Rank& self) {
    end_while_resting(
        self, 1,
        [&](banyan_comm_t comm, Owner&) { self.expect_ok(banyan_comm_abort(comm), "abort"); },
        Code::kPeerLost, "rank 1 aborted");
  });
}

TEST_P(Listeners, HearThatARankIsKilledWhileTheyRest) {
  if (GetParam() == Kind::kThreads)
    GTEST_SKIP() << "threads cannot be killed: see the variant with processes";
  Job job(GetParam(), 3, [](Rank& self) {
    end_while_resting(
        self, 1, [&](banyan_comm_t, Owner&) { self.wait_until([] { return false; }); },
        Code::kPeerLost, "rank 1 is lost");
  });
  ASSERT_TRUE(job.wait_for_marks(1, 20));
  job.signal(1, SIGKILL);
  job.finish();
}

// The calls of the others are under way, and wait for a rank that submits none.
TEST_P(Listeners, HearTheEndsOfCallsBeforeTheFailure) {
  run(3, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    use_toys(comm);
    Heard heard;
    for (uint64_t tag = 0; tag < 4; ++tag)
      heard.calls[tag] = std::make_unique<Kept>(self, 1000, static_cast<size_t>(tag));
    std::unique_ptr<Owner> owner = own(comm, 4, &heard);
    const int calls = self.rank() == 1 ? 0 : 3;
    for (uint64_t tag = 0; tag < static_cast<uint64_t>(calls); ++tag)
      self.expect(owner->submit(heard.calls[tag]->made, {}, tag).ok(), "there is room");
    self.meet();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // calls are under way
    if (self.rank() == 1) owner->fail({Code::kTimeout, 1, "tensor 7 never came"});
    wait_for(self, heard.failures, 1);
    expect_failure(self, heard, Code::kTimeout, "tensor 7 never came");
    self.expect(heard.ends == calls, "a call has no end");
    for (uint64_t tag = 0; tag < static_cast<uint64_t>(calls); ++tag)
      self.expect(heard.calls[tag]->status.message() == heard.failure.message() &&
                      heard.calls[tag]->sent == 0,
                  "another end");
    expect_no_more(self, *owner, heard, 3);
    owner.reset();
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
  });
}

// A listener of one rank has nothing to give to a call.
TEST_P(Listeners, HearThatOneOfThemCannotBegin) {
  run(3, [](Rank& self) {
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    use_toys(comm);
    Heard heard;
    for (uint64_t tag = 0; tag < 2; ++tag)
      heard.calls[tag] = std::make_unique<Kept>(self, 1000, static_cast<size_t>(tag));
    if (self.rank() == 1) heard.refuses = {Code::kCuda, "rank 1 has lost its GPU"};
    std::unique_ptr<Owner> owner = own(comm, 4, &heard);
    const auto submit = [&] {
      self.expect(owner->submit(heard.calls[0]->made, {}, 0).ok(), "there is room");
    };
    if (self.rank() != 1) submit();
    self.meet();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // calls are under way
    if (self.rank() == 1) submit();
    wait_for(self, heard.failures, 1);
    wait_for(self, heard.ends, 1);
    expect_failure(self, heard, Code::kCuda, "rank 1 has lost its GPU");
    self.expect(heard.ends == 1 && heard.calls[0]->status.code() == Code::kCuda, "its end");
    expect_no_more(self, *owner, heard, 1);
    owner.reset();
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
  });
}

INSTANTIATE_TEST_SUITE_P(All, Listeners, both_kinds(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::owner_listener_test
