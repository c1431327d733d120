// Kernels that the stand-in for the CUDA driver launches work in the memory of its devices, in the
// order of streams, and break their context where they reach for other memory.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/cuda/standin_library.h"
#include "tests/support/cuda_kernels_checks.h"

namespace banyan::test {
namespace {

constexpr CudaImage kImage{"an image", "9.0"};
constexpr int kInvalidValue = 1, kNotFound = 500, kIllegalAddress = 700, kInvalidHandle = 400;

class StandinDeviceMemory : public DeviceMemory {
 public:
  explicit StandinDeviceMemory(const CudaFunctions& cuda) : cuda_(cuda) {}

  std::byte* allocate(size_t bytes) override {
    CudaFunctions::Address made = 0;
    EXPECT_EQ(cuda_.allocate(&made, bytes), kCudaSuccess);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernels' interface has pointers
    return reinterpret_cast<std::byte*>(made);
  }
  void release(std::byte* memory) override {
    EXPECT_EQ(cuda_.free(reinterpret_cast<uintptr_t>(memory)), kCudaSuccess);
  }
  void write(std::byte* to, const void* from, size_t bytes) override {
    EXPECT_EQ(cuda_.to_device(reinterpret_cast<uintptr_t>(to), from, bytes, nullptr), kCudaSuccess);
  }
  void read(void* to, const std::byte* from, size_t bytes) override {
    EXPECT_EQ(cuda_.to_host(to, reinterpret_cast<uintptr_t>(from), bytes, nullptr), kCudaSuccess);
  }

 private:
  const CudaFunctions& cuda_;
};

class StandinKernels : public WithStandinCuda {
 protected:
  void SetUp() override {
    WithStandinCuda::SetUp();
    if (context_ == nullptr) return;
    standin_.delay(0);
    auto loaded = CudaKernels::load(cuda_, kImage);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    kernels_ = std::make_unique<CudaKernels>(std::move(*loaded));
  }
  void TearDown() override {
    kernels_ = nullptr;
    if (context_ != nullptr) {
      EXPECT_EQ(standin_.live("modules"), 0);
    }
    WithStandinCuda::TearDown();
  }

  // Sums four float32 at each of these.
  Status sum(const void* dst, const void* local, const void* incoming, Handle queue) {
    return kernels_->reduce(DataType::kFloat32, ReduceOp::kSum, const_cast<void*>(dst), local,
                            incoming, 4, queue);
  }
  float* memory(float value) {
    const Address made = device_memory(4 * sizeof(float));
    const std::vector<float> values(4, value);
    standin_.poke(made, values.data(), 4 * sizeof(float));
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernels' interface has pointers
    return reinterpret_cast<float*>(made);
  }
  float at(const float* device) {
    float value = 0;
    standin_.peek(&value, address_of(device), sizeof value);
    return value;
  }
  void expect_illegal() {
    EXPECT_EQ(cuda_.synchronize(), kIllegalAddress);
    standin_.break_with(kCudaSuccess);
  }

  std::unique_ptr<CudaKernels> kernels_;
};

TEST_F(StandinKernels, GiveTheBytesOfTheScalarTable) {
  StandinDeviceMemory memory(cuda_);
  check_random({*kernels_, memory}, 5000);
}

TEST_F(StandinKernels, WorkAtEveryAlignment) {
  StandinDeviceMemory memory(cuda_);
  check_alignments({*kernels_, memory});
}

TEST_F(StandinKernels, AreInTheOrderOfTheirStream) {
  standin_.delay(200);
  StreamGate gate(cuda_, pinned<uint32_t>());
  const Handle one = stream(kNonBlocking), other = stream(kNonBlocking), mark = event();
  float* total = memory(1);
  const float* more = memory(2);
  gate.close(one);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(sum(total, total, more, one).ok());
  ASSERT_EQ(cuda_.record_event(mark, one), kCudaSuccess);
  ASSERT_EQ(cuda_.wait_event(other, mark, 0), kCudaSuccess);
  ASSERT_TRUE(sum(total, total, total, other).ok());
  EXPECT_EQ(at(total), 1.0F);
  gate.open();
  ASSERT_EQ(cuda_.synchronize_stream(other), kCudaSuccess);
  EXPECT_EQ(at(total), 42.0F);
}

TEST_F(StandinKernels, ReachMemoryOfTheHostThatIsRegistered) {
  const float* device = memory(2);
  float* locked = pinned<float>(4);
  for (int i = 0; i < 4; ++i) locked[i] = 3;
  ASSERT_TRUE(sum(locked, device, locked, nullptr).ok());
  ASSERT_EQ(cuda_.synchronize(), kCudaSuccess);
  EXPECT_EQ(locked[3], 5.0F);
}

TEST_F(StandinKernels, BreakTheirContextElsewhere) {
  const float* device = memory(1);
  std::vector<float> pageable(4);
  ASSERT_TRUE(sum(device, device, pageable.data(), nullptr).ok()) << "the launch is not an error";
  expect_illegal();
  ASSERT_TRUE(sum(device, device, device + 1, nullptr).ok()) << "one element is beyond the end";
  expect_illegal();
  EXPECT_EQ(at(device), 1.0F);
}

TEST_F(StandinKernels, ReachOtherDevicesWhenTheyMay) {
  const auto enable = standin_.find<int(Handle, unsigned)>("cuCtxEnablePeerAccess");
  Handle far = nullptr, popped = nullptr;
  ASSERT_EQ(cuda_.retain_context(&far, 1), kCudaSuccess);
  ASSERT_EQ(cuda_.push_context(far), kCudaSuccess);
  const float* there = memory(2);
  ASSERT_EQ(cuda_.pop_context(&popped), kCudaSuccess);
  const float* here = memory(1);
  ASSERT_TRUE(sum(here, here, there, nullptr).ok());
  expect_illegal();
  ASSERT_EQ(enable(far, 0), kCudaSuccess);
  ASSERT_TRUE(sum(here, here, there, nullptr).ok());
  ASSERT_EQ(cuda_.synchronize(), kCudaSuccess);
  EXPECT_EQ(at(here), 3.0F);
  ASSERT_EQ(cuda_.release_context(1), kCudaSuccess);
}

TEST_F(StandinKernels, AreOfAModule) {
  Handle module = nullptr, function = nullptr;
  ASSERT_EQ(cuda_.load_module(&module, kImage.fatbin), kCudaSuccess);
  EXPECT_EQ(cuda_.function(&function, module, "no_such_kernel"), kNotFound);
  ASSERT_EQ(cuda_.function(&function, module, "reduce_sum_float32"), kCudaSuccess);
  int number = 0;
  void* parameters[] = {&number};
  EXPECT_EQ(cuda_.launch(function, 0, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr),
            kInvalidValue);
  ASSERT_EQ(cuda_.unload_module(module), kCudaSuccess);
  EXPECT_EQ(cuda_.launch(function, 1, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr),
            kInvalidHandle);
}

}  // namespace
}  // namespace banyan::test
