// A child works, whatever other threads did when it was forked.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stop_token>
#include <thread>

#include "src/authentication.h"
#include "tests/sanitizers.h"

namespace banyan {
namespace {

// libcrypto has locks, which a child would inherit from threads that it does not have: from those
// inside, and from those that are just ending.
TEST(Fork, LeavesAuthenticationToTheChild) {
  if (test::kThreadSanitizer || test::kAddressSanitizer)
    GTEST_SKIP()
        << "a child may inherit a lock of the sanitizer, taken by a thread it does not have";
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

}  // namespace
}  // namespace banyan
