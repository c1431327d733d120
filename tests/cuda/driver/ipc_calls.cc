// Memory that other processes of the machine lend: they keep a file behind each allocation, which
// is opened by their process and descriptor.
// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <string>

#include "tests/cuda/driver/state.h"

using namespace banyan::standin;  // NOLINT(google-build-using-namespace): these are its functions

namespace {

constexpr uint64_t kMagic = 0x4e49'444e'4154'53;

struct LentMemory {  // what is in a handle
  uint64_t magic;
  pid_t owner;
  int file;
  uint64_t inode;  // a later process may have the number of the owner
  uint64_t bytes;
};
static_assert(sizeof(LentMemory) <= sizeof(CuIpcMemHandle));

std::mutex borrowing;  // one handle is opened once

uint64_t inode_of(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 ? status.st_ino : 0;
}

SharedAllocation borrow(Context& context, const LentMemory& lent) {
  const std::string path =
      "/proc/" + std::to_string(lent.owner) + "/fd/" + std::to_string(lent.file);
  banyan::Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.valid() || inode_of(file.get()) != lent.inode) return nullptr;
  SharedAllocation made = map_device(context, std::move(file), lent.bytes);
  if (made != nullptr) made->sort = MemorySort::kBorrowed;
  return made;
}

}  // namespace

// It is for the whole allocation, wherever in it the address is.
int cuIpcGetMemHandle(CuIpcMemHandle* handle, CuAddress address) {
  return call_in_context(__func__, [&](Context&) {
    const SharedAllocation found = state().memory.find(address);
    if (handle == nullptr || found == nullptr || found->sort != MemorySort::kDevice)
      return kInvalidValue;
    const LentMemory lent{.magic = kMagic,
                          .owner = ::getpid(),
                          .file = found->file.get(),
                          .inode = inode_of(found->file.get()),
                          .bytes = found->bytes};
    *handle = {};
    std::memcpy(handle, &lent, sizeof lent);
    return kSuccess;
  });
}

// Opened again by the same context it is the same memory, to be closed as often.
int cuIpcOpenMemHandle_v2(CuAddress* address, CuIpcMemHandle handle, unsigned flags) {
  return unsafe_call(__func__, [&](Context& context) {
    LentMemory lent{};
    std::memcpy(&lent, &handle, sizeof lent);
    if (address == nullptr || flags > 1 || lent.magic != kMagic) return kInvalidValue;
    if (lent.owner == ::getpid()) return kInvalidContext;
    const std::lock_guard lock(borrowing);
    const SharedAllocation there = state().memory.find_if([&](const Allocation& known) {
      return known.sort == MemorySort::kBorrowed && known.context == &context &&
             inode_of(known.file.get()) == lent.inode;
    });
    if (there != nullptr) {
      ++there->times_opened;
      *address = there->begin;
      return kSuccess;
    }
    const SharedAllocation made = borrow(context, lent);
    if (made == nullptr) return kInvalidValue;
    if (!state().memory.add(made)) return kMapFailed;
    *address = made->begin;
    return kSuccess;
  });
}

int cuIpcCloseMemHandle(CuAddress address) {
  return unsafe_call(__func__, [&](Context&) {
    const std::lock_guard lock(borrowing);
    const SharedAllocation found = state().memory.find(address);
    if (found == nullptr || found->begin != address || found->sort != MemorySort::kBorrowed)
      return kInvalidValue;
    if (found->times_opened > 1) {
      --found->times_opened;
      return kSuccess;
    }
    if (!found->context->synchronize()) return kDeinitialized;
    (void)state().memory.take(address, {MemorySort::kBorrowed});
    return kSuccess;
  });
}
