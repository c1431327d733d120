// Speed of every kernel of every instruction set, in place as the engine calls them, in bytes of
// the destination per second ("decode": of the accumulators; "encode": of the accumulators read).
// memcpy is the yardstick of the machine, and the scalar table that of plain loops: it is what the
// compiler makes of them at -O3 without an instruction set.
// SPDX-License-Identifier: Apache-2.0

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "compression/kernels.h"

namespace banyan {
namespace {

constexpr int64_t kSizes[] = {4 << 10, 64 << 10, 1 << 20, 64 << 20};

// Aligned as the library's own memory is, and touched, so that no page fault is measured.
class Memory {
 public:
  explicit Memory(size_t size)
      : bytes_(static_cast<std::byte*>(operator new[](size, std::align_val_t{4096}))) {
    std::memset(bytes_, 0, size);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { operator delete[](bytes_, std::align_val_t{4096}); }
  std::byte* data() { return bytes_; }

 private:
  std::byte* bytes_;
};

// Ones: however often they are multiplied, they stay numbers. Sums are given zeros to add.
void fill_ones(const Kernels& kernels, DataType type, std::byte* memory, size_t count) {
  const bool wide_float = type == DataType::kFloat32 || type == DataType::kFloat64;
  for (size_t i = 0; i < count; i++) {
    if (is_narrow_float(type)) {
      const float one = 1;
      kernels.encode[static_cast<size_t>(type) % kDataTypeCount](memory + i * size_of(type), &one,
                                                                 1, 1);
    } else if (wide_float && size_of(type) == 4) {
      const float one = 1;
      std::memcpy(memory + i * 4, &one, 4);
    } else if (wide_float) {
      const double one = 1;
      std::memcpy(memory + i * 8, &one, 8);
    } else {
      memory[i * size_of(type)] = std::byte{1};
    }
  }
}

void finish(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * state.range(0));
}

void run_copy(benchmark::State& state) {
  const auto size = static_cast<size_t>(state.range(0));
  Memory dst(size);
  Memory src(size);
  while (state.KeepRunning()) {
    std::memcpy(dst.data(), src.data(), size);
    benchmark::ClobberMemory();
  }
  finish(state);
}

// local (+)= incoming
void run_combine(benchmark::State& state, const Kernels& kernels, CombineKernel kernel,
                 DataType local_type, DataType incoming_type, ReduceOp op) {
  const auto size = static_cast<size_t>(state.range(0));
  const size_t count = size / size_of(local_type);
  Memory local(size);
  Memory incoming(count * size_of(incoming_type));
  fill_ones(kernels, local_type, local.data(), count);
  if (op != ReduceOp::kSum) fill_ones(kernels, incoming_type, incoming.data(), count);
  while (state.KeepRunning()) {
    kernel(local.data(), local.data(), incoming.data(), count, nullptr);
    benchmark::ClobberMemory();
  }
  finish(state);
}

void run_decode(benchmark::State& state, const Kernels& kernels, DataType type) {
  const auto size = static_cast<size_t>(state.range(0));
  const size_t count = size / size_of(accumulator_of(type, ReduceOp::kSum));
  Memory dst(size);
  Memory src(count * size_of(type));
  Memory scalar(size_of(type));
  fill_ones(kernels, type, src.data(), count);
  fill_ones(kernels, type, scalar.data(), 1);
  while (state.KeepRunning()) {
    kernels.decode[static_cast<size_t>(type)](dst.data(), src.data(), count, scalar.data());
    benchmark::ClobberMemory();
  }
  finish(state);
}

void run_encode(benchmark::State& state, const Kernels& kernels, DataType type, int divisor) {
  const auto size = static_cast<size_t>(state.range(0));
  const DataType wide = accumulator_of(type, ReduceOp::kSum);
  const size_t count = size / size_of(wide);
  Memory dst(count * size_of(type));
  Memory src(size);
  fill_ones(kernels, wide, src.data(), count);
  while (state.KeepRunning()) {
    kernels.encode[static_cast<size_t>(type)](dst.data(), src.data(), count, divisor);
    benchmark::ClobberMemory();
  }
  finish(state);
}

template <typename Run>
void add(const std::string& name, Run run) {
  auto* entry = benchmark::RegisterBenchmark(name.c_str(), run);
  for (const int64_t size : kSizes) entry->Arg(size);
}

void add_type(const Kernels& kernels, DataType type) {
  const auto t = static_cast<size_t>(type);
  const auto named = [&kernels, type](std::string_view kernel, std::string_view detail) {
    std::string name(kernel);
    for (const std::string_view part :
         {detail, std::string_view("/"), name_of(type), std::string_view("/"), kernels.name}) {
      name += part;
    }
    return name;
  };
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin}) {
    const auto o = static_cast<size_t>(op);
    add(named("reduce_", name_of(op)), [&kernels, type, op, t, o](benchmark::State& state) {
      run_combine(state, kernels, kernels.reduce[t][o], type, type, op);
    });
    const DataType wide = accumulator_of(type, op);
    if (wide == type) continue;
    add(named("decode_reduce_", name_of(op)),
        [&kernels, type, wide, op, t, o](benchmark::State& state) {
          run_combine(state, kernels, kernels.decode_reduce[t][o], wide, type, op);
        });
  }
  add(named("decode", ""),
      [&kernels, type](benchmark::State& state) { run_decode(state, kernels, type); });
  for (const int divisor : {1, 3}) {
    add(named("encode_", std::to_string(divisor)),
        [&kernels, type, divisor](benchmark::State& state) {
          run_encode(state, kernels, type, divisor);
        });
  }
}

}  // namespace
}  // namespace banyan

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  banyan::add("memcpy", banyan::run_copy);
  for (int type = 0; type < banyan::kDataTypeCount; type++) {
    for (const banyan::Kernels* kernels : banyan::available_kernels()) {
      banyan::add_type(*kernels, static_cast<banyan::DataType>(type));
    }
  }
  benchmark::RunSpecifiedBenchmarks();
}
