// Every BANYAN_* variable in one documented table, and their values in one struct.
//
// The process environment is read here and nowhere else, once per communicator.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/status.h"
#include "src/base/log.h"

namespace banyan {

// One row of the table that `banyan_info --env` prints.
struct Variable {
  std::string_view name;
  std::string_view default_value;  // as text; empty: unset
  std::string_view text;           // one sentence
  bool secret = false;             // its value is never shown
};
std::span<const Variable> variables();

// Name and value pairs, as the process has them or as a test invents them.
class RawEnvironment {
 public:
  // Without any BANYAN_* in a process that runs with more rights than its caller (AT_SECURE).
  static RawEnvironment of_process();
  explicit RawEnvironment(std::vector<std::pair<std::string, std::string>> entries)
      : entries_(std::move(entries)) {}

  // Null where unset. An empty value counts as set for launchers' variables and as unset for ours.
  const std::string* find(std::string_view name) const;
  std::span<const std::pair<std::string, std::string>> entries() const { return entries_; }

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
};

struct PortRange {
  uint16_t first = 0;  // 0: the kernel chooses
  uint16_t last = 0;
};

// These are the checked values. The variables that say who this rank is (BANYAN_RANK, ...) belong
// to src/bootstrap/launcher.h. Grammars that need the list of algorithms or transports are checked
// there.
struct Environment {
  std::string algorithm;                      // BANYAN_ALGO
  std::string transports;                     // BANYAN_TRANSPORTS
  std::string net_devices;                    // BANYAN_NET_DEVICES
  std::string compress;                       // BANYAN_COMPRESS
  std::string tune_file;                      // BANYAN_TUNE_FILE
  std::optional<uint64_t> single_copy_least;  // BANYAN_SINGLE_COPY: bytes; 0: never; empty: auto
  std::optional<bool> gpu_direct;             // BANYAN_GPU_DIRECT; empty: auto
  std::string socket_interface;               // BANYAN_SOCKET_IFNAME: an interface that exists
  std::string secret;                         // BANYAN_SECRET
  std::string debug_file;                     // BANYAN_DEBUG_FILE
  LogLevels debug;                            // BANYAN_DEBUG
  double timeout_s = 30;                      // BANYAN_TIMEOUT
  double init_timeout_s = 60;                 // BANYAN_INIT_TIMEOUT
  PortRange port_range;                       // BANYAN_PORT_RANGE
  std::string topology_file;                  // BANYAN_TOPO_FILE
  std::string topology_dump;                  // BANYAN_TOPO_DUMP
  std::string sysroot;                        // BANYAN_SYSROOT
  std::string nccl_library;                   // BANYAN_NCCL_LIBRARY
  bool check = true;                          // BANYAN_CHECK
  bool ucx_net_devices = false;               // UCX_NET_DEVICES is set
  std::string ucx_tls;                        // UCX_TLS
};

// Holds what was read, and a status for each wrong value, whose default stands.
//
//   kInvalidArgument  names the variable, its value and what would be right
//   kUnsupported      the value asks for something that this version has not
struct Reading {
  Environment values;
  std::vector<Status> wrong;
};
Reading read_environment(const RawEnvironment& raw);
// The values, or the first that is wrong.
Result<Environment> parse_environment(const RawEnvironment& raw);

// Gives a line "BANYAN_TIMEOUTS is unknown; did you mean BANYAN_TIMEOUT?" for each unknown name
// BANYAN_*. Names BANYAN_TEST_* are for tests and get none.
std::vector<std::string> unknown_variables(const RawEnvironment& raw);

}  // namespace banyan
