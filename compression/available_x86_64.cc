// Which instruction sets this x86-64 machine and its operating system offer.
// SPDX-License-Identifier: Apache-2.0

#include <cpuid.h>

#include "compression/kernel_tables.h"

namespace banyan {
namespace {

// The one bit that clang 14's __builtin_cpu_supports does not know by name.
bool has_f16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

size_t count_available() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !has_f16c()) return 1;
  if (!has_avx512()) return 2;
  return __builtin_cpu_supports("avx512bf16") ? 4 : 3;
}

}  // namespace

std::span<const Kernels* const> available_kernels() {
  static constexpr const Kernels* kTables[] = {&scalar_table, &avx2_table, &avx512_table,
                                               &avx512_bf16_table};
  static const size_t count = count_available();  // cpuid takes 20 us in a virtual machine
  return std::span(kTables).first(count);
}

}  // namespace banyan
