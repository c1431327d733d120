// SPDX-License-Identifier: Apache-2.0

#include "compression/cuda/sparse.h"

#include "compression/codecs.h"
#include "compression/codecs/sparse_forms.h"
#include "compression/codecs/sparse_rules.h"

namespace banyan {

namespace {

static_assert(kCudaRegion == kRegion);
static_assert(static_cast<uint8_t>(SparseForm::kList) == sparse::kList);
static_assert(static_cast<uint8_t>(SparseForm::kBitmap) == sparse::kBitmap);
static_assert(static_cast<uint8_t>(SparseForm::kDense) == sparse::kDense);
static_assert(static_cast<uint8_t>(SparseForm::kAllNan) == sparse::kAllNan);
static_assert(kCudaSignRegion == sparse::kSignPlaces);

SparseBars bars_of(const sparse::Rule<float>& rule) {
  return {rule.behind.mask, rule.before.least, rule.behind.least, rule.split};
}

SparseBars bars_of(CodecId codec, const Coding& coding) {
  switch (codec) {
    case kThreshold:
    case kSign: return bars_of(sparse::of_magnitude<float>(coding.parameter));
    case kTopk: return bars_of(sparse::selected<float>(*coding.selection, coding.first));
    // What spoils the message.
    case kRandk: return {Float32::kMagnitude, 0, Float32::kTopExponent, 0};
    default: return bars_of(sparse::not_plus_zero<float>());
  }
}

// What a codec needs beside counts is there.
std::byte* room_behind_counts(const CudaSparseCall& call) {
  return reinterpret_cast<std::byte*>(call.plan) + sparse_room(call.count);
}

uint32_t bytes_of(const Coding& coding) {
  return static_cast<uint32_t>(size_of(coding.carried));
}

}  // namespace

bool has_cuda_sparse(CodecId codec, const Coding& coding, DataType type) {
  const bool carries =
      codec == kThreshold || codec == kTopk || codec == kRandk || codec == kNonzero;
  const bool carried = coding.carried == DataType::kFloat32 || coding.carried == DataType::kFloat16;
  return type == DataType::kFloat32 && (codec == kSign || (carries && carried));
}

Result<CudaSparse> CudaSparse::load(const CudaFunctions& cuda, const CudaImage& image) {
  return load_alone<CudaSparse>(cuda, image);
}

Result<CudaSparse> CudaSparse::find_in(std::shared_ptr<const CudaModule> module) {
  Result<CudaChoice> choice = CudaChoice::find_in(module);
  BANYAN_TRY(choice.status());
  CudaSparse codecs(std::move(module), std::move(*choice));
  BANYAN_TRY(codecs.find_all());
  return codecs;
}

Status CudaSparse::find_all() {
  constexpr std::array<const char*, kKernels> kNames{
      "sparse_count_values", "sparse_count_bits",      "sparse_scan_pieces",
      "sparse_scan_regions", "sparse_scan_lists",      "sparse_write",
      "sparse_read",         "sparse_read_add",        "sparse_scatter",
      "sparse_scatter_add",  "sparse_count_spoilable", "sign_scan_regions",
      "sign_write",          "sign_scan_lists",        "sign_scatter",
      "sign_scatter_add",    "randk_scan_spoilt",      "randk_write",
  };
  return module_->find_all(kNames, kernels_);
}

bool CudaSparse::is_message(CodecId codec, const Coding& coding, CodecMessage message,
                            uint64_t count) {
  if (codec == kSign) return sparse::is_in_words(message, count);
  if (codec == kRandk && message.flags == sparse::kAllNan) return message.size == 0;
  if (codec == kRandk)
    return message.flags == 0 &&
           message.size == codecs()[kRandk - size_t{1}].capacity(coding, {}, count);
  return sparse::is_in_forms(message, count, size_of(coding.carried));
}

size_t CudaSparse::room(CodecId codec, uint64_t count) {
  return sparse_room(count) + (codec == kRandk ? sizeof(SparsePlan) + choice_room(count) : 0);
}

Status CudaSparse::launch(Kernel kernel, uint64_t items, CudaSparseCall call, Stream stream) const {
  return module_->launch(kernels_[kernel], cuda_blocks_of_warps(items), &call, stream);
}

Status CudaSparse::encode_signs(const CudaSparseCall& call, Stream stream) const {
  const uint64_t pieces = sparse_pieces(call.count);
  if (call.count > 0) {
    BANYAN_TRY(launch(kCountSpoilable, pieces, call, stream));
    BANYAN_TRY(launch(kScanPieces, sparse_regions(call.count), call, stream));
  }
  BANYAN_TRY(launch(kScanSigns, 1, call, stream));
  return call.count > 0 ? launch(kWriteSigns, pieces, call, stream) : Status();
}

Status CudaSparse::count_bits(const CudaSparseCall& call, Stream stream) const {
  BANYAN_TRY(launch(kCountBits, sparse_pieces(call.count), call, stream));
  BANYAN_TRY(launch(kScanPieces, sparse_regions(call.count), call, stream));
  return launch(kScanLists, 1, call, stream);
}

Status CudaSparse::choose(const Coding& coding, CudaSparseCall& call, Stream stream) const {
  std::byte* const room = room_behind_counts(call);
  call.form = static_cast<uint32_t>(SparseForm::kBitmap);
  call.bits = room;
  BANYAN_TRY(choice_.choose(coding, call.count, sparse::share_of(coding.parameter, call.count),
                            room, stream));
  return count_bits(call, stream);
}

// Whether the message is spoilt is counted before its places are, and kept in a plan of its own.
Status CudaSparse::encode_chosen(const Coding& coding, CudaSparseCall call, Stream stream) const {
  const uint64_t pieces = sparse_pieces(call.count);
  call.wanted = sparse::share_of(coding.parameter, call.count);
  SparsePlan* const of_bits = call.plan;
  call.plan = reinterpret_cast<SparsePlan*>(room_behind_counts(call) + choice_room(call.count));
  SparsePlan* const said = call.plan;
  if (call.count > 0) {
    BANYAN_TRY(launch(kCountSpoilable, pieces, call, stream));
    BANYAN_TRY(launch(kScanPieces, sparse_regions(call.count), call, stream));
  }
  BANYAN_TRY(launch(kScanSpoilt, 1, call, stream));
  if (call.count == 0) return {};
  call.plan = of_bits;
  BANYAN_TRY(choose(coding, call, stream));
  call.plan = said;
  return launch(kWriteChosen, pieces, call, stream);
}

Status CudaSparse::encode(CodecId codec, const Coding& coding, const std::byte* values,
                          uint64_t count, std::byte* message, std::byte* left, std::byte* room,
                          uint64_t* said, Stream stream) const {
  if (codec == kTopk && coding.selection == nullptr)
    return {Code::kInvalidArgument, "topk without a selection: there must be one"};
  CudaSparseCall call = sparse_call_in(room, count, SparseForm::kList);
  call.message = message;
  call.values = const_cast<std::byte*>(values);
  call.other = left;
  call.bars = bars_of(codec, coding);
  call.bytes = bytes_of(coding);
  call.size = static_cast<float>(coding.parameter);
  call.message_bytes = codecs()[codec - size_t{1}].capacity(coding, DataType::kFloat32, count) + 1;
  call.said = said;
  if (codec == kSign) return encode_signs(call, stream);
  if (codec == kRandk) return encode_chosen(coding, call, stream);
  const uint64_t pieces = sparse_pieces(count);
  if (count > 0) {
    BANYAN_TRY(launch(kCountValues, pieces, call, stream));
    BANYAN_TRY(launch(kScanPieces, sparse_regions(count), call, stream));
  }
  BANYAN_TRY(launch(kScanRegions, 1, call, stream));
  return count > 0 ? launch(kWrite, pieces, call, stream) : Status();
}

Status CudaSparse::read_lists(CodecId codec, CudaSparseCall call, Stream stream) const {
  const bool adds = call.other != nullptr;
  const bool is_list = call.form == static_cast<uint32_t>(SparseForm::kList);
  if (!is_list || call.other != call.values)
    BANYAN_TRY(launch(adds ? kReadAdd : kRead, sparse_pieces(call.count), call, stream));
  if (!is_list) return {};
  if (codec == kSign)
    return launch(adds ? kScatterSignsAdd : kScatterSigns, sign_lists(call.count), call, stream);
  return launch(adds ? kScatterAdd : kScatter, sparse_regions(call.count), call, stream);
}

Status CudaSparse::read(CodecId codec, const Coding& coding, CodecMessage message, uint64_t count,
                        const std::byte* addend, std::byte* values, std::byte* room,
                        Stream stream) const {
  if (count == 0) return {};
  CudaSparseCall call = sparse_call_in(room, count, SparseForm{message.flags});
  call.message = const_cast<std::byte*>(message.bytes);
  call.message_bytes = message.size;
  call.values = values;
  // A sum with NaN is NaN, whatever the addend is.
  call.other = message.flags == sparse::kAllNan ? nullptr : const_cast<std::byte*>(addend);
  call.bytes = bytes_of(coding);
  call.size = static_cast<float>(coding.parameter);
  if (codec == kRandk && message.flags == 0) {
    BANYAN_TRY(choose(coding, call, stream));
  } else if (message.flags == sparse::kBitmap) {
    call.bits = message.bytes;
    call.values_at = sparse_values_at(SparseForm::kBitmap, count, 0);
    BANYAN_TRY(count_bits(call, stream));
  } else if (message.flags == sparse::kList) {
    BANYAN_TRY(launch(codec == kSign ? kScanSignLists : kScanLists, 1, call, stream));
  }
  return read_lists(codec, call, stream);
}

Status CudaSparse::decode(CodecId codec, const Coding& coding, CodecMessage message, uint64_t count,
                          std::byte* values, std::byte* room, Stream stream) const {
  return read(codec, coding, message, count, nullptr, values, room, stream);
}

Status CudaSparse::decode_add(CodecId codec, const Coding& coding, CodecMessage message,
                              uint64_t count, const std::byte* addend, std::byte* sum,
                              std::byte* room, Stream stream) const {
  return read(codec, coding, message, count, addend, sum, room, stream);
}

}  // namespace banyan
