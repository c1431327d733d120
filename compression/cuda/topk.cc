// SPDX-License-Identifier: Apache-2.0

#include "compression/cuda/topk.h"

#include <algorithm>

#include "compression/codecs/sparse_rules.h"

namespace banyan {

namespace {

constexpr size_t kOwnRoom = sizeof(TopkState) + kTopkBins * sizeof(uint64_t);

}  // namespace

Result<CudaTopk> CudaTopk::load(const CudaFunctions& cuda, const CudaImage& image) {
  return load_alone<CudaTopk>(cuda, image);
}

Result<CudaTopk> CudaTopk::find_in(std::shared_ptr<const CudaModule> module) {
  CudaTopk topk(std::move(module));
  BANYAN_TRY(topk.find_all());
  return topk;
}

Status CudaTopk::find_all() {
  constexpr std::array<const char*, kKernels> kNames{
      "topk_begin",         "topk_histogram",    "topk_choose", "topk_count_ties",
      "sparse_scan_pieces", "sparse_scan_lists", "topk_end",
  };
  return module_->find_all(kNames, kernels_);
}

size_t CudaTopk::room(uint64_t count) {
  return kOwnRoom + sparse_room(count);
}

template <class Call>
Status CudaTopk::launch(Kernel kernel, uint64_t items, Call call, Stream stream) const {
  return module_->launch(kernels_[kernel], cuda_blocks_of_warps(items), &call, stream);
}

Status CudaTopk::select(const Coding& coding, const std::byte* values, uint64_t count,
                        Selection* selection, std::byte* room, Stream stream) const {
  const CudaSparseCall counts = sparse_call_in(room + kOwnRoom, count, SparseForm::kDense);
  CudaTopkCall call{.values = const_cast<std::byte*>(values),
                    .count = count,
                    .wanted = sparse::share_of(coding.parameter, count),
                    .first = coding.first,
                    .unknown = Float32::kSignShift,
                    .state = reinterpret_cast<TopkState*>(room),
                    .bins = reinterpret_cast<uint64_t*>(room + sizeof(TopkState)),
                    .offsets = counts.offsets,
                    .starts = counts.starts,
                    .selection = selection};
  const uint64_t pieces = sparse_pieces(count);
  BANYAN_TRY(launch(kBegin, 1, call, stream));
  while (call.unknown > 0) {
    call.shift = call.unknown > kTopkDigit ? call.unknown - kTopkDigit : 0;
    BANYAN_TRY(launch(kHistogram, pieces, call, stream));
    BANYAN_TRY(launch(kChoose, 1, call, stream));
    call.unknown = call.shift;
  }
  BANYAN_TRY(launch(kCountTies, pieces, call, stream));
  BANYAN_TRY(launch(kScanPieces, sparse_regions(count), counts, stream));
  BANYAN_TRY(launch(kScanRegions, 1, counts, stream));
  return launch(kEnd, pieces, call, stream);
}

}  // namespace banyan
