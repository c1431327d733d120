// Forking, waiting, and the shared page.
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/team.h"

#include <fmt/core.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <system_error>

namespace banyan::perf {

namespace {

constexpr size_t kMostWords = 1024;
// The library tells survivors of a lost rank at once; this is for what it cannot end.
constexpr double kGrace = 5;
constexpr double kLastGrace = 1;  // between a polite signal and SIGKILL

Status system_error(std::string_view what) {
  const int cause = errno;
  return {Code::kSystem, fmt::format("{}: {}", what, std::generic_category().message(cause))};
}

int exit_status_of(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 1;
}

}  // namespace

// The board is in memory that all of them share; each slot has one writer, and readers come after
// its end or after the eventfd.
struct Team::Board {
  banyan_unique_id_t id;
  bool has_id;
  std::array<char, kMostWords> words[1];  // one for each rank
};

Result<std::unique_ptr<Team>> Team::create(int size, std::string_view program) {
  std::unique_ptr<Team> team(new Team);
  team->size_ = size;
  team->program_ = program;
  team->board_bytes_ =
      sizeof(Board) + static_cast<size_t>(size) * sizeof(std::array<char, kMostWords>);
  void* memory = ::mmap(nullptr, team->board_bytes_, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return system_error("cannot share memory between ranks");
  team->board_ = new (memory) Board;  // the pages are zero
  team->id_is_there_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));
  if (!team->id_is_there_.valid()) return system_error("cannot make an eventfd");
  // Inherited as ignored, it would take the exit statuses away.
  ::signal(SIGCHLD, SIG_DFL);
  ::sigemptyset(&team->watched_);
  for (const int number : {SIGINT, SIGTERM, SIGCHLD}) ::sigaddset(&team->watched_, number);
  return team;
}

Team::~Team() {
  if (board_ != nullptr) ::munmap(board_, board_bytes_);
}

void Team::be_child(pid_t parent) {
  ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have ended before that line.
  if (::getppid() != parent) ::_exit(1);
  children_.clear();
}

Result<int> Team::start() {
  const pid_t parent = ::getpid();
  if (::pthread_sigmask(SIG_BLOCK, &watched_, &mask_before_) != 0)
    return system_error("cannot block signals");
  children_.reserve(static_cast<size_t>(size_));
  for (int rank = 0; rank < size_; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      be_child(parent);
      return rank;
    }
    if (pid < 0) {
      const Status status = system_error(fmt::format("cannot start rank {} of {}", rank, size_));
      signal_all(SIGKILL, true);
      for (const Child& child : children_) ::waitpid(child.pid, nullptr, 0);
      return status;
    }
    children_.push_back({.pid = pid});
  }
  return -1;
}

void Team::give_id(const banyan_unique_id_t* id) {
  board_->has_id = id != nullptr;
  if (id != nullptr) board_->id = *id;
  const auto waiting = static_cast<uint64_t>(size_ - 1);
  if (waiting == 0) return;
  while (::write(id_is_there_.get(), &waiting, sizeof waiting) < 0 && errno == EINTR) {
  }
}

Result<banyan_unique_id_t> Team::take_id() {
  uint64_t one = 0;
  ssize_t got = 0;
  do {
    got = ::read(id_is_there_.get(), &one, sizeof one);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return system_error("cannot wait for the unique id of rank 0");
  if (!board_->has_id) return Status(Code::kRemote, "rank 0 has no unique id to give");
  return board_->id;
}

void Team::leave_words(int rank, std::string_view text) {
  auto& slot = board_->words[rank];
  const size_t length = std::min(text.size(), slot.size() - 1);
  std::memcpy(slot.data(), text.data(), length);
  slot[length] = '\0';
}

void Team::signal_all(int number, bool ours) {
  for (Child& child : children_) {
    if (child.ended) continue;
    child.ended_by_us = child.ended_by_us || ours;
    ::kill(child.pid, number);
  }
}

void Team::reap() {
  for (Child& child : children_) {
    if (!child.ended && ::waitpid(child.pid, &child.wait_status, WNOHANG) == child.pid)
      child.ended = true;
  }
}

bool Team::all_ended() const {
  return std::all_of(children_.begin(), children_.end(), [](const Child& c) { return c.ended; });
}

bool Team::any_failed() const {
  return std::any_of(children_.begin(), children_.end(),
                     [](const Child& c) { return c.ended && c.wait_status != 0; });
}

int Team::supervise() {
  TimePoint end = TimePoint::max();  // of patience
  bool ending = false;
  for (reap(); !all_ended(); reap()) {
    if (!ending && end == TimePoint::max() && any_failed()) end = deadline_after(kGrace);
    if (Clock::now() >= end) {
      signal_all(ending ? SIGKILL : SIGTERM, true);
      ending = true;
      end = deadline_after(kLastGrace);
    }
    const int milliseconds = milliseconds_until(end, 1000);
    const timespec wait{.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000L};
    const int number = ::sigtimedwait(&watched_, nullptr, &wait);
    if (number != SIGINT && number != SIGTERM) continue;
    interrupted_by_ = number;
    signal_all(number, true);
    ending = true;
    end = deadline_after(kLastGrace);
  }
  if (interrupted_by_ != 0) {
    // Whoever waits for this program learns that it ended by the signal.
    ::signal(interrupted_by_, SIG_DFL);
    ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
    ::raise(interrupted_by_);
    return 128 + interrupted_by_;
  }
  tell();
  return verdict();
}

// The status of all that failed where they agree, otherwise 1.
int Team::verdict() const {
  int status = 0;
  for (const Child& child : children_) {
    const int mine = exit_status_of(child.wait_status);
    if (mine == 0) continue;
    status = status == 0 || status == mine ? mine : 1;
  }
  return status;
}

void Team::tell() const {
  std::string text;
  for (size_t rank = 0; rank < children_.size(); ++rank) {
    const Child& child = children_[rank];
    if (!WIFSIGNALED(child.wait_status)) continue;
    text += fmt::format(
        "{0}: rank {1} was ended by signal {2}{3}\n", program_, rank, WTERMSIG(child.wait_status),
        child.ended_by_us ? fmt::format(" of {}, having outlived a failed rank", program_) : "");
  }
  // Ranks that fail together mostly say the same: the first one that has something to say, does.
  for (size_t rank = 0; rank < children_.size(); ++rank) {
    if (children_[rank].wait_status == 0) continue;
    const std::string_view words = board_->words[rank].data();
    if (words.empty()) continue;
    text += fmt::format("{}: rank {}: {}\n", program_, rank, words);
    break;
  }
  if (text.empty() && any_failed()) text = program_ + ": a rank failed and left no word\n";
  std::fputs(text.c_str(), stderr);
}

}  // namespace banyan::perf
