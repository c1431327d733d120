// Outputs against the reference, and against those of other ranks.
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/validate.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>

#include "algorithms/problem.h"
#include "bench/perf/elements.h"
#include "bench/perf/reference.h"

namespace banyan::perf {

namespace {

constexpr int kNothing = 0x5a;  // what an output holds before a validated call

std::string name_of_run(const Work& work) {
  return fmt::format("{} of {} {}", name_of(work.which.pattern), work.which.count,
                     name_of(work.options.type));
}

void tell(const std::string& text) {
  std::fputs(text.c_str(), stderr);
}

uint64_t tell_wrong_elements(const Work& work, const Checked& checked) {
  std::string text;
  for (const Wrong& wrong : checked.first)
    text += fmt::format("banyan_perf: wrong element: {}, rank {}, index {}: got {}, expected {}\n",
                        name_of_run(work), work.which.rank, wrong.index,
                        to_text(work.options.type, wrong.got),
                        to_text(work.options.type, wrong.expected));
  tell(text);
  return checked.wrong;
}

// Known inputs, and outputs that hold nothing of an earlier call.
Status prepare(const Work& work) {
  if (work.output != nullptr && !work.layout.one_buffer)
    std::memset(work.output, kNothing, work.bytes_of(work.layout.output));
  if (work.layout.one_buffer)
    std::memset(std::min(work.input, work.output), kNothing, work.bytes_of(work.layout.span));
  BANYAN_TRY(write_input(work));
  return move_all(work, &Memory::upload);
}

std::span<const std::byte> input_of(const Work& work) {
  return {work.input, work.bytes_of(work.layout.input)};
}
std::span<const std::byte> output_of(const Work& work) {
  return {work.output, work.bytes_of(work.layout.output)};
}

// Tells, where all ranks must have the same output, whether they do, by its digest. A rank that
// differs from rank 0 says so.
Result<bool> same_everywhere(const Work& work, uint64_t digest) {
  const auto digests = work.job.allgather(digest);
  if (!digests.ok()) return digests.status();
  if (digest != digests->front())
    tell(fmt::format("banyan_perf: {}: the bits at rank {} differ from those at rank 0\n",
                     name_of_run(work), work.which.rank));
  return std::all_of(digests->begin(), digests->end(),
                     [&](uint64_t other) { return other == digests->front(); });
}

// Counts the wrong elements that this rank finds. Ranks that are known to hold the same bits check
// a part each; otherwise every rank checks all of its own.
Result<uint64_t> wrong_here(const Work& work, uint64_t digest, std::optional<uint64_t> right) {
  uint64_t begin = 0;
  uint64_t end = work.layout.output;
  bool alike = true;
  if (is_replicated(work.which.pattern)) {
    const auto same = same_everywhere(work, digest);
    if (!same.ok()) return same.status();
    alike = *same;
    if (alike) {
      const Part part = part_of(work.layout.output, work.which.size, work.which.rank);
      begin = part.begin;
      end = part.begin + part.count;
    }
  }
  uint64_t wrong = 0;
  if (digest != right)
    wrong = tell_wrong_elements(work, check_output(work.which, work.data, work.options.op,
                                                   work.output, begin, end, work.loss_share));
  // Bits that differ within what is accepted are wrong all the same; counted once, at rank 0.
  if (!alike && wrong == 0 && work.which.rank == 0) wrong = 1;
  return wrong;
}

}  // namespace

Result<uint64_t> validate(const Work& work, std::optional<uint64_t>& right) {
  BANYAN_TRY(prepare(work));
  const uint64_t input_before = digest_of(input_of(work));
  BANYAN_TRY(work.job.patient_barrier());
  const banyan_result_t result = run_once(work.call);
  if (result != BANYAN_SUCCESS) return status_of(result, work.job.comm());
  BANYAN_TRY(move_all(work, &Memory::download));
  const uint64_t digest = digest_of(output_of(work));
  auto wrong = wrong_here(work, digest, right);
  if (!wrong.ok()) return wrong;
  if (!work.layout.one_buffer && digest_of(input_of(work)) != input_before) {
    tell(fmt::format("banyan_perf: {}: the call changed the send buffer of rank {}\n",
                     name_of_run(work), work.which.rank));
    ++*wrong;
  }
  // Some ranks have much more to check than others.
  BANYAN_TRY(work.job.patient_barrier());
  auto total = work.job.sum(*wrong);
  if (total.ok() && *total == 0) right = digest;
  return total;
}

}  // namespace banyan::perf
