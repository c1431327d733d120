// Ranks in namespaces of their own, as in containers: a number that stands for several users proves
// none.
// SPDX-License-Identifier: Apache-2.0

#include <grp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "tests/ranks_fixture.h"

namespace banyan::test {
namespace {

class Namespaces : public WithRanks {};

bool can_make(int kind) {
  const pid_t child = fork();
  if (child == 0) _exit(unshare(kind) == 0 ? 0 : 1);
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

int free_port() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return 0;
  return ntohs(address.sin_port);
}

// Both are shown to each other as the user of whom there are all that have no number.
TEST_P(Namespaces, OfUsersWithoutAMapNeedASecret) {
  if (getuid() != 0) GTEST_SKIP() << "needs root, to become two users without privileges";
  if (!can_make(CLONE_NEWUSER)) GTEST_SKIP() << "user namespaces are not allowed here";
  for (const bool secret : {false, true}) {
    const std::string address = "127.0.0.1:" + std::to_string(free_port());
    run(2, [&](Rank& self) {
      const auto user = static_cast<unsigned>(1000 + self.rank());
      self.expect(setgroups(0, nullptr) == 0 && setgid(user) == 0 && setuid(user) == 0 &&
                      unshare(CLONE_NEWUSER) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0,
                  "becoming a user without a number");
      setenv("BANYAN_RANK", std::to_string(self.rank()).c_str(), 1);
      setenv("BANYAN_SIZE", "2", 1);
      setenv("BANYAN_ADDRESS", address.c_str(), 1);
      if (secret) setenv("BANYAN_SECRET", "of this test", 1);
      banyan_comm_t comm = nullptr;
      const banyan_result_t result = banyan_comm_init_env(&comm, nullptr);
      if (secret) {
        if (!self.expect_ok(result, "init_env with a secret")) return;
        self.verify(comm, 1000, 1);
        self.leave(comm);
        return;
      }
      self.expect_code(result, BANYAN_ERR_MISMATCH, "init_env without a secret");
      const std::string text = banyan_last_error(nullptr);
      for (const char* part : {"runs as user 65534", "BANYAN_SECRET"})
        self.expect(text.find(part) != std::string::npos, text);
    });
    if (HasFailure()) return;
  }
}

// Threads have their namespaces in common.
INSTANTIATE_TEST_SUITE_P(All, Namespaces, testing::Values(Kind::kProcesses),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test
