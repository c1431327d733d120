// Measures the kernels for GPUs beside the driver's own copy on the device, cuMemcpyDtoDAsync,
// which moves the same number of bytes, read and written together. Both take turns, and each time
// they have memory that no cache holds. What is printed is the median of the rounds, by the
// device's clock: 10^9 bytes a second, and the kernel's part of the copy's rate.
//
//   usage: cuda_kernels_bench [ROUNDS]      exit status 77 where there is no GPU, or no nvcc was
//
// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "compression/codecs.h"
#include "compression/cuda/codecs.h"
#include "compression/cuda/folds.h"
#include "compression/cuda/kernels.h"
#include "compression/cuda/onebit.h"
#include "compression/cuda/sparse.h"
#include "compression/cuda/topk.h"

namespace banyan {
namespace {

using Address = CudaFunctions::Address;
using Handle = CudaFunctions::Handle;

constexpr size_t kArena = size_t{4} << 30;
// One of 500 of the device's numbers is larger.
constexpr double kFew = 1.99609375;
constexpr int kLaunches = 4;  // of a round, so that the clock's steps do not show

[[noreturn]] void leave(int status, const std::string& why) {
  fmt::print("{}\n", why);
  std::exit(status);  // NOLINT(concurrency-mt-unsafe): there is one thread
}

void must(int result, const char* call) {
  if (result != kCudaSuccess) leave(1, fmt::format("{} failed: {}", call, result));
}

void must(const Status& status) {
  if (!status.ok()) leave(1, std::string(status.message()));
}

// Memory that is given out from its beginning to its end, over and over.
struct Arena {
  Address memory = 0;
  size_t used = 0;

  Address next(size_t bytes) {
    const size_t whole = (bytes + 4095) / 4096 * 4096;
    if (used + whole > kArena) used = 0;
    used += whole;
    return memory + used - whole;
  }
};

// The device with random numbers in its memory, and a clock.
class Device {
 public:
  explicit Device(const CudaFunctions& functions) : cuda(functions) {
    int count = 0;
    if (cuda.init == nullptr || cuda.init(0) != kCudaSuccess ||
        cuda.device_count(&count) != kCudaSuccess || count == 0) {
      leave(77, "skipped: no GPU");
    }
    int device = 0;
    Handle context = nullptr;
    must(cuda.device(&device, 0), "cuDeviceGet");
    must(cuda.retain_context(&context, device), "cuDevicePrimaryCtxRetain");
    must(cuda.set_context(context), "cuCtxSetCurrent");
    must(cuda.create_stream(&stream, 1), "cuStreamCreate");
    must(cuda.create_event(&begin_, 0), "cuEventCreate");
    must(cuda.create_event(&end_, 0), "cuEventCreate");
    must(cuda.allocate(&sources_.memory, kArena), "cuMemAlloc");
    must(cuda.allocate(&results_.memory, kArena), "cuMemAlloc");
    char name[256] = {};
    (void)cuda.name(name, sizeof name, device);
    fmt::print("{}, median of interleaved rounds of {} launches\n", name, kLaunches);
    std::mt19937_64 random(1);
    std::vector<uint64_t> bytes((size_t{64} << 20) / 8);
    // In bfloat16 these are from a half to two, and ordinary numbers in all types.
    std::generate(bytes.begin(), bytes.end(),
                  [&random] { return (random() & 0x80ff80ff80ff80ff) | 0x3f003f003f003f00; });
    for (size_t at = 0; at < kArena; at += bytes.size() * 8) {
      must(cuda.to_device(sources_.memory + at, bytes.data(), bytes.size() * 8, stream),
           "cuMemcpyHtoD");
    }
    must(cuda.synchronize(), "cuCtxSynchronize");
  }

  // Memory that was not used lately: of numbers, or to write to.
  Address source(size_t bytes) { return sources_.next(bytes); }
  Address result(size_t bytes) { return results_.next(bytes); }

  template <typename Work>
  double milliseconds(const Work& work) {
    must(cuda.record_event(begin_, stream), "cuEventRecord");
    for (int i = 0; i < kLaunches; i++) work();
    must(cuda.record_event(end_, stream), "cuEventRecord");
    must(cuda.synchronize_stream(stream), "cuStreamSynchronize");
    float elapsed = 0;
    must(cuda.elapsed(&elapsed, begin_, end_), "cuEventElapsedTime");
    return elapsed / kLaunches;
  }

  CudaFunctions cuda;
  Handle stream = nullptr;

 private:
  Handle begin_ = nullptr;
  Handle end_ = nullptr;
  Arena sources_;
  Arena results_;
};

void* pointer(Address address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver has given it as a number
  return reinterpret_cast<void*>(address);
}

std::byte* bytes_at(Address address) {
  return static_cast<std::byte*>(pointer(address));
}

// One kernel on `count` elements: bytes read and written, and its launch.
struct Case {
  std::string name;
  size_t bytes;
  std::function<void()> launch;
  std::vector<double> own{};
  std::vector<double> copies{};
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct LoadedKernels {
  CudaKernels sums;
  CudaCodecs codecs;
  CudaFolds folds;
  CudaSparse sparse;
  CudaTopk topk;
  CudaOnebit onebit;
};

class Cases {
 public:
  Cases(Device& device, const LoadedKernels& kernels, size_t dst_bytes)
      : device_(device),
        kernels_(kernels.sums),
        codecs_(kernels.codecs),
        folds_(kernels.folds),
        sparse_(kernels.sparse),
        topk_(kernels.topk),
        onebit_(kernels.onebit),
        dst_bytes_(dst_bytes) {}

  void add_type(DataType type) {
    const DataType wide = accumulator_of(type, ReduceOp::kSum);
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
      add_combine("reduce", &CudaKernels::reduce, type, op, type, 0);
      if (accumulator_of(type, op) != type) {
        add_combine("decode_reduce", &CudaKernels::decode_reduce, type, op, wide, 0);
      }
    }
    add_decode(type, wide);
    add_encode(type, wide, 1);
  }

  // float32, of which there are as many bytes as a destination has.
  void add_codec(CodecId codec) {
    const size_t count = dst_bytes_ / sizeof(float);
    const Codec& own = codecs()[codec - size_t{1}];
    const size_t message = own.capacity({}, DataType::kFloat32, count);
    const std::string name(own.name);
    add(name + " encode", DataType::kFloat32, dst_bytes_ + message, [=, this] {
      must(codecs_.encode(codec, {}, DataType::kFloat32, bytes_at(device_.source(dst_bytes_)),
                          count, bytes_at(device_.result(message)), nullptr, device_.stream));
    });
    add(name + " encode and keep", DataType::kFloat32, 2 * dst_bytes_ + message, [=, this] {
      must(codecs_.encode(codec, {}, DataType::kFloat32, bytes_at(device_.source(dst_bytes_)),
                          count, bytes_at(device_.result(message)),
                          bytes_at(device_.result(dst_bytes_)), device_.stream));
    });
    add(name + " decode", DataType::kFloat32, dst_bytes_ + message, [=, this] {
      must(codecs_.decode(codec, DataType::kFloat32, bytes_at(device_.source(message)), count,
                          bytes_at(device_.result(dst_bytes_)), device_.stream));
    });
    add(name + " decode-add", DataType::kFloat32, 2 * dst_bytes_ + message, [=, this] {
      must(codecs_.decode_add(codec, DataType::kFloat32, bytes_at(device_.source(message)), count,
                              bytes_at(device_.source(dst_bytes_)),
                              bytes_at(device_.result(dst_bytes_)), device_.stream));
    });
  }

  void add_onebit() {
    const size_t count = dst_bytes_ / sizeof(float);
    const size_t message = CudaOnebit::message_bytes(count);
    const auto encode = [=, this](std::byte* left) {
      must(onebit_.encode(DataType::kFloat32, bytes_at(device_.source(dst_bytes_)), count,
                          bytes_at(device_.result(message)), left, device_.stream));
    };
    add("onebit encode", DataType::kFloat32, dst_bytes_ + message, [=] { encode(nullptr); });
    add("onebit encode and keep", DataType::kFloat32, 2 * dst_bytes_ + message,
        [=, this] { encode(bytes_at(device_.result(dst_bytes_))); });
    add("onebit decode-add", DataType::kFloat32, 2 * dst_bytes_ + message, [=, this] {
      must(onebit_.decode_add(DataType::kFloat32, {bytes_at(device_.source(message)), message - 1},
                              count, bytes_at(device_.source(dst_bytes_)),
                              bytes_at(device_.result(dst_bytes_)), device_.stream));
    });
  }

  // Few of the values are said, so that bytes are those of vectors: read once, though the kernels
  // go over them more often, and what is left.
  void add_sparse() {
    const size_t count = dst_bytes_ / sizeof(float);
    const auto encode = [=, this](CodecId codec, std::byte* left) {
      const Coding coding{.parameter = codec == kRandk ? 0.001 : kFew};
      must(sparse_.encode(codec, coding, bytes_at(device_.source(dst_bytes_)), count,
                          bytes_at(device_.result(dst_bytes_ + 1)), left,
                          bytes_at(device_.result(CudaSparse::room(codec, count))),
                          static_cast<uint64_t*>(pointer(device_.result(sizeof(uint64_t)))),
                          device_.stream));
    };
    for (const CodecId codec : {kThreshold, kSign, kRandk}) {
      const std::string name(codecs()[codec - size_t{1}].name);
      add(name + " encode", DataType::kFloat32, dst_bytes_, [=] { encode(codec, nullptr); });
      add(name + " encode and keep", DataType::kFloat32, 2 * dst_bytes_,
          [=, this] { encode(codec, bytes_at(device_.result(dst_bytes_))); });
    }
    add("topk select", DataType::kFloat32, dst_bytes_, [=, this] {
      must(topk_.select({.parameter = 0.001}, bytes_at(device_.source(dst_bytes_)), count,
                        static_cast<Selection*>(pointer(device_.result(sizeof(Selection)))),
                        bytes_at(device_.result(CudaTopk::room(count))), device_.stream));
    });
  }

  // What so many ranks have.
  void add_fold(DataType type, size_t ranks) {
    const size_t count = dst_bytes_ / size_of(type);
    add(fmt::format("fold {} ranks", ranks), type, (ranks + 1) * dst_bytes_, [=, this] {
      must(folds_.fold(type, ReduceOp::kSum, bytes_at(device_.result(dst_bytes_)),
                       sources_of(ranks, dst_bytes_), count, 1, device_.stream));
    });
  }

  // Messages of that codec, which have as many bytes as a destination has: their values are more.
  void add_coded_fold(CodecId codec, size_t ranks) {
    const Codec& own = codecs()[codec - size_t{1}];
    const size_t count = dst_bytes_ / own.capacity({}, DataType::kFloat32, own.unit) * own.unit;
    const size_t message = own.capacity({}, DataType::kFloat32, count);
    const std::string name = fmt::format("{} fold {} ranks", own.name, ranks);
    add(name, DataType::kFloat32, (ranks + 1) * message, [=, this] {
      must(codecs_.fold(codec, {}, DataType::kFloat32, sources_of(ranks, message), count,
                        bytes_at(device_.result(message)), device_.stream));
    });
  }

  // The sources begin one element behind a boundary of packs, the destination at one.
  void add_shifted(DataType type) {
    add_combine("shifted reduce", &CudaKernels::reduce, type, ReduceOp::kSum, type, 1);
  }

  void add_encode(DataType type, DataType wide, int divisor) {
    const size_t count = dst_bytes_ / size_of(type);
    const size_t src_bytes = count * size_of(wide);
    add("encode / " + std::to_string(divisor), type, dst_bytes_ + src_bytes, [=, this] {
      must(kernels_.encode(type, pointer(device_.result(dst_bytes_)),
                           pointer(device_.source(src_bytes)), count, divisor, device_.stream));
    });
  }

  void run(int rounds) {
    for (int round = -1; round < rounds; round++) {
      for (Case& one : cases_) {
        const double own = device_.milliseconds(one.launch);
        const double copy = device_.milliseconds([&] {
          const size_t half = one.bytes / 2;
          const Address from = device_.source(half);
          must(device_.cuda.on_device(device_.result(half), from, half, device_.stream),
               "cuMemcpyDtoD");
        });
        if (round < 0) continue;  // the first warms up
        one.own.push_back(own);
        one.copies.push_back(copy);
      }
    }
    fmt::print("{} MiB of destination, {} rounds\n{:<34}{:>10}{:>10}{:>8}\n", dst_bytes_ >> 20,
               rounds, "", "GB/s", "copy", "%");
    for (const Case& one : cases_) {
      const auto rate = [&](double ms) { return static_cast<double>(one.bytes) / ms / 1e6; };
      const double own = rate(median(one.own));
      const double copy = rate(median(one.copies));
      fmt::print("{:<34}{:>10.0f}{:>10.0f}{:>8.1f}\n", one.name, own, copy, 100 * own / copy);
    }
  }

 private:
  using Combine = Status (CudaKernels::*)(DataType, ReduceOp, void*, const void*, const void*,
                                          size_t, CudaKernels::Stream) const;

  void add_combine(const std::string& verb, Combine combine, DataType type, ReduceOp op,
                   DataType local, size_t shift) {
    const size_t count = dst_bytes_ / size_of(local) - shift;
    const size_t src_bytes = dst_bytes_ / size_of(local) * size_of(type);
    add(verb + " " + std::string(name_of(op)), type, 2 * dst_bytes_ + src_bytes, [=, this] {
      void* dst = pointer(device_.result(dst_bytes_));
      const void* a = pointer(device_.source(dst_bytes_) + shift * size_of(local));
      const void* b = pointer(device_.source(src_bytes) + shift * size_of(type));
      must((kernels_.*combine)(type, op, dst, a, b, count, device_.stream));
    });
  }

  void add_decode(DataType type, DataType wide) {
    const size_t count = dst_bytes_ / size_of(wide);
    const size_t src_bytes = count * size_of(type);
    add("decode", type, dst_bytes_ + src_bytes, [=, this] {
      must(kernels_.decode(type, pointer(device_.result(dst_bytes_)),
                           pointer(device_.source(src_bytes)), count, nullptr, device_.stream));
    });
  }

  std::vector<const std::byte*> sources_of(size_t ranks, size_t bytes) {
    std::vector<const std::byte*> sources(ranks);
    for (const std::byte*& source : sources) source = bytes_at(device_.source(bytes));
    return sources;
  }

  void add(const std::string& verb, DataType type, size_t bytes, std::function<void()> launch) {
    cases_.push_back({verb + " " + std::string(name_of(type)), bytes, std::move(launch)});
  }

  Device& device_;
  const CudaKernels& kernels_;
  const CudaCodecs& codecs_;
  const CudaFolds& folds_;
  const CudaSparse& sparse_;
  const CudaTopk& topk_;
  const CudaOnebit& onebit_;
  size_t dst_bytes_;
  std::vector<Case> cases_;
};

template <class Kernels>
Kernels loaded(const CudaFunctions& cuda) {
  Result<Kernels> kernels = Kernels::load(cuda);
  must(kernels.status());
  return std::move(*kernels);
}

void measure(int rounds) {
  if (cuda_image().fatbin == nullptr) leave(77, "skipped: this build has no kernels: no nvcc");
  const auto cuda = open_cuda_driver();
  if (!cuda) leave(77, "skipped: there is no libcuda.so.1");
  Device device(*cuda);
  const LoadedKernels kernels{loaded<CudaKernels>(*cuda), loaded<CudaCodecs>(*cuda),
                              loaded<CudaFolds>(*cuda),   loaded<CudaSparse>(*cuda),
                              loaded<CudaTopk>(*cuda),    loaded<CudaOnebit>(*cuda)};
  for (const size_t mebibytes : {64, 256}) {
    Cases cases(device, kernels, mebibytes << 20);
    for (const DataType type :
         {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8E4m3,
          DataType::kFloat8E5m2, DataType::kInt8, DataType::kInt32, DataType::kFloat64}) {
      cases.add_type(type);
    }
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kInt8}) {
      const DataType wide = accumulator_of(type, ReduceOp::kSum);
      cases.add_encode(type, wide, 3);
      cases.add_shifted(type);
    }
    for (const CodecId codec : {kInt8, kInt4, kDyn8, kE4m3, kE5m2}) cases.add_codec(codec);
    cases.add_onebit();
    cases.add_sparse();
    for (const size_t ranks : {2, 4, 8}) {
      for (const DataType type : {DataType::kFloat32, DataType::kBfloat16})
        cases.add_fold(type, ranks);
      for (const CodecId codec : {kInt8, kInt4, kE4m3, kE5m2}) cases.add_coded_fold(codec, ranks);
    }
    cases.run(rounds);
  }
}

}  // namespace
}  // namespace banyan

int main(int argc, char** argv) {
  banyan::measure(argc > 1 ? std::max(1, std::atoi(argv[1])) : 25);
}
