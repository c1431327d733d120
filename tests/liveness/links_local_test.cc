// Who this host and process are, and which user that is outside of a container.
// SPDX-License-Identifier: Apache-2.0

#include "src/liveness/links_local.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>

#include "src/liveness/links.h"
#include "tests/support/few_descriptors.h"

namespace banyan::links_local_test {
namespace {

TEST(Identity, OfHostAndProcess) {
  const auto host = this_host();
  ASSERT_TRUE(host.ok());
  EXPECT_EQ(*host, *this_host());
  EXPECT_FALSE(host->name.empty());
  const ProcessIdentity process = this_process();
  EXPECT_EQ(process, this_process());
  EXPECT_EQ(process.pid, static_cast<uint64_t>(::getpid()));
  EXPECT_GT(process.started, 0u);
  EXPECT_GT(process.pid_namespace, 0u);
}

// Ranks that know less would take it for another host.
TEST(Identity, OfAHostIsNotGuessedWhereDescriptorsEnd) {
  const test::FewDescriptors none(test::FewDescriptors::kNone);
  EXPECT_EQ(this_host().status().code(), Code::kSystem);
}

TEST(Identity, OfAUserIsThatOutside) {
  EXPECT_EQ(outer_user("         0          0 4294967295\n", 1000), 1000U);
  EXPECT_EQ(outer_user("0 1000 1\n1 100000 65536\n", 0), 1000U);
  EXPECT_EQ(outer_user("0 1000 1\n1 100000 65536\n", 1), 100000U);
  EXPECT_EQ(outer_user("0 1000 1\n1 100000 65536\n", 65536), 165535U);
  EXPECT_EQ(outer_user("0 1000 1\n1 100000 65536\n", 65537), 65537U);
  EXPECT_EQ(outer_user("", 7), 7U);
  EXPECT_EQ(outer_user("no map", 7), 7U);
}

TEST(Identity, OfAUserIsNoneByTheNumberOfAllThatHaveNone) {
  constexpr uint64_t kNobody = 65534;
  const std::string all = "         0          0 4294967295\n";
  const std::string some = "0 1000 1\n1 100000 65536\n";
  for (const std::string& map : {all, some, std::string()}) {
    EXPECT_TRUE(is_one_user(map, 0, kNobody));
    EXPECT_TRUE(is_one_user(map, 1000, kNobody));
    EXPECT_EQ(is_one_user(map, kNobody, kNobody), map == all) << map;
    EXPECT_EQ(is_one_user(map, 99, 99), map == all) << map;
  }
  EXPECT_TRUE(is_one_user("0 7 4294967294\n4294967294 3 1\n", kNobody, kNobody));
}

// 77: there is no such namespace to be had.
TEST(Identity, OfAUserWithoutAMapIsNotKnown) {
  EXPECT_TRUE(this_host()->user_is_known) << "this test runs as nobody in particular";
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWUSER) != 0) ::_exit(77);
    const auto host = this_host();
    ::_exit(host.ok() && !host->user_is_known ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
    GTEST_SKIP() << "user namespaces are not allowed here";
  EXPECT_EQ(status, 0);
}

// Gives what a process says of itself as user 0 of a namespace whose users are those from `outer`
// on; nothing where that is not allowed.
std::optional<HostIdentity> host_as_seen_by(unsigned outer) {
  int ready[2] = {-1, -1};
  int mapped[2] = {-1, -1};
  int said[2] = {-1, -1};
  if (::pipe(ready) != 0 || ::pipe(mapped) != 0 || ::pipe(said) != 0) return {};
  const pid_t child = ::fork();
  if (child == 0) {
    char go = ::unshare(CLONE_NEWUSER) == 0 ? 'y' : 'n';
    if (::write(ready[1], &go, 1) != 1 || ::read(mapped[0], &go, 1) != 1) ::_exit(1);
    if (::setresuid(0, 0, 0) != 0) ::_exit(1);
    const auto host = this_host();
    const auto size = static_cast<ssize_t>(sizeof host->digest);
    ::_exit(host.ok() && ::write(said[1], host->digest.data(), sizeof host->digest) == size ? 0
                                                                                            : 1);
  }
  std::optional<HostIdentity> found;
  char allowed = 'n';
  if (::read(ready[0], &allowed, 1) == 1 && allowed == 'y') {
    const Descriptor map(
        ::open(fmt::format("/proc/{}/uid_map", child).c_str(), O_WRONLY | O_CLOEXEC));
    const std::string line = fmt::format("0 {} 1\n", outer);
    if (::write(map.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()))
      found.emplace();
  }
  if (::write(mapped[1], "", 1) != 1) found.reset();
  int status = -1;
  const bool ended = ::waitpid(child, &status, 0) == child && status == 0;
  if (found && (!ended || ::read(said[0], found->digest.data(), sizeof found->digest) !=
                              static_cast<ssize_t>(sizeof found->digest)))
    ADD_FAILURE() << "the process in the namespace said nothing";
  for (const int* pipe : {ready, mapped, said}) {
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
  return found;
}

// Both call themselves user 0; the kernel would tell each that the other is nobody.
TEST(Identity, TellsUserNamespacesApart) {
  const auto one = host_as_seen_by(100000);
  const auto same = host_as_seen_by(100000);
  const auto other = host_as_seen_by(200000);
  const auto root = host_as_seen_by(0);
  if (!one || !same || !other || !root) GTEST_SKIP() << "user namespaces are not allowed here";
  EXPECT_EQ(*one, *same);
  EXPECT_FALSE(*one == *other);
  EXPECT_FALSE(*one == *root);
  EXPECT_EQ(*root, *this_host());
}

}  // namespace
}  // namespace banyan::links_local_test
