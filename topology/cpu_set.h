// A set of logical processors, by the numbers that the operating system gives them.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/status.h"

namespace banyan {

// Linux counts to 8,192 at most (CONFIG_NR_CPUS on x86-64 with MAXSMP); more is a broken text.
inline constexpr int kMostCpus = 65536;

// A value. Numbers are from 0 to kMostCpus - 1.
class CpuSet {
 public:
  void add(int cpu);
  bool has(int cpu) const;
  bool empty() const { return words_.empty(); }
  int count() const;
  std::vector<int> numbers() const;  // ascending
  bool contains(const CpuSet& other) const;
  CpuSet& operator|=(const CpuSet& other);
  CpuSet& operator&=(const CpuSet& other);
  friend bool operator==(const CpuSet&, const CpuSet&) = default;

  // "0-3,8,10-11", as sysfs writes a list; empty for the empty set.
  std::string list() const;
  // "00000000,0000ffff": groups of 32 bits, highest first, as sysfs and NCCL write a mask.
  std::string mask() const;

 private:
  void trim();

  std::vector<uint64_t> words_;  // the last is not 0, so that equal sets compare equal
};

// kInvalidArgument quotes the text and says what would be right. A blank text is the empty set.
Result<CpuSet> parse_cpu_list(std::string_view text);
Result<CpuSet> parse_cpu_mask(std::string_view text);

}  // namespace banyan
