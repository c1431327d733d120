// SPDX-License-Identifier: Apache-2.0
#include "tests/ranks/ranks.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>

#include "src/c_api/handles.h"
#include "tests/support/sanitizers.h"

// A program may be linked with something that begins with a rank: it has its threads and
// descriptors before a test counts them.
extern "C" __attribute__((weak)) void banyan_test_begin_rank();

namespace banyan::test {
namespace {

void begin_rank() {
  if (banyan_test_begin_rank != nullptr) banyan_test_begin_rank();
}

constexpr size_t kBoxBytes = 1024;
constexpr size_t kTextBytes = 800;
constexpr useconds_t kNapUs = 100;
constexpr int kMarkGone = std::numeric_limits<int>::max();

enum class RecordKind : uint8_t { kFail, kDigest, kOutcome };

// Less than PIPE_BUF, so that writes are atomic.
struct Record {
  RecordKind kind = RecordKind::kFail;
  int rank = 0;
  uint64_t digest = 0;
  banyan_result_t code = BANYAN_SUCCESS;
  int failed_rank = -2;
  TimePoint at;
  double seconds = 0;
  char text[kTextBytes] = {};
};
static_assert(sizeof(Record) < 4096);

void copy_text(char* into, size_t room, std::string_view text) {
  const size_t length = std::min(room - 1, text.size());
  std::memcpy(into, text.data(), length);
  into[length] = '\0';
}

void send_record(int pipe, const Record& record) {
  while (write(pipe, &record, sizeof record) < 0 && errno == EINTR) continue;
}

int entries_of(const char* folder) {
  int count = 0;
  DIR* open = opendir(folder);
  if (open == nullptr) return -1;
  while (const dirent* entry = readdir(open))  // NOLINT(concurrency-mt-unsafe): a stream of our own
    if (entry->d_name[0] != '.') ++count;
  closedir(open);
  return count;
}

}  // namespace

// Between the ranks and the program: marks, words for other ranks, diagnosis.
struct SharedPage {
  struct Slot {
    std::atomic<int> mark{0};
    std::atomic<int> met{0};  // kMarkGone: ended
    char where[240] = {};
    std::byte box[kBoxBytes] = {};
  };
  std::array<Slot, kMostTestRanks> slots;

  Slot& of(int rank) { return slots[static_cast<size_t>(rank)]; }
};

std::string_view name_of(Kind kind) {
  return kind == Kind::kThreads ? "Threads" : "Processes";
}

double time_factor() {
  return kThreadSanitizer ? 10 : kAddressSanitizer ? 4 : 1;
}

void Rank::where(std::string_view text) {
  copy_text(page_.of(rank_).where, sizeof page_.of(rank_).where, text);
}

void Rank::fail(std::string_view text, const char* file, int line) {
  Record record;
  record.kind = RecordKind::kFail;
  record.rank = rank_;
  copy_text(record.text, kTextBytes,
            fmt::format("{}:{}: {} (in: {})", file, line, text, page_.of(rank_).where));
  send_record(records_, record);
}

bool Rank::expect(bool condition, std::string_view text, const char* file, int line) {
  if (!condition) fail(text, file, line);
  return condition;
}

bool Rank::expect_code(banyan_result_t got, banyan_result_t wanted, std::string_view what,
                       const char* file, int line) {
  if (got == wanted) return true;
  fail(fmt::format("{} gave {} ({}), expected {} ({}); last error: {}", what, static_cast<int>(got),
                   banyan_result_string(got), static_cast<int>(wanted),
                   banyan_result_string(wanted), banyan_last_error(nullptr)),
       file, line);
  return false;
}

void Rank::agree(uint64_t digest, std::string_view what) const {
  Record record;
  record.kind = RecordKind::kDigest;
  record.rank = rank_;
  record.digest = digest;
  copy_text(record.text, kTextBytes, what);
  send_record(records_, record);
}

void Rank::report(banyan_comm_t comm, banyan_result_t code, double seconds) const {
  Record record;
  record.kind = RecordKind::kOutcome;
  record.rank = rank_;
  record.code = code;
  record.at = Clock::now();
  record.seconds = seconds;
  if (comm != nullptr && banyan_comm_failed_rank(comm, &record.failed_rank) != BANYAN_SUCCESS)
    record.failed_rank = -3;
  copy_text(record.text, kTextBytes, code == BANYAN_SUCCESS ? "" : banyan_last_error(comm));
  send_record(records_, record);
}

void Rank::mark(int mark) {
  page_.of(rank_).mark.store(mark);
}

bool Rank::wait_until(const std::function<bool()>& condition) const {
  while (!condition()) {
    if (Clock::now() > deadline_) return false;
    usleep(kNapUs);
  }
  return true;
}

void Rank::meet() {
  const int round = page_.of(rank_).met.fetch_add(1) + 1;
  for (int peer = 0; peer < size_; ++peer)
    wait_until([&] { return page_.of(peer).met.load() >= round; });
}

void Rank::share(void* data, size_t bytes) {
  if (rank_ == 0) std::memcpy(page_.of(0).box, data, bytes);
  meet();
  std::memcpy(data, page_.of(0).box, bytes);
  meet();
}

void Rank::gather(const void* mine, void* all, size_t bytes) {
  std::memcpy(page_.of(rank_).box, mine, bytes);
  meet();
  for (int peer = 0; peer < size_; ++peer)
    std::memcpy(static_cast<std::byte*>(all) + static_cast<size_t>(peer) * bytes,
                page_.of(peer).box, bytes);
  meet();
}

banyan_result_t Rank::try_join(banyan_comm_t* comm, const banyan_config_t* config) {
  banyan_unique_id_t id{};
  if (rank_ == 0) expect_ok(banyan_get_unique_id(&id), "banyan_get_unique_id");
  share(&id, sizeof id);
  return banyan_comm_init(comm, size_, &id, rank_, config);
}

banyan_comm_t Rank::join(const banyan_config_t* config) {
  banyan_comm_t comm = nullptr;
  where("banyan_comm_init");
  return expect_ok(try_join(&comm, config), "banyan_comm_init") ? comm : nullptr;
}

void Rank::leave(banyan_comm_t comm) {
  where("banyan_comm_finalize");
  if (!expect_ok(banyan_comm_finalize(comm), "banyan_comm_finalize")) banyan_comm_abort(comm);
  expect_ok(banyan_comm_destroy(comm), "banyan_comm_destroy");
}

void Rank::verify(banyan_comm_t comm, size_t count, uint64_t salt) {
  std::vector<uint64_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = salt + i + static_cast<uint64_t>(rank_);
  if (!expect_ok(
          banyan_allreduce(values.data(), values.data(), count, BANYAN_UINT64, BANYAN_SUM, comm),
          "a plain allreduce"))
    return;
  const auto size = static_cast<uint64_t>(size_);
  for (size_t i = 0; i < count; ++i)
    if (values[i] != size * (salt + i) + size * (size - 1) / 2)
      return fail(fmt::format("element {} of a plain allreduce of {} is wrong", i, count));
}

Job::Job(Kind kind, int size, const Body& body, JobOptions options)
    : kind_(kind),
      options_(std::move(options)),
      deadline_(deadline_after(options_.limit_s * time_factor())),
      members_(static_cast<size_t>(size)),
      outcomes_(static_cast<size_t>(size)) {
  for (const auto& [name, value] : options_.environment) {
    const char* old = getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): no threads yet
    old_environment_.emplace_back(name, old != nullptr ? old : "");
    setenv(name.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  void* memory =
      mmap(nullptr, sizeof(SharedPage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int ends[2] = {-1, -1};
  if (memory == MAP_FAILED || pipe2(ends, O_CLOEXEC) != 0) {
    std::perror("making a job");
    std::abort();
  }
  page_ = new (memory) SharedPage;
  records_[0] = Descriptor(ends[0]);
  records_[1] = Descriptor(ends[1]);

  // The rendezvous of a test with threads may live for a while.
  const std::string other = kind == Kind::kProcesses ? expect_released({1 << 20, 1, 0}, 0, 15) : "";
  if (!other.empty()) {
    ADD_FAILURE() << "fork() needs a process with one thread: " << other;
    for (Member& member : members_) member.ended = true;
    return;
  }
  std::fflush(nullptr);
  for (int rank = 0; rank < size; ++rank)
    kind == Kind::kProcesses ? start_process(rank, body) : start_thread(rank, body);
}

void Job::start_process(int rank, const Body& body) {
  const int parent = getpid();
  const int pid = fork();
  if (pid < 0) {
    std::perror("fork");
    std::abort();
  }
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    begin_rank();
    Rank self(*page_, records_[1].get(), rank, static_cast<int>(members_.size()), deadline_);
    body(self);
    self.where("exit");
    page_->of(rank).met.store(kMarkGone);
    std::exit(0);  // NOLINT(concurrency-mt-unsafe): destructors of the library run
  }
  members_[static_cast<size_t>(rank)].pid = pid;
}

void Job::start_thread(int rank, const Body& body) {
  members_[static_cast<size_t>(rank)].thread = std::thread([this, rank, body] {
    begin_rank();
    Rank self(*page_, records_[1].get(), rank, static_cast<int>(members_.size()), deadline_);
    body(self);
    page_->of(rank).mark.store(kMarkGone);
    page_->of(rank).met.store(kMarkGone);
  });
}

int Job::alive() const {
  return static_cast<int>(std::count_if(members_.begin(), members_.end(),
                                        [](const Member& member) { return !member.ended; }));
}

void Job::read_records(int timeout_ms) {
  pollfd ready{records_[0].get(), POLLIN, 0};
  while (poll(&ready, 1, timeout_ms) > 0) {
    Record record;
    if (read(records_[0].get(), &record, sizeof record) != static_cast<ssize_t>(sizeof record))
      return;
    timeout_ms = 0;
    Member& member = members_[static_cast<size_t>(record.rank)];
    switch (record.kind) {
      case RecordKind::kFail:
        ADD_FAILURE() << members_.size() << " ranks, rank " << record.rank << ": " << record.text;
        break;
      case RecordKind::kDigest:
        if (member.digests == digests_.size()) digests_.push_back(record.digest);
        EXPECT_EQ(digests_[member.digests++], record.digest)
            << members_.size() << " ranks, rank " << record.rank
            << " has other bits than the first: " << record.text;
        break;
      case RecordKind::kOutcome:
        outcomes_[static_cast<size_t>(record.rank)] = {
            true, record.code, record.failed_rank, record.at, record.seconds, record.text};
        break;
    }
  }
}

void Job::reap() {
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    Member& member = members_[rank];
    if (member.ended) continue;
    SharedPage::Slot& slot = page_->of(static_cast<int>(rank));
    if (kind_ == Kind::kThreads) {
      member.ended = slot.mark.load() == kMarkGone && slot.met.load() == kMarkGone;
      continue;
    }
    int status = 0;
    if (waitpid(member.pid, &status, WNOHANG) != member.pid) continue;
    read_records(0);  // its last words first
    member.ended = true;
    member.pid = 0;
    slot.met.store(kMarkGone);
    if (WIFSIGNALED(status) && !member.doomed)
      ADD_FAILURE() << members_.size() << " ranks, rank " << rank << " died of signal "
                    << WTERMSIG(status) << " in: " << slot.where;
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
      ADD_FAILURE() << members_.size() << " ranks, rank " << rank << " ended with exit status "
                    << WEXITSTATUS(status) << " in: " << slot.where;
  }
}

void Job::wait(double seconds) {
  const TimePoint until = std::min(deadline_after(seconds), deadline_);
  while (alive() > 0) {
    read_records(milliseconds_until(until, 1));
    reap();
    if (Clock::now() >= until) return;
  }
}

bool Job::wait_for_marks(int mark, double seconds) {
  const TimePoint until = std::min(deadline_after(seconds * time_factor()), deadline_);
  const auto missing = [&] {
    for (size_t rank = 0; rank < members_.size(); ++rank)
      if (!members_[rank].ended && page_->of(static_cast<int>(rank)).mark.load() < mark)
        return true;
    return false;
  };
  while (missing()) {
    if (Clock::now() >= until) return false;
    wait(0.001);
  }
  return true;
}

void Job::signal(int rank, int number) {
  Member& member = members_[static_cast<size_t>(rank)];
  member.doomed = member.doomed || number == SIGKILL;
  if (member.pid != 0) kill(member.pid, number);
}

// Processes are killed. Threads cannot be, and this test cannot go on without them.
void Job::end_late_ranks() {
  std::string late;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    if (members_[rank].ended) continue;
    late += fmt::format("\n  rank {} hangs in: {}", rank, page_->of(static_cast<int>(rank)).where);
    if (kind_ == Kind::kProcesses) signal(static_cast<int>(rank), SIGKILL);
  }
  const std::string text = fmt::format("{} ranks were not done after {} s:{}", members_.size(),
                                       options_.limit_s * time_factor(), late);
  ADD_FAILURE() << text;
  if (kind_ == Kind::kProcesses) return;
  std::fputs((text + "\n").c_str(), stderr);
  std::abort();
}

void Job::finish() {
  if (finished_) return;
  finished_ = true;
  wait(std::numeric_limits<double>::infinity());
  if (alive() > 0) {
    end_late_ranks();
    deadline_ = TimePoint::max();
    wait(std::numeric_limits<double>::infinity());
  }
  for (Member& member : members_)
    if (member.thread.joinable()) member.thread.join();
  read_records(0);
  munmap(page_, sizeof(SharedPage));
  for (const auto& [name, value] : old_environment_)
    value.empty() ? unsetenv(name.c_str())                   // NOLINT(concurrency-mt-unsafe)
                  : setenv(name.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
}

void run_ranks(Kind kind, int size, const Job::Body& body, JobOptions options) {
  Job job(kind, size, body, std::move(options));
  job.finish();
}

uint64_t engine_starts(banyan_comm_t comm) {
  const Result<OpenCommunicator*> found = find_communicator(comm);
  EXPECT_TRUE(found.ok());
  return found.ok() ? Driver(*(*found)->membership)->engine().started() : 0;
}

Holdings holdings() {
  Holdings now;
  now.descriptors = entries_of("/proc/self/fd");
  now.threads = entries_of("/proc/self/task");
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++now.maps;
  return now;
}

std::string expect_released(const Holdings& before, int slack, double patience_s) {
  const TimePoint until = deadline_after(patience_s * time_factor());
  for (;;) {
    const Holdings now = holdings();
    if (now.descriptors <= before.descriptors + slack && now.threads <= before.threads + slack)
      return "";
    if (Clock::now() > until)
      return fmt::format("{} descriptors and {} threads, before {} and {}", now.descriptors,
                         now.threads, before.descriptors, before.threads);
    usleep(kNapUs * 10);
  }
}

}  // namespace banyan::test
