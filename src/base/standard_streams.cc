// SPDX-License-Identifier: Apache-2.0

#include "src/base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "src/base/process.h"

namespace banyan {
namespace {

constexpr std::array<int, 3> kStreams = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};

// Not Descriptors, which are never here.
class ClosedStreams {
 public:
  ClosedStreams() {
    for (const int stream : kStreams) {
      if (::fcntl(stream, F_GETFD) >= 0) continue;
      // The lowest number that is free, which is this one, unless another thread was faster.
      const int taken = ::open("/", O_PATH | O_CLOEXEC);
      held_[static_cast<size_t>(stream)] = taken == stream;
      if (taken >= 0 && taken != stream) ::close(taken);
    }
  }
  ClosedStreams(const ClosedStreams&) = delete;
  ClosedStreams& operator=(const ClosedStreams&) = delete;
  ~ClosedStreams() {
    for (const int stream : kStreams) {
      if (!held_[static_cast<size_t>(stream)]) continue;
      const int flags = ::fcntl(stream, F_GETFL);
      if (flags >= 0 && (flags & O_PATH) != 0) ::close(stream);
    }
  }

 private:
  std::array<bool, kStreams.size()> held_{};
};

}  // namespace

std::shared_ptr<void> hold_closed_streams() {
  return process().share("closed streams", [] { return std::make_shared<ClosedStreams>(); });
}

}  // namespace banyan
