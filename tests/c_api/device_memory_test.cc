// Memory of a GPU is refused where the process has loaded the driver, here one of our own.
// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/device_memory.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "tests/c_api/c_api_fixture.h"
#include "tests/support/temporary_folder.h"

namespace banyan::test::device_memory_test {
namespace {

constexpr unsigned kHost = 1, kDevice = 2;

class DeviceMemory : public CApi {
 protected:
  void SetUp() override {
    CApi::SetUp();
    std::filesystem::create_directories(machine_.path() / "dev" / "nvidiactl");
    expect_devices(machine_.path().string());
    // Known before the driver is there.
    ASSERT_EQ(sum(in_, out_), BANYAN_SUCCESS);
    ASSERT_EQ(sum(in_, out_), BANYAN_SUCCESS);
    const char* path = std::getenv("FAKE_CUDA");
    ASSERT_NE(path, nullptr) << "FAKE_CUDA names the driver";
    void* driver = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    ASSERT_NE(driver, nullptr) << dlerror();
    owns_ = reinterpret_cast<decltype(owns_)>(dlsym(driver, "fake_cuda_owns"));
    ASSERT_NE(owns_, nullptr);
    questions_ = reinterpret_cast<decltype(questions_)>(dlsym(driver, "fake_cuda_questions"));
    ASSERT_NE(questions_, nullptr);
    own(kDevice, 0);
    refused(sum(gpu_, out_), BANYAN_ERR_UNSUPPORTED, "send is ");  // known, and looked at again
  }

  void own(unsigned type, unsigned managed) { owns_(gpu_, sizeof gpu_, type, managed); }
  banyan_result_t sum(const float* send, float* recv) {
    return banyan_allreduce(send, recv, 8, BANYAN_FLOAT32, BANYAN_SUM, comm_);
  }

  TemporaryFolder machine_;
  void (*owns_)(void*, unsigned long long, unsigned, unsigned) = nullptr;
  long (*questions_)() = nullptr;
  float gpu_[64] = {};
};

TEST_F(DeviceMemory, IsRefusedInEveryBuffer) {
  refused(sum(gpu_, out_), BANYAN_ERR_UNSUPPORTED, "send is ");
  refused(sum(in_, gpu_), BANYAN_ERR_UNSUPPORTED, "recv is ");
  refused(sum(gpu_, gpu_), BANYAN_ERR_UNSUPPORTED, "in the memory of a GPU");
  refused(banyan_broadcast(in_, gpu_ + 63, 1, BANYAN_FLOAT32, 0, comm_), BANYAN_ERR_UNSUPPORTED,
          "recv is ");
  const size_t count = 3;
  refused(banyan_allgatherv(in_, count, gpu_, &count, nullptr, BANYAN_FLOAT32, comm_),
          BANYAN_ERR_UNSUPPORTED, "recv is ");
  refused(banyan_alltoallv(gpu_, &count, nullptr, out_, &count, nullptr, BANYAN_FLOAT32, comm_),
          BANYAN_ERR_UNSUPPORTED, "send is ");
  banyan_call_t call = BANYAN_CALL_INIT;
  call.send = gpu_;
  call.recv = out_;
  call.count = 4;
  call.datatype = BANYAN_FLOAT32;
  banyan_request_t request = nullptr;
  refused(banyan_request_create(comm_, &call, &request), BANYAN_ERR_UNSUPPORTED, "send is ");
  banyan_op_t op = 0;
  refused(banyan_op_create_premulsum(comm_, gpu_, BANYAN_FLOAT32, &op), BANYAN_ERR_UNSUPPORTED,
          "scalar is ");
  EXPECT_EQ(sum(in_, out_), BANYAN_SUCCESS);
}

TEST_F(DeviceMemory, IsNotWhatTheHostMayRead) {
  own(kHost, 0);
  EXPECT_EQ(sum(gpu_, out_), BANYAN_SUCCESS) << "pinned";
  own(kDevice, 1);
  EXPECT_EQ(sum(gpu_, out_), BANYAN_SUCCESS) << "managed";
  own(kDevice, 0);
  EXPECT_EQ(banyan_allreduce(gpu_, gpu_, 0, BANYAN_FLOAT32, BANYAN_SUM, comm_), BANYAN_SUCCESS)
      << "nothing is read";
}

TEST_F(DeviceMemory, IsKnownByTheNumberOfItsBuffer) {
  own(kDevice, 1);
  ASSERT_EQ(sum(gpu_, out_), BANYAN_SUCCESS);
  const long before = questions_();
  for (float* inside : {gpu_, gpu_ + 1, gpu_ + 40}) ASSERT_EQ(sum(inside, out_), BANYAN_SUCCESS);
  EXPECT_EQ(questions_(), before) << "all is known of the buffer";
  own(kDevice, 0);  // another buffer where that one was
  refused(sum(gpu_, out_), BANYAN_ERR_UNSUPPORTED, "send is ");
  EXPECT_GT(questions_(), before);
}

}  // namespace
}  // namespace banyan::test::device_memory_test
