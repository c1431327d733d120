// BANYAN_NET_DEVICES says which devices UCX may use. It is compared with those that this machine
// has before UCX sees it: what UCX says of it are warnings of a form of its own.
//
//   Grammar:  '^'? WORD (',' WORD)*
//             WORD = interface | RDMA device | RDMA device ':' port | 'all'
//   '^':      all but these
//   Example:  mlx5_0:1,eth0
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/status.h"
#include "src/base/interface.h"

namespace banyan {

// Lists network interfaces and ports of RDMA devices ("mlx5_0:1") that are up; empty where `sys`
// does not say.
std::vector<std::string> net_devices(const std::filesystem::path& sys = "/sys/class");

// Says what UCX_NET_DEVICES is to be.
//
//   `text`             result
//   "all", or empty    as it is
//   other              full names, since UCX up to 1.20 knows neither '^' nor a device without its
//                      port; as it is where there are no devices to compare with
//
// kInvalidArgument names the variable, the word, its position and the valid words.
Result<std::string> choose_net_devices(std::string_view text, std::span<const std::string> devices);

// Leaves out those of the `chosen` devices, as choose_net_devices gave them for `text`, that lead
// nowhere. It changes nothing where that is none, or loopback alone, which nobody has chosen. The
// error says why each of them leads nowhere.
Result<std::string> leading_out(std::string_view text, const std::string& chosen,
                                std::span<const std::string> devices,
                                std::span<const Interface> interfaces);

// Tells what the system says of its speed: "100 Gb/s"; empty: nothing. `device` is as UCX has it.
std::string rate_of_device(const std::string& device,
                           const std::filesystem::path& sys = "/sys/class");

}  // namespace banyan
