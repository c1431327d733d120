// Threads that look for the driver at the same time all find it. What a machine shows says whether
// it may come.
// SPDX-License-Identifier: Apache-2.0

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "src/cuda/device_memory.h"
#include "src/cuda/machine_gpus.h"
#include "tests/support/temporary_folder.h"
#include "tests/topology/sys_tree.h"

namespace banyan {
namespace {

// What a process says that has not looked for the driver before.
int said_by_a_process(int (*of_process)(const char*), const char* path) {
  const pid_t child = fork();
  if (child == 0) _exit(of_process(path));
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

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
  for (int round = 0; round < 40; ++round)
    ASSERT_EQ(said_by_a_process(threads_that_miss_it, path), 0)
        << "threads have not found it, in round " << round;
}

// Nothing orders the two threads. Returns whether it was missed.
int misses_what_another_loads(const char* path) {
  std::atomic<bool> loaded{false};
  std::thread loader([&] {
    (void)dlopen(path, RTLD_NOW);
    loaded.store(true, std::memory_order_relaxed);
  });
  while (!loaded.load(std::memory_order_relaxed)) std::this_thread::yield();
  look_for_cuda_driver();
  loader.join();
  return knows_devices() ? 0 : 1;
}

// The end of a path of whole words lies in a word of its own.
TEST(DriverSearch, FindsPathsOfAnyLength) {
  const char* driver = std::getenv("STANDIN_CUDA");
  ASSERT_NE(driver, nullptr) << "STANDIN_CUDA names the driver";
  const test::TemporaryFolder folder;
  for (size_t more = 1; more <= 8; ++more) {
    const std::filesystem::path inside = folder.path() / std::string(more, 'p');
    ASSERT_TRUE(std::filesystem::create_directory(inside));
    const std::filesystem::path path = inside / "libcuda.so.1";
    std::filesystem::create_symlink(driver, path);
    EXPECT_EQ(said_by_a_process(misses_what_another_loads, path.c_str()), 0) << path;
  }
}

TEST(MachineGpus, AreExpectedWhereTheKernelShowsOne) {
  const test::SysTree bare;
  EXPECT_FALSE(may_have_gpu(bare.root())) << "neither /dev nor a bus";
  bare.write("/dev/null", "");
  bare.write("/dev/dri/card0", "");
  bare.write("/sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086");
  bare.write("/sys/bus/pci/devices/0000:03:00.0/class", "0x030000");
  EXPECT_FALSE(may_have_gpu(bare.root()));
  for (const char* device : {"nvidiactl", "nvidia0", "nvhost-ctrl", "nvmap", "nvgpu", "dxg"}) {
    const test::SysTree machine;
    machine.write(std::string("/dev/") + device, "");
    EXPECT_TRUE(may_have_gpu(machine.root())) << device;
  }
  bare.write("/sys/bus/pci/devices/0000:04:00.0/vendor", "0x10de");
  EXPECT_TRUE(may_have_gpu(bare.root())) << "on the bus, whose driver has not been used yet";
}

TEST(MachineGpus, AreMetFromTheDriverOn) {
  const auto meets_none = [](const char* path) {
    if (dlopen(path, RTLD_NOW) == nullptr) return 1;
    look_for_cuda_driver();
    return may_meet_devices() ? 0 : 2;
  };
  EXPECT_EQ(said_by_a_process(meets_none, std::getenv("STANDIN_CUDA")), 0);
}

}  // namespace
}  // namespace banyan
