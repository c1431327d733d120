// SPDX-License-Identifier: Apache-2.0

#include "tests/ranks/rank_order.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "compression/codecs.h"
#include "tests/ranks/ranks_cases.h"
#include "tests/support/codec_values.h"

namespace banyan::test {
namespace {

constexpr size_t kSuperblock = 4096;
constexpr size_t kLeastCoded = 4096;  // bytes

// Exponents of the small values begin with `low`, and large ones have `high`.
struct Exponents {
  int low;
  int high;
};

Exponents exponents_of(DataType type) {
  switch (type) {
    case DataType::kFloat8E4m3: return {-6, 7};
    case DataType::kFloat8E5m2:
    case DataType::kFloat16: return {-13, 14};
    case DataType::kFloat64: return {-20, 50};
    default: return {-12, 24};
  }
}

// Two ranks have a large value and its opposite in every element, and the others small ones of
// several exponents.
Memory values_of(DataType type, int rank, int ranks, size_t count, uint64_t seed) {
  const auto [low, high] = exponents_of(type);
  Memory values(count * size_of(type));
  for (size_t i = 0; i < count; ++i) {
    const uint64_t common = mix(seed + i);
    const uint64_t own = mix(common + static_cast<uint64_t>(rank) + 1);
    const int first = static_cast<int>(common % static_cast<uint64_t>(ranks));
    const int second = (first + 1 + static_cast<int>(common >> 32 & 1)) % ranks;
    const bool is_large = ranks > 2 && (rank == first || rank == second);
    const long double fraction = is_large ? 0.5L : static_cast<long double>(own >> 11) * 0x1p-53L;
    const bool negative = is_large ? rank == second : (own & 1) != 0;
    const int exponent = is_large ? high : low + static_cast<int>(own >> 1 & 7);
    const long double value = std::ldexp(1 + fraction, exponent);
    put_bits(type, &values[i * size_of(type)], rounded_bits(type, negative ? -value : value));
  }
  return values;
}

template <typename Float>
std::vector<Float> terms_of(const OrderedSum& sum, int rank, const Memory& values) {
  const size_t element = size_of(sum.type);
  const auto scalar = Table::scalar(sum.type, rank);
  const auto factor = static_cast<Float>(value_of(sum.type, get_bits(sum.type, scalar.data())));
  std::vector<Float> terms(values.size() / element);
  for (size_t i = 0; i < terms.size(); ++i) {
    terms[i] = static_cast<Float>(value_of(sum.type, get_bits(sum.type, &values[i * element])));
    if (sum.op == ReduceOp::kPreMulSum) terms[i] *= factor;
  }
  return terms;
}

// What a message of the values says of them.
std::vector<float> said_of(const Codec& codec, const std::vector<float>& values) {
  if (values.empty()) return {};
  Memory bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return wide(DataType::kFloat32,
              decode(codec, {}, DataType::kFloat32, encoded(codec, {}, DataType::kFloat32, bytes),
                     values.size()));
}

template <typename Float>
std::vector<Float> added(const OrderedSum& sum, const std::vector<std::vector<Float>>& terms) {
  std::vector<Float> total = terms.front();
  for (size_t rank = 1; rank < terms.size(); ++rank)
    for (size_t i = 0; i < total.size(); ++i)
      total[i] = sum.op == ReduceOp::kProd ? total[i] * terms[rank][i] : total[i] + terms[rank][i];
  return total;
}

template <typename Float>
Memory rounded(const OrderedSum& sum, const std::vector<Float>& total, int ranks) {
  Memory result(total.size() * size_of(sum.type));
  for (size_t i = 0; i < total.size(); ++i) {
    const Float value = sum.op == ReduceOp::kAvg ? total[i] / static_cast<Float>(ranks) : total[i];
    put_bits(sum.type, &result[i * size_of(sum.type)],
             rounded_bits(sum.type, static_cast<long double>(value)));
  }
  return result;
}

// Sums one block; null: exactly. `again`: to what the owner's message of the sum says.
Memory reference_of(const OrderedSum& sum, const std::vector<Memory>& values, const Codec* codec,
                    bool again) {
  const auto ranks = static_cast<int>(values.size());
  if (sum.type == DataType::kFloat64) {
    std::vector<std::vector<double>> terms;
    for (int rank = 0; rank < ranks; ++rank)
      terms.push_back(terms_of<double>(sum, rank, values[static_cast<size_t>(rank)]));
    return rounded(sum, added(sum, terms), ranks);
  }
  std::vector<std::vector<float>> terms;
  for (int rank = 0; rank < ranks; ++rank) {
    terms.push_back(terms_of<float>(sum, rank, values[static_cast<size_t>(rank)]));
    if (codec != nullptr) terms.back() = said_of(*codec, terms.back());
  }
  std::vector<float> total = added(sum, terms);
  if (codec != nullptr && again) total = said_of(*codec, total);
  return rounded(sum, total, ranks);
}

bool scatters(Collective collective) {
  return collective == Collective::kReduceScatter || collective == Collective::kReduceScatterv;
}

// The counts of the vector's blocks; one where it is not cut.
std::vector<size_t> blocks_of(const OrderedSum& sum, int ranks) {
  if (!scatters(sum.collective)) return {sum.count};
  std::vector<size_t> counts(static_cast<size_t>(ranks), sum.count / static_cast<size_t>(ranks));
  if (sum.collective == Collective::kReduceScatterv)
    for (size_t block = 0; block < counts.size(); ++block)
      counts[block] = counts[block] * block / 2;  // the first one is empty
  return counts;
}

// By what the sum goes as a whole; null: it is exact. No piece may differ, or there is no piece.
const Codec* codec_of(const OrderedSum& sum, std::string_view name, size_t elements, int ranks) {
  const bool kind = sum.collective != Collective::kReduce && sum.op != ReduceOp::kProd &&
                    (sum.type == DataType::kFloat32 || sum.type == DataType::kBfloat16 ||
                     sum.type == DataType::kFloat16);
  if (!kind || ranks == 1 || elements * size_of(sum.type) < kLeastCoded) return nullptr;
  const auto found = std::find_if(codecs().begin(), codecs().end(),
                                  [&](const Codec& codec) { return codec.name == name; });
  return found == codecs().end() ? nullptr : &*found;
}

// The end of a piece within a block; the first one begins at 0, which is the end of piece -1.
size_t end_of(size_t count, int piece, int pieces) {
  if (piece + 1 == pieces) return count;
  const size_t even = count * static_cast<size_t>(piece + 1) / static_cast<size_t>(pieces);
  return even / kSuperblock * kSuperblock;
}

// What one call of a sum gives: a part of each block, one behind the other.
struct GivenPart {
  Memory send;
  std::vector<size_t> counts;  // of the parts
};

GivenPart piece_of(const OrderedSum& sum, const std::vector<Memory>& blocks, int index) {
  const size_t element = size_of(sum.type);
  GivenPart piece;
  for (const Memory& block : blocks) {
    const size_t count = block.size() / element;
    const size_t begin = end_of(count, index - 1, sum.pieces);
    const size_t end = end_of(count, index, sum.pieces);
    piece.send.insert(piece.send.end(), block.data() + begin * element,
                      block.data() + end * element);
    piece.counts.push_back(end - begin);
  }
  return piece;
}

}  // namespace

std::string describe(const OrderedSum& sum) {
  return fmt::format("{} of {} x {} {} in {} calls, algorithm '{}'", name_of(sum.collective),
                     sum.count, name_of(sum.type), name_of(sum.op), sum.pieces, sum.algorithm);
}

std::string check_ordered(banyan_comm_t comm, const OrderedSum& sum, std::string_view codec) {
  int rank = 0, ranks = 0;
  banyan_comm_rank(comm, &rank);
  banyan_comm_size(comm, &ranks);
  const std::vector<size_t> counts = blocks_of(sum, ranks);
  const int root = static_cast<int>(sum.seed % static_cast<uint64_t>(ranks));
  const size_t mine = scatters(sum.collective) ? static_cast<size_t>(rank) : 0;
  const auto values = [&](int from, size_t block) {
    return values_of(sum.type, from, ranks, counts[block], sum.seed + 1000003 * block);
  };
  std::vector<Memory> given, summed;
  for (size_t block = 0; block < counts.size(); ++block) given.push_back(values(rank, block));
  for (int from = 0; from < ranks; ++from) summed.push_back(values(from, mine));
  const size_t elements = std::accumulate(counts.begin(), counts.end(), size_t{0});
  const Memory wanted =
      reference_of(sum, summed, codec_of(sum, codec, elements, ranks), !scatters(sum.collective));

  const auto type = static_cast<banyan_datatype_t>(sum.type);
  const auto scalar = Table::scalar(sum.type, rank);
  const auto said = [&] { return describe(sum) + ": " + banyan_last_error(comm); };
  banyan_op_t op = static_cast<banyan_op_t>(sum.op);
  if (sum.op == ReduceOp::kPreMulSum &&
      banyan_op_create_premulsum(comm, scalar.data(), type, &op) != BANYAN_SUCCESS)
    return said();
  const std::string algorithm(sum.algorithm);
  const std::byte* right = wanted.data();
  for (int index = 0; index < sum.pieces; ++index) {
    const GivenPart piece = piece_of(sum, given, index);
    Memory recv(piece.counts[mine] * size_of(sum.type));
    banyan_call_t call = BANYAN_CALL_INIT;
    call.collective = static_cast<banyan_collective_t>(sum.collective);
    call.datatype = type;
    call.op = op;
    call.root = root;
    call.count = piece.counts.front();
    call.recv_counts = piece.counts.data();
    call.send = piece.send.data();
    call.recv = recv.data();
    call.algorithm = algorithm.c_str();
    for (int turn = 0; turn < 2; ++turn) {
      std::fill(recv.begin(), recv.end(), std::byte{0x5a});
      if ((algorithm.empty() ? call_blocking(call, comm) : call_request(call, comm)) !=
          BANYAN_SUCCESS)
        return said();
      if (sum.collective == Collective::kReduce && rank != root) continue;
      if (!std::equal(recv.begin(), recv.end(), right))
        return fmt::format("{}: other bits in piece {}", describe(sum), index);
    }
    right += recv.size();
  }
  if (sum.op == ReduceOp::kPreMulSum && banyan_op_destroy(comm, op) != BANYAN_SUCCESS)
    return said();
  return "";
}

bool order_matters(DataType type, int ranks) {
  const OrderedSum sum{.type = type, .count = 100};
  std::vector<Memory> values;
  for (int rank = 0; rank < ranks; ++rank)
    values.push_back(values_of(type, rank, ranks, sum.count, 1));
  const Memory forth = reference_of(sum, values, nullptr, false);
  std::reverse(values.begin(), values.end());
  return forth != reference_of(sum, values, nullptr, false);
}

}  // namespace banyan::test
