// The ranks of a test are threads of this process or processes made by fork(), with the same body.
//
// What a rank finds wrong travels through a pipe and becomes a failure of the test that runs here.
// No rank outlives its job: at the time limit processes are killed, by pid, and named with what
// they were doing; a program whose threads hang says so and ends.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "banyan/banyan.h"
#include "src/base/clock.h"
#include "src/base/descriptor.h"

namespace banyan::test {

enum class Kind : uint8_t { kThreads, kProcesses };
// "Threads", "Processes": the names by which a suite picks its tests.
std::string_view name_of(Kind kind);
inline std::ostream& operator<<(std::ostream& out, Kind kind) {
  return out << name_of(kind);
}

inline constexpr int kMostTestRanks = 16;

// By which sanitizers and the like stretch time limits; 1 in an ordinary build.
double time_factor();
// A busy machine may keep a rank from its core that long, in seconds.
inline double stall_s() {
  return 2 * time_factor();
}

// How a call ended on one rank.
struct Outcome {
  bool seen = false;
  banyan_result_t code = BANYAN_SUCCESS;
  int failed_rank = -2;  // -2: not asked
  TimePoint at;          // when it was reported
  double seconds = 0;    // of what was measured
  std::string text;      // banyan_last_error
};

struct JobOptions {
  double limit_s = 30;  // times time_factor()
  std::vector<std::pair<std::string, std::string>> environment = {};
};

struct SharedPage;

// One rank's view of the job; used in its thread or process only.
class Rank {
 public:
  Rank(SharedPage& page, int records, int rank, int size, TimePoint deadline)
      : page_(page), records_(records), rank_(rank), size_(size), deadline_(deadline) {}

  int rank() const { return rank_; }
  int size() const { return size_; }

  // What it does now: shown when it fails, hangs or dies.
  void where(std::string_view text);
  void fail(std::string_view text, const char* file = __builtin_FILE(),
            int line = __builtin_LINE());
  bool expect(bool condition, std::string_view text, const char* file = __builtin_FILE(),
              int line = __builtin_LINE());
  bool expect_code(banyan_result_t got, banyan_result_t wanted, std::string_view what,
                   const char* file = __builtin_FILE(), int line = __builtin_LINE());
  bool expect_ok(banyan_result_t got, std::string_view what, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE()) {
    return expect_code(got, BANYAN_SUCCESS, what, file, line);
  }
  // The n-th digest is the same on all ranks.
  void agree(uint64_t digest, std::string_view what) const;
  // For Job::outcome().
  void report(banyan_comm_t comm, banyan_result_t code, double seconds = 0) const;

  // Outside the library. A rank that has ended counts as having come.
  void mark(int mark);
  void meet();
  void share(void* data, size_t bytes);                    // from rank 0; at most 1 KiB
  void gather(const void* mine, void* all, size_t bytes);  // likewise
  // Waits until the condition holds; false: the job has no more time.
  bool wait_until(const std::function<bool()>& condition) const;

  banyan_result_t try_join(banyan_comm_t* comm, const banyan_config_t* config = nullptr);
  // Null after a failure, which is recorded.
  banyan_comm_t join(const banyan_config_t* config = nullptr);
  void leave(banyan_comm_t comm);  // finalize and destroy
  // One checked allreduce, to see that a communicator works.
  void verify(banyan_comm_t comm, size_t count, uint64_t salt);

 private:
  SharedPage& page_;
  int records_;
  int rank_;
  int size_;
  TimePoint deadline_;
};

class Job {
 public:
  using Body = std::function<void(Rank&)>;

  // Starts `size` ranks. Processes: this process has no other thread then.
  Job(Kind kind, int size, const Body& body, JobOptions options = {});
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() { finish(); }

  // False: time is up before all that live have set it.
  bool wait_for_marks(int mark, double seconds);
  // So long, or until all ranks have ended.
  void wait(double seconds);
  // Processes only. A rank that is sent SIGKILL may die.
  void signal(int rank, int number);
  // Waits for all of them, at most until the limit.
  void finish();

  const Outcome& outcome(int rank) const { return outcomes_[static_cast<size_t>(rank)]; }

 private:
  struct Member {
    int pid = 0;  // 0: ended, or a thread
    bool doomed = false;
    bool ended = false;
    std::thread thread;
    size_t digests = 0;
  };

  void start_process(int rank, const Body& body);
  void start_thread(int rank, const Body& body);
  void read_records(int timeout_ms);
  void reap();
  void end_late_ranks();
  int alive() const;

  Kind kind_;
  JobOptions options_;
  std::vector<std::pair<std::string, std::string>> old_environment_;
  TimePoint deadline_;
  SharedPage* page_ = nullptr;
  Descriptor records_[2];
  std::vector<Member> members_;
  std::vector<Outcome> outcomes_;
  std::vector<uint64_t> digests_;
  bool finished_ = false;
};

void run_ranks(Kind kind, int size, const Job::Body& body, JobOptions options = {});

// What this process holds.
struct Holdings {
  int descriptors = 0;
  int threads = 0;
  int maps = 0;
};
Holdings holdings();
// Waits (threads of a rendezvous end by themselves) for this process to hold no more descriptors
// and threads than `before`, with `slack` of each; empty, or what is left.
std::string expect_released(const Holdings& before, int slack = 0, double patience_s = 1);

// How many operations of this rank its engine has begun. A known call that is run past the engine
// is none of them.
uint64_t engine_starts(banyan_comm_t comm);

}  // namespace banyan::test
