// SPDX-License-Identifier: Apache-2.0

#include "src/reducer/buckets.h"

#include <algorithm>
#include <utility>

#include "algorithms/choice/codec_costs.h"
#include "compression/codecs.h"

namespace banyan {
namespace {

constexpr uint64_t kBlock = 256;  // elements; the longest that has a scale of its own
constexpr uint64_t kCut = 4096;   // elements; the unit of the codecs with blocks

// Whether what a message says of an element depends on all others of the vector.
bool looks_at_all(const Compression& compression) {
  const auto looks = [](const CodecChoice& choice) {
    return choice.codec == kTopk || choice.codec == kRandk || is_bound(choice);
  };
  return looks(compression.intra) || looks(compression.inter) || looks(compression.alone);
}

// Exact tensors are alike, whatever seed one was given.
Compression shared_compression(const Tensor& tensor) {
  return tensor.compression.is_exact() ? Compression() : tensor.compression;
}

DataType vector_type(const Tensor& tensor) {
  return tensor.compression.is_exact() ? tensor.type : DataType::kFloat32;
}

uint64_t place_behind(const Bucket& bucket) {
  if (bucket.compression.is_exact()) return bucket.count;
  return (bucket.count + kBlock - 1) / kBlock * kBlock;
}

class Composer {
 public:
  Composer(std::span<const Tensor> tensors, uint64_t bucket_bytes)
      : tensors_(tensors), bucket_bytes_(bucket_bytes) {}

  std::vector<Bucket> compose() {
    for (size_t i = tensors_.size(); i-- > 0;) take(static_cast<uint32_t>(i));
    for (Bucket& bucket : buckets_) {
      const Tensor& first = tensors_[bucket.pieces.front().tensor];
      bucket.staged = bucket.pieces.size() > 1 || first.type != bucket.type;
    }
    std::stable_sort(buckets_.begin(), buckets_.end(), [](const Bucket& a, const Bucket& b) {
      return a.pieces.back().tensor > b.pieces.back().tensor;
    });
    return std::move(buckets_);
  }

 private:
  void take(uint32_t index) {
    const Tensor& tensor = tensors_[index];
    const uint64_t most = bucket_bytes_ / size_of(vector_type(tensor));
    if (looks_at_all(tensor.compression))
      return append(open_another(tensor), index, {0, tensor.count});
    if (tensor.count <= most)
      return append(open_for(tensor, tensor.count, most), index, {0, tensor.count});
    const uint64_t longest = std::max(most / kCut * kCut, kCut);
    const auto parts = static_cast<int>((tensor.count + longest - 1) / longest);
    for (int part = 0; part < parts; ++part)
      append(open_another(tensor), index, part_of_units(tensor.count, kCut, parts, part));
  }

  Bucket& open_another(const Tensor& tensor) {
    return buckets_.emplace_back(Bucket{vector_type(tensor), shared_compression(tensor)});
  }

  // The open bucket of the tensor's kind, if so many elements more are not too many for it.
  Bucket& open_for(const Tensor& tensor, uint64_t count, uint64_t most) {
    const auto is_its = [&](size_t index) {
      const Bucket& bucket = buckets_[index];
      return bucket.type == vector_type(tensor) && bucket.compression == shared_compression(tensor);
    };
    const auto open = std::find_if(open_.begin(), open_.end(), is_its);
    if (open != open_.end() && place_behind(buckets_[*open]) + count <= most)
      return buckets_[*open];
    if (open != open_.end()) open_.erase(open);
    open_.push_back(buckets_.size());
    return open_another(tensor);
  }

  static void append(Bucket& bucket, uint32_t tensor, Part part) {
    const uint64_t place = place_behind(bucket);
    bucket.pieces.push_back({tensor, part.begin, part.count, place});
    bucket.count = place + part.count;
  }

  std::span<const Tensor> tensors_;
  uint64_t bucket_bytes_;
  std::vector<Bucket> buckets_{};
  std::vector<size_t> open_{};  // one of each kind
};

}  // namespace

std::vector<Bucket> compose(std::span<const Tensor> tensors, uint64_t bucket_bytes) {
  return Composer(tensors, bucket_bytes).compose();
}

}  // namespace banyan
