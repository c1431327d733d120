// Measures the speed of every kernel of every instruction set, in bytes of the destination per
// second.
//
//   "decode", "encode"  bytes of the accumulators, for "encode" of those read
//   combining           in place
//   "apart"             into a third buffer, as the engine combines a message with its caller's
//                       input, for sums alone: memory makes the difference, not arithmetic
//   memcpy              the yardstick of the machine
//   "plain"             what the compiler makes of a plain loop for the same instruction set (for
//                       "scalar": for what every processor of the kind has)
//   "int8_encode",      a codec, in bytes of its values; its row "memcpy" copies as many bytes as
//   "int8_decode_add"   it reads and writes, so that the rates of both compare. Its row "compiler"
//                       is what the compiler makes of the scalar codec for this processor, and
//                       "of_compiler" is how many times as fast as that a row is
//   "behind"            into memory that lies 16 bytes behind a page, as that of malloc does, from
//                       memory that begins at one, as slots do (copy.h)
// SPDX-License-Identifier: Apache-2.0

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/micro/compiler_kernels.h"
#include "bench/micro/plain_loops.h"
#include "compression/codecs.h"
#include "compression/kernels.h"
#include "src/base/copy.h"

namespace banyan {
namespace {

constexpr int64_t kSizes[] = {4 << 10, 64 << 10, 1 << 20};
// Beyond the caches all is memory, so that few kernels show it.
constexpr int64_t kFarSize = 64 << 20;

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
  std::byte* data() const { return bytes_; }

 private:
  std::byte* bytes_;
};

// Ones: however often they are multiplied, they stay numbers. Sums are given zeros to add.
void fill_ones(const Kernels& kernels, DataType type, std::byte* memory, size_t count) {
  if (count == 0) return;
  const size_t size = size_of(type);
  if (is_narrow_float(type)) {
    const float one = 1;
    kernels.encode[static_cast<size_t>(type) % kDataTypeCount](memory, &one, 1, 1);
  } else if (type == DataType::kFloat32) {
    const float one = 1;
    std::memcpy(memory, &one, size);
  } else if (type == DataType::kFloat64) {
    const double one = 1;
    std::memcpy(memory, &one, size);
  } else {
    memory[0] = std::byte{1};
  }
  for (size_t done = size; done < count * size; done *= 2) {
    std::memcpy(memory + done, memory, std::min(done, count * size - done));
  }
}

void finish(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * state.range(0));
}

template <typename Copy>
void run_copy(benchmark::State& state, Copy copy, size_t behind) {
  constexpr uintptr_t kPage = 4096;
  const auto size = static_cast<size_t>(state.range(0));
  Memory dst(size + kPage + behind);
  Memory src(size + kPage);
  const auto begin = [](Memory& memory) {
    return memory.data() + (-reinterpret_cast<uintptr_t>(memory.data()) % kPage);
  };
  while (state.KeepRunning()) {
    copy(begin(dst) + behind, begin(src), size);
    benchmark::ClobberMemory();
  }
  finish(state);
}

void run_memcpy(benchmark::State& state) {
  run_copy(state, std::memcpy, 0);
}

void run_memcpy_behind(benchmark::State& state) {
  run_copy(state, std::memcpy, 16);
}

void run_copy_bytes_behind(benchmark::State& state) {
  run_copy(state, copy_bytes, 16);
}

enum class Into { kLocal, kThird };

// local (+) incoming
void run_combine(benchmark::State& state, const Kernels& kernels, CombineKernel kernel,
                 DataType local_type, DataType incoming_type, ReduceOp op, Into into) {
  const auto size = static_cast<size_t>(state.range(0));
  const size_t count = size / size_of(local_type);
  Memory local(size);
  Memory incoming(count * size_of(incoming_type));
  Memory elsewhere(into == Into::kThird ? size : 0);
  std::byte* dst = into == Into::kThird ? elsewhere.data() : local.data();
  fill_ones(kernels, local_type, local.data(), count);
  if (op != ReduceOp::kSum) fill_ones(kernels, incoming_type, incoming.data(), count);
  while (state.KeepRunning()) {
    kernel(dst, local.data(), incoming.data(), count);
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

enum class CodecRun { kEncode, kEncodeAndKeep, kDecode, kDecodeAdd };

bool uses_result(CodecRun run) {
  return run != CodecRun::kEncode;
}

// What is read and written, in bytes.
uint64_t traffic(CodecRun run, uint64_t size, uint64_t message) {
  const bool once = run == CodecRun::kEncode || run == CodecRun::kDecode;
  return (once ? size : 2 * size) + message;
}

// A codec that says few values is given a thousandth to say.
Coding coding_of(CodecId codec) {
  switch (codec) {
    case kThreshold:
    case kSign: return {.parameter = 1};
    case kTopk:
    case kRandk: return {.parameter = 0.001, .seed = 1};
    default: return {};
  }
}

// Ones; or, for codecs that say few values, a thousandth of ones at random places among numbers
// below one half, and zeros for the one that says all others.
void fill_for(CodecId codec, const Kernels& kernels, std::byte* memory, size_t count) {
  if (codec < kThreshold) return fill_ones(kernels, DataType::kFloat32, memory, count);
  std::mt19937 random(1);
  for (size_t i = 0; i < count; i++) {
    const auto number = static_cast<uint32_t>(random());
    const float below = codec == kNonzero ? 0 : static_cast<float>(number) * 0x1p-33F;
    const float value = number % 1000 == 0 ? 1 : below;
    std::memcpy(memory + i * sizeof value, &value, sizeof value);
  }
}

// Values, and their message.
struct Coded {
  Coded(const Kernels& kernels, CodecId id, size_t size)
      : codec(kernels.codecs[id - size_t{1}]),
        coding(coding_of(id)),
        count(size / sizeof(float)),
        values(size),
        message(codec.capacity(coding, kType, count)) {
    fill_for(id, kernels, values.data(), count);
    said = codec.encode(coding, kType, values.data(), count, message.data(), nullptr);
  }

  static constexpr DataType kType = DataType::kFloat32;
  const Codec& codec;
  Coding coding;
  size_t count;
  Memory values;
  Memory message;
  Encoded said;
};

// A call of the compiler's loops took so many seconds of a core, by name and size.
using CompilerTimes = std::map<std::pair<std::string, int64_t>, double>;

void code(const Coded& coded, CodecRun run, std::byte* result) {
  const CodecMessage view = {coded.message.data(), coded.said.size, coded.said.flags};
  switch (run) {
    case CodecRun::kEncode:
    case CodecRun::kEncodeAndKeep:
      coded.codec.encode(coded.coding, Coded::kType, coded.values.data(), coded.count,
                         coded.message.data(), result);
      break;
    case CodecRun::kDecode:
      coded.codec.decode(coded.coding, Coded::kType, view, coded.count, result);
      break;
    case CodecRun::kDecodeAdd:
      coded.codec.decode_add(coded.coding, Coded::kType, view, coded.count, coded.values.data(),
                             result);
      break;
  }
}

// `what`: the codec, and what it does.
void run_coding(benchmark::State& state, const Kernels& kernels, CodecId id, CodecRun run,
                const std::string& what, CompilerTimes& times) {
  const auto size = static_cast<size_t>(state.range(0));
  const Coded coded(kernels, id, size);
  Memory result(uses_result(run) ? size : 0);
  std::byte* to = uses_result(run) ? result.data() : nullptr;
  const std::clock_t start = std::clock();
  while (state.KeepRunning()) {
    code(coded, run, to);
    benchmark::ClobberMemory();
  }
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC /
                         static_cast<double>(state.iterations());
  finish(state);
  const std::pair row(what, state.range(0));
  if (&kernels == &compiler_table) times[row] = seconds;
  if (times.contains(row) && seconds > 0) state.counters["of_compiler"] = times.at(row) / seconds;
}

void run_memcpy_of_traffic(benchmark::State& state, CodecId id, CodecRun run) {
  const auto size = static_cast<size_t>(state.range(0));
  const uint64_t half = traffic(run, size, Coded(best_kernels(), id, size).said.size) / 2;
  Memory src(half);
  Memory dst(half);
  while (state.KeepRunning()) {
    std::memcpy(dst.data(), src.data(), half);
    benchmark::ClobberMemory();
  }
  finish(state);
}

template <typename Run>
void add(const std::string& name, bool far, Run run) {
  auto* entry = benchmark::RegisterBenchmark(name.c_str(), run);
  for (const int64_t size : kSizes) entry->Arg(size);
  if (far) entry->Arg(kFarSize);
}

// What gradients are.
bool is_common(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kBfloat16;
}

std::string named(std::string_view kernel, std::string_view detail, DataType type,
                  const Kernels& kernels) {
  std::string name(kernel);
  for (const std::string_view part :
       {detail, std::string_view("/"), name_of(type), std::string_view("/"), kernels.name}) {
    name += part;
  }
  return name;
}

// A kernel that has elements on both sides, or a plain loop in its place.
void add_combine(std::string_view what, const Kernels& kernels, CombineKernel kernel, DataType type,
                 ReduceOp op) {
  const bool sum = op == ReduceOp::kSum;
  const auto add_one = [&](const std::string& name, Into into) {
    add(name, sum && is_common(type), [&kernels, kernel, type, op, into](benchmark::State& state) {
      run_combine(state, kernels, kernel, type, type, op, into);
    });
  };
  add_one(named(std::string(what) + "_", name_of(op), type, kernels), Into::kLocal);
  if (sum) add_one(named(std::string(what) + "_apart_", name_of(op), type, kernels), Into::kThird);
}

void add_type(const Kernels& kernels, const PlainLoops* plain, DataType type) {
  const auto t = static_cast<size_t>(type);
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin}) {
    const auto o = static_cast<size_t>(op);
    add_combine("reduce", kernels, kernels.reduce[t][o], type, op);
    if (plain != nullptr && plain->reduce[t][o] != nullptr) {
      add_combine("plain", kernels, plain->reduce[t][o], type, op);
    }
    const DataType wide = accumulator_of(type, op);
    if (wide == type) continue;
    add(named("decode_reduce_", name_of(op), type, kernels), false,
        [&kernels, type, wide, op, t, o](benchmark::State& state) {
          run_combine(state, kernels, kernels.decode_reduce[t][o], wide, type, op, Into::kLocal);
        });
  }
  add(named("decode", "", type, kernels), false,
      [&kernels, type](benchmark::State& state) { run_decode(state, kernels, type); });
  for (const int divisor : {1, 3}) {
    add(named("encode_", std::to_string(divisor), type, kernels), false,
        [&kernels, type, divisor](benchmark::State& state) {
          run_encode(state, kernels, type, divisor);
        });
  }
}

void add_codec(CodecId id, CompilerTimes& times) {
  constexpr std::pair<CodecRun, std::string_view> kRuns[] = {
      {CodecRun::kEncode, "_encode"},
      {CodecRun::kEncodeAndKeep, "_encode_and_keep"},
      {CodecRun::kDecode, "_decode"},
      {CodecRun::kDecodeAdd, "_decode_add"}};
  for (const auto& [run, what] : kRuns) {
    const std::string name =
        std::string(codecs()[id - size_t{1}].name) + std::string(what) + "/float32/";
    add(name + "memcpy", true,
        [id, run = run](benchmark::State& state) { run_memcpy_of_traffic(state, id, run); });
    std::vector<const Kernels*> tables{&compiler_table};
    for (const Kernels* kernels : available_kernels()) tables.push_back(kernels);
    for (const Kernels* kernels : tables) {
      add(name + std::string(kernels->name), true,
          [kernels, id, run = run, name, &times](benchmark::State& state) {
            run_coding(state, *kernels, id, run, name, times);
          });
    }
  }
}

}  // namespace
}  // namespace banyan

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  banyan::add("memcpy", true, banyan::run_memcpy);
  banyan::add("memcpy_behind", false, banyan::run_memcpy_behind);
  banyan::add("copy_bytes_behind", false, banyan::run_copy_bytes_behind);
  banyan::CompilerTimes times;
  for (size_t i = 0; i < banyan::codecs().size(); i++) {
    banyan::add_codec(static_cast<banyan::CodecId>(i + 1), times);
  }
  const auto tables = banyan::available_kernels();
  const auto loops = banyan::available_plain_loops();
  for (int type = 0; type < banyan::kDataTypeCount; type++) {
    for (size_t i = 0; i < tables.size(); i++) {
      const banyan::PlainLoops* plain = i < loops.size() ? loops[i] : nullptr;
      banyan::add_type(*tables[i], plain, static_cast<banyan::DataType>(type));
    }
  }
  benchmark::RunSpecifiedBenchmarks();
}
