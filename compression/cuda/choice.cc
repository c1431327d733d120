// SPDX-License-Identifier: Apache-2.0

#include "compression/cuda/choice.h"

#include <algorithm>

namespace banyan {

Result<CudaChoice> CudaChoice::find_in(std::shared_ptr<const CudaModule> module) {
  CudaChoice choice(std::move(module));
  BANYAN_TRY(choice.find_all());
  return choice;
}

Status CudaChoice::find_all() {
  constexpr std::array<const char*, kKernels> kNames{"choice_cut", "choice_fill"};
  return module_->find_all(kNames, kernels_);
}

Status CudaChoice::launch(Kernel kernel, CudaChoiceCall call, Stream stream) const {
  const uint64_t blocks = std::min(choice_spans(call.count, call.log), kMostCudaBlocks);
  return module_->launch(kernels_[kernel], static_cast<unsigned>(blocks), &call, stream);
}

Status CudaChoice::choose(const Coding& coding, uint64_t count, uint64_t wanted, std::byte* room,
                          Stream stream) const {
  if (count == 0) return {};
  const bool all_but = wanted > count / 2;
  const auto low = [](uint64_t value) { return static_cast<uint32_t>(value); };
  const auto high = [](uint64_t value) { return static_cast<uint32_t>(value >> 32); };
  CudaChoiceCall call{.count = count,
                      .wanted = all_but ? count - wanted : wanted,
                      .key = {low(coding.seed), high(coding.seed)},
                      .step = low(coding.step) ^ high(coding.step),
                      .log = choice_log(count),
                      .all_but = all_but ? 1U : 0U};
  auto* next = reinterpret_cast<uint32_t*>(room + choice_bits(count));
  while (call.log > kChoiceLogLeaf) {
    call.log_part = choice_log_part(call.log);
    call.of_parts = next;
    next += choice_spans(count, call.log_part);
    BANYAN_TRY(launch(kCut, call, stream));
    call.of_spans = std::exchange(call.of_parts, nullptr);
    call.log = call.log_part;
  }
  call.bits = reinterpret_cast<uint32_t*>(room);
  return launch(kFill, call, stream);
}

}  // namespace banyan
