// The kernels on a real device give the bytes of the scalar table, and of what the host build is
// tested for: tests/compression/cuda_blocks_test.cc. More elements, streams and errors come here.
// SPDX-License-Identifier: Apache-2.0

#include "compression/cuda/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/cuda_codecs_checks.h"
#include "tests/support/cuda_folds_checks.h"
#include "tests/support/cuda_gradients_checks.h"
#include "tests/support/cuda_kernels_checks.h"
#include "tests/support/cuda_sparse_checks.h"
#include "tests/support/kernels_reference.h"

namespace banyan {
namespace {

using Address = CudaFunctions::Address;
using Handle = CudaFunctions::Handle;

Address address_of(const std::byte* memory) {
  return reinterpret_cast<uintptr_t>(memory);
}

class OnGpu : public test::DeviceMemory {
 public:
  explicit OnGpu(const CudaFunctions& cuda) : cuda_(cuda) {}

  std::byte* allocate(size_t bytes) override {
    Address address = 0;
    EXPECT_EQ(cuda_.allocate(&address, bytes), kCudaSuccess) << bytes;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver has given it as a number
    return reinterpret_cast<std::byte*>(address);
  }
  void release(std::byte* memory) override {
    EXPECT_EQ(cuda_.free(address_of(memory)), kCudaSuccess);
  }
  void write(std::byte* to, const void* from, size_t bytes) override {
    EXPECT_EQ(cuda_.to_device(address_of(to), from, bytes, nullptr), kCudaSuccess);
  }
  void read(void* to, const std::byte* from, size_t bytes) override {
    EXPECT_EQ(cuda_.to_host(to, address_of(from), bytes, nullptr), kCudaSuccess);
    EXPECT_EQ(cuda_.synchronize(), kCudaSuccess);
  }

 private:
  CudaFunctions cuda_;
};

class GpuKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_image().fatbin == nullptr) GTEST_SKIP() << "this build has no kernels: no nvcc";
    cuda_ = open_cuda_driver().value_or(CudaFunctions{});
    ASSERT_NE(cuda_.init, nullptr);
    ASSERT_EQ(cuda_.init(0), kCudaSuccess);
    ASSERT_EQ(cuda_.device(&device_, 0), kCudaSuccess);
    Handle context = nullptr;
    ASSERT_EQ(cuda_.retain_context(&context, device_), kCudaSuccess);
    ASSERT_EQ(cuda_.set_context(context), kCudaSuccess);
    auto loaded = CudaKernels::load(cuda_);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    kernels_.emplace(std::move(*loaded));
    auto codecs = CudaCodecs::load(cuda_);
    ASSERT_TRUE(codecs.ok()) << codecs.status().message();
    codecs_.emplace(std::move(*codecs));
    auto folds = CudaFolds::load(cuda_);
    ASSERT_TRUE(folds.ok()) << folds.status().message();
    folds_.emplace(std::move(*folds));
    auto sparse = CudaSparse::load(cuda_);
    ASSERT_TRUE(sparse.ok()) << sparse.status().message();
    sparse_.emplace(std::move(*sparse));
    auto topk = CudaTopk::load(cuda_);
    ASSERT_TRUE(topk.ok()) << topk.status().message();
    topk_.emplace(std::move(*topk));
    auto onebit = CudaOnebit::load(cuda_);
    ASSERT_TRUE(onebit.ok()) << onebit.status().message();
    onebit_.emplace(std::move(*onebit));
    auto gradients = CudaGradients::load(cuda_);
    ASSERT_TRUE(gradients.ok()) << gradients.status().message();
    gradients_.emplace(std::move(*gradients));
    memory_.emplace(cuda_);
  }
  void TearDown() override {
    kernels_.reset();
    folds_.reset();
    codecs_.reset();
    sparse_.reset();
    topk_.reset();
    gradients_.reset();
    onebit_.reset();
    if (memory_) (void)cuda_.release_context(device_);
  }
  test::Tested tested() { return {*kernels_, *memory_}; }
  test::TestedCodecs tested_codecs() { return {*codecs_, *memory_}; }

  CudaFunctions cuda_;
  int device_ = 0;
  std::optional<CudaKernels> kernels_;
  std::optional<CudaCodecs> codecs_;
  std::optional<CudaFolds> folds_;
  std::optional<CudaSparse> sparse_;
  std::optional<CudaTopk> topk_;
  std::optional<CudaOnebit> onebit_;
  std::optional<CudaGradients> gradients_;
  std::optional<OnGpu> memory_;
};

TEST_F(GpuKernels, CombineEveryLengthAsScalarDoes) {
  check_combining_lengths(tested());
}

TEST_F(GpuKernels, DecodeEveryLengthAsScalarDoes) {
  check_decoding_lengths(tested());
}

TEST_F(GpuKernels, EncodeEveryLengthAsScalarDoes) {
  check_encoding_lengths(tested());
}

TEST_F(GpuKernels, WorkAtEveryAlignment) {
  check_alignments(tested());
}

TEST_F(GpuKernels, CombineEveryPatternAsScalarDoes) {
  check_combining_patterns(tested());
}

TEST_F(GpuKernels, DecodeEveryPatternAsScalarDoes) {
  check_decoding_patterns(tested());
}

TEST_F(GpuKernels, EncodeEveryPatternAsScalarDoes) {
  check_encoding_patterns(tested());
}

// The host's best table stands for the scalar one here and below: that would take minutes.
TEST_F(GpuKernels, GiveTheBytesOfTheHostForTenMillionRandomElements) {
  test::check_random({*kernels_, *memory_, best_kernels()}, 10'000'019);
}

TEST_F(GpuKernels, HaveTheCodecsOfTheHost) {
  check_codec_lengths(tested_codecs());
  check_codec_alignments(tested_codecs());
  check_codec_strangers(tested_codecs());
  check_codec_values(tested_codecs(), 1'000'000, 6);
  check_coded_folds(tested_codecs());
}

TEST_F(GpuKernels, HaveTheSparseCodecsOfTheHost) {
  const test::TestedSparse tested{*sparse_, *topk_, *memory_};
  check_sparse_lengths(tested);
  check_sparse_alignments(tested);
  check_sparse_values(tested, 3'000'000, 8);
  check_topk(tested);
  check_long_choice(tested);
}

TEST_F(GpuKernels, HaveOnebitOfTheHost) {
  const test::TestedOnebit tested{*onebit_, *memory_};
  check_onebit_lengths(tested);
  check_onebit_alignments(tested);
  check_onebit_strangers(tested);
}

TEST_F(GpuKernels, ContributeGradientsAsPlainCodeDoes) {
  const test::TestedGradients tested{*gradients_, *kernels_, *memory_};
  check_contributions(tested);
  check_looks(tested);
  check_forgetting(tested);
  check_leaving(tested);
}

TEST_F(GpuKernels, FoldWhatRanksHaveAsScalarDoes) {
  const test::TestedFolds tested{*folds_, *memory_};
  check_fold_lengths(tested);
  check_fold_alignments(tested);
  check_fold_values(tested, 200'000, 4);
}

TEST_F(GpuKernels, EncodeEachOfAllFloat32AsTheHostDoes) {
  constexpr uint64_t kPart = uint64_t{1} << 26;
  std::vector<uint32_t> sums(kPart);
  std::vector<std::byte> wanted(kPart * 2);
  std::vector<std::byte> got(kPart * 2);
  std::byte* src = memory_->allocate(kPart * 4);
  std::byte* dst = memory_->allocate(kPart * 2);
  for (uint64_t part = 0; part < uint64_t{1} << 32; part += kPart) {
    for (uint64_t i = 0; i < kPart; i++) sums[i] = static_cast<uint32_t>(part + i);
    memory_->write(src, sums.data(), kPart * 4);
    for (const DataType type : kTypes) {
      if (!is_narrow_float(type)) continue;
      const size_t bytes = kPart * size_of(type);
      best_kernels().encode[index_of(type)](wanted.data(), sums.data(), kPart, 1);
      ASSERT_TRUE(kernels_->encode(type, dst, src, kPart, 1, nullptr).ok());
      memory_->read(got.data(), dst, bytes);
      ASSERT_EQ(std::memcmp(got.data(), wanted.data(), bytes), 0)
          << name_of(type) << " in the part from " << part;
    }
  }
  memory_->release(src);
  memory_->release(dst);
}

// What one stream does stays behind what it did before, and streams have different memory.
TEST_F(GpuKernels, AreInTheOrderOfTheirStream) {
  constexpr size_t kCount = 1 << 20;
  constexpr int kTimes = 100;
  constexpr unsigned kNonBlocking = 1;
  struct Lane {
    Handle stream = nullptr;
    std::byte* sum = nullptr;
    std::byte* one = nullptr;
    std::vector<float> result = std::vector<float>(kCount);
  };
  std::vector<Lane> lanes(4);
  const std::vector<float> ones(kCount, 1);
  for (Lane& lane : lanes) {
    ASSERT_EQ(cuda_.create_stream(&lane.stream, kNonBlocking), kCudaSuccess);
    lane.sum = memory_->allocate(kCount * 4);
    lane.one = memory_->allocate(kCount * 4);
    ASSERT_EQ(cuda_.to_device(address_of(lane.one), ones.data(), kCount * 4, lane.stream),
              kCudaSuccess);
    ASSERT_EQ(cuda_.fill(address_of(lane.sum), 0, kCount * 4, lane.stream), kCudaSuccess);
  }
  for (int i = 0; i < kTimes; i++) {
    for (Lane& lane : lanes) {
      ASSERT_TRUE(kernels_
                      ->reduce(DataType::kFloat32, ReduceOp::kSum, lane.sum, lane.sum, lane.one,
                               kCount, lane.stream)
                      .ok());
    }
  }
  for (Lane& lane : lanes) {
    ASSERT_EQ(cuda_.to_host(lane.result.data(), address_of(lane.sum), kCount * 4, lane.stream),
              kCudaSuccess);
    ASSERT_EQ(cuda_.synchronize_stream(lane.stream), kCudaSuccess);
    EXPECT_TRUE(std::all_of(lane.result.begin(), lane.result.end(),
                            [](float sum) { return sum == kTimes; }));
    memory_->release(lane.sum);
    memory_->release(lane.one);
    EXPECT_EQ(cuda_.destroy_stream(lane.stream), kCudaSuccess);
  }
}

TEST_F(GpuKernels, AreNotLoadedWithoutAContext) {
  ASSERT_EQ(cuda_.set_context(nullptr), kCudaSuccess);
  const Status status = CudaKernels::load(cuda_).status();
  EXPECT_EQ(status.code(), Code::kCuda) << status.message();
  EXPECT_NE(status.message().find("CUDA_ERROR_INVALID_CONTEXT"), std::string::npos)
      << status.message();
  Handle context = nullptr;
  ASSERT_EQ(cuda_.retain_context(&context, device_), kCudaSuccess);
  ASSERT_EQ(cuda_.set_context(context), kCudaSuccess);
  ASSERT_EQ(cuda_.release_context(device_), kCudaSuccess);
}

TEST_F(GpuKernels, AreNotLaunchedWithoutAContext) {
  ASSERT_EQ(cuda_.set_context(nullptr), kCudaSuccess);
  EXPECT_EQ(kernels_->decode(DataType::kInt8, this, this, 1, nullptr, nullptr).code(), Code::kCuda);
  Handle context = nullptr;
  ASSERT_EQ(cuda_.retain_context(&context, device_), kCudaSuccess);
  ASSERT_EQ(cuda_.set_context(context), kCudaSuccess);
  ASSERT_EQ(cuda_.release_context(device_), kCudaSuccess);
}

TEST_F(GpuKernels, RefuseAnImageThatIsNone) {
  const std::vector<char> text(4096, 'x');
  const Status status = CudaKernels::load(cuda_, {text.data(), "8.0"}).status();
  EXPECT_FALSE(status.ok());
}

}  // namespace
}  // namespace banyan
