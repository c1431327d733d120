// SPDX-License-Identifier: Apache-2.0

#include "tests/cuda/driver/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

namespace banyan::standin {

namespace {

constexpr size_t kAlignment = 256;  // as cuMemAlloc has it at least

size_t rounded(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

size_t page() {
  static const auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

Pages::~Pages() {
  if (begin_ != nullptr) ::munmap(begin_, bytes_);
}

Pages Pages::map(size_t bytes, int protection, int fd) {
  const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
  void* memory = ::mmap(nullptr, bytes, protection, flags, fd, 0);
  return memory == MAP_FAILED ? Pages() : Pages(static_cast<std::byte*>(memory), bytes);
}

uint64_t next_buffer() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

SharedAllocation allocate_device(Context& context, size_t bytes) {
  const size_t whole = rounded(rounded(bytes, kAlignment), page());
  if (whole < bytes) return nullptr;
  Descriptor file(::memfd_create("stand-in GPU", MFD_CLOEXEC));
  if (!file.valid() || ::ftruncate(file.get(), static_cast<off_t>(whole)) != 0) return nullptr;
  return map_device(context, std::move(file), bytes);
}

// A page that nobody may touch is behind each mapping, and the memory is at the end of what is
// before it.
SharedAllocation map_device(Context& context, Descriptor file, size_t bytes) {
  const size_t used = rounded(bytes, kAlignment);
  const size_t whole = rounded(used, page());
  auto made = std::make_shared<Allocation>();
  made->file = std::move(file);
  made->theirs = Pages::map(whole + page(), PROT_NONE, -1);
  made->ours = Pages::map(whole + page(), PROT_NONE, -1);
  if (made->theirs.begin() == nullptr || made->ours.begin() == nullptr) return nullptr;
  void* memory = ::mmap(made->ours.begin(), whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                        made->file.get(), 0);
  if (memory == MAP_FAILED) return nullptr;
  made->sort = MemorySort::kDevice;
  made->begin = address_of(made->theirs.begin()) + whole - used;
  made->own = made->ours.begin() + (whole - used);
  made->bytes = bytes;
  made->context = &context;
  made->buffer = next_buffer();
  return made;
}

SharedAllocation allocate_shared(Context& context, MemorySort sort, size_t bytes) {
  const size_t whole = rounded(bytes, page());
  if (whole < bytes) return nullptr;
  auto made = std::make_shared<Allocation>();
  made->theirs = Pages::map(whole, PROT_READ | PROT_WRITE, -1);
  if (made->theirs.begin() == nullptr) return nullptr;
  made->sort = sort;
  made->own = made->theirs.begin();
  made->begin = address_of(made->own);
  made->bytes = bytes;
  made->context = &context;
  made->buffer = next_buffer();
  return made;
}

SharedAllocation MemoryTable::at_or_before(CuAddress address) const {
  auto next = by_begin_.upper_bound(address);
  return next == by_begin_.begin() ? nullptr : std::prev(next)->second;
}

bool MemoryTable::touches(CuAddress begin, size_t bytes) const {
  const SharedAllocation before = at_or_before(begin);
  if (before != nullptr && begin - before->begin < before->bytes) return true;
  const auto next = by_begin_.upper_bound(begin);
  return next != by_begin_.end() && next->first - begin < bytes;
}

bool MemoryTable::add(const SharedAllocation& allocation) {
  const std::unique_lock lock(mutex_);
  if (touches(allocation->begin, allocation->bytes)) return false;
  by_begin_[allocation->begin] = allocation;
  return true;
}

SharedAllocation MemoryTable::take(CuAddress begin, std::initializer_list<MemorySort> sorts) {
  const std::unique_lock lock(mutex_);
  const auto found = by_begin_.find(begin);
  if (found == by_begin_.end()) return nullptr;
  SharedAllocation taken = found->second;
  if (std::find(sorts.begin(), sorts.end(), taken->sort) == sorts.end()) return nullptr;
  taken->freed = true;
  by_begin_.erase(found);
  return taken;
}

std::vector<SharedAllocation> MemoryTable::take_all(const Context& context) {
  std::vector<SharedAllocation> taken;
  const std::unique_lock lock(mutex_);
  for (auto at = by_begin_.begin(); at != by_begin_.end();) {
    // What callers have mapped is no context's.
    if (at->second->context != &context || at->second->sort == MemorySort::kMapped) {
      ++at;
      continue;
    }
    at->second->freed = true;
    taken.push_back(std::move(at->second));
    at = by_begin_.erase(at);
  }
  return taken;
}

SharedAllocation MemoryTable::find(CuAddress address) const {
  const std::shared_lock lock(mutex_);
  SharedAllocation found = at_or_before(address);
  return found != nullptr && address - found->begin < found->bytes ? found : nullptr;
}

bool Located::may_be_used_by(int device, bool written) const {
  const auto allows = [&](const SharedAllocation& piece) {
    const uint64_t devices = written ? piece->writers : piece->readers;
    return piece->sort != MemorySort::kMapped || (devices >> device & 1) != 0;
  };
  return of == nullptr || (allows(of) && std::all_of(more.begin(), more.end(), allows));
}

void Located::add_to(std::vector<SharedAllocation>& uses) const {
  if (of != nullptr) uses.push_back(of);
  uses.insert(uses.end(), more.begin(), more.end());
}

Located MemoryTable::locate(CuAddress address, size_t bytes) const {
  const std::shared_lock lock(mutex_);
  const SharedAllocation found = at_or_before(address);
  if (found != nullptr && address - found->begin < found->bytes) {
    const size_t offset = address - found->begin;
    Located located{found->own + offset, found};
    size_t covered = found->bytes - offset;
    while (covered < bytes && found->sort == MemorySort::kMapped) {
      const auto next = by_begin_.find(address + covered);
      if (next == by_begin_.end() || next->second->range != found->range) break;
      located.more.push_back(next->second);
      covered += next->second->bytes;
    }
    located.whole = bytes <= covered;
    return located;
  }
  return {pointer_to(address), nullptr, address != 0 && !touches(address, bytes)};
}

size_t MemoryTable::size() const {
  const std::shared_lock lock(mutex_);
  return by_begin_.size();
}

size_t MemoryTable::device_bytes(const Context& context) const {
  size_t sum = 0;
  const std::shared_lock lock(mutex_);
  for (const auto& [begin, allocation] : by_begin_)
    if (allocation->context == &context && !allocation->is_host()) sum += allocation->bytes;
  return sum;
}

}  // namespace banyan::standin
