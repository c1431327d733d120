// Ranks that disagree are all told so, soon, with the field and two ranks in the text, and no
// output is written.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "algorithms/algorithms.h"
#include "tests/ranks/ranks_cases.h"
#include "tests/ranks/ranks_fixture.h"

namespace banyan::test::mismatch_test {
namespace {

constexpr double kSoon = 2;
constexpr size_t kSmall = 64;
constexpr size_t kLarge = size_t{1} << 16;
constexpr std::byte kMark{0xA5};

class Mismatch : public WithRanks {};

// The numbers that stand in a text by themselves.
std::set<int> numbers_in(std::string_view text) {
  std::set<int> numbers;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    const bool word = i > 0 && (std::isalnum(static_cast<unsigned char>(text[i - 1])) != 0);
    if (end > i && end - i < 9 && !word) numbers.insert(std::atoi(text.substr(i, end - i).data()));
    i = std::max(end, i + 1);
  }
  return numbers;
}

// What one rank calls; the lists are those of three ranks at most five.
struct Spoken {
  banyan_call_t call = BANYAN_CALL_INIT;
  bool finalize = false;
  bool split = false;
};

// Buffers and lists for any call of up to five ranks.
class Memories {
 public:
  explicit Memories(size_t count)
      : send_(count * 8 * 6), recv_(send_.size(), kMark), counts_(5, count), places_(5) {
    for (size_t i = 0; i < places_.size(); ++i) places_[i] = i * count;
  }
  banyan_call_t call(Collective collective, size_t count) {
    return call_of([&](banyan_call_t& c) {
      c.collective = static_cast<banyan_collective_t>(collective);
      c.send = send_.data();
      c.recv = recv_.data();
      c.count = count;
      c.send_counts = c.recv_counts = counts_.data();
      c.send_displacements = c.recv_displacements = places_.data();
    });
  }
  std::vector<size_t>& counts() { return counts_; }
  bool untouched() const {
    return std::all_of(recv_.begin(), recv_.end(), [](std::byte byte) { return byte == kMark; });
  }

 private:
  Memory send_, recv_;
  std::vector<size_t> counts_, places_;
};

banyan_result_t speak(const Spoken& spoken, banyan_comm_t comm) {
  banyan_comm_t child = nullptr;
  if (spoken.finalize) return banyan_comm_finalize(comm);
  if (spoken.split) return banyan_comm_split(comm, 0, 0, &child, nullptr);
  return spoken.call.algorithm != nullptr ? call_request(spoken.call, comm)
                                          : call_blocking(spoken.call, comm);
}

void expect_mismatch(Rank& self, banyan_comm_t comm, banyan_result_t result, TimePoint begin,
                     std::string_view word, const std::string& what) {
  if (!self.expect_code(result, BANYAN_ERR_MISMATCH, what)) return;
  const std::string text = banyan_last_error(comm);
  self.expect(text.find(word) != std::string::npos, what + ": names not the field: " + text);
  int named = 0;
  for (const int number : numbers_in(text)) named += number < self.size() ? 1 : 0;
  self.expect(named >= 2, what + ": names not two ranks: " + text);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  self.expect(seconds < kSoon * time_factor(), fmt::format("{} took {} s", what, seconds));
  uint64_t digest = 0;
  for (const char letter : text) digest = mix(digest ^ static_cast<unsigned char>(letter));
  self.agree(digest, what + ": the text is the same on all ranks: " + text);
}

// All ranks meet anew, one of them says something else, and all of them find out. False: no
// communicator to be had.
bool disagree(Rank& self, const Spoken& mine, const Memories& memories, std::string_view word,
              const std::string& what) {
  banyan_comm_t comm = self.join();
  if (comm == nullptr) return false;
  self.where(what);
  const TimePoint begin = Clock::now();
  const banyan_result_t result = speak(mine, comm);
  expect_mismatch(self, comm, result, begin, word, what);
  self.expect(memories.untouched(), what + ": recv was written");
  const banyan_result_t later = banyan_barrier(comm);
  self.expect_code(later, BANYAN_ERR_MISMATCH, what + ": a later call");
  self.meet();
  banyan_comm_abort(comm);
  self.expect_ok(banyan_comm_destroy(comm), "destroy");
  return true;
}

enum class Field : uint8_t { kCount, kNoCount, kType, kOp, kRoot, kList, kAlgorithm };

bool has(Collective collective, Field field) {
  const bool list = has_blocks_of_own_length(collective);
  switch (field) {
    case Field::kCount:
    case Field::kNoCount: return !list && collective != Collective::kBarrier;
    case Field::kType: return collective != Collective::kBarrier;
    case Field::kOp: return reduces(collective);
    case Field::kRoot: return has_root(collective);
    case Field::kList: return list && collective != Collective::kAlltoallv;
    case Field::kAlgorithm: return true;
  }
  return false;
}

std::string_view word_of(Field field) {
  constexpr std::string_view kWords[] = {"count", "count", "type",     "op",
                                         "root",  "count", "algorithm"};
  return kWords[static_cast<size_t>(field)];
}

// Two algorithms for the collective.
std::pair<std::string, std::string> two_algorithms(Collective collective) {
  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms())
    if (algorithm.fits(collective)) names.emplace_back(algorithm.name);
  return {names.front(), names.back()};
}

// `odd`: this rank differs.
void change(Spoken& spoken, Memories& memories, Field field, bool odd, int rank,
            const std::pair<std::string, std::string>& names) {
  banyan_call_t& call = spoken.call;
  const bool changes = odd && field != Field::kAlgorithm;
  if (field == Field::kAlgorithm) call.algorithm = (odd ? names.first : names.second).c_str();
  if (!changes) return;
  if (field == Field::kCount) call.count -= 1;
  if (field == Field::kNoCount) call.count = 0;
  if (field == Field::kType) call.datatype = BANYAN_INT32;
  if (field == Field::kOp) call.op = BANYAN_MAX;
  if (field == Field::kRoot) call.root = 1;
  if (field == Field::kList) {
    // Not the own one: that is checked against send_count.
    const auto other = static_cast<size_t>(rank == 0 ? 1 : 0);
    memories.counts()[other] -= 1;
  }
}

TEST_P(Mismatch, OfAnyFieldIsSeenByAll) {
  for (const int size : GetParam() == Kind::kThreads ? std::vector<int>{3} : std::vector<int>{2, 5})
    run(size,
        [](Rank& self) {
          int turn = 0;
          for (const Collective collective : kCollectives)
            for (int f = 0; f <= static_cast<int>(Field::kAlgorithm); ++f) {
              const auto field = static_cast<Field>(f);
              if (!has(collective, field)) continue;
              const size_t count = ++turn % 4 == 0 ? kLarge : kSmall;
              const int odd = turn % self.size();
              const auto names = two_algorithms(collective);
              Memories memories(count);
              Spoken spoken;
              spoken.call = memories.call(collective, count);
              change(spoken, memories, field, self.rank() == odd, self.rank(), names);
              const std::string what = fmt::format("{} of {}, {} differs on rank {}",
                                                   name_of(collective), count, word_of(field), odd);
              if (!disagree(self, spoken, memories, word_of(field), what)) return;
            }
        },
        {.limit_s = 90});
}

TEST_P(Mismatch, OfTheAlgorithmNamesBoth) {
  run(2, [](Rank& self) {
    Memories memories(kSmall);
    Spoken spoken;
    spoken.call = memories.call(Collective::kAllreduce, kSmall);
    spoken.call.algorithm = self.rank() == 0 ? "direct" : "ring";
    disagree(self, spoken, memories, "algorithm differs: rank 0 has direct, rank 1 has ring",
             "two algorithms");
  });
}

// Ranks with other segments would send other messages.
TEST_P(Mismatch, OfParametersNamesTheAlgorithm) {
  run(3, [](Rank& self) {
    struct Row {
      const char *first, *others, *text;
    };
    for (const Row& row :
         {Row{"ring(seg=64)", "ring(seg=128)", "ask for ring with parameters, not the same"},
          Row{"ring(seg=64)", "ring", "rank 0 has ring with parameters, rank"},
          Row{"direct", "ring(seg=64)", "has ring with parameters"},
          Row{"torus(dims=3)", "circulant(seg=128)", "torus with parameters"}}) {
      Memories memories(kSmall);
      Spoken spoken;
      spoken.call = memories.call(Collective::kAllreduce, kSmall);
      spoken.call.algorithm = self.rank() == 0 ? row.first : row.others;
      if (!disagree(self, spoken, memories, row.text, row.text)) return;
    }
  });
}

// Nobody compares arguments then, so the text must not name a collective.
TEST_P(Mismatch, OfTheLengthIsSeenWithoutTheCheck) {
  if (GetParam() == Kind::kThreads) return;  // they share the environment
  run(2, [](Rank& self) {
    setenv("BANYAN_CHECK", "off", 1);
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    Memories memories(kLarge);
    Spoken spoken;
    spoken.call = memories.call(Collective::kAllreduce, self.rank() == 0 ? 100 : 10000);
    const TimePoint begin = Clock::now();
    expect_mismatch(self, comm, speak(spoken, comm), begin, "count differs", "two lengths");
    const std::string text = banyan_last_error(comm);
    self.expect(text.find('(') == std::string::npos, "names a collective: " + text);
    self.meet();
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
  });
}

// A long message goes in pieces, and one that ends with some of them must not be taken for more.
TEST_P(Mismatch, OfTheLengthOfALongMessageIsSeenWithoutTheCheck) {
  if (GetParam() == Kind::kThreads) return;  // they share the environment
  constexpr uint64_t kTwo = 2 * kMessagePiece, kThree = 3 * kMessagePiece;
  for (const auto& lengths :
       {std::pair(kTwo, kThree), std::pair(kThree, kTwo), std::pair(kTwo + 4, kTwo)})
    run(2, [&](Rank& self) {
      setenv("BANYAN_CHECK", "off", 1);
      banyan_comm_t comm = self.join();
      if (comm == nullptr) return;
      const bool sends = self.rank() == 0;
      std::vector<std::byte> memory(sends ? lengths.first : lengths.second);
      const TimePoint begin = Clock::now();
      banyan_result_t result =
          sends ? banyan_send(memory.data(), memory.size(), BANYAN_UINT8, 1, comm)
                : banyan_recv(memory.data(), memory.size(), BANYAN_UINT8, 0, comm);
      if (sends && result == BANYAN_SUCCESS) result = banyan_barrier(comm);  // all of it had left
      expect_mismatch(self, comm, result, begin, "count differs",
                      fmt::format("{} sent", lengths.first));
      self.meet();
      self.expect_ok(banyan_comm_destroy(comm), "destroy");
    });
}

// Every rank knows only its own counts of an alltoallv, so the two that differ find out in the
// call, and the others then or in the next one.
TEST_P(Mismatch, OfTwoCountsOfAnAlltoallvFailsBothAndThenAll) {
  for (const size_t count : {kSmall, kLarge})
    run(4, [&](Rank& self) {
      banyan_comm_t comm = self.join();
      if (comm == nullptr) return;
      Memories memories(count);
      Spoken spoken;
      spoken.call = memories.call(Collective::kAlltoallv, count);
      if (self.rank() == 2) memories.counts()[1] -= 1;
      const TimePoint begin = Clock::now();
      banyan_result_t result = speak(spoken, comm);
      if (result == BANYAN_SUCCESS) {
        self.expect(self.rank() == 0 || self.rank() == 3, "a rank that differs was told nothing");
        result = banyan_barrier(comm);
      }
      expect_mismatch(self, comm, result, begin, "count", "two counts of an alltoallv");
      self.meet();
      self.expect_ok(banyan_comm_destroy(comm), "destroy");
    });
}

TEST_P(Mismatch, OfTheCollectiveIsSeenByAll) {
  run(3,
      [](Rank& self) {
        constexpr int kKinds = static_cast<int>(std::size(kCollectives)) + 2;
        const auto name = [](int kind) {
          return kind == kKinds - 1   ? "finalize"
                 : kind == kKinds - 2 ? "split"
                                      : std::string(name_of(kCollectives[kind]));
        };
        int turn = 0;
        for (int a = 0; a < kKinds; ++a)
          for (int b = 0; b < kKinds; ++b) {
            // Threads: each with its neighbour and with the end.
            const bool wanted = GetParam() == Kind::kProcesses
                                    ? a < b
                                    : b == a + 1 || (b == kKinds - 1 && a < b - 1 && a % 4 == 0);
            if (!wanted) continue;
            const int odd = ++turn % self.size();
            const int mine = (turn % 2 == 0) == (self.rank() == odd) ? a : b;
            Memories memories(kSmall);
            Spoken spoken;
            spoken.finalize = mine == kKinds - 1;
            spoken.split = mine == kKinds - 2;
            if (mine < kKinds - 2) spoken.call = memories.call(kCollectives[mine], kSmall);
            const std::string what =
                fmt::format("{} against {}, rank {} alone", name(a), name(b), odd);
            if (!disagree(self, spoken, memories, "collective", what)) return;
          }
      },
      {.limit_s = 90});
}

TEST_P(Mismatch, OfAMessageIsSeenByAll) {
  for (const bool type : {false, true})
    for (const size_t count : {kSmall, kLarge * 8})
      run(3, [&](Rank& self) {
        Memories memories(count);
        banyan_comm_t comm = self.join();
        if (comm == nullptr) return;
        const banyan_call_t send = memories.call(Collective::kSend, count);
        const std::string what = fmt::format("a message of {}", count);
        const TimePoint begin = Clock::now();
        banyan_result_t result = BANYAN_SUCCESS;
        if (self.rank() == 0)
          result = banyan_send(send.send, count, BANYAN_FLOAT32, 1, comm);
        else if (self.rank() == 1)
          result = banyan_recv(send.recv, type ? count : count - 1,
                               type ? BANYAN_UINT32 : BANYAN_FLOAT32, 0, comm);
        else
          result = banyan_barrier(comm);
        expect_mismatch(self, comm, result, begin, type ? "type" : "count", what);
        self.expect(memories.untouched(), what + ": recv was written");
        self.meet();
        self.expect_ok(banyan_comm_destroy(comm), "destroy");
      });
}

// Nothing moves when a request is made, so that a rank that comes late hears of the failure at its
// start, as those did that were in time.
TEST_P(Mismatch, IsHeardByTheStartOfARankThatComesLate) {
  run(3, [&](Rank& self) {
    Memories memories(kSmall);
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    const bool late = self.rank() == 2;
    banyan_call_t call = memories.call(Collective::kAllreduce, kSmall - (self.rank() == 0 ? 1 : 0));
    if (!late)
      self.expect_code(call_blocking(call, comm), BANYAN_ERR_MISMATCH, "a call of another count");
    self.meet();
    banyan_request_t request = nullptr;
    if (!late) {
      self.expect_code(banyan_request_create(comm, &call, &request), BANYAN_ERR_MISMATCH,
                       "create of a rank that knows");
    } else if (self.expect_ok(banyan_request_create(comm, &call, &request), "create")) {
      self.expect_code(banyan_request_start(request), BANYAN_ERR_MISMATCH, "start");
      self.expect_code(banyan_request_wait(request), BANYAN_ERR_MISMATCH, "wait");
      self.expect_ok(banyan_request_destroy(request), "request_destroy");
      self.expect_code(banyan_request_create(comm, &call, &request), BANYAN_ERR_MISMATCH,
                       "create once it knows");
    }
    self.meet();
    self.expect_ok(banyan_comm_destroy(comm), "destroy");
  });
}

// Whoever is told ends its process at once: no lost peer, for all have the same verdict.
TEST_P(Mismatch, WinsOverTheLossThatFollows) {
  for (int odd = 0; odd < 4; ++odd)
    run(4, [&](Rank& self) {
      Memories memories(kSmall);
      banyan_comm_t comm = self.join();
      if (comm == nullptr) return;
      Spoken spoken;
      spoken.call = memories.call(Collective::kAllreduce, kSmall - (self.rank() == odd ? 1 : 0));
      self.expect_code(speak(spoken, comm), BANYAN_ERR_MISMATCH, "the odd rank leaves at once");
      self.expect_ok(banyan_comm_destroy(comm), "destroy");
    });
}

void expect_no_meeting(Rank& self, int size, int rank, const banyan_config_t* config,
                       std::string_view word) {
  banyan_unique_id_t id{};
  if (self.rank() == 0) self.expect_ok(banyan_get_unique_id(&id), "get_unique_id");
  self.share(&id, sizeof id);
  banyan_comm_t comm = nullptr;
  const TimePoint begin = Clock::now();
  const std::string what = fmt::format("init where {} differs", word);
  self.expect_code(banyan_comm_init(&comm, size, &id, rank, config), BANYAN_ERR_MISMATCH, what);
  self.expect(Clock::now() < begin + std::chrono::duration<double>(kSoon * time_factor()),
              what + " took too long");
  const std::string text = banyan_last_error(nullptr);
  self.expect(text.find(word) != std::string::npos, what + ": " + text);
  self.expect(comm == nullptr, "no communicator after a failure");
  self.meet();  // the rendezvous lives in the process of rank 0
}

TEST_P(Mismatch, AtTheMeetingIsSeenByAll) {
  run(3, [](Rank& self) {
    const bool last = self.rank() == 2;
    expect_no_meeting(self, 3, last ? 1 : self.rank(), nullptr, "rank 1");
    expect_no_meeting(self, last ? 4 : 3, self.rank(), nullptr, "4");
    if (GetParam() == Kind::kThreads) {
      banyan_config_t config = BANYAN_CONFIG_INIT;
      if (last) config.transports = "loopback";
      if (!last) config.transports = "shm";
      expect_no_meeting(self, 3, self.rank(), &config, "TRANSPORTS");
      return;
    }
    setenv("BANYAN_ALGO", last ? "ring" : "direct", 1);
    expect_no_meeting(self, 3, self.rank(), nullptr, "BANYAN_ALGO");
    unsetenv("BANYAN_ALGO");
    setenv("BANYAN_CHECK", last ? "on" : "off", 1);
    expect_no_meeting(self, 3, self.rank(), nullptr, "BANYAN_CHECK");
    unsetenv("BANYAN_CHECK");
    setenv("BANYAN_ALGO", "ring", 1);  // alike
    banyan_comm_t comm = self.join();
    if (comm == nullptr) return;
    self.verify(comm, 100, 1);
    self.leave(comm);
  });
}

// It is refused before the others hear of it, and may call again.
TEST_P(Mismatch, OfARankWithItselfIsItsOwn) {
  run_joined(3, [](Rank& self, banyan_comm_t comm) {
    for (const char* algorithm : {"direct", "pairwise"}) {
      Memories memories(kSmall);
      banyan_call_t call = memories.call(Collective::kAlltoallv, 0);
      call.algorithm = algorithm;
      if (self.rank() == 1) {
        std::vector<size_t> other = memories.counts();
        other[1] += 1;
        call.recv_counts = other.data();
        for (const bool blocking : {true, false})
          self.expect_code(blocking ? call_blocking(call, comm) : call_request(call, comm),
                           BANYAN_ERR_INVALID_ARGUMENT, "a block to itself of two lengths");
        self.expect(memories.untouched(), "nothing was written");
        call.recv_counts = call.send_counts;
      }
      self.expect_ok(call_request(call, comm), "the call put right");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, Mismatch, both_kinds(), testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::mismatch_test
