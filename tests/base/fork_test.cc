// A child works, whatever other threads did when it was forked.
// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stop_token>
#include <thread>
#include <vector>

#include "src/base/descriptor.h"
#include "src/base/own_sockets.h"
#include "src/bootstrap/authentication.h"
#include "tests/support/sanitizers.h"

namespace banyan::fork_test {
namespace {

// libcrypto has locks, which a child would inherit from threads that it does not have: from those
// inside, and from those that are just ending.
TEST(Fork, LeavesAuthenticationToTheChild) {
  if (test::kThreadSanitizer || test::kAddressSanitizer)
    GTEST_SKIP() << "a child may inherit a lock of the sanitizer, held by a thread it lacks";
  const Key key = *random_key();
  const auto once = [&] { (void)authenticate(key, "once", {}); };
  const std::jthread stays([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) once();
  });
  const std::jthread starts_others([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) std::thread(once).join();
  });
  for (int i = 0; i < 1000; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      std::thread(once).join();
      once();
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << "child " << i;
  }
}

// It lives on when its parent has died, and must not keep that from the parent's peers.
TEST(Fork, LeavesTheSocketsOfItsParentAlone) {
  int ends[2] = {-1, -1};
  int wakes[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  ASSERT_EQ(pipe2(wakes, O_CLOEXEC), 0);
  std::vector<Descriptor> mine(2);  // one to itself, which is none
  mine[0] = Descriptor(ends[0]);
  const Descriptor peer(ends[1]);
  const Descriptor wait(wakes[0]);
  Descriptor wake(wakes[1]);
  pid_t child = -1;
  {
    const OwnSockets own(mine);
    child = fork();
    if (child == 0) {
      wake.close();
      char byte = 0;
      const bool taken = fcntl(ends[0], F_GETFD) >= 0;  // not to be had by what it opens next
      _exit(taken && read(wait.get(), &byte, 1) == 0 ? 0 : 1);
    }
    mine[0].close();
  }
  pollfd entry{peer.get(), POLLIN, 0};
  EXPECT_EQ(poll(&entry, 1, 10000), 1) << "the child holds it";
  char byte = 0;
  EXPECT_EQ(recv(peer.get(), &byte, 1, MSG_DONTWAIT), 0);
  wake.close();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace banyan::fork_test
