// Tensors with known gradients, and the calls that reduce them, as a rank makes them.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/banyan.h"
#include "src/reducer/checkpoint.h"
#include "tests/ranks/coded.h"
#include "tests/ranks/ranks.h"

namespace banyan::test {

struct Layer {
  uint64_t id;
  size_t count;
  banyan_datatype_t type = BANYAN_FLOAT32;
  int dimensions = 2;
};

// What element `i` of a tensor is in a step, on a rank.
using Value = std::function<double(uint64_t id, uint64_t step, int rank, size_t i)>;

// Multiples of 1/256 from -2 on and below 2, whose sums over ranks and steps are exact in float32.
double fine_gradient(uint64_t id, uint64_t step, int rank, size_t i);
// Whole numbers from -3 to 3, whose sums over ranks are exact in every type.
double whole_gradient(uint64_t id, uint64_t step, int rank, size_t i);

// The gradients are those of one rank.
class Model {
 public:
  explicit Model(std::span<const Layer> layers);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  size_t size() const { return tensors_.size(); }
  uint64_t id(size_t tensor) const { return tensors_[tensor].id; }
  size_t count(size_t tensor) const { return tensors_[tensor].count; }
  banyan_datatype_t type(size_t tensor) const { return tensors_[tensor].datatype; }
  std::span<const banyan_tensor_t> tensors() const { return tensors_; }
  void* gradient(size_t tensor) { return gradients_[tensor].data(); }
  void compress(size_t tensor, const banyan_compression_t* own) {
    tensors_[tensor].compression = own;
  }

  void fill(uint64_t step, int rank, const Value& value = fine_gradient);
  double at(size_t tensor, size_t i) const;
  void set(size_t tensor, size_t i, double value);
  uint64_t digest() const;

 private:
  std::vector<banyan_tensor_t> tensors_;
  std::deque<std::string> names_;
  std::vector<std::vector<std::byte>> gradients_;
};

banyan_reducer_config_t reducer_config(banyan_op_t op = BANYAN_SUM);

// A communicator whose ceiling is the codec; null: none.
banyan_comm_t join_with(Rank& self, const char* codec, double timeout_s = 20);
// Null after a failure, which is recorded.
banyan_reducer_t make_reducer(Rank& self, banyan_comm_t comm, const Model& model,
                              const banyan_reducer_config_t& config);

// Makes all tensors ready in an order by chance; the first result that is no success.
banyan_result_t make_ready(banyan_reducer_t reducer, Model& model, uint64_t seed);
// The same, and waits for all. False: it failed, which is recorded.
bool reduce(Rank& self, banyan_reducer_t reducer, Model& model, uint64_t seed);

std::vector<std::byte> save(Rank& self, banyan_reducer_t reducer);
Checkpoint state_of(Rank& self, banyan_reducer_t reducer);
bool load(Rank& self, banyan_reducer_t reducer, std::span<const std::vector<std::byte>> blobs);
// Those of all ranks, on each of them.
std::vector<std::vector<std::byte>> all_blobs(Rank& self, banyan_comm_t comm,
                                              const std::vector<std::byte>& blob);
banyan_tensor_stats_t stats_of(Rank& self, banyan_reducer_t reducer,
                               uint64_t id = BANYAN_ALL_TENSORS);
// What the last call of this thread said of its failure.
std::string_view last_text();

// What came out of a reducer, added up, and what its ranks still have to say.
class Account {
 public:
  explicit Account(const Model& model);

  // The sums of a step, `weight` times.
  void take_out(const Model& model, double weight = 1);
  void add_left(const Checkpoint& checkpoint);
  // What went in: the gradients of the step, on so many ranks.
  void put_in(const Model& model, uint64_t step, int ranks);
  // The largest difference of what went in and what is known of it.
  double largest_difference() const;
  double left() const { return left_; }  // magnitudes, added up

 private:
  std::vector<uint64_t> ids_;
  std::vector<std::vector<double>> balance_;
  double left_ = 0;
};
// With what all ranks keep.
void add_all_left(Rank& self, banyan_comm_t comm, const std::vector<std::byte>& blob,
                  Account& account);

}  // namespace banyan::test
