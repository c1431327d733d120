// Speaks PMI-1, as MPICH's Hydra and Slurm do: text lines "cmd=... key=value ..." over a socket
// that the process manager has opened.
//
// A manager takes a process that has spoken to it and ends without a farewell for a failed one, and
// Hydra then kills all others. So the farewell is sent when the process exits, not earlier: until
// then ranks may meet again, or the program may use MPI itself.
// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>

#include "src/base/descriptor.h"
#include "src/base/process.h"
#include "src/bootstrap/frame_socket.h"
#include "src/bootstrap/launcher.h"

namespace banyan {
namespace {

constexpr size_t kLineMost = 4096;
constexpr size_t kValueMost = 1024;

Status broken(std::string_view what) {
  return {Code::kSystem, fmt::format("PMI (PMI_FD): {}", what)};
}

// The value of a key in "cmd=get_result rc=0 value=...".
std::optional<std::string_view> field(std::string_view line, std::string_view key) {
  for (size_t at = 0; at < line.size();) {
    size_t end = line.find(' ', at);
    if (end == std::string_view::npos) end = line.size();
    const std::string_view word = line.substr(at, end - at);
    if (word.size() > key.size() && word[key.size()] == '=' && word.substr(0, key.size()) == key) {
      return word.substr(key.size() + 1);
    }
    at = end + 1;
  }
  return std::nullopt;
}

bool plain(std::string_view text) {
  return text.find_first_of(" \n=") == std::string_view::npos && !text.empty();
}

Status send_line(int descriptor, std::string line, TimePoint deadline) {
  line += '\n';
  size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t part = ::send(descriptor, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (part >= 0) {
      sent += static_cast<size_t>(part);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(descriptor, POLLOUT, deadline)) {
        return {Code::kTimeout, "the process manager does not read what ranks send (PMI)"};
      }
    } else if (errno != EINTR) {
      return broken(std::generic_category().message(errno));
    }
  }
  return {};
}

// Byte by byte: what comes after the line is somebody else's.
Result<std::string> receive_line(int descriptor, TimePoint deadline) {
  std::string line;
  while (line.size() < kLineMost) {
    if (!wait_for(descriptor, POLLIN, deadline)) {
      return Status(Code::kTimeout,
                    "the process manager has not answered within the time limit (PMI); a rank that "
                    "has not arrived keeps all others waiting there");
    }
    char c = 0;
    const ssize_t got = ::recv(descriptor, &c, 1, MSG_DONTWAIT);
    if (got == 0) return broken("the process manager has closed the connection");
    if (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
      return broken(std::generic_category().message(errno));
    }
    if (got < 0) continue;
    if (c == '\n') return line;
    line += c;
  }
  return broken("an answer of more than 4,096 bytes");
}

// Says goodbye when it is destroyed, in the process that made it.
class Farewell {
 public:
  // Keeps a descriptor of its own: MPI closes PMI_FD when it ends, and the number may then be
  // anything.
  explicit Farewell(int descriptor)
      : descriptor_(Descriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0))), process_(::getpid()) {}
  Farewell(const Farewell&) = delete;
  Farewell& operator=(const Farewell&) = delete;
  ~Farewell() {
    if (process_ != ::getpid()) return;  // a fork of it
    // Hydra fails where it has an answer left for who has said goodbye; without one it ends the
    // job.
    if (process().launcher_unanswered.load()) return;
    // Hydra fails where nobody reads its answer.
    const TimePoint deadline = Clock::now() + std::chrono::seconds(1);
    if (send_line(descriptor_.get(), "cmd=finalize", deadline).ok()) {
      (void)receive_line(descriptor_.get(), deadline);
    }
  }

 private:
  Descriptor descriptor_;
  pid_t process_;
};

void say_farewell_at_exit(int descriptor) {
  // Static for its destructor alone, which runs at exit: a process has one process manager.
  static const Farewell farewell(descriptor);
}

class Pmi : public ProcessManager {
 public:
  // Does not own the descriptor.
  Pmi(int descriptor, int rank, int size, TimePoint deadline)
      : descriptor_(descriptor), rank_(rank), size_(size), deadline_(deadline) {}

  Status start();
  int size() const override { return size_; }
  Result<std::string> broadcast(std::string_view key, std::string_view value_of_rank_0) override;

 private:
  // Sends a line and gives the answer, which must be `expected`.
  Result<std::string> ask(std::string_view line, std::string_view expected) const;

  int descriptor_;
  int rank_;
  int size_;
  TimePoint deadline_;
  std::string space_;  // where keys live
};

Result<std::string> Pmi::ask(std::string_view line, std::string_view expected) const {
  BANYAN_TRY(send_line(descriptor_, std::string(line), deadline_));
  auto answer = receive_line(descriptor_, deadline_);
  if (!answer.ok()) return answer;
  const auto code = field(*answer, "rc");
  if (field(*answer, "cmd") != expected || (code && *code != "0")) {
    return broken(
        fmt::format("'{}' was answered with '{}', expected cmd={}", line, *answer, expected));
  }
  return answer;
}

Status Pmi::start() {
  if (!process().pmi_space.empty()) {
    space_ = process().pmi_space;
    return {};
  }
  // The program may have done this before: Hydra answers as it did the first time. Slurm's manager
  // does not answer at all, also where it is we who come again.
  const auto init = ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init");
  if (!init.ok()) return init.status();
  const auto limits = ask("cmd=get_maxes", "maxes");
  if (!limits.ok()) return limits.status();
  const auto name = ask("cmd=get_my_kvsname", "my_kvsname");
  if (!name.ok()) return name.status();
  const auto space = field(*name, "kvsname");
  if (!space || !plain(*space)) return broken(fmt::format("no kvsname in '{}'", *name));
  space_ = process().pmi_space = *space;
  say_farewell_at_exit(descriptor_);
  return {};
}

Result<std::string> Pmi::broadcast(std::string_view key, std::string_view value_of_rank_0) {
  if (rank_ == 0) {
    if (!plain(value_of_rank_0) || value_of_rank_0.size() > kValueMost) {
      return Status(Code::kInternal, "a value that PMI cannot carry");
    }
    const auto put =
        ask(fmt::format("cmd=put kvsname={} key={} value={}", space_, key, value_of_rank_0),
            "put_result");
    if (!put.ok()) return put.status();
  }
  const auto barrier = ask("cmd=barrier_in", "barrier_out");
  if (!barrier.ok()) return barrier.status();
  const auto got = ask(fmt::format("cmd=get kvsname={} key={}", space_, key), "get_result");
  if (!got.ok()) return got.status();
  const auto value = field(*got, "value");
  if (!value) return broken(fmt::format("no value in '{}'", *got));
  return std::string(*value);
}

}  // namespace

Result<std::unique_ptr<ProcessManager>> open_pmi(int descriptor, int rank, int size,
                                                 TimePoint deadline) {
  auto manager = std::make_unique<Pmi>(descriptor, rank, size, deadline);
  BANYAN_TRY(manager->start());
  return std::unique_ptr<ProcessManager>(std::move(manager));
}

}  // namespace banyan
