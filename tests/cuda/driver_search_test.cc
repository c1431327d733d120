// Threads that look for the driver at the same time all find it.
// SPDX-License-Identifier: Apache-2.0

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "src/cuda/device_memory.h"

namespace banyan {
namespace {

// In a process that has just loaded it. Returns how many threads have not found it.
int threads_that_miss_it(const char* path) {
  constexpr int kThreads = 4;
  if (dlopen(path, RTLD_NOW) == nullptr) return kThreads + 1;
  std::atomic<int> ready{0}, missed{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&] {
      ready.fetch_add(1);
      while (ready.load() < kThreads) std::this_thread::yield();
      look_for_cuda_driver();
      if (!knows_devices()) missed.fetch_add(1);
    });
  for (std::thread& thread : threads) thread.join();
  return missed.load();
}

TEST(DriverSearch, EndsForAllThreadsWithTheDriver) {
  const char* path = std::getenv("STANDIN_CUDA");
  ASSERT_NE(path, nullptr) << "STANDIN_CUDA names the driver";
  for (int round = 0; round < 40; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(threads_that_miss_it(path));
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_EQ(WEXITSTATUS(status), 0) << "threads have not found it, in round " << round;
  }
}

}  // namespace
}  // namespace banyan
