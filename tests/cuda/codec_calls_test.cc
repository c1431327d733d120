// Codecs by themselves, and scalars, where memory is that of a GPU: what the CPU cannot touch gives
// the same bytes as what it can.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/c_api/c_api_fixture.h"
#include "tests/cuda/standin_library.h"

namespace banyan::test {
namespace {

constexpr size_t kCount = 3001;

// Some bytes in the memory of the device.
class DeviceBytes {
 public:
  DeviceBytes(const StandinCuda& standin, size_t bytes) : standin_(standin), bytes_(bytes) {
    EXPECT_EQ(standin_.cuda.allocate(&address_, bytes), kCudaSuccess);
  }
  template <typename Value>
  DeviceBytes(const StandinCuda& standin, const std::vector<Value>& values)
      : DeviceBytes(standin, values.size() * sizeof(Value)) {
    standin_.poke(address_, values.data(), bytes_);
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { EXPECT_EQ(standin_.cuda.free(address_), kCudaSuccess); }

  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver gives addresses as numbers
  void* get() const { return reinterpret_cast<void*>(address_); }
  template <typename Value>
  std::vector<Value> read(size_t count) const {
    std::vector<Value> values(count);
    standin_.peek(values.data(), address_, count * sizeof(Value));
    return values;
  }

 private:
  const StandinCuda& standin_;
  size_t bytes_;
  CudaFunctions::Address address_ = 0;
};

class DeviceCodecs : public WithStandinCuda {
 protected:
  void SetUp() override {
    WithStandinCuda::SetUp();
    for (size_t i = 0; i < kCount; ++i) {
      values_.push_back(static_cast<float>(i * 37 % 1001) / 500 - 1);
      residual_.push_back(static_cast<float>(i * 11 % 101) / 1000);
    }
  }

  static banyan_encode_t how(const char* codec, void* residual) {
    banyan_encode_t made = BANYAN_ENCODE_INIT;
    made.codec = codec;
    made.seed = 5;
    made.residual = static_cast<float*>(residual);
    return made;
  }
  static size_t bound(const char* codec) {
    size_t bytes = 0;
    EXPECT_EQ(banyan_encode_bound(codec, kCount, BANYAN_FLOAT32, &bytes), BANYAN_SUCCESS);
    return bytes;
  }
  // What the host makes of the values and of the residual, which it changes.
  std::vector<std::byte> message_of(const char* codec, std::vector<float>& residual) const {
    std::vector<std::byte> message(bound(codec));
    size_t bytes = message.size();
    banyan_encode_t by = how(codec, residual.data());
    EXPECT_EQ(banyan_encode(&by, values_.data(), kCount, BANYAN_FLOAT32, message.data(), &bytes),
              BANYAN_SUCCESS)
        << banyan_last_error(nullptr);
    message.resize(bytes);
    return message;
  }

  std::vector<float> values_, residual_;
};

TEST_F(DeviceCodecs, MakeTheMessagesOfTheHost) {
  for (const char* codec : {"int8", "fp16", "int4", "topk:0.01", "threshold:0.5", "int8+sr"}) {
    std::vector<float> left = residual_;
    const std::vector<std::byte> wanted = message_of(codec, left);
    for (unsigned which = 1; which < 8; ++which) {  // of source, residual and message
      DeviceBytes source(standin_, values_), residual(standin_, residual_);
      DeviceBytes message(standin_, bound(codec));
      std::vector<float> residual_here = residual_;
      std::vector<std::byte> message_here(bound(codec));
      banyan_encode_t by = how(codec, (which & 2) != 0 ? residual.get() : residual_here.data());
      size_t bytes = bound(codec);
      ASSERT_EQ(banyan_encode(&by, (which & 1) != 0 ? source.get() : values_.data(), kCount,
                              BANYAN_FLOAT32,
                              (which & 4) != 0 ? message.get() : message_here.data(), &bytes),
                BANYAN_SUCCESS)
          << codec << ": " << banyan_last_error(nullptr);
      ASSERT_EQ(bytes, wanted.size());
      message_here.resize(bytes);
      EXPECT_EQ((which & 4) != 0 ? message.read<std::byte>(bytes) : message_here, wanted) << codec;
      EXPECT_EQ((which & 2) != 0 ? residual.read<float>(kCount) : residual_here, left) << codec;
    }
  }
}

TEST_F(DeviceCodecs, GiveTheValuesOfTheHost) {
  for (const char* codec : {"int8", "topk:0.01"}) {
    std::vector<float> left = residual_;
    const std::vector<std::byte> message = message_of(codec, left);
    std::vector<float> decoded(kCount, 7), added(kCount, 7);
    ASSERT_EQ(banyan_decode(message.data(), message.size(), decoded.data(), kCount, BANYAN_FLOAT32),
              BANYAN_SUCCESS);
    ASSERT_EQ(
        banyan_decode_add(message.data(), message.size(), added.data(), kCount, BANYAN_FLOAT32),
        BANYAN_SUCCESS);
    const DeviceBytes encoded(standin_, message);
    const DeviceBytes target(standin_, std::vector<float>(kCount, 7));
    EXPECT_EQ(
        banyan_decode_add(encoded.get(), message.size(), target.get(), kCount, BANYAN_FLOAT32),
        BANYAN_SUCCESS);
    EXPECT_EQ(target.read<float>(kCount), added);
    EXPECT_EQ(banyan_decode(encoded.get(), message.size(), target.get(), kCount, BANYAN_FLOAT32),
              BANYAN_SUCCESS);
    EXPECT_EQ(target.read<float>(kCount), decoded);
  }
}

TEST_F(DeviceCodecs, WriteNothingWhereTheyFail) {
  std::vector<float> left = residual_;
  std::vector<std::byte> message = message_of("int8", left);
  message[message.size() / 2] ^= std::byte{1};
  const DeviceBytes encoded(standin_, message), target(standin_, values_),
      kept(standin_, residual_);
  EXPECT_EQ(banyan_decode_add(encoded.get(), message.size(), target.get(), kCount, BANYAN_FLOAT32),
            BANYAN_ERR_CORRUPT);
  EXPECT_EQ(target.read<float>(kCount), values_);

  banyan_encode_t by = how("int8", kept.get());
  size_t bytes = 16;  // too few
  EXPECT_EQ(banyan_encode(&by, target.get(), kCount, BANYAN_FLOAT32, encoded.get(), &bytes),
            BANYAN_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(bytes, message.size()) << "what it takes";
  EXPECT_EQ(kept.read<float>(kCount), residual_);
  EXPECT_EQ(encoded.read<std::byte>(message.size()), message);
}

// The room that a caller has need not be there.
TEST_F(DeviceCodecs, TakeNoMoreRoomThanAMessage) {
  std::vector<float> left = residual_;
  const std::vector<std::byte> wanted = message_of("int8", left);
  const DeviceBytes source(standin_, values_), residual(standin_, residual_);
  const DeviceBytes message(standin_, wanted.size());
  banyan_encode_t by = how("int8", residual.get());
  size_t bytes = size_t{1} << 50;
  ASSERT_EQ(banyan_encode(&by, source.get(), kCount, BANYAN_FLOAT32, message.get(), &bytes),
            BANYAN_SUCCESS)
      << banyan_last_error(nullptr);
  EXPECT_EQ(bytes, wanted.size());
  EXPECT_EQ(message.read<std::byte>(bytes), wanted);
}

TEST_F(DeviceCodecs, TellWhatTheDriverRefuses) {
  const DeviceBytes source(standin_, values_);
  std::vector<std::byte> message(bound("int8"));
  const long streams = standin_.live("streams");
  for (const char* function :
       {"cuMemcpyAsync", "cuStreamSynchronize", "cuStreamCreate", "cuDevicePrimaryCtxRetain"}) {
    standin_.fail(function, 0, 2);
    banyan_encode_t by = how("int8", nullptr);
    size_t bytes = message.size();
    EXPECT_EQ(banyan_encode(&by, source.get(), kCount, BANYAN_FLOAT32, message.data(), &bytes),
              BANYAN_ERR_CUDA);
    const std::string text = banyan_last_error(nullptr);
    EXPECT_NE(text.find(std::string(function) + ": CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos)
        << text;
    EXPECT_EQ(standin_.live("streams"), streams);
  }
}

TEST_F(DeviceCodecs, KeepTheContextOfTheCaller) {
  const DeviceBytes source(standin_, values_);
  std::vector<std::byte> message(bound("int8"));
  size_t bytes = message.size();
  banyan_encode_t by = how("int8", nullptr);
  ASSERT_EQ(cuda_.set_context(nullptr), kCudaSuccess);
  EXPECT_EQ(banyan_encode(&by, source.get(), kCount, BANYAN_FLOAT32, message.data(), &bytes),
            BANYAN_SUCCESS);
  Handle current = context_;
  EXPECT_EQ(cuda_.current_context(&current), kCudaSuccess);
  EXPECT_EQ(current, nullptr);
  ASSERT_EQ(cuda_.set_context(context_), kCudaSuccess);
}

TEST_F(DeviceCodecs, AreBesideScalarsOnADevice) {
  const banyan_comm_t comm = make_comm();
  const DeviceBytes scalar(standin_, std::vector<float>{3});
  banyan_op_t op = 0;
  ASSERT_EQ(banyan_op_create_premulsum(comm, scalar.get(), BANYAN_FLOAT32, &op), BANYAN_SUCCESS)
      << banyan_last_error(comm);
  float value = 5;
  EXPECT_EQ(banyan_allreduce(&value, &value, 1, BANYAN_FLOAT32, op, comm), BANYAN_SUCCESS);
  EXPECT_EQ(value, 15);
  EXPECT_EQ(banyan_comm_finalize(comm), BANYAN_SUCCESS);
  EXPECT_EQ(banyan_comm_destroy(comm), BANYAN_SUCCESS);
}

}  // namespace
}  // namespace banyan::test
