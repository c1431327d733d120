// SPDX-License-Identifier: Apache-2.0

#include "src/base/sealed_memory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

namespace banyan {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::string cause(int error) {
  return std::generic_category().message(error);
}

Status failed(std::string_view what, size_t bytes, int error) {
  return {Code::kSystem,
          fmt::format("{} of {} bytes of shared memory: {}", what, bytes, cause(error))};
}

// MFD_NOEXEC_SEAL is younger than the headers of Debian 12; kernels that know it may insist on it.
Descriptor open_memory() {
  constexpr unsigned kNoExecSeal = 8;
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  Descriptor memory(memfd_create("banyan", kFlags | kNoExecSeal));
  if (!memory.valid() && errno == EINVAL) memory = Descriptor(memfd_create("banyan", kFlags));
  return memory;
}

// Beyond this limit ftruncate would raise SIGXFSZ.
bool exceeds_file_limit(size_t bytes) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur;
}

// Signals may keep a part of a reservation from coming until then.
TimePoint patience_before(TimePoint deadline) {
  constexpr Clock::duration kMost = std::chrono::seconds(10);
  const TimePoint now = Clock::now();
  return now + std::clamp((deadline - now) / 2, Clock::duration::zero(), kMost);
}

}  // namespace

Result<Mapping> Mapping::map(const Descriptor& memory, size_t bytes, Access access) {
  if (bytes == 0) return Mapping();
  const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* base = mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, memory.get(), 0);
  if (base == MAP_FAILED) return failed("mapping", bytes, errno);
  // A core dump needs no copy of what peers wrote.
  madvise(base, bytes, MADV_DONTDUMP);
  return Mapping(static_cast<std::byte*>(base), bytes);
}

Mapping::~Mapping() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

int reserve(const Descriptor& memory, size_t offset, size_t bytes, TimePoint deadline) {
  size_t part = bytes;
  TimePoint give_up = patience_before(deadline);
  for (size_t done = 0; done < bytes;) {
    part = std::min(part, bytes - done);
    if (fallocate(memory.get(), 0, static_cast<off_t>(offset + done), static_cast<off_t>(part)) ==
        0) {
      done += part;
      give_up = patience_before(deadline);
      continue;
    }
    if (errno != EINTR || Clock::now() >= give_up) return errno;
    part = std::max(whole_pages(part / 2), kPageBytes);
  }
  return 0;
}

Result<Descriptor> create_memory(size_t bytes, Pages pages, TimePoint deadline) {
  Descriptor memory = open_memory();
  if (!memory.valid()) return failed("memfd_create", bytes, errno);
  if (exceeds_file_limit(bytes)) return failed("ftruncate", bytes, EFBIG);
  if (ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) {
    return failed("ftruncate", bytes, errno);
  }
  const int error = pages == Pages::kReserved ? reserve(memory, 0, bytes, deadline) : 0;
  if (error == EINTR) {
    return Status(Code::kTimeout, fmt::format("fallocate of {} bytes of shared memory: signals "
                                              "interrupt it again and again",
                                              bytes));
  }
  if (error != 0) return failed("fallocate", bytes, error);
  // F_SEAL_SEAL comes later for memory that is yet to be closed to new writers.
  if (fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return failed("sealing", bytes, errno);
  }
  return memory;
}

Status seal(const Descriptor& memory, NewWriters writers) {
  // Linux 5.1; without it peers still map the memory read-only, they only could do otherwise.
  if (writers == NewWriters::kForbidden) fcntl(memory.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
  if (fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SEAL) != 0) return failed("sealing", 0, errno);
  return {};
}

Result<size_t> checked_size(const Descriptor& memory, int peer) {
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return Status(Code::kCorrupt,
                  fmt::format("rank {} sent shared memory that it could still shrink (seals {:#x}, "
                              "needed {:#x})",
                              peer, seals, kSeals));
  }
  struct stat info {};
  if (fstat(memory.get(), &info) != 0) return failed("fstat", 0, errno);
  return static_cast<size_t>(info.st_size);
}

}  // namespace banyan
