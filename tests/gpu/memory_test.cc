// Calls take memory of a real GPU, whatever it is from, and memory of the host that the GPU can
// use.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/cuda/device_memory.h"
#include "tests/c_api/c_api_fixture.h"
#include "tests/gpu/cuda.h"

namespace banyan::test {
namespace {

constexpr size_t kBytes = 1 << 20;

// A process that has memory of the GPU and lends it until its pipe is closed.
class Lender {
 public:
  // The process has no driver yet, and no threads.
  Lender() {
    int to[2], from[2];
    EXPECT_EQ(::pipe(to), 0);
    EXPECT_EQ(::pipe(from), 0);
    child_ = ::fork();
    if (child_ == 0) {
      ::close(to[1]);
      lend(from[1], to[0]);
    }
    ::close(to[0]);
    ::close(from[1]);
    until_ = to[1];
    EXPECT_EQ(::read(from[0], &handle_, sizeof handle_), static_cast<ssize_t>(sizeof handle_));
    ::close(from[0]);
  }
  Lender(const Lender&) = delete;
  Lender& operator=(const Lender&) = delete;
  ~Lender() {
    ::close(until_);
    int status = -1;
    EXPECT_EQ(::waitpid(child_, &status, 0), child_);
    EXPECT_EQ(status, 0);
  }
  const IpcHandle& handle() const { return handle_; }

 private:
  [[noreturn]] static void lend(int to, int until) {
    bool good = false;
    {
      Gpu gpu;
      const Held memory = gpu.plain(kBytes);
      const IpcHandle handle = gpu.lend(memory);
      good = gpu.refused().empty() && ::write(to, &handle, sizeof handle) == sizeof handle;
      char ignored = 0;
      good = ::read(until, &ignored, 1) == 0 && good;
    }
    ::_exit(good ? 0 : 1);
  }

  pid_t child_ = -1;
  int until_ = -1;
  IpcHandle handle_{};
};

class GpuMemory : public CApi {
 protected:
  // The lender and a communicator that has made calls are there before the driver.
  static void SetUpTestSuite() {
    lender = std::make_unique<Lender>();
    early = make_comm();
    float in[8] = {}, out[8] = {};
    for (int call = 0; call < 2; ++call)
      ASSERT_EQ(banyan_allreduce(in, out, 8, BANYAN_FLOAT32, BANYAN_SUM, early), BANYAN_SUCCESS);
    ASSERT_FALSE(knows_devices());
    gpu = std::make_unique<Gpu>();
    ASSERT_EQ(gpu->refused(), "");
  }
  static void TearDownTestSuite() {
    EXPECT_EQ(banyan_comm_finalize(early), BANYAN_SUCCESS);
    EXPECT_EQ(banyan_comm_destroy(early), BANYAN_SUCCESS);
    gpu.reset();
    lender.reset();
  }

  banyan_result_t sum(const void* send, void* recv, banyan_comm_t comm = nullptr) const {
    return banyan_allreduce(send, recv, 8, BANYAN_FLOAT32, BANYAN_SUM,
                            comm == nullptr ? comm_ : comm);
  }
  // The memory of the GPU has these numbers.
  void has(const std::byte* memory, float first, int line = __builtin_LINE()) const {
    float got[2] = {};
    gpu->read(got, memory, sizeof got);
    EXPECT_EQ(got[0], first) << "line " << line << ": " << gpu->refused();
    EXPECT_EQ(got[1], first + 1) << "line " << line;
  }
  void works_in_every_buffer(std::byte* memory);

  static std::unique_ptr<Lender> lender;
  static banyan_comm_t early;
  static std::unique_ptr<Gpu> gpu;
};

std::unique_ptr<Lender> GpuMemory::lender;
banyan_comm_t GpuMemory::early = nullptr;
std::unique_ptr<Gpu> GpuMemory::gpu;

using One = std::function<banyan_result_t(const void* send, void* recv)>;

// The calls of the interface, for two floats on a communicator of one rank.
std::vector<One> calls_on(banyan_comm_t comm) {
  static const size_t two = 2;
  constexpr auto kType = BANYAN_FLOAT32;
  return {
      [=](auto send, auto recv) {
        return banyan_allreduce(send, recv, two, kType, BANYAN_SUM, comm);
      },
      [=](auto send, auto recv) {
        return banyan_reduce(send, recv, two, kType, BANYAN_SUM, 0, comm);
      },
      [=](auto send, auto recv) { return banyan_broadcast(send, recv, two, kType, 0, comm); },
      [=](auto send, auto recv) { return banyan_allgather(send, recv, two, kType, comm); },
      [=](auto send, auto recv) {
        return banyan_allgatherv(send, two, recv, &two, nullptr, kType, comm);
      },
      [=](auto send, auto recv) {
        return banyan_reduce_scatter(send, recv, two, kType, BANYAN_SUM, comm);
      },
      [=](auto send, auto recv) {
        return banyan_reduce_scatterv(send, recv, &two, kType, BANYAN_SUM, comm);
      },
      [=](auto send, auto recv) { return banyan_alltoall(send, recv, two, kType, comm); },
      [=](auto send, auto recv) {
        return banyan_alltoallv(send, &two, nullptr, recv, &two, nullptr, kType, comm);
      },
      [=](auto send, auto recv) { return banyan_gather(send, recv, two, kType, 0, comm); },
      [=](auto send, auto recv) { return banyan_scatter(send, recv, two, kType, 0, comm); },
      [=](auto send, auto recv) {
        banyan_call_t call = BANYAN_CALL_INIT;
        call.send = send;
        call.recv = recv;
        call.count = two;
        banyan_request_t request = nullptr;
        const banyan_result_t result = banyan_request_create(comm, &call, &request);
        if (result != BANYAN_SUCCESS) return result;
        EXPECT_EQ(banyan_request_start(request), BANYAN_SUCCESS);
        EXPECT_EQ(banyan_request_wait(request), BANYAN_SUCCESS);
        return banyan_request_destroy(request);
      },
  };
}

// What two floats of one rank become is what they were.
void GpuMemory::works_in_every_buffer(std::byte* memory) {
  const auto calls = calls_on(comm_);
  std::byte* const half = memory + kBytes / 2;
  float next = 1;
  for (size_t call = 0; call < calls.size(); ++call) {
    SCOPED_TRACE(fmt::format("call {}", call));
    const float first = next, second = next + 10;
    next += 100;
    const float given[2] = {first, first + 1};
    gpu->write(memory, given, sizeof given);
    ASSERT_EQ(calls[call](memory, out_), BANYAN_SUCCESS) << banyan_last_error(comm_);
    EXPECT_EQ(out_[0], first);
    EXPECT_EQ(out_[1], first + 1);
    ASSERT_EQ(calls[call](memory, half), BANYAN_SUCCESS) << banyan_last_error(comm_);
    has(half, first);
    in_[0] = second;
    in_[1] = second + 1;
    ASSERT_EQ(calls[call](in_, memory), BANYAN_SUCCESS) << banyan_last_error(comm_);
    has(memory, second);
  }
  ASSERT_EQ(banyan_group_start(), BANYAN_SUCCESS);
  EXPECT_EQ(banyan_send(memory, 2, BANYAN_FLOAT32, 0, comm_), BANYAN_SUCCESS);
  EXPECT_EQ(banyan_recv(half, 2, BANYAN_FLOAT32, 0, comm_), BANYAN_SUCCESS);
  EXPECT_EQ(banyan_group_end(), BANYAN_SUCCESS) << banyan_last_error(comm_);
  has(half, in_[0]);
  banyan_op_t op = 0;
  EXPECT_EQ(banyan_op_create_premulsum(comm_, memory, BANYAN_FLOAT32, &op), BANYAN_SUCCESS)
      << banyan_last_error(comm_);
  float product = 2;
  EXPECT_EQ(banyan_allreduce(&product, &product, 1, BANYAN_FLOAT32, op, comm_), BANYAN_SUCCESS);
  EXPECT_EQ(product, 2 * in_[0]) << "the scalar is what lies there";
  std::byte* const last = memory + kBytes - 1;
  for (std::byte* place : {memory + 1, half + 5, last}) {
    char byte = 0;
    const char sent = static_cast<char>(next++);
    gpu->write(place, &sent, 1);
    EXPECT_EQ(banyan_broadcast(place, &byte, 1, BANYAN_INT8, 0, comm_), BANYAN_SUCCESS);
    EXPECT_EQ(byte, sent);
  }
  EXPECT_EQ(banyan_allreduce(memory, memory, 0, BANYAN_FLOAT32, BANYAN_SUM, comm_), BANYAN_SUCCESS)
      << "nothing is read";
  EXPECT_EQ(gpu->refused(), "");
}

// The first test of the program: the communicator has known this call since before the driver came.
TEST_F(GpuMemory, WorksWithCommunicatorsThatAreOlderThanTheDriver) {
  const Held memory = gpu->plain(kBytes);
  ASSERT_NE(memory.memory(), nullptr) << gpu->refused();
  EXPECT_EQ(sum(memory.memory(), out_, early), BANYAN_SUCCESS);
  EXPECT_EQ(banyan_broadcast(memory.memory(), out_, 8, BANYAN_FLOAT32, 0, early), BANYAN_SUCCESS);
  EXPECT_EQ(sum(in_, memory.memory(), early), BANYAN_SUCCESS);
  EXPECT_EQ(sum(in_, out_, early), BANYAN_SUCCESS);
}

TEST_F(GpuMemory, OfAnAllocationWorks) {
  const Held memory = gpu->plain(kBytes);
  ASSERT_NE(memory.memory(), nullptr) << gpu->refused();
  works_in_every_buffer(memory.memory());
}

TEST_F(GpuMemory, OfAPoolWorks) {
  if (!gpu->has_memory_pools()) GTEST_SKIP() << "the driver says that the GPU has no memory pools";
  const Held memory = gpu->pooled(kBytes);
  ASSERT_NE(memory.memory(), nullptr) << gpu->refused();
  works_in_every_buffer(memory.memory());
}

TEST_F(GpuMemory, ThatIsMappedWorks) {
  if (!gpu->maps_memory()) GTEST_SKIP() << "the driver says that it maps no memory of the GPU";
  const Held memory = gpu->mapped(kBytes);
  ASSERT_NE(memory.memory(), nullptr) << gpu->refused();
  works_in_every_buffer(memory.memory());
}

TEST_F(GpuMemory, OfAnotherProcessWorks) {
  const Held memory = gpu->borrowed(lender->handle());
  ASSERT_NE(memory.memory(), nullptr) << gpu->refused();
  works_in_every_buffer(memory.memory());
}

TEST_F(GpuMemory, WorksInAThreadWithoutAContext) {
  const Held memory = gpu->plain(kBytes);
  ASSERT_NE(memory.memory(), nullptr) << gpu->refused();
  std::thread([&] {
    EXPECT_EQ(sum(in_, memory.memory()), BANYAN_SUCCESS) << banyan_last_error(comm_);
    EXPECT_EQ(sum(memory.memory(), out_), BANYAN_SUCCESS) << banyan_last_error(comm_);
    EXPECT_EQ(sum(in_, out_), BANYAN_SUCCESS);
  }).join();
}

TEST_F(GpuMemory, IsNoMoreSoWhenItIsFreed) {
  std::vector<std::byte*> freed;
  {
    const Held plain = gpu->plain(kBytes);
    const Held borrowed = gpu->borrowed(lender->handle());
    for (const Held* held : {&plain, &borrowed}) {
      ASSERT_NE(held->memory(), nullptr) << gpu->refused();
      EXPECT_TRUE(is_in_device_memory(held->memory()));
      freed.push_back(held->memory());
    }
  }
  for (const std::byte* memory : freed) EXPECT_FALSE(is_in_device_memory(memory)) << memory;
  EXPECT_EQ(sum(in_, out_), BANYAN_SUCCESS);
  const Held again = gpu->plain(kBytes);
  ASSERT_NE(again.memory(), nullptr) << gpu->refused();
  EXPECT_EQ(sum(in_, again.memory()), BANYAN_SUCCESS) << banyan_last_error(comm_);
}

TEST_F(GpuMemory, OfTheHostWorks) {
  std::vector<std::byte> own(kBytes);
  void* shared = nullptr;
  ASSERT_EQ(banyan_mem_alloc(comm_, &shared, kBytes), BANYAN_SUCCESS) << banyan_last_error(comm_);
  {
    std::vector<Held> all;
    all.push_back(gpu->pinned(kBytes));
    all.push_back(gpu->registered(own.data(), kBytes));
    all.push_back(gpu->registered(shared, kBytes));
    if (gpu->has_managed_memory()) all.push_back(gpu->managed(kBytes));
    for (const Held& held : all) {
      ASSERT_NE(held.memory(), nullptr) << gpu->refused();
      EXPECT_FALSE(is_in_device_memory(held.memory()));
      auto* numbers = reinterpret_cast<float*>(held.memory());
      for (int i = 0; i < 8; ++i) numbers[i] = static_cast<float>(i);
      EXPECT_EQ(sum(numbers, numbers + 8), BANYAN_SUCCESS) << banyan_last_error(comm_);
      for (int i = 0; i < 8; ++i) EXPECT_EQ(numbers[8 + i], static_cast<float>(i));
    }
  }
  EXPECT_EQ(banyan_mem_free(comm_, shared), BANYAN_SUCCESS);
}

}  // namespace
}  // namespace banyan::test
