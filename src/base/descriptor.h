// A file descriptor with one owner.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace banyan {

class Descriptor {
 public:
  Descriptor() = default;
  // Takes it over. The numbers of the standard streams are the program's also where it has closed
  // them: its next line for stderr must not go to a peer. What got such a number is moved to
  // another one; where there is none this is invalid, and errno says why, as after the call itself.
  explicit Descriptor(int fd) : fd_(fd < 0 || fd > STDERR_FILENO ? fd : moved(fd)) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  // EINTR is not repeated: on Linux the descriptor is gone either way.
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  static int moved(int fd) {
    const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int cause = errno;
    ::close(fd);
    errno = copy < 0 && cause == EINVAL ? EMFILE : cause;  // no number from there on is allowed
    return copy;
  }

  int fd_ = -1;
};

}  // namespace banyan
