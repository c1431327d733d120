// The host build of the kernels for GPUs, block by block and thread by thread, gives the bytes of
// the scalar table: all types and operations, awkward lengths, all alignments, in place and apart,
// by several numbers of blocks. Their launcher is the real one; the driver is a table of this file.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <string>

#include "compression/cuda/kernel_names.h"
#include "compression/cuda/spans.h"
#include "tests/support/cuda_codecs_checks.h"
#include "tests/support/cuda_folds_checks.h"
#include "tests/support/cuda_gradients_checks.h"
#include "tests/support/cuda_kernels_checks.h"
#include "tests/support/cuda_sparse_checks.h"
#include "tests/support/host_kernels.h"

namespace banyan::cuda_blocks_test {
namespace {

// A driver that knows modules and launches only. What it is told to do is for one test.
struct Driver {
  unsigned blocks = 0;  // 0: as many as are asked for
  int refuses = 0;      // with this error
  int launches = 0;
};
Driver driver;

int load_module(void** module, const void*) {
  *module = &driver;
  return driver.refuses;
}

int unload_module(void*) {
  return kCudaSuccess;
}

int find_function(void** function, void*, const char* name) {
  constexpr int kNotFound = 500;
  // Handles are not const; launch() is what gets it back.
  *function = const_cast<test::HostKernel*>(test::find_host_kernel(name));
  return *function == nullptr ? kNotFound : kCudaSuccess;
}

int launch(void* function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned, unsigned,
           unsigned shared, void*, void** parameters, void**) {
  if (driver.refuses != kCudaSuccess) return driver.refuses;
  EXPECT_EQ(y * z, 1U);
  EXPECT_EQ(threads, kCudaThreads);
  EXPECT_EQ(shared, 0U);
  driver.launches++;
  // The grid is that of the launcher and, in turn, what a smaller one has to do in several tiles.
  const unsigned turn = static_cast<unsigned>(driver.launches) % 4;
  const unsigned blocks = driver.blocks != 0 ? driver.blocks : turn == 0 ? x : turn * 2 - 1;
  const auto* kernel = static_cast<const test::HostKernel*>(function);
  kernel->run(parameters[0], blocks);
  return kCudaSuccess;
}

int error_name(int error, const char** name) {
  *name = error == 400 ? "CUDA_ERROR_INVALID_HANDLE" : nullptr;
  return *name == nullptr ? 1 : kCudaSuccess;
}

CudaFunctions functions() {
  CudaFunctions f;
  f.load_module = load_module;
  f.unload_module = unload_module;
  f.function = find_function;
  f.launch = launch;
  f.error_name = error_name;
  f.current_device = [](int* device) { return *device = kCudaSuccess; };
  f.attribute = [](int* value, int which, int) {
    *value = which == kCudaCapabilityMajor ? 7 : 5;
    return kCudaSuccess;
  };
  return f;
}

constexpr CudaImage kImage{"an image", "8.0, 9.0"};

class HostMemory : public test::DeviceMemory {
 public:
  std::byte* allocate(size_t bytes) override {
    return static_cast<std::byte*>(operator new[](bytes, std::align_val_t{64}));
  }
  void release(std::byte* memory) override { operator delete[](memory, std::align_val_t{64}); }
  void write(std::byte* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void read(void* to, const std::byte* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
};

class CudaBlocks : public testing::Test {
 protected:
  void SetUp() override {
    driver = {};
    ASSERT_TRUE(kernels_.ok()) << kernels_.status().message();
    ASSERT_TRUE(codecs_.ok()) << codecs_.status().message();
    ASSERT_TRUE(folds_.ok()) << folds_.status().message();
    ASSERT_TRUE(sparse_.ok()) << sparse_.status().message();
    ASSERT_TRUE(topk_.ok()) << topk_.status().message();
    ASSERT_TRUE(onebit_.ok()) << onebit_.status().message();
    ASSERT_TRUE(gradients_.ok()) << gradients_.status().message();
  }
  void TearDown() override { driver = {}; }
  test::Tested tested() { return {*kernels_, memory_}; }
  test::TestedFolds tested_folds() { return {*folds_, memory_}; }
  test::TestedCodecs tested_codecs() { return {*codecs_, memory_}; }
  test::TestedOnebit tested_onebit() { return {*onebit_, memory_}; }
  test::TestedGradients tested_gradients() { return {*gradients_, *kernels_, memory_}; }
  test::TestedSparse tested_sparse() { return {*sparse_, *topk_, memory_}; }

  Result<CudaKernels> kernels_ = CudaKernels::load(functions(), kImage);
  Result<CudaCodecs> codecs_ = CudaCodecs::load(functions(), kImage);
  Result<CudaFolds> folds_ = CudaFolds::load(functions(), kImage);
  Result<CudaSparse> sparse_ = CudaSparse::load(functions(), kImage);
  Result<CudaOnebit> onebit_ = CudaOnebit::load(functions(), kImage);
  Result<CudaGradients> gradients_ = CudaGradients::load(functions(), kImage);
  Result<CudaTopk> topk_ = CudaTopk::load(functions(), kImage);
  HostMemory memory_;
};

TEST_F(CudaBlocks, CombineEveryLengthAsScalarDoes) {
  check_combining_lengths(tested());
}

TEST_F(CudaBlocks, DecodeEveryLengthAsScalarDoes) {
  check_decoding_lengths(tested());
}

TEST_F(CudaBlocks, EncodeEveryLengthAsScalarDoes) {
  check_encoding_lengths(tested());
}

TEST_F(CudaBlocks, WorkAtEveryAlignment) {
  check_alignments(tested());
}

TEST_F(CudaBlocks, CombineEveryPatternAsScalarDoes) {
  check_combining_patterns(tested());
}

TEST_F(CudaBlocks, DecodeEveryPatternAsScalarDoes) {
  check_decoding_patterns(tested());
}

TEST_F(CudaBlocks, EncodeEveryPatternAsScalarDoes) {
  check_encoding_patterns(tested());
}

TEST_F(CudaBlocks, HaveTheSparseCodecsOfTheHostAtEveryLength) {
  check_sparse_lengths(tested_sparse());
}

TEST_F(CudaBlocks, ChooseOfManyPlacesAsTheHostDoes) {
  check_long_choice(tested_sparse());
}

TEST_F(CudaBlocks, SelectTheLargestAsTheHostDoes) {
  check_topk(tested_sparse());
}

TEST_F(CudaBlocks, HaveTheSparseCodecsOfTheHostAtEveryAlignment) {
  check_sparse_alignments(tested_sparse());
}

TEST_F(CudaBlocks, HaveTheCodecsOfTheHostAtEveryLength) {
  check_codec_lengths(tested_codecs());
}

TEST_F(CudaBlocks, HaveTheCodecsOfTheHostAtEveryAlignment) {
  check_codec_alignments(tested_codecs());
}

TEST_F(CudaBlocks, DecodeMessagesOfStrangers) {
  check_codec_strangers(tested_codecs());
}

TEST_F(CudaBlocks, HaveOnebitOfTheHost) {
  check_onebit_lengths(tested_onebit());
  check_onebit_alignments(tested_onebit());
  check_onebit_strangers(tested_onebit());
}

TEST_F(CudaBlocks, ContributeGradientsAsPlainCodeDoes) {
  check_contributions(tested_gradients());
  check_looks(tested_gradients());
  check_forgetting(tested_gradients());
  check_leaving(tested_gradients());
}

TEST_F(CudaBlocks, FoldMessagesAsTheHostDoes) {
  check_coded_folds(tested_codecs());
}

TEST_F(CudaBlocks, HaveTheCodecsOfTheHostForValuesOfEveryKind) {
  check_codec_values(tested_codecs(), 100'000, 1);
  check_sparse_values(tested_sparse(), 100'000, 2);
}

TEST_F(CudaBlocks, FoldEveryLengthAsScalarDoes) {
  check_fold_lengths(tested_folds());
}

TEST_F(CudaBlocks, FoldAtEveryAlignment) {
  check_fold_alignments(tested_folds());
}

TEST_F(CudaBlocks, FoldElementsOfAnyBits) {
  check_fold_values(tested_folds(), 20'000, 3);
}

TEST_F(CudaBlocks, FoldWhatSoManyRanksMayHave) {
  const std::vector<const std::byte*> too_many(kCudaFoldMost + 1);
  const auto fold = [&](std::span<const std::byte* const> sources, int divisor) {
    return folds_->fold(DataType::kInt8, ReduceOp::kSum, nullptr, sources, 1, divisor, nullptr)
        .code();
  };
  EXPECT_EQ(fold(too_many, 1), Code::kInvalidArgument);
  EXPECT_EQ(fold({}, 1), Code::kInvalidArgument);
  EXPECT_EQ(fold(std::span(too_many).first(2), 0), Code::kInvalidArgument);
  EXPECT_EQ(driver.launches, 0);
}

TEST_F(CudaBlocks, AreAsManyAsThereAreTiles) {
  const auto blocks = [](uintptr_t dst, uint64_t count) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): nothing is at this address
    auto* address = reinterpret_cast<std::byte*>(dst);
    return cuda_blocks(cuda_packs({address, nullptr, address, count, 0}, 4, 4));
  };
  constexpr uint64_t kTile = 4 * kCudaTile;  // in float32
  EXPECT_EQ(blocks(4096, 1), 1U);
  EXPECT_EQ(blocks(4096, kTile + 3), 1U);
  EXPECT_EQ(blocks(4096, kTile + 4), 2U);
  EXPECT_EQ(blocks(4100, kTile + 4), 1U) << "three elements are before the first pack";
  EXPECT_EQ(blocks(4097, kCudaTile + 1), 2U) << "no pack is whole";
}

TEST_F(CudaBlocks, HaveNoLaunchForNoElements) {
  EXPECT_TRUE(kernels_->decode(DataType::kInt8, nullptr, nullptr, 0, nullptr, nullptr).ok());
  EXPECT_EQ(driver.launches, 0);
}

TEST_F(CudaBlocks, AreNotDividedByZero) {
  const Status status = kernels_->encode(DataType::kFloat32, nullptr, nullptr, 1, 0, nullptr);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
}

TEST_F(CudaBlocks, PassOnWhatTheDriverSays) {
  driver.refuses = 400;
  const Status status = kernels_->encode(DataType::kFloat32, nullptr, nullptr, 1, 1, nullptr);
  EXPECT_EQ(status.code(), Code::kCuda);
  EXPECT_EQ(status.message(),
            "cuLaunchKernel of the CUDA driver failed: CUDA_ERROR_INVALID_HANDLE (400)");
}

TEST(CudaImage, SaysWhatItIsForWhereItDoesNotFit) {
  driver = {.refuses = kCudaNoBinaryForGpu};
  const Status status = CudaKernels::load(functions(), kImage).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("8.0, 9.0"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("has 7.5"), std::string::npos) << status.message();
  driver = {};
}

TEST(CudaImage, IsNeeded) {
  EXPECT_EQ(CudaKernels::load(functions(), {nullptr, ""}).status().code(), Code::kUnsupported);
}

TEST(CudaImage, NeedsAWholeDriver) {
  EXPECT_EQ(CudaKernels::load({}, kImage).status().code(), Code::kUnsupported);
}

TEST(CudaImage, MissesNoKernelInSilence) {
  CudaFunctions without = functions();
  without.function = [](void**, void*, const char*) { return 500; };
  const Status status = CudaKernels::load(without, kImage).status();
  EXPECT_EQ(status.code(), Code::kCuda);
  EXPECT_NE(status.message().find("reduce_sum_uint8"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace banyan::cuda_blocks_test
