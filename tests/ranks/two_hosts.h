// Two hosts for ranks that are processes.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "src/base/descriptor.h"

namespace banyan::test {

inline bool shell(const std::string& command) {
  return std::system((command + " 2> /dev/null").c_str()) == 0;  // NOLINT(cert-env33-c): our words
}

// Two network namespaces, joined by a cable, are two hosts, as far as the library can tell.
class TwoHosts {
 public:
  TwoHosts() {
    const std::string right_end = "byx" + id_;
    made_ = shell("ip netns add " + name(0)) && shell("ip netns add " + name(1)) &&
            shell(fmt::format("ip link add {0} netns {0} type veth peer name {1} netns {2}",
                              name(0), right_end, name(1))) &&
            shell(fmt::format("ip -n {0} addr add 192.0.2.1/24 dev {0}", name(0))) &&
            shell(fmt::format("ip -n {} addr add 192.0.2.2/24 dev {}", name(1), right_end)) &&
            shell(fmt::format("ip -n {0} link set {0} up", name(0))) &&
            shell(fmt::format("ip -n {} link set {} up", name(1), right_end)) &&
            shell(fmt::format("ip -n {} link set lo up", name(0))) &&
            shell(fmt::format("ip -n {} link set lo up", name(1))) && comes_up(name(0), name(0)) &&
            comes_up(name(1), right_end);
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;
  ~TwoHosts() {
    for (const int host : {0, 1}) (void)shell("ip netns del " + name(host));
  }

  bool made() const { return made_; }
  // This process is there from now on.
  bool enter(int host) const {
    const std::string interface = host == 0 ? name(0) : "byx" + id_;
    setenv("BANYAN_SOCKET_IFNAME", interface.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
    const Descriptor there(open(("/run/netns/" + name(host)).c_str(), O_RDONLY | O_CLOEXEC));
    // /sys shows the interfaces of the namespace in which it was mounted.
    return there.valid() && setns(there.get(), CLONE_NEWNET) == 0 && unshare(CLONE_NEWNS) == 0 &&
           mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0;
  }

 private:
  // The kernel says so a while after both ends are.
  static bool comes_up(const std::string& host, const std::string& end) {
    return shell(
        fmt::format("for i in $(seq 100); do ip -n {} -br link show dev {} | grep -q ' UP ' && "
                    "exit; sleep 0.05; done; exit 1",
                    host, end));
  }
  std::string name(int host) const { return (host == 0 ? "byl" : "byr") + id_; }

  std::string id_ = std::to_string(getpid());
  bool made_ = false;
};

}  // namespace banyan::test
