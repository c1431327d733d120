// SPDX-License-Identifier: Apache-2.0

#include "tests/cuda/driver/mapped.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <string>
#include <utility>

#include "tests/cuda/driver/state.h"

namespace banyan::standin {

namespace {

constexpr const char* kNameOfFile = "stand-in memory of GPU %d for %d";

std::atomic<long> physicals{0};
std::atomic<uint64_t> handles_given{0};

bool is_in_steps(uint64_t value) {
  return value % kGranularity == 0;
}

// Nothing of the file is there any more, and the addresses stay taken.
bool take_away(std::byte* begin, size_t bytes) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  return ::mmap(begin, bytes, PROT_NONE, kFlags, -1, 0) != MAP_FAILED;
}

std::byte* aligned(std::byte* memory) {
  return pointer_to((address_of(memory) + kGranularity - 1) / kGranularity * kGranularity);
}

}  // namespace

Physical::Physical(Descriptor file, size_t bytes, int device, int handle_types)
    : file_(std::move(file)),
      bytes_(bytes),
      device_(device),
      handle_types_(handle_types),
      number_(0xcada'4d00'0000'0000 + (++handles_given << 4)) {
  ++physicals;
}

Physical::~Physical() {
  --physicals;
}

long Physical::count() {
  return physicals;
}

std::shared_ptr<Physical> Physical::create(size_t bytes, int device, int handle_types) {
  std::array<char, 64> name{};
  (void)std::snprintf(name.data(), name.size(), kNameOfFile, device, handle_types);
  Descriptor file(::memfd_create(name.data(), MFD_CLOEXEC));
  if (!file.valid() || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return nullptr;
  return std::make_shared<Physical>(std::move(file), bytes, device, handle_types);
}

std::shared_ptr<Physical> Physical::import(int descriptor) {
  std::array<char, 128> target{};
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  if (::readlink(path.c_str(), target.data(), target.size() - 1) < 0) return nullptr;
  int device = -1, types = 0;
  const std::string pattern = std::string("/memfd:") + kNameOfFile;
  struct stat facts {};
  if (std::sscanf(target.data(), pattern.c_str(), &device, &types) != 2 ||
      ::fstat(descriptor, &facts) != 0)
    return nullptr;
  Descriptor file(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (!file.valid()) return nullptr;
  return std::make_shared<Physical>(std::move(file), static_cast<size_t>(facts.st_size), device,
                                    types);
}

int MappedMemory::hold(const std::shared_ptr<Physical>& physical) {
  if (physical == nullptr) return kOutOfMemory;
  const std::lock_guard lock(mutex_);
  Held& held = held_[physical->number()];
  held.physical = physical;
  ++held.references;
  return kSuccess;
}

int MappedMemory::release(uint64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(handle);
  if (found == held_.end()) return kInvalidValue;
  if (--found->second.references == 0) held_.erase(found);
  return kSuccess;
}

std::shared_ptr<Physical> MappedMemory::find(uint64_t handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(handle);
  return found == held_.end() ? nullptr : found->second.physical;
}

int MappedMemory::reserve(size_t bytes, CuAddress* address) {
  if (bytes == 0 || !is_in_steps(bytes)) return kInvalidValue;
  auto made = std::make_shared<Reservation>();
  made->theirs = Pages::map(bytes + kGranularity, PROT_NONE, -1);
  made->ours = Pages::map(bytes + kGranularity, PROT_NONE, -1);
  if (made->theirs.begin() == nullptr || made->ours.begin() == nullptr) return kOutOfMemory;
  made->begin = address_of(aligned(made->theirs.begin()));
  made->own = aligned(made->ours.begin());
  made->bytes = bytes;
  *address = made->begin;
  const std::lock_guard lock(mutex_);
  reserved_[made->begin] = std::move(made);
  return kSuccess;
}

int MappedMemory::free(CuAddress address, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = reserved_.find(address);
  if (found == reserved_.end() || found->second->bytes != bytes) return kInvalidValue;
  const SharedAllocation inside =
      state().memory.find_if([&](const Allocation& known) { return known.range == found->second; });
  if (inside != nullptr) return kInvalidValue;
  reserved_.erase(found);
  return kSuccess;
}

int MappedMemory::map(CuAddress address, size_t bytes, uint64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto held = held_.find(handle);
  auto range = reserved_.upper_bound(address);
  if (held == held_.end() || range == reserved_.begin()) return kInvalidValue;
  const std::shared_ptr<Reservation>& in = (--range)->second;
  const std::shared_ptr<Physical>& physical = held->second.physical;
  const size_t offset = address - in->begin;
  if (bytes == 0 || !is_in_steps(address) || !is_in_steps(bytes) || bytes > physical->bytes() ||
      offset >= in->bytes || bytes > in->bytes - offset)
    return kInvalidValue;
  auto made = std::make_shared<Allocation>();
  made->sort = MemorySort::kMapped;
  made->begin = address;
  made->bytes = bytes;
  made->own = in->own + offset;
  made->context = state().contexts[static_cast<size_t>(physical->device())].get();
  made->buffer = next_buffer();
  made->range = in;
  made->physical = physical;
  if (!state().memory.add(made)) return kAlreadyMapped;
  void* memory = ::mmap(made->own, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                        physical->file().get(), 0);
  if (memory != MAP_FAILED) return kSuccess;
  (void)state().memory.take(address, {MemorySort::kMapped});
  return kMapFailed;
}

std::vector<SharedAllocation> MappedMemory::pieces_of(CuAddress address, size_t bytes) {
  std::vector<SharedAllocation> pieces;
  size_t covered = 0;
  while (covered < bytes) {
    const SharedAllocation piece = state().memory.find(address + covered);
    if (piece == nullptr || piece->sort != MemorySort::kMapped ||
        piece->begin != address + covered || piece->bytes > bytes - covered)
      return {};
    covered += piece->bytes;
    pieces.push_back(piece);
  }
  return pieces;
}

int MappedMemory::unmap(CuAddress address, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::vector<SharedAllocation> pieces = pieces_of(address, bytes);
  if (pieces.empty()) return kInvalidValue;
  for (const SharedAllocation& piece : pieces) {
    (void)state().memory.take(piece->begin, {MemorySort::kMapped});
    if (!take_away(piece->own, piece->bytes)) return kOperatingSystem;
  }
  return kSuccess;
}

int MappedMemory::set_access(CuAddress address, size_t bytes, int device, unsigned flags) {
  const std::lock_guard lock(mutex_);
  const std::vector<SharedAllocation> pieces = pieces_of(address, bytes);
  if (pieces.empty()) return kInvalidValue;
  const uint64_t bit = uint64_t{1} << device;
  for (const SharedAllocation& piece : pieces) {
    piece->readers = (flags & 1) != 0 ? piece->readers | bit : piece->readers & ~bit;
    piece->writers = (flags & 2) != 0 ? piece->writers | bit : piece->writers & ~bit;
  }
  return kSuccess;
}

long MappedMemory::handles() const {
  const std::lock_guard lock(mutex_);
  long sum = 0;
  for (const auto& [number, held] : held_) sum += held.references;
  return sum;
}

long MappedMemory::reservations() const {
  const std::lock_guard lock(mutex_);
  return static_cast<long>(reserved_.size());
}

MappedMemory& mapped_memory() {
  static auto* one = new MappedMemory;
  return *one;
}

}  // namespace banyan::standin
