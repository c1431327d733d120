// SPDX-License-Identifier: Apache-2.0

#include "src/liveness/verdict.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "src/base/clock.h"
#include "src/base/failure_code.h"
#include "src/base/parse.h"
#include "src/base/sealed_memory.h"
#include "src/base/system_error.h"

namespace banyan {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr size_t kPageTextBytes = 496;
// Whoever set the word writes the text next; on a busy machine that may take a scheduler's round.
constexpr double kTextPatienceSeconds = 0.2;
constexpr uint64_t kSet = uint64_t{1} << 63;

uint64_t pack(const Verdict& verdict) {
  return kSet | uint64_t{static_cast<uint16_t>(verdict.code)} << 32 |
         static_cast<uint32_t>(verdict.failed_rank + 1);
}

// Reads the clock that all processes of a host share.
uint32_t milliseconds_now() {
  const auto now = Clock::now().time_since_epoch();
  return static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

}  // namespace

// The words lie in memory that several processes map, so they must be lock-free there.
struct VerdictBoard::Page {
  std::atomic<uint64_t> word;
  std::atomic<uint32_t> text_ready;
  uint32_t spares_calls_before;  // like the text, there once text_ready is set
  char text[kPageTextBytes];
  // Then of each rank a Places::Mark, then of each for whom it waits: the millisecond in which it
  // said so, modulo 2^32 | peer + 1.
};

size_t VerdictBoard::bytes_of_page(int ranks) {
  return sizeof(Page) +
         (sizeof(Places::Mark) + sizeof(std::atomic<uint64_t>)) * static_cast<size_t>(ranks);
}

std::span<Places::Mark> VerdictBoard::marks() {
  static_assert(sizeof(Page) % alignof(Places::Mark) == 0);
  return {reinterpret_cast<Places::Mark*>(page_ + 1), static_cast<size_t>(ranks_)};
}

std::atomic<uint64_t>& VerdictBoard::waiting_word(int rank) const {
  auto* marks = reinterpret_cast<Places::Mark*>(page_ + 1);
  return reinterpret_cast<std::atomic<uint64_t>*>(marks + ranks_)[rank];
}

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

VerdictBoard::VerdictBoard(Page* page, size_t bytes, int ranks, Descriptor memory)
    : page_(page), bytes_(bytes), ranks_(ranks), memory_(std::move(memory)) {}

VerdictBoard::VerdictBoard(VerdictBoard&& other) noexcept
    : page_(std::exchange(other.page_, nullptr)),
      bytes_(other.bytes_),
      ranks_(other.ranks_),
      memory_(std::move(other.memory_)) {}

VerdictBoard& VerdictBoard::operator=(VerdictBoard&& other) noexcept {
  std::swap(page_, other.page_);
  std::swap(bytes_, other.bytes_);
  std::swap(ranks_, other.ranks_);
  std::swap(memory_, other.memory_);
  return *this;
}

VerdictBoard::~VerdictBoard() {
  if (page_ != nullptr) munmap(page_, bytes_);
}

Result<VerdictBoard> VerdictBoard::create(int ranks, TimePoint deadline) {
  Result<Descriptor> memory = create_memory(bytes_of_page(ranks), Pages::kReserved, deadline);
  BANYAN_TRY(memory.status());
  BANYAN_TRY(seal(*memory, NewWriters::kAllowed));
  Result<VerdictBoard> board = attach(*memory, ranks);
  if (board.ok()) board->memory_ = std::move(*memory);
  return board;
}

Result<VerdictBoard> VerdictBoard::alone(int ranks) {
  const size_t bytes = bytes_of_page(ranks);
  void* page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return system_error("mmap of the verdict board", errno);
  return VerdictBoard(static_cast<Page*>(page), bytes, ranks, Descriptor());
}

Result<VerdictBoard> VerdictBoard::attach(const Descriptor& memory, int ranks) {
  const size_t bytes = bytes_of_page(ranks);
  struct stat status {};
  if (fstat(memory.get(), &status) != 0) return system_error("fstat of the verdict board", errno);
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  if (static_cast<size_t>(status.st_size) != bytes || seals < 0 || (seals & kSeals) != kSeals)
    return Status(
        Code::kCorrupt,
        fmt::format("the verdict board has {} bytes and seals {:#x}, expected {} and {:#x}",
                    status.st_size, seals, bytes, kSeals));
  void* page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (page == MAP_FAILED) return system_error("mmap of the verdict board", errno);
  return VerdictBoard(static_cast<Page*>(page), bytes, ranks, Descriptor());
}

bool VerdictBoard::decide(const Verdict& verdict) {
  uint64_t expected = 0;
  if (!page_->word.compare_exchange_strong(expected, pack(verdict))) return false;
  const size_t length = std::min(verdict.text.size(), kPageTextBytes - 1);
  std::memcpy(page_->text, verdict.text.data(), length);
  page_->text[length] = '\0';
  page_->spares_calls_before = verdict.spares_calls_before;
  page_->text_ready.store(1, std::memory_order_release);
  return true;
}

bool VerdictBoard::decided() const {
  return page_->word.load(std::memory_order_acquire) != 0;
}

Verdict VerdictBoard::read() const {
  const uint64_t word = page_->word.load(std::memory_order_acquire);
  if (word == 0) return {};
  const uint64_t code = (word >> 32) & 0xFFFF;
  const auto rank = static_cast<int64_t>(word & 0xFFFFFFFF) - 1;
  Verdict verdict;
  verdict.code = is_failure_code(code) ? static_cast<Code>(code) : Code::kInternal;
  verdict.failed_rank = rank < ranks_ ? static_cast<int>(rank) : -1;

  const TimePoint patience = deadline_after(textless_.load() ? 0 : kTextPatienceSeconds);
  while (page_->text_ready.load(std::memory_order_acquire) == 0 && Clock::now() < patience)
    sched_yield();
  if (page_->text_ready.load(std::memory_order_acquire) == 0) textless_.store(true);
  if (page_->text_ready.load(std::memory_order_acquire) != 0) {
    char text[kPageTextBytes];
    std::memcpy(text, page_->text, kPageTextBytes);
    verdict.text = printable({text, strnlen(text, kPageTextBytes)});
    verdict.spares_calls_before = page_->spares_calls_before;
  }
  if (verdict.text.empty())
    verdict.text = verdict.failed_rank >= 0
                       ? fmt::format("{}: rank {}", describe(verdict.code), verdict.failed_rank)
                       : std::string(describe(verdict.code));
  return verdict;
}

void VerdictBoard::set_waiting_for(int rank, int peer) {
  const uint64_t word = uint64_t{milliseconds_now()} << 32 | static_cast<uint32_t>(peer + 1);
  waiting_word(rank).store(word, std::memory_order_relaxed);
}

// Any process of the job may have written it: a peer that is none is nobody, a time to come is now.
Waiting VerdictBoard::waiting_for(int rank) const {
  const uint64_t word = waiting_word(rank).load(std::memory_order_relaxed);
  const auto peer = static_cast<uint32_t>(word);
  const auto age = static_cast<int32_t>(milliseconds_now() - static_cast<uint32_t>(word >> 32));
  if (peer == 0 || peer > static_cast<uint32_t>(ranks_)) return {};
  return {static_cast<int>(peer) - 1, std::chrono::milliseconds(std::max(0, age))};
}

std::string_view describe(Code code) {
  switch (code) {
    case Code::kOk: return "success";
    case Code::kCuda: return "a CUDA call failed";
    case Code::kSystem: return "a system call failed";
    case Code::kInternal: return "internal error, please report it";
    case Code::kInvalidArgument: return "invalid argument";
    case Code::kInvalidUsage: return "invalid usage";
    case Code::kRemote: return "remote error";
    case Code::kBusy: return "in progress";
    case Code::kTimeout: return "timeout";
    case Code::kUnsupported: return "unsupported by this build or machine";
    case Code::kMismatch: return "ranks disagree";
    case Code::kAborted: return "aborted";
    case Code::kPeerLost: return "peer lost";
    case Code::kAccuracy: return "accuracy contract not met";
    case Code::kCorrupt: return "corrupt data";
  }
  return "unknown result";
}

}  // namespace banyan
