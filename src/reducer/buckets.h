// How the tensors of a model share vectors that are summed by one call each.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/problem.h"
#include "banyan/types.h"
#include "src/reducer/tensor.h"

namespace banyan {

// Elements [first, first + count) of a tensor lie at element `place` of a bucket's vector.
struct Piece {
  uint32_t tensor;  // its place in the order of registration
  uint64_t first;
  uint64_t count;
  uint64_t place;

  bool operator==(const Piece&) const = default;
};

struct Bucket {
  DataType type;                // of the vector; float32 where it is compressed
  Compression compression;      // that of all its tensors
  std::vector<Piece> pieces{};  // at rising places; between two of them are zeros at most
  uint64_t count = 0;           // elements of the vector
  bool staged = false;          // false: the only piece is in the tensor, and is the vector

  bool operator==(const Bucket&) const = default;
};

// Composes buckets of tensors in the reverse of their registration, as a backward pass makes them
// ready, and numbers them in the order in which they are full if tensors come like that. It goes by
// types, counts and compressions alone. A tensor goes to the open bucket of its kind, its type
// or its compression, unless that would then exceed `bucket_bytes`.
//
//   exact                          tensors lie densely, in their own type
//   compressed                     each begins at a multiple of 256 elements, so that no block of a
//                                  codec has elements of two
//   topk, randk, a bound           one tensor, whole, since the codec looks at all of it
//   longer than `bucket_bytes`     as few pieces as can be, each in a bucket of its own, of about
//                                  the same length, which begin at multiples of 4,096 elements
//
// A piece that is not the last of its tensor has 4,096 elements at least, however few bytes a
// bucket may have.
std::vector<Bucket> compose(std::span<const Tensor> tensors, uint64_t bucket_bytes);

}  // namespace banyan
