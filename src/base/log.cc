// Where log lines are put together and written.
// SPDX-License-Identifier: Apache-2.0

#include "src/base/log.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "src/base/clock.h"
#include "src/base/date.h"
#include "src/base/descriptor.h"
#include "src/base/parse.h"

namespace banyan {

struct Log::Sink {
  Descriptor file;
};

namespace {

constexpr std::array<std::string_view, 5> kLevels = {"off", "error", "warn", "info", "trace"};
constexpr std::array<std::string_view, kSubsystemCount> kSubsystems = {"init", "net",   "plan",
                                                                       "call", "fault", "env"};

template <size_t kCount>
std::optional<size_t> index_of(const std::array<std::string_view, kCount>& words,
                               std::string_view word) {
  const auto* found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) return std::nullopt;
  return static_cast<size_t>(found - words.begin());
}

// `word` is a part of `text`.
Status wrong_word(std::string_view what, std::string_view word, std::string_view text,
                  std::span<const std::string_view> words) {
  return {Code::kInvalidArgument, fmt::format("'{}' at position {} is no {}; valid: {}", word,
                                              word.data() - text.data() + 1, what, join(words))};
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

Result<std::string> expand(std::string_view pattern, int rank) {
  std::string path;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      path += pattern[i];
      continue;
    }
    const char letter = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (letter == 'h') {
      path += host_name();
    } else if (letter == 'p') {
      path += fmt::format("{}", ::getpid());
    } else if (letter == 'r') {
      path += rank < 0 ? std::string("unknown") : fmt::format("{}", rank);
    } else {
      return Status(Code::kInvalidArgument,
                    fmt::format("BANYAN_DEBUG_FILE={}: '{}' at position {} is unknown; "
                                "valid: %h (host), %p (process), %r (rank)",
                                pattern, pattern.substr(i, 2), i + 1));
    }
    ++i;
  }
  return path;
}

// While it lives, a write to a pipe that nobody reads is an error in this thread and no signal.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigset_t waiting;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigpending(&waiting);
    mine_ = sigismember(&waiting, SIGPIPE) == 0;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;
  ~WithoutSigpipe() {
    const timespec now{};
    while (mine_ && sigtimedwait(&pipe_, nullptr, &now) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool mine_ = false;  // what is pending afterwards
};

// Tells whether the descriptor takes a line without blocking, soon. A reader that has stopped must
// not keep a rank from its deadlines.
bool takes_a_line(int descriptor) {
  constexpr auto kPatience = std::chrono::milliseconds(100);
  const TimePoint end = Clock::now() + kPatience;
  pollfd entry{descriptor, POLLOUT, 0};
  int ready = 0;
  do {
    ready = ::poll(&entry, 1, milliseconds_until(end, kPatience.count()));
  } while (ready < 0 && errno == EINTR && Clock::now() < end);
  return ready > 0;
}

}  // namespace

std::string_view name_of(LogLevel level) {
  return kLevels[static_cast<size_t>(level)];
}

std::string_view name_of(Subsystem subsystem) {
  return kSubsystems[static_cast<size_t>(subsystem)];
}

Result<LogLevels> parse_log_levels(std::string_view text) {
  LogLevels levels;
  if (text.find_first_of("=,") == std::string_view::npos) {
    const auto level = index_of(kLevels, trim(text));
    if (!level) return wrong_word("level (or list of subsystem=level)", text, text, kLevels);
    levels.of.fill(static_cast<LogLevel>(*level));
    return levels;
  }
  for (const std::string_view item : split(text, ',')) {
    const size_t equals = item.find('=');
    const std::string_view name = trim(item.substr(0, equals));
    if (equals == std::string_view::npos)
      return Status(
          Code::kInvalidArgument,
          fmt::format("'{}' at position {} is not subsystem=level; subsystems: {}; "
                      "levels: {}",
                      item, item.data() - text.data() + 1, join(kSubsystems), join(kLevels)));
    const auto subsystem = index_of(kSubsystems, name);
    if (!subsystem) return wrong_word("subsystem", name.empty() ? item : name, text, kSubsystems);
    const std::string_view word = trim(item.substr(equals + 1));
    const auto level = index_of(kLevels, word);
    if (!level) return wrong_word("level", word.empty() ? item : word, text, kLevels);
    levels.of[*subsystem] = static_cast<LogLevel>(*level);
  }
  return levels;
}

Result<Log> Log::open(const LogLevels& levels, std::string_view file, int rank) {
  Log log;
  log.levels_ = levels;
  log.rank_ = rank;
  if (file.empty()) return log;
  auto path = expand(file, rank);
  if (!path.ok()) return path.status();
  // A FIFO that nobody reads is an error, not a wait.
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK;
  Descriptor descriptor(::open(path->c_str(), kFlags, 0600));
  if (!descriptor.valid()) {
    const int cause = errno;
    return Status(Code::kSystem, fmt::format("BANYAN_DEBUG_FILE={}: cannot open {} for writing: {}",
                                             file, *path, std::generic_category().message(cause)));
  }
  log.sink_ = std::make_shared<const Sink>(Sink{std::move(descriptor)});
  return log;
}

Log Log::of(std::string_view communicator) const {
  Log log = *this;
  log.communicator_ = std::make_shared<const std::string>(printable(communicator));
  return log;
}

void Log::write(Subsystem subsystem, LogLevel level, std::string_view message) const {
  if (enabled(subsystem, level)) put(subsystem, level, message);
}

void Log::answer(Subsystem subsystem, std::string_view message) const {
  put(subsystem, LogLevel::kInfo, message);
}

void Log::put(Subsystem subsystem, LogLevel level, std::string_view message) const {
  const int errno_of_caller = errno;
  std::string line =
      fmt::format("{} banyan {}:{} rank {}{} {} {}: ", utc_now(Decimals::kMicroseconds),
                  host_name(), ::getpid(), rank_ < 0 ? std::string("?") : fmt::format("{}", rank_),
                  communicator_ ? " of " + *communicator_ : "", name_of(level), name_of(subsystem));
  line += printable(message);
  // What fits in PIPE_BUF is written whole also where ranks share a pipe.
  constexpr std::string_view kCut = "...";
  if (line.size() > PIPE_BUF - 1) {
    line.resize(PIPE_BUF - 1 - kCut.size());
    line += kCut;
  }
  line += '\n';
  const int descriptor = sink_ == nullptr ? STDERR_FILENO : sink_->file.get();
  if (takes_a_line(descriptor)) {
    const WithoutSigpipe guard;
    ssize_t written = 0;
    do {
      written = ::write(descriptor, line.data(), line.size());
    } while (written < 0 && errno == EINTR);
  }
  // A log that cannot be written has nobody to tell.
  errno = errno_of_caller;
}

}  // namespace banyan
