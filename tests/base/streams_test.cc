// Standard streams may be closed, or read by nobody: descriptors keep off their numbers, and the
// log neither ends the process nor keeps it.
// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "src/base/clock.h"
#include "src/base/descriptor.h"
#include "src/base/log.h"
#include "src/base/standard_streams.h"
#include "src/liveness/links.h"
#include "tests/support/temporary_folder.h"

namespace banyan::streams_test {
namespace {

// One of this process's streams, closed for a while.
class Closed {
 public:
  explicit Closed(int stream) : stream_(stream), kept_(::fcntl(stream, F_DUPFD_CLOEXEC, 3)) {
    ::close(stream);
  }
  Closed(const Closed&) = delete;
  Closed& operator=(const Closed&) = delete;
  ~Closed() { ::dup2(kept_.get(), stream_); }

 private:
  int stream_;
  Descriptor kept_;
};

bool is_open(int descriptor) {
  return ::fcntl(descriptor, F_GETFD) >= 0;
}

TEST(Streams, DescriptorsKeepOffThem) {
  for (const int stream : {0, 1, 2}) {
    const Closed closed(stream);
    const Descriptor made(::eventfd(0, EFD_CLOEXEC));
    const bool taken = is_open(stream);
    const int flags = ::fcntl(made.get(), F_GETFD);
    ASSERT_FALSE(taken) << stream;
    ASSERT_GT(made.get(), STDERR_FILENO);
    ASSERT_EQ(flags, FD_CLOEXEC);
  }
}

TEST(Streams, WhereNoOtherNumberIsFreeThereIsNone) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const Closed closed(STDIN_FILENO);
  const rlimit streams_only{STDERR_FILENO + 1, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &streams_only);
  const Descriptor made(::eventfd(0, EFD_CLOEXEC));
  const int cause = errno;
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_FALSE(made.valid());
  EXPECT_EQ(cause, EMFILE);
  EXPECT_FALSE(is_open(STDIN_FILENO));
}

TEST(Streams, ReceivedDescriptorsKeepOffThem) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const Descriptor here(ends[0]);
  const Descriptor there(ends[1]);
  const int sent[] = {here.get(), there.get()};
  ASSERT_TRUE(send_descriptors(here.get(), sent).ok());
  const Closed in(STDIN_FILENO);
  const Closed out(STDOUT_FILENO);
  const auto received = receive_descriptors(there.get(), 2, deadline_after(10));
  const bool taken = is_open(STDIN_FILENO) || is_open(STDOUT_FILENO);
  ASSERT_FALSE(taken);
  ASSERT_TRUE(received.ok()) << received.status().message();
  for (const Descriptor& one : *received) EXPECT_GT(one.get(), STDERR_FILENO);
}

TEST(Streams, ClosedOnesAreHeldAndThenClosedAgain) {
  const Closed closed(STDIN_FILENO);
  {
    const auto held = hold_closed_streams();
    const auto again = hold_closed_streams();
    EXPECT_EQ(held, again);
    char byte = 0;
    EXPECT_EQ(::fcntl(STDIN_FILENO, F_GETFD), FD_CLOEXEC);
    EXPECT_EQ(::read(STDIN_FILENO, &byte, 1), -1);
    EXPECT_EQ(errno, EBADF);
    EXPECT_EQ(::write(STDIN_FILENO, &byte, 1), -1);
    EXPECT_EQ(errno, EBADF);
  }
  EXPECT_FALSE(is_open(STDIN_FILENO));
}

TEST(Streams, WhatTheProgramPutsThereStays) {
  const Closed closed(STDIN_FILENO);
  {
    const auto held = hold_closed_streams();
    const Descriptor file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::dup2(file.get(), STDIN_FILENO), STDIN_FILENO);
  }
  EXPECT_TRUE(is_open(STDIN_FILENO));
}

TEST(Streams, OpenOnesAreLeftAlone) {
  struct stat before {};
  struct stat during {};
  ASSERT_EQ(::fstat(STDERR_FILENO, &before), 0);
  const auto held = hold_closed_streams();
  ASSERT_EQ(::fstat(STDERR_FILENO, &during), 0);
  EXPECT_EQ(before.st_ino, during.st_ino);
}

// stderr as a pipe, for a while.
class Piped {
 public:
  Piped() : kept_(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader = Descriptor(ends[0]);
    const Descriptor writer(ends[1]);
    ::dup2(writer.get(), STDERR_FILENO);
  }
  Piped(const Piped&) = delete;
  Piped& operator=(const Piped&) = delete;
  ~Piped() { ::dup2(kept_.get(), STDERR_FILENO); }

  Descriptor reader;

 private:
  Descriptor kept_;
};

TEST(Streams, ALogThatNobodyReadsIsNoSignal) {
  struct sigaction before {};
  struct sigaction deadly {};
  deadly.sa_handler = SIG_DFL;
  ASSERT_EQ(::sigaction(SIGPIPE, &deadly, &before), 0);
  {
    Piped pipe;
    Log().write(Subsystem::kInit, LogLevel::kError, "is read");
    pipe.reader.close();
    errno = ERANGE;
    Log().write(Subsystem::kInit, LogLevel::kError, "is not");
    EXPECT_EQ(errno, ERANGE);
  }
  sigset_t pending;
  sigset_t blocked;
  ::sigpending(&pending);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_EQ(::sigismember(&pending, SIGPIPE), 0);
  EXPECT_EQ(::sigismember(&blocked, SIGPIPE), 0);
  ::sigaction(SIGPIPE, &before, nullptr);
}

TEST(Streams, ALogWhoseReaderHasStoppedKeepsNobody) {
  const Piped pipe;
  const std::string text(3000, 'x');
  const TimePoint begin = Clock::now();
  constexpr int kMore = 64 * 1024 / 3000 + 3;  // than the pipe takes, in blocks of a page
  for (int i = 0; i < kMore; ++i) Log().write(Subsystem::kInit, LogLevel::kError, text);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
}

TEST(Streams, AFifoThatNobodyReadsIsAnError) {
  const test::TemporaryFolder folder;
  const std::string fifo = (folder.path() / "log").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const auto log = Log::open(LogLevels(), fifo, 0);
  EXPECT_EQ(log.status().code(), Code::kSystem);
}

}  // namespace
}  // namespace banyan::streams_test
