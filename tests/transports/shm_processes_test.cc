// Shared memory between real processes, and when things run out.
// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <set>
#include <thread>

#include "src/base/clock.h"
#include "tests/transports/wiring.h"
#include "transports/shm/port.h"
#include "transports/shm/territory.h"

namespace banyan::shm::shm_processes_test {
namespace {

using test::kEpoch;
using test::MeshWiring;

Envelope envelope_of(uint64_t bytes) {
  return {.call = 1, .epoch = kEpoch, .bytes = bytes, .signature = {}};
}

std::set<std::string> names_in(const char* folder) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    names.insert(entry.path().filename());
  }
  return names;
}

std::unique_ptr<Transport> connected(const char* name, MeshWiring& wiring) {
  for (const TransportKind& kind : transport_kinds()) {
    if (kind.name != name) continue;
    auto transport = kind.connect(wiring, wiring.others());
    if (transport.ok()) return std::move(*transport);
    std::fprintf(stderr, "%s\n", std::string(transport.status().message()).c_str());
  }
  return nullptr;
}

Code wait(Transport& transport, int count) {
  const TimePoint deadline = deadline_after(30);
  Code code = Code::kOk;
  while (count > 0) {
    std::array<Completion, 4> completions;
    auto done = transport.poll(completions);
    for (size_t i = 0; i < *done; ++i) {
      if (completions[i].code != Code::kOk) code = completions[i].code;
    }
    count -= static_cast<int>(*done);
    if (*done == 0) std::this_thread::yield();
    if (Clock::now() > deadline) return Code::kTimeout;
  }
  return code;
}

void add_bytes(void* dst, const void* local, const void* incoming, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    static_cast<uint8_t*>(dst)[i] = static_cast<uint8_t>(static_cast<const uint8_t*>(local)[i] +
                                                         static_cast<const uint8_t*>(incoming)[i]);
  }
}

// Each rank gets `bytes` bytes from the next one, plainly or added to its own.
bool pass_on(MeshWiring& wiring, Transport& transport, std::byte* out, size_t bytes, bool add) {
  const int size = wiring.size();
  const int self = wiring.rank();
  const auto value = [](int rank, size_t i) { return static_cast<uint8_t>(rank * 50 + i % 241); };
  for (size_t i = 0; i < bytes; ++i) out[i] = std::byte{value(self, i)};
  std::vector<std::byte> in(bytes, std::byte{3});
  Transfer send;
  send.peer = (self + size - 1) % size;
  send.envelope = envelope_of(bytes);
  send.memory = out;
  Transfer receive = send;
  receive.direction = Direction::kRecv;
  receive.peer = (self + 1) % size;
  receive.memory = in.data();
  if (add) {
    receive.combine = add_bytes;
    receive.local = in.data();
  }
  if (!transport.post(receive).ok() || !transport.post(send).ok()) return false;
  if (wait(transport, 2) != Code::kOk) return false;
  for (size_t i = 0; i < bytes; ++i) {
    if (in[i] != std::byte(value(receive.peer, i) + (add ? 3 : 0))) return false;
  }
  return true;
}

TEST(ShmProcesses, CarryEverySizeAndLeaveNoName) {
  const auto before = names_in("/dev/shm");
  const std::string trouble = test::run_processes(3, [&](MeshWiring& wiring) {
    const auto transport = connected("shm", wiring);
    if (transport == nullptr || names_in("/dev/shm") != before) return false;
    auto heap = transport->allocate(3 << 20, deadline_after(10));
    if (!heap.ok()) return false;
    for (const size_t bytes : {1, 24, 25, 32769, 65535, 65536, 1 << 20, (3 << 20) - 7}) {
      std::vector<std::byte> own(bytes);
      for (const bool add : {false, true}) {
        if (!pass_on(wiring, *transport, own.data(), bytes, add)) return false;
        if (!pass_on(wiring, *transport, *heap, bytes, add)) return false;
      }
    }
    return wiring.allgather({}).ok();
  });
  EXPECT_EQ(trouble, "");
  EXPECT_EQ(names_in("/dev/shm"), before);
}

// What a long message costs the sender shows which way it went: through slots it would be done.
TEST(ShmProcesses, ALongMessageIsReadFromTheSender) {
  const std::string trouble = test::run_processes(2, [](MeshWiring& wiring) {
    const auto transport = connected("shm", wiring);
    if (transport == nullptr) return false;
    std::vector<std::byte> memory(128 << 10, std::byte{9});
    Transfer transfer;
    transfer.peer = 1 - wiring.rank();
    transfer.envelope = envelope_of(memory.size());
    transfer.memory = memory.data();
    transfer.direction = wiring.rank() == 0 ? Direction::kSend : Direction::kRecv;
    if (wiring.rank() == 0 && !transport->post(transfer).ok()) return false;
    if (wiring.rank() == 0) std::fill(memory.begin(), memory.end(), std::byte{10});
    if (!wiring.allgather({}).ok()) return false;
    if (wiring.rank() == 1 && !transport->post(transfer).ok()) return false;
    if (wait(*transport, 1) != Code::kOk) return false;
    return memory.front() == std::byte{10} && memory.back() == std::byte{10};
  });
  EXPECT_EQ(trouble, "");
}

// Rank 0 sends a long message for which rank 1 has memory in its heap. `between` is what rank 1
// does meanwhile; its result is passed on.
template <typename Function>
bool send_to_a_heap(MeshWiring& wiring, Function between) {
  constexpr size_t kBytes = 1 << 20;
  const auto transport = connected("shm", wiring);
  if (transport == nullptr) return false;
  std::vector<std::byte> memory(kBytes, std::byte{9});
  Transfer transfer;
  transfer.peer = 1 - wiring.rank();
  transfer.envelope = envelope_of(kBytes);
  transfer.memory = memory.data();
  if (wiring.rank() == 0) {
    if (!wiring.allgather({}).ok() || !transport->post(transfer).ok()) return false;
    const Code code = wait(*transport, 1);
    return wiring.allgather({}).ok() && wiring.allgather({}).ok() && code == Code::kOk;
  }
  auto heap = transport->allocate(kBytes + 4096, deadline_after(10));
  if (!heap.ok()) return false;
  transfer.direction = Direction::kRecv;
  transfer.memory = *heap + 100;
  std::fill_n(*heap, kBytes + 4096, std::byte{5});
  if (!transport->post(transfer).ok()) return false;
  const auto meanwhile = [&] { return wiring.allgather({}).ok() && wiring.allgather({}).ok(); };
  const bool result = between(*transport, std::span(transfer.memory, kBytes), meanwhile);
  return (*heap)[99] == std::byte{5} && transfer.memory[kBytes] == std::byte{5} &&
         wiring.allgather({}).ok() && result;
}

bool is_all(std::span<const std::byte> bytes, std::byte value) {
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte byte) { return byte == value; });
}

TEST(ShmProcesses, ALongMessageIsWrittenWhereItIsWanted) {
  const std::string trouble = test::run_processes(2, [](MeshWiring& wiring) {
    return send_to_a_heap(wiring, [](Transport& transport, std::span<std::byte> memory, auto sent) {
      // The offer's whole pages are there before the receive has looked; the rest of the first and
      // last page is not.
      return sent() && is_all(memory.subspan(4096, 64 << 10), std::byte{9}) &&
             is_all(memory.first(3000), std::byte{5}) && wait(transport, 1) == Code::kOk &&
             is_all(memory, std::byte{9});
    });
  });
  EXPECT_EQ(trouble, "");
}

TEST(ShmProcesses, NobodyWritesWhereAFailedReceiveWantedIt) {
  const std::string trouble = test::run_processes(2, [](MeshWiring& wiring) {
    return send_to_a_heap(wiring, [](Transport& transport, std::span<std::byte> memory, auto sent) {
      transport.abandon();
      return sent() && is_all(memory, std::byte{5});
    });
  });
  EXPECT_EQ(trouble, "");
}

// A sender writes into a heap only for a receive that knows the length, also where others that do
// not were before it.
TEST(ShmProcesses, LengthsUpToTheLongestComeInTurnWithOthers) {
  const std::string trouble = test::run_processes(2, [](MeshWiring& wiring) {
    const auto transport = connected("shm", wiring);
    if (transport == nullptr) return false;
    constexpr uint64_t kLongest = 300'000;
    constexpr uint64_t kTurns = 84;
    auto heap = transport->allocate(2 * kLongest, deadline_after(10));
    if (!heap.ok()) return false;
    std::vector<std::byte> plain(2 * kLongest);
    for (uint64_t i = 0; i < kTurns; ++i) {
      const bool sends = wiring.rank() == 0, up_to = i % 3 != 0;
      const uint64_t lengths[] = {0, 24, 5000, 70'000, 70'001, kLongest - 1, kLongest};
      const uint64_t bytes = up_to ? lengths[i % std::size(lengths)] : kLongest;
      const std::byte value{static_cast<uint8_t>(i + 1)};
      const std::span memory(i / 21 % 2 == 0 ? *heap : plain.data(), plain.size());
      std::fill(memory.begin(), memory.end(), sends ? value : std::byte{0});
      Transfer transfer;
      transfer.peer = 1 - wiring.rank();
      transfer.envelope = envelope_of(sends ? bytes : kLongest);
      transfer.memory = memory.data() + 100;
      if (!sends) {
        transfer.direction = Direction::kRecv;
        transfer.up_to = up_to;
      }
      if (!transport->post(transfer).ok() || wait(*transport, 1) != Code::kOk) return false;
      if (!sends && (!is_all(memory.subspan(100, bytes), value) ||
                     !is_all(memory.subspan(100 + bytes), std::byte{0}) ||
                     !is_all(memory.first(100), std::byte{0})))
        return false;
    }
    return wiring.allgather({}).ok();
  });
  EXPECT_EQ(trouble, "");
}

void await_death(int pid) {
  const Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  pollfd entry{.fd = process.get(), .events = POLLIN, .revents = 0};
  poll(&entry, 1, 10'000);
}

TEST(ShmProcesses, ReadingFromTheDeadIsPeerLost) {
  const std::string trouble = test::run_processes(2, [](MeshWiring& wiring) {
    const auto transport = connected("shm", wiring);
    if (transport == nullptr) return false;
    std::vector<std::byte> memory(1 << 20);
    Transfer transfer;
    transfer.peer = 1 - wiring.rank();
    transfer.envelope = envelope_of(memory.size());
    transfer.memory = memory.data();
    if (wiring.rank() == 1) {
      // What is in the slots survives its sender; what is in its memory does not.
      transfer.envelope = envelope_of(1000);
      if (!transport->post(transfer).ok()) return false;
      transfer.envelope = envelope_of(memory.size());
      if (!transport->post(transfer).ok() || !wiring.allgather({}).ok()) return false;
      raise(SIGKILL);
    }
    if (!wiring.allgather({}).ok()) return false;
    await_death(wiring.peer(1).pid);
    transfer.direction = Direction::kRecv;
    transfer.envelope = envelope_of(1000);
    if (!transport->post(transfer).ok() || wait(*transport, 1) != Code::kOk) return false;
    transfer.envelope = envelope_of(memory.size());
    if (!transport->post(transfer).ok()) return false;
    return wait(*transport, 1) == Code::kPeerLost;
  });
  EXPECT_EQ(trouble, "rank 1 ended with 0x9; ");
}

// Whichever transport: a killed rank leaves nothing that has a name.
class KilledRanks : public testing::TestWithParam<const char*> {};

// Where that is allowed, this process alone has /dev/shm and System V's shared memory from now on.
void leave_the_shared_folders_of_the_host() {
  if (unshare(CLONE_NEWNS | CLONE_NEWIPC) != 0) return;
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return;
  (void)mount("none", "/dev/shm", "tmpfs", 0, nullptr);
}

void expect_nothing_left_by_killed_ranks(const char* transport_name) {
  const auto before = names_in("/dev/shm");
  const auto system_v = [] {
    const Descriptor file(open("/proc/sysvipc/shm", O_RDONLY | O_CLOEXEC));
    std::string text(1 << 16, '\0');
    const ssize_t bytes = read(file.get(), text.data(), text.size());
    return bytes > 0 ? std::count(text.begin(), text.begin() + bytes, '\n') : 0;
  };
  const auto segments = system_v();
  const std::string trouble = test::run_processes(2, [&](MeshWiring& wiring) {
    const auto transport = connected(transport_name, wiring);
    if (transport == nullptr) return false;
    std::vector<std::byte> own(1 << 20);
    if (!pass_on(wiring, *transport, own.data(), own.size(), false)) return false;
    if (!wiring.allgather({}).ok()) return false;
    raise(SIGKILL);
    return false;
  });
  EXPECT_EQ(trouble, "rank 0 ended with 0x9; rank 1 ended with 0x9; ");
  EXPECT_EQ(names_in("/dev/shm"), before);
  EXPECT_EQ(system_v(), segments);
}

TEST_P(KilledRanks, LeaveNothingBehind) {
  // ucx only where it is installed; the reason names the package.
  for (const TransportKind& kind : transport_kinds()) {
    if (kind.name == GetParam() && !kind.missing().empty()) GTEST_SKIP() << kind.missing();
  }
  std::fflush(nullptr);
  const pid_t apart = fork();
  if (apart == 0) {
    leave_the_shared_folders_of_the_host();
    expect_nothing_left_by_killed_ranks(GetParam());
    std::fflush(stdout);
    _exit(HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(apart, &status, 0), apart);
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(All, KilledRanks, testing::Values("shm", "ucx"),
                         [](const testing::TestParamInfo<const char*>& row) {
                           return std::string(row.param);
                         });

TEST(ShmLimits, AFewDescriptorsForEachPeer) {
  std::atomic<int> most = 0;
  const auto before = names_in("/proc/self/fd").size();
  test::Mesh mesh(5, test::Mesh::Ranks::kThreads);
  const auto sockets = names_in("/proc/self/fd").size() - before;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 5; ++rank) {
    threads.emplace_back([&mesh, &most, rank] {
      MeshWiring wiring(mesh, rank);
      const auto transport = connected("shm", wiring);
      EXPECT_TRUE(wiring.allgather({}).ok());
      if (rank == 0) most = static_cast<int>(names_in("/proc/self/fd").size());
      EXPECT_TRUE(wiring.allgather({}).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Each keeps its heap, its doorbell and its peers' doorbells.
  EXPECT_LE(most, static_cast<int>(before + sockets) + 5 * (2 + 4));
  EXPECT_EQ(names_in("/proc/self/fd").size(), before + sockets);
}

TEST(ShmLimits, TooFewDescriptorsIsAnError) {
  constexpr int kNeeded = 4;
  for (int spare = 0; spare <= kNeeded; ++spare) {
    const std::string trouble = test::run_processes(1, [spare](MeshWiring& wiring) {
      const rlimit limit{.rlim_cur = 64, .rlim_max = 64};
      setrlimit(RLIMIT_NOFILE, &limit);
      std::vector<Descriptor> taken;
      do {
        taken.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
      } while (taken.back().valid());
      for (int i = 0; i <= spare; ++i) taken.pop_back();  // the last one is not valid
      const auto met = shm::meet(wiring, wiring.others());
      return spare == kNeeded ? met.ok() : met.status().code() == Code::kSystem;
    });
    EXPECT_EQ(trouble, "") << spare;
  }
}

// The first two reach each other otherwise, as threads of one process may; they still share cores.
// Who thought that it has one to itself would have others pass fences that these do not expect.
TEST(ShmProcesses, CountAllRanksOfTheHostForItsCores) {
  const std::string trouble = test::run_processes(3, [](MeshWiring& wiring) {
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0) return false;
    int first = 0;
    while (!CPU_ISSET(first, &cores)) ++first;
    CPU_ZERO(&cores);
    CPU_SET(first, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) != 0) return false;
    const std::vector<int> peers =
        wiring.rank() == 2 ? std::vector<int>{0, 1} : std::vector<int>{2};
    const auto met = meet(wiring, peers);
    return met.ok() && met->cores.count == 1 && met->cores.ranks_per_core == 3 && !met->own->fences;
  });
  EXPECT_EQ(trouble, "");
}

TEST(ShmLimits, AShortLimitOnFilesMeansASmallerHeap) {
  const std::string trouble = test::run_processes(2, [](MeshWiring& wiring) {
    const rlimit limit{.rlim_cur = 200 << 20, .rlim_max = 200 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto transport = connected("shm", wiring);
    if (transport == nullptr) return false;
    auto memory = transport->allocate(50 << 20, deadline_after(10));
    const bool good = memory.ok() && !transport->allocate(300 << 20, deadline_after(10)).ok();
    return wiring.allgather({}).ok() && good;
  });
  EXPECT_EQ(trouble, "");
}

TEST(ShmLimits, WithoutAHeapEverythingElseWorks) {
  const std::string trouble = test::run_processes(2, [](MeshWiring& wiring) {
    const rlimit limit{.rlim_cur = 32 << 20, .rlim_max = 32 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto transport = connected("shm", wiring);
    if (transport == nullptr) return false;
    if (transport->allocate(1, deadline_after(10)).status().code() != Code::kUnsupported)
      return false;
    std::vector<std::byte> own(1 << 20);
    return pass_on(wiring, *transport, own.data(), own.size(), true) && wiring.allgather({}).ok();
  });
  EXPECT_EQ(trouble, "");
}

}  // namespace
}  // namespace banyan::shm::shm_processes_test
