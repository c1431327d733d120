// Between hosts, messages go straight from the memory of one GPU to that of another, where UCX
// knows GPUs: the one here is made of the system's and of the stand-in for the driver.
// SPDX-License-Identifier: Apache-2.0

#include <dlfcn.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/ucx/gpu_ucp.h"
#include "tests/ranks/hosted_sums.h"

namespace banyan::test::gpu_messages_test {
namespace {

constexpr const char* kFlush = "cuFlushGPUDirectRDMAWrites";
using Environment = decltype(JobOptions::environment);
// Other algorithms bring blocks into working memory first, which is the host's.
constexpr std::pair<const char*, const char*> kPairwise{"BANYAN_ALGO", "alltoall: pairwise"};

Environment direct() {
  return {{"BANYAN_GPU_DIRECT", "on"}, kPairwise};
}

struct Messages {
  long sent = 0;
  long received = 0;

  bool operator==(const Messages&) const = default;
};

// From and to this process's GPUs so far.
Messages straight() {
  void* const ucx = dlopen("libucp.so.0", RTLD_NOW | RTLD_NOLOAD);
  const auto said_by = [&](const char* name) {
    void* const function = ucx == nullptr ? nullptr : dlsym(ucx, name);
    return function == nullptr ? -1 : reinterpret_cast<long (*)()>(function)();
  };
  return {said_by("gpu_ucp_sends"), said_by("gpu_ucp_receives")};
}

// Calls of one rank whose buffers lie on the host and then on the GPU.
class Calls {
 public:
  Calls(Rank& self, banyan_comm_t comm, RankGpu& gpu) : self_(self), comm_(comm), gpu_(gpu) {}

  using Body = std::function<banyan_result_t(const void* send, void* recv)>;

  // The result is what the GPU gave and took without the host.
  Messages run(const std::string& name, size_t given, size_t taken, const Body& body,
               bool on_gpu = true) {
    const std::vector<uint16_t> in = values_of(self_.rank(), given, ++salt_);
    std::vector<uint16_t> wanted(taken / 2), got(taken / 2);
    self_.expect_ok(body(in.data(), wanted.data()), name + " by the host");
    std::byte* send = gpu_.copy_of(in.data(), given);
    std::byte* recv = gpu_.copy_of(got.data(), taken);
    const Messages before = straight();
    self_.expect_ok(on_gpu ? body(send, recv) : body(in.data(), got.data()), name);
    const Messages after = straight();
    if (on_gpu) gpu_.read(got.data(), recv, taken);
    gpu_.free(send);
    gpu_.free(recv);
    self_.expect(got == wanted, name + ": what the host has");
    return {after.sent - before.sent, after.received - before.received};
  }

  // One block goes from each to each.
  Messages exchange(size_t count, bool on_gpu = true) {
    const size_t all = 2 * count * static_cast<size_t>(self_.size());
    return run(
        fmt::format("alltoall of {}", count), all, all,
        [&](const void* send, void* recv) {
          return banyan_alltoall(send, recv, count, BANYAN_BFLOAT16, comm_);
        },
        on_gpu);
  }

 private:
  Rank& self_;
  banyan_comm_t comm_;
  RankGpu& gpu_;
  int salt_ = 0;
};

class GpuMessages : public OnTwoHosts {};

TEST_P(GpuMessages, CarryWhatIsNotSummed) {
  constexpr size_t kCount = 140'003, kBytes = 2 * kCount;
  run_on(
      {0, 1},
      [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
        Calls calls(self, comm, gpu);
        const bool first = self.rank() == 0;
        const auto both = [](Messages moved) { return moved.sent > 0 && moved.received > 0; };
        self.expect(both(calls.exchange(kCount)), "blocks of all go straight");
        const auto gather = [&](const void* send, void* recv) {
          return banyan_allgather(send, recv, kCount, BANYAN_BFLOAT16, comm);
        };
        self.expect(both(calls.run("allgather", kBytes, 2 * kBytes, gather)), "gathered straight");
        const auto spread = [&](const void* send, void* recv) {
          return banyan_broadcast(send, recv, kCount, BANYAN_BFLOAT16, 0, comm);
        };
        Messages moved = calls.run("broadcast", kBytes, kBytes, spread);
        self.expect((first ? moved.sent : moved.received) > 0, "spread straight");
        const auto message = [&](const void* send, void* recv) {
          return first ? banyan_send(send, kCount, BANYAN_BFLOAT16, 1, comm)
                       : banyan_recv(recv, kCount, BANYAN_BFLOAT16, 0, comm);
        };
        const Messages pieces = first ? Messages{1, 0} : Messages{0, 1};
        moved = calls.run("message", kBytes, kBytes, message);
        self.expect((first ? moved.sent : moved.received) > 0, "sent straight");
        self.expect((first ? moved.received : moved.sent) == 0, "one way");
        self.expect(moved == Messages{2 * pieces.sent, 2 * pieces.received}, "in two pieces");
        self.expect(first || !gpu.has_faults() || gpu.calls(kFlush) > 0, "what came is seen");
      },
      direct());
}

// Sums are the host's, which is given what the GPU's are not read for.
TEST_P(GpuMessages, BringSumsWhatTheyWould) {
  run_on(
      {0, 1, 1},
      [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
        Calls calls(self, comm, gpu);
        for (const banyan_datatype_t type : {BANYAN_FLOAT32, BANYAN_BFLOAT16})
          for (const size_t count : {size_t{5}, size_t{70'001}, size_t{3'000'001}}) {
            const size_t bytes = count * (type == BANYAN_FLOAT32 ? 4 : 2);
            calls.run(fmt::format("sum of {}", count), bytes, bytes,
                      [&](const void* send, void* recv) {
                        return banyan_allreduce(send, recv, count, type, BANYAN_SUM, comm);
                      });
            expect_same(self, comm, gpu, {.type = type, .count = count}, true, 7);
          }
      },
      direct());
}

TEST_P(GpuMessages, MeetThoseOfTheHost) {
  run_on(
      {0, 1},
      [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
        Calls calls(self, comm, gpu);
        for (int call = 0; call < 4; ++call) {
          const bool on_gpu = (call >> self.rank() & 1) != 0;
          const Messages moved = calls.exchange(100'001, on_gpu);
          self.expect((moved.sent > 0) == on_gpu && (moved.received > 0) == on_gpu,
                      "straight where there is a GPU");
        }
      },
      direct());
}

// Over TCP somebody copies anyway, and the host does so in pieces.
TEST_P(GpuMessages, AreNotAskedForWhereNobodySaidSo) {
  for (const Environment& environment :
       {Environment{{"BANYAN_GPU_DIRECT", "off"}, kPairwise}, Environment{kPairwise}})
    run_on(
        {0, 1},
        [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
          self.expect(Calls(self, comm, gpu).exchange(100'001) == Messages{}, "by the host");
        },
        environment);
}

// What travels in frames is the host's.
TEST_P(GpuMessages, AreLong) {
  run_on(
      {0, 1},
      [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
        Calls calls(self, comm, gpu);
        for (const size_t bytes : {2, 1000, 65536})
          self.expect(calls.exchange(bytes / 2) == Messages{}, "short");
        self.expect(calls.exchange(32'769) != Messages{}, "long");
      },
      direct());
}

// A rank's thread has no context, and has none afterwards.
TEST_P(GpuMessages, HaveAContextOfTheirOwn) {
  run_on(
      {0, 1},
      [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
        const size_t bytes = 1'000'000;
        const std::vector<uint16_t> given = values_of(self.rank(), bytes, 1);
        std::byte* send = gpu.copy_of(given.data(), bytes);
        std::byte* recv = gpu.allocate(bytes);
        void *mine = nullptr, *then = &mine;
        (void)gpu.driver().current_context(&mine);
        (void)gpu.driver().set_context(nullptr);
        self.expect_ok(banyan_alltoall(send, recv, bytes / 4, BANYAN_BFLOAT16, comm), "alltoall");
        (void)gpu.driver().current_context(&then);
        self.expect(then == nullptr, "as the caller left it");
        (void)gpu.driver().set_context(mine);
        std::vector<uint16_t> got(bytes / 2);
        gpu.read(got.data(), recv, bytes);
        const std::vector<uint16_t> theirs = values_of(1 - self.rank(), bytes, 1);
        const auto half = static_cast<ptrdiff_t>(bytes / 4);
        self.expect(std::equal(got.begin() + (self.rank() == 0 ? half : 0),
                               self.rank() == 0 ? got.end() : got.begin() + half,
                               theirs.begin() + (self.rank() == 0 ? 0 : half)),
                    "what the other gave");
        for (std::byte* memory : {send, recv}) gpu.free(memory);
      },
      direct());
}

// A GPU that does not see them gets none.
TEST_P(GpuMessages, AreSeenOrNotSent) {
  run_on(
      {0, 1},
      [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
        if (!gpu.has_faults()) return;
        // Neither of what a driver says of the order of writes.
        if (self.rank() == 1) gpu.fail("cuDeviceGetAttribute", 1, 1);
        const Messages moved = Calls(self, comm, gpu).exchange(100'001);
        self.expect((moved == Messages{}) == (self.rank() == 1), "one of them");
      },
      direct());
}

// Another one that is opened later may not see them.
TEST_P(GpuMessages, AreSeenByEachGpuOrNotSent) {
  run_on(
      {0, 1},
      [&](Rank& self, banyan_comm_t comm, RankGpu& gpu) {
        if (!gpu.has_faults()) return;
        const Messages before = Calls(self, comm, gpu).exchange(100'001);
        self.expect(before.received > 0, "the first one sees them");
        RankGpu other(self, 1);
        if (!other.works()) return;
        if (self.rank() == 1) other.fail("cuDeviceGetAttribute", 1, 1);
        const Messages then = Calls(self, comm, other).exchange(100'001);
        self.expect((then == Messages{}) == (self.rank() == 1), "one of the others does not");
      },
      direct());
}

TEST_P(GpuMessages, EndWhereARankDies) {
  JobOptions options{.limit_s = 60, .environment = direct()};
  Job job(
      GetParam(), 2,
      [&](Rank& self) {
        if (!self.expect(enter(self.rank()), "a host")) return;
        RankGpu gpu(self);
        banyan_comm_t comm = gpu.works() ? self.join() : nullptr;
        if (comm == nullptr) return;
        std::byte* memory = gpu.allocate(8'000'000);
        banyan_result_t result = BANYAN_SUCCESS;
        for (int call = 0; result == BANYAN_SUCCESS; ++call) {
          result = banyan_alltoall(memory, memory, 2'000'000, BANYAN_BFLOAT16, comm);
          if (call == 2) self.mark(1);
        }
        gpu.free(memory);  // nobody writes there any more
        self.report(comm, result);
        self.expect_ok(banyan_comm_destroy(comm), "destroy");
      },
      options);
  ASSERT_TRUE(job.wait_for_marks(1, 20 * time_factor()));
  job.wait(0.003);
  job.signal(1, SIGKILL);
  job.finish();
  EXPECT_EQ(job.outcome(0).code, BANYAN_ERR_PEER_LOST) << job.outcome(0).text;
  EXPECT_EQ(job.outcome(0).failed_rank, 1);
}

INSTANTIATE_TEST_SUITE_P(Kinds, GpuMessages, testing::Values(Kind::kProcesses),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace banyan::test::gpu_messages_test
