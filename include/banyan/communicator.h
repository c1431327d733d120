// This is the C++ face of banyan.h: a communicator with an owner, calls on spans, failures as
// Status; and codecs by themselves.
//
// Header only, over the C calls; whatever is not here (requests, groups, calls with a list of
// counts) takes handle(). One thread at a time, as in banyan.h; encode() and decode(): any.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "banyan/banyan.h"
#include "banyan/status.h"
#include "banyan/types.h"

namespace banyan {
// Inline, so that users write banyan::Communicator, while the linker never takes these functions
// for others of that name inside a statically linked library.
inline namespace api {

// The C++ types that have a DataType. 16- and 8-bit floating types have none: name theirs.
template <typename T>
concept Element = std::is_same_v<T, int8_t> || std::is_same_v<T, uint8_t> ||
    std::is_same_v<T, int32_t> || std::is_same_v<T, uint32_t> || std::is_same_v<T, int64_t> ||
    std::is_same_v<T, uint64_t> || std::is_same_v<T, float> || std::is_same_v<T, double>;

template <Element T>
constexpr DataType data_type_of() {
  if constexpr (std::is_same_v<T, int8_t>) return DataType::kInt8;
  if constexpr (std::is_same_v<T, uint8_t>) return DataType::kUint8;
  if constexpr (std::is_same_v<T, int32_t>) return DataType::kInt32;
  if constexpr (std::is_same_v<T, uint32_t>) return DataType::kUint32;
  if constexpr (std::is_same_v<T, int64_t>) return DataType::kInt64;
  if constexpr (std::is_same_v<T, uint64_t>) return DataType::kUint64;
  if constexpr (std::is_same_v<T, float>) return DataType::kFloat32;
  return DataType::kFloat64;
}

// Something with data() and size(): a vector, an array, a span, ...
template <typename Range>
using ElementOf = std::remove_pointer_t<decltype(std::declval<Range&>().data())>;

// Elements to write: an address, a count and a type. Never owns.
struct View {
  void* data = nullptr;
  size_t count = 0;
  DataType type = DataType::kFloat32;

  View(void* elements, size_t n, DataType t) : data(elements), count(n), type(t) {}
  // Implicit, so that a vector can be passed as it is.
  // NOLINTBEGIN(google-explicit-constructor,bugprone-forwarding-reference-overload)
  template <typename Range>
  requires Element<ElementOf<Range>> View(Range&& range)
      : View(range.data(), range.size(), data_type_of<ElementOf<Range>>()) {}
  // NOLINTEND(google-explicit-constructor,bugprone-forwarding-reference-overload)
};

// Elements to read.
struct ConstView {
  const void* data = nullptr;
  size_t count = 0;
  DataType type = DataType::kFloat32;

  ConstView(const void* elements, size_t n, DataType t) : data(elements), count(n), type(t) {}
  // NOLINTBEGIN(google-explicit-constructor): as above.
  ConstView(const View& view) : ConstView(view.data, view.count, view.type) {}
  template <typename Range>
  requires Element<std::remove_const_t<ElementOf<const Range>>> ConstView(const Range& range)
      : ConstView(range.data(), range.size(),
                  data_type_of<std::remove_const_t<ElementOf<const Range>>>()) {}
  // NOLINTEND(google-explicit-constructor)
};

// Owns a communicator. finalize() ends it in good order; a Communicator destroyed before that is
// aborted, so that the other ranks learn of it at once and nobody waits. Requests on it are waited
// for or destroyed before.
class Communicator {
 public:
  // As banyan_comm_init_env, banyan_comm_init and banyan_comm_init_exchange. `config` may be null.
  static Result<Communicator> from_environment(const banyan_config_t* config = nullptr) {
    banyan_comm_t comm = nullptr;
    const banyan_result_t result = banyan_comm_init_env(&comm, config);
    return made(result, comm);
  }
  static Result<Communicator> from_unique_id(int rank_count, const banyan_unique_id_t& id, int rank,
                                             const banyan_config_t* config = nullptr) {
    banyan_comm_t comm = nullptr;
    const banyan_result_t result = banyan_comm_init(&comm, rank_count, &id, rank, config);
    return made(result, comm);
  }
  static Result<Communicator> from_exchange(const banyan_exchange_t& exchange,
                                            const banyan_config_t* config = nullptr) {
    banyan_comm_t comm = nullptr;
    const banyan_result_t result = banyan_comm_init_exchange(&comm, &exchange, config);
    return made(result, comm);
  }

  Communicator(Communicator&& other) noexcept
      : comm_(std::exchange(other.comm_, nullptr)),
        rank_(other.rank_),
        size_(other.size_),
        finalized_(other.finalized_) {}
  Communicator& operator=(Communicator&& other) noexcept {
    std::swap(comm_, other.comm_);
    std::swap(rank_, other.rank_);
    std::swap(size_, other.size_);
    std::swap(finalized_, other.finalized_);
    return *this;
  }
  ~Communicator() {
    if (comm_ == nullptr) return;
    if (!finalized_) banyan_comm_abort(comm_);
    banyan_comm_destroy(comm_);
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  banyan_comm_t handle() const { return comm_; }

  // `in` and `out` hold the same number of elements; the short form works in place.
  Status allreduce(ConstView in, View out, ReduceOp op) {
    BANYAN_TRY(expect("allreduce", in, out, in.count));
    return status(banyan_allreduce(in.data, out.data, in.count, c_type(in.type), c_op(op), comm_));
  }
  Status allreduce(View in_out, ReduceOp op) {
    return status(banyan_allreduce(in_out.data, in_out.data, in_out.count, c_type(in_out.type),
                                   c_op(op), comm_));
  }
  // `out` may be empty on ranks that are not the root.
  Status reduce(ConstView in, View out, ReduceOp op, int root) {
    if (rank_ == root) BANYAN_TRY(expect("reduce", in, out, in.count));
    return status(
        banyan_reduce(in.data, out.data, in.count, c_type(in.type), c_op(op), root, comm_));
  }
  // `in` has size() times the elements of `out`.
  Status reduce_scatter(ConstView in, View out, ReduceOp op) {
    BANYAN_TRY(expect("reduce_scatter", out, in, times_size(out.count)));
    return status(
        banyan_reduce_scatter(in.data, out.data, out.count, c_type(in.type), c_op(op), comm_));
  }

  // The root's elements replace everybody's.
  Status broadcast(View in_out, int root) {
    return status(
        banyan_broadcast(in_out.data, in_out.data, in_out.count, c_type(in_out.type), root, comm_));
  }
  // `out` has size() times the elements of `in`.
  Status allgather(ConstView in, View out) {
    BANYAN_TRY(expect("allgather", in, out, times_size(in.count)));
    return status(banyan_allgather(in.data, out.data, in.count, c_type(in.type), comm_));
  }
  // `out` may be empty on ranks that are not the root.
  Status gather(ConstView in, View out, int root) {
    if (rank_ == root) BANYAN_TRY(expect("gather", in, out, times_size(in.count)));
    return status(banyan_gather(in.data, out.data, in.count, c_type(in.type), root, comm_));
  }
  // `in` may be empty on ranks that are not the root.
  Status scatter(ConstView in, View out, int root) {
    if (rank_ == root) BANYAN_TRY(expect("scatter", out, in, times_size(out.count)));
    return status(banyan_scatter(in.data, out.data, out.count, c_type(out.type), root, comm_));
  }
  // Both have size() blocks of equal length.
  Status alltoall(ConstView in, View out) {
    BANYAN_TRY(expect("alltoall", in, out, in.count));
    if (in.count % static_cast<size_t>(size_) != 0) {
      return {Code::kInvalidArgument, "alltoall: " + std::to_string(in.count) +
                                          " elements do not divide by " + std::to_string(size_) +
                                          " ranks"};
    }
    return status(banyan_alltoall(in.data, out.data, in.count / static_cast<size_t>(size_),
                                  c_type(in.type), comm_));
  }
  Status barrier() { return status(banyan_barrier(comm_)); }
  Status send(ConstView in, int peer) {
    return status(banyan_send(in.data, in.count, c_type(in.type), peer, comm_));
  }
  Status recv(View out, int peer) {
    return status(banyan_recv(out.data, out.count, c_type(out.type), peer, comm_));
  }

  // Makes a communicator of the ranks with the same colour (at least 0), ordered by key. Every rank
  // joins one; for ranks that join none use banyan_comm_split.
  Result<Communicator> split(int color, int key, const banyan_config_t* config = nullptr) {
    banyan_comm_t child = nullptr;
    const banyan_result_t result = banyan_comm_split(comm_, color, key, &child, config);
    if (result != BANYAN_SUCCESS) return status(result);
    return made(result, child);
  }
  // Any thread, at any time.
  Status abort() { return status(banyan_comm_abort(comm_)); }
  // Collective; what is left after success is destruction.
  Status finalize() {
    Status ended = status(banyan_comm_finalize(comm_));
    finalized_ = ended.ok();
    return ended;
  }

 private:
  explicit Communicator(banyan_comm_t comm) : comm_(comm) {}

  static banyan_datatype_t c_type(DataType type) { return static_cast<banyan_datatype_t>(type); }
  static banyan_op_t c_op(ReduceOp op) { return static_cast<banyan_op_t>(op); }

  static Result<Communicator> made(banyan_result_t result, banyan_comm_t comm) {
    if (result != BANYAN_SUCCESS) return failure(result, nullptr);
    Communicator communicator(comm);
    BANYAN_TRY(communicator.status(banyan_comm_rank(comm, &communicator.rank_)));
    BANYAN_TRY(communicator.status(banyan_comm_size(comm, &communicator.size_)));
    return communicator;
  }
  static Status failure(banyan_result_t result, banyan_comm_t comm) {
    return {static_cast<Code>(result), banyan_last_error(comm)};
  }
  Status status(banyan_result_t result) const {
    if (result == BANYAN_SUCCESS) return {};
    return failure(result, comm_);
  }
  size_t times_size(size_t count) const { return count * static_cast<size_t>(size_); }

  // `b` has the type of `a`, and `expected` elements.
  static Status expect(const char* call, ConstView a, ConstView b, size_t expected) {
    if (a.type != b.type) {
      return {Code::kInvalidArgument, std::string(call) + ": one buffer is of " +
                                          std::string(name_of(a.type)) + ", the other of " +
                                          std::string(name_of(b.type))};
    }
    if (b.count != expected) {
      return {Code::kInvalidArgument,
              std::string(call) + ": a buffer of " + std::to_string(a.count) + " elements needs " +
                  std::to_string(expected) + " in the other, which has " + std::to_string(b.count)};
    }
    return {};
  }

  banyan_comm_t comm_ = nullptr;
  int rank_ = 0;
  int size_ = 1;
  bool finalized_ = false;
};

// As banyan_encode: `how` names the codec, and afterwards says what it did.
inline Result<std::vector<std::byte>> encode(ConstView in, banyan_encode_t& how) {
  const auto type = static_cast<banyan_datatype_t>(in.type);
  size_t bytes = 0;
  banyan_result_t result = banyan_encode_bound(how.codec, in.count, type, &bytes);
  std::vector<std::byte> message(bytes);
  if (result == BANYAN_SUCCESS)
    result = banyan_encode(&how, in.data, in.count, type, message.data(), &bytes);
  if (result != BANYAN_SUCCESS)
    return Status(static_cast<Code>(result), banyan_last_error(nullptr));
  message.resize(bytes);
  return message;
}

// As banyan_decode and banyan_decode_add.
inline Status decode(std::span<const std::byte> message, View out) {
  const banyan_result_t result = banyan_decode(message.data(), message.size(), out.data, out.count,
                                               static_cast<banyan_datatype_t>(out.type));
  if (result == BANYAN_SUCCESS) return {};
  return {static_cast<Code>(result), banyan_last_error(nullptr)};
}
inline Status decode_add(std::span<const std::byte> message, View in_out) {
  const banyan_result_t result =
      banyan_decode_add(message.data(), message.size(), in_out.data, in_out.count,
                        static_cast<banyan_datatype_t>(in_out.type));
  if (result == BANYAN_SUCCESS) return {};
  return {static_cast<Code>(result), banyan_last_error(nullptr)};
}

}  // namespace api
}  // namespace banyan
