// Counts what the host build of each kernel for GPUs reads and writes: it is hardly more than its
// operands have. Where the threads of a block touch a sector several times for one piece of work,
// it counts once, since the first of them brings it to the multiprocessor.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace banyan::test {

// Sectors of 32 bytes, as DRAM is read and written. Source: CUDA C++ Programming Guide, "Device
// Memory Accesses".
struct Traffic {
  static constexpr uintptr_t kSector = 32;
  std::set<uintptr_t> read, written;  // by the block, for what it does now
  uint64_t bytes = 0;

  static void touch(std::set<uintptr_t>& sectors, const void* memory, size_t bytes) {
    const auto begin = reinterpret_cast<uintptr_t>(memory);
    for (uintptr_t at = begin / kSector; at <= (begin + bytes - 1) / kSector; ++at)
      sectors.insert(at);
  }
  void end_of_work() {
    bytes += (read.size() + written.size()) * kSector;
    read.clear();
    written.clear();
  }
};

static Traffic& traffic() {
  static Traffic counted;
  return counted;
}

}  // namespace banyan::test

#define BANYAN_CUDA_READS(from, bytes) test::Traffic::touch(test::traffic().read, from, bytes)
#define BANYAN_CUDA_WRITES(to, bytes) test::Traffic::touch(test::traffic().written, to, bytes)

#include "compression/cuda/blocks.h"
#include "compression/cuda/codec_blocks.h"
#include "compression/cuda/fold_blocks.h"
#include "compression/cuda/gradient_blocks.h"
#include "compression/cuda/onebit_blocks.h"
#include "compression/cuda/randk_blocks.h"
#include "compression/cuda/topk_blocks.h"
#include "tests/support/host_kernels.h"

namespace banyan::kernel_traffic_test {
namespace {

constexpr uint64_t kCount = 1 << 16;
constexpr double kMost = 1.03;

// As many blocks as there are tiles.
template <class Function>
void run_elements(const CudaKernelCall& call) {
  const CudaPacks packs =
      cuda_packs(call, sizeof(typename Function::Local), sizeof(typename Function::Incoming));
  const auto blocks = static_cast<unsigned>(cuda_blocks(packs));
  for (unsigned block = 0; block < blocks; ++block) {
    for (unsigned i = 0; i < kCudaThreads; ++i) run_thread<Function>(call, {block, blocks, i});
    test::traffic().end_of_work();
  }
}

// A block has a piece for each of its warps.
template <class Function, class Call>
void run_pieces(const Call& call) {
  for (uint64_t piece = 0; piece < pieces_of(call); ++piece) {
    for (unsigned lane = 0; lane < kCudaLanes; ++lane) {
      CudaLane mine;
      const uint32_t largest = Function::begin(call, piece, lane, mine);
      Function::end(call, piece, lane, mine, largest);
    }
    if (piece % kCudaWarps == kCudaWarps - 1) test::traffic().end_of_work();
  }
}

template <class Function>
void run_folds(const CudaFoldCall& call) {
  const auto blocks =
      static_cast<unsigned>(cuda_fold_blocks(call, sizeof(typename Function::Element)));
  for (unsigned block = 0; block < blocks; ++block) {
    for (unsigned i = 0; i < kCudaThreads; ++i) run_fold<Function>(call, {block, blocks, i});
    test::traffic().end_of_work();
  }
}

// As run_pieces, of kernels that count.
template <class Function, class Call>
void run_counting_pieces(const Call& call) {
  for (uint64_t piece = 0; piece < Function::items(call); ++piece) {
    uint64_t before = 0;
    for (unsigned lane = 0; lane < kCudaLanes; ++lane) {
      typename Function::Lane mine;
      const uint64_t own = Function::begin(call, piece, lane, mine);
      Function::end(call, piece, lane, mine, before, 0);
      before += own;
    }
    if (piece % kCudaWarps == kCudaWarps - 1) test::traffic().end_of_work();
  }
}

template <class Call>
struct Row {
  const char* name;
  void (*run)(const Call& call);
};

#define KERNEL(name, ...) {#name, run_elements<__VA_ARGS__>},
constexpr Row<CudaKernelCall> kElementKernels[] = {
#include "compression/cuda/kernels.inc"
};
#define CODEC_KERNEL(name, ...) {#name, run_pieces<__VA_ARGS__>},
#define CODED_FOLD_KERNEL(name, ...)
constexpr Row<CudaCodecCall> kCodecKernels[] = {
#include "compression/cuda/codec_kernels.inc"
};
#undef CODEC_KERNEL
#undef CODED_FOLD_KERNEL
#define CODEC_KERNEL(name, ...)
#define CODED_FOLD_KERNEL(name, ...) {#name, run_pieces<__VA_ARGS__>},
constexpr Row<CudaCodedFold> kCodedFolds[] = {
#include "compression/cuda/codec_kernels.inc"
};

#define FOLD_KERNEL(name, ...) {#name, run_folds<__VA_ARGS__>},
constexpr Row<CudaFoldCall> kFoldKernels[] = {
#include "compression/cuda/fold_kernels.inc"
};

struct alignas(256) Line {
  std::byte bytes[256];
};

struct Buffer {
  std::vector<Line> lines{kCount * 16 / sizeof(Line)};
  std::byte* data() { return lines.front().bytes; }
};

// What the operands have.
template <class Call>
uint64_t least_of(const char* name, const Call& call) {
  uint64_t bytes = 0;
  for (const test::KernelMemory& memory : test::find_host_kernel(name)->memory(&call))
    bytes += memory.bytes;
  return bytes;
}

template <class Call>
void expect_little(const Row<Call>& row, const Call& call, const char* what = "") {
  test::traffic().bytes = 0;
  row.run(call);
  const auto least = static_cast<double>(least_of(row.name, call));
  const auto counted = static_cast<double>(test::traffic().bytes);
  EXPECT_GE(counted, least) << row.name << what;
  EXPECT_LE(counted, kMost * least) << row.name << what;
}

TEST(KernelTraffic, OfElementsIsThatOfOperands) {
  Buffer dst, local, src;
  for (const auto& row : kElementKernels)
    expect_little(row, {dst.data(), local.data(), src.data(), kCount, 1});
}

TEST(KernelTraffic, OfFoldsIsThatOfOperands) {
  std::vector<Buffer> buffers(9);
  for (const unsigned ranks : {2U, 3U, 8U})
    for (const auto& row : kFoldKernels) {
      CudaFoldCall call{.dst = buffers[8].data(), .count = kCount, .operand = 1, .ranks = ranks};
      for (unsigned rank = 0; rank < ranks; ++rank) call.sources[rank] = buffers[rank].data();
      expect_little(row, call);
    }
}

TEST(KernelTraffic, OfCodecsIsThatOfOperands) {
  Buffer message, values, other;
  CudaCodecCall call{.message = message.data(), .values = values.data(), .count = kCount};
  for (const auto& row : kCodecKernels) {
    const bool encodes = std::string(row.name).starts_with("encode");
    const bool adds = std::string(row.name).starts_with("decode_add");
    call.other = adds ? other.data() : nullptr;
    expect_little(row, call);
    if (!encodes) continue;
    call.other = other.data();
    expect_little(row, call, ", with what is left");
  }
}

// The flag is a byte behind the message, which what begins writes, and blocks that are spoilt.
TEST(KernelTraffic, OfOnebitIsThatOfOperands) {
  Buffer message, values, other;
  CudaCodecCall call{.message = message.data(), .values = values.data(), .count = kCount};
  const Row<CudaCodecCall> row{"encode_onebit_float32", [](const CudaCodecCall& told) {
                                 for (uint64_t piece = 0; piece < pieces_of(told); ++piece) {
                                   CudaLane lanes[kCudaLanes];
                                   for (unsigned lane = 0; lane < kCudaLanes; ++lane)
                                     EncodeOnebit<Float32>::begin(told, piece, lane, lanes[lane]);
                                   const OnebitBlock block = onebit_of(lanes);
                                   for (unsigned lane = 0; lane < kCudaLanes; ++lane)
                                     EncodeOnebit<Float32>::end(told, piece, lane, lanes[lane],
                                                                block);
                                   if (piece % kCudaWarps == kCudaWarps - 1)
                                     test::traffic().end_of_work();
                                 }
                                 BeginOnebit::Lane none;
                                 BeginOnebit::end(told, 0, 0, none, 0, 0);
                                 test::traffic().end_of_work();
                               }};
  expect_little(row, call);
  call.other = other.data();
  expect_little(row, call, ", with what is left");
}

// A block has a stretch, of which it says a few words.
template <class Function>
void run_each_stretch(const CudaGradientCall& call) {
  const auto blocks = static_cast<unsigned>(gradient_stretches(call.count));
  for (unsigned stretch = 0; stretch < blocks; ++stretch) {
    GradientShared shared;
    for (unsigned i = 0; i < kCudaThreads; ++i) take_stretch<Function>(call, shared, stretch, i);
    for (unsigned i = 0; i < kCudaThreads; ++i) add_of_lane(shared, i);
    for (unsigned i = 0; i < kCudaThreads; ++i) say_of_stretch(call, shared, stretch, i);
    test::traffic().end_of_work();
  }
}

TEST(KernelTraffic, OfGradientsIsThatOfOperands) {
  Buffer values, sum, velocity, next, residual;
  const auto floats = [](Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()); };
  std::vector<GradientSeen> seen(gradient_stretches(kCount));
#define GRADIENT_KERNEL(name, ...) {#name, run_each_stretch<__VA_ARGS__>},
  constexpr Row<CudaGradientCall> kRows[] = {
#include "compression/cuda/gradient_kernels.inc"
  };
#undef GRADIENT_KERNEL
  for (const auto& row : kRows) {
    const std::string name = row.name;
    CudaGradientCall call{.values = values.data(), .count = kCount};
    if (name == "forget_sent") {
      call.velocity = floats(velocity);  // which is read, and written
      const double goes = 3;
      test::traffic().bytes = 0;
      row.run(call);
      EXPECT_LE(static_cast<double>(test::traffic().bytes), kMost * goes * kCount * sizeof(float));
      continue;
    }
    call.seen = seen.data();
    if (name.starts_with("contribute")) {
      call.sum = floats(sum);
      expect_little(row, call);
      call.velocity = floats(velocity);
      call.next_velocity = floats(next);
      call.residual = floats(residual);
    }
    expect_little(row, call);
  }
}

// They go over the values, or the message, once each.
TEST(KernelTraffic, OfSparseCodecsIsOneGo) {
  Buffer message, values, other;
  std::vector<uint32_t> offsets(kCount / kCudaPiece);
  std::vector<uint64_t> starts(1), bins(kTopkBins);
  SparsePlan plan{kCount, SparseForm::kDense};
  TopkState state{.wanted = 1};
  const CudaSparseCall all{.message = message.data(),
                           .values = values.data(),
                           .count = kCount,
                           .form = static_cast<uint32_t>(SparseForm::kDense),
                           .offsets = offsets.data(),
                           .starts = starts.data(),
                           .plan = &plan};
  CudaSparseCall both = all;
  both.other = other.data();
  const CudaTopkCall topk{.values = values.data(),
                          .count = kCount,
                          .unknown = kTopkDigit,
                          .state = &state,
                          .bins = bins.data(),
                          .offsets = offsets.data()};
  const auto expect_goes = [](double goes, const auto& run, const auto& call) {
    test::traffic().bytes = 0;
    run(call);
    const double counted = static_cast<double>(test::traffic().bytes) / (kCount * sizeof(float));
    EXPECT_GE(counted, goes);
    EXPECT_LE(counted, kMost * goes);
  };
  expect_goes(1, run_counting_pieces<CountSparse<PiecesOfValues>, CudaSparseCall>, all);
  expect_goes(2, run_counting_pieces<WriteSparse, CudaSparseCall>, all);
  expect_goes(3, run_counting_pieces<WriteSparse, CudaSparseCall>, both);
  expect_goes(2, run_counting_pieces<ReadSparse<false>, CudaSparseCall>, all);
  expect_goes(3, run_counting_pieces<ReadSparse<true>, CudaSparseCall>, both);
  for (uint64_t piece = 0; piece < offsets.size(); ++piece)
    offsets[piece] = static_cast<uint32_t>(piece * kCudaPiece);
  plan.form = SparseForm::kList;  // words are half as long as values
  expect_goes(1.5, run_counting_pieces<WriteSigns, CudaSparseCall>, all);
  expect_goes(2.5, run_counting_pieces<WriteSigns, CudaSparseCall>, both);
  const std::vector<std::byte> bits(kCount / 8, std::byte{0xff});
  plan.form = SparseForm::kBitmap;
  CudaSparseCall chosen = all;
  chosen.form = static_cast<uint32_t>(SparseForm::kBitmap);
  chosen.bits = bits.data();
  constexpr double kBits = 1.0 / 32;
  expect_goes(2 + kBits, run_counting_pieces<WriteChosen, CudaSparseCall>, chosen);
  chosen.other = other.data();
  expect_goes(3 + kBits, run_counting_pieces<WriteChosen, CudaSparseCall>, chosen);
  expect_goes(1, run_counting_pieces<CountSpoilable, CudaSparseCall>, all);
  expect_goes(1, run_counting_pieces<CountTies, CudaTopkCall>, topk);
  const auto histogram = [](const CudaTopkCall& call) {
    for (unsigned block = 0; block < kCount / kCudaEach / kCudaThreads; ++block) {
      TopkHistogram::Shared shared{};
      for (unsigned i = 0; i < kCudaThreads; ++i)
        TopkHistogram::add(call, shared, {block, kCount / kCudaEach / kCudaThreads, i});
      test::traffic().end_of_work();
    }
  };
  expect_goes(1, histogram, topk);
}

TEST(KernelTraffic, OfCodedFoldsIsThatOfOperands) {
  std::vector<Buffer> buffers(9);
  for (const unsigned ranks : {2U, 3U, 8U})
    for (const auto& row : kCodedFolds) {
      CudaCodedFold call{.encode = {.message = buffers[8].data(), .count = kCount}, .ranks = ranks};
      for (unsigned rank = 0; rank < ranks; ++rank) call.sources[rank] = buffers[rank].data();
      expect_little(row, call);
    }
}

}  // namespace
}  // namespace banyan::kernel_traffic_test
