// process_vm_readv, all of it or a reason.
// SPDX-License-Identifier: Apache-2.0

#include "transports/shm/single_copy.h"

#include <fmt/format.h>
#include <sys/uio.h>

#include <cerrno>
#include <system_error>

namespace banyan::shm {

Code code_of(int error) {
  if (error == 0) return Code::kOk;
  if (error == ESRCH) return Code::kPeerLost;
  if (error == EFAULT || error == EINVAL) return Code::kCorrupt;
  return Code::kSystem;
}

std::string why_not_read(int error) {
  std::string text = fmt::format("process_vm_readv: {}", std::generic_category().message(error));
  if (error == EPERM)
    text +=
        "; it was permitted when the communicator was made: change the user, the capabilities and "
        "the dumpable attribute of a process before that";
  return text;
}

int read_memory(const Owner& owner, uint64_t address, std::byte* to, size_t bytes) {
  // Ranks of one process go through the kernel, too: after a failure the owner may free its memory
  // at any moment, and then this is an error and no crash.
  while (bytes > 0) {
    iovec local{.iov_base = to, .iov_len = bytes};
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of the owner's, never followed here
    iovec remote{.iov_base = reinterpret_cast<void*>(address), .iov_len = bytes};
    const ssize_t got = process_vm_readv(owner.pid, &local, 1, &remote, 1, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    // A short read ends where the owner's memory does; the next attempt says why. Nothing at all
    // would go on for ever.
    if (got == 0) return EFAULT;
    to += got;
    address += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
  return 0;
}

bool can_read(const Owner& owner, uint64_t address, uint64_t value) {
  uint64_t seen = 0;
  return read_memory(owner, address, reinterpret_cast<std::byte*>(&seen), sizeof seen) == 0 &&
         seen == value;
}

}  // namespace banyan::shm
