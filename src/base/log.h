// A message is one line, and one place writes them all. A Log is a value shared by copies: a
// communicator has its own, so that ranks that are threads of one process can log to different
// files.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "banyan/status.h"

namespace banyan {

enum class LogLevel : uint8_t { kOff, kError, kWarn, kInfo, kTrace };
enum class Subsystem : uint8_t { kInit, kNet, kPlan, kCall, kFault, kEnv };
inline constexpr int kSubsystemCount = 6;

std::string_view name_of(LogLevel level);
std::string_view name_of(Subsystem subsystem);

// What BANYAN_DEBUG says: a level for each subsystem.
struct LogLevels {
  std::array<LogLevel, kSubsystemCount> of{LogLevel::kWarn, LogLevel::kWarn, LogLevel::kWarn,
                                           LogLevel::kWarn, LogLevel::kWarn, LogLevel::kWarn};
};
// Reads "info", or "net=trace,init=info" where the rest stays at warn. The error names the word,
// its position and the valid words.
Result<LogLevels> parse_log_levels(std::string_view text);

// Thread-safe; copies write to the same place.
class Log {
 public:
  Log() = default;  // warnings and errors to stderr, rank unknown
  // `file` is BANYAN_DEBUG_FILE with %h (host), %p (pid), %r (rank), empty: stderr.
  static Result<Log> open(const LogLevels& levels, std::string_view file, int rank);
  // The same, whose lines say that the rank is one of `communicator`.
  Log of(std::string_view communicator) const;

  bool enabled(Subsystem subsystem, LogLevel level) const {
    return level <= levels_.of[static_cast<size_t>(subsystem)];
  }
  // Writes "UTC banyan HOST:PID rank R of COMMUNICATOR LEVEL SUBSYSTEM: message\n" in one write().
  void write(Subsystem subsystem, LogLevel level, std::string_view message) const;
  // What somebody has asked for: the same as info, whatever the levels.
  void answer(Subsystem subsystem, std::string_view message) const;

 private:
  struct Sink;
  void put(Subsystem subsystem, LogLevel level, std::string_view message) const;

  LogLevels levels_;
  int rank_ = -1;
  std::shared_ptr<const std::string> communicator_;  // null: not known yet
  std::shared_ptr<const Sink> sink_;                 // owners: all copies of this Log; null: stderr
};

}  // namespace banyan

// Formats (fmt syntax) only when the level is enabled.
#define BANYAN_LOG(log, subsystem, level, ...)                                                    \
  do {                                                                                            \
    if ((log).enabled(subsystem, level)) (log).write(subsystem, level, fmt::format(__VA_ARGS__)); \
  } while (false)
