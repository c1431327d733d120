// SPDX-License-Identifier: Apache-2.0

#include "tests/ranks/reducer_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "compression/kernels.h"
#include "tests/ranks/ranks_values.h"

namespace banyan::test {
namespace {

uint64_t drawn(uint64_t id, uint64_t step, int rank, size_t i) {
  return mix(mix(id * 131 + step * 1009 + static_cast<uint64_t>(rank)) + i);
}

size_t bytes_of(banyan_datatype_t type) {
  return size_of(static_cast<DataType>(type));
}

}  // namespace

double fine_gradient(uint64_t id, uint64_t step, int rank, size_t i) {
  return (static_cast<double>(drawn(id, step, rank, i) % 1024) - 512) / 256;
}

double whole_gradient(uint64_t id, uint64_t step, int rank, size_t i) {
  return static_cast<double>(drawn(id, step, rank, i) % 7) - 3;
}

Model::Model(std::span<const Layer> layers) {
  for (const Layer& layer : layers) {
    banyan_tensor_t tensor{};
    tensor.size = sizeof tensor;
    tensor.id = layer.id;
    tensor.name = names_.emplace_back(fmt::format("layer{}", layer.id)).c_str();
    tensor.count = layer.count;
    tensor.dimensions = layer.dimensions;
    tensor.datatype = layer.type;
    tensors_.push_back(tensor);
    gradients_.emplace_back(std::max<size_t>(1, layer.count) * bytes_of(layer.type));
  }
}

void Model::fill(uint64_t step, int rank, const Value& value) {
  for (size_t t = 0; t < size(); ++t)
    for (size_t i = 0; i < count(t); ++i) set(t, i, value(id(t), step, rank, i));
}

double Model::at(size_t tensor, size_t i) const {
  const std::byte* const element = gradients_[tensor].data() + i * bytes_of(type(tensor));
  if (type(tensor) == BANYAN_FLOAT64) {
    double value = 0;
    std::memcpy(&value, element, sizeof value);
    return value;
  }
  float value = 0;
  best_kernels().decode[type(tensor)](&value, element, 1, nullptr);
  return static_cast<double>(value);
}

void Model::set(size_t tensor, size_t i, double value) {
  std::byte* const element = gradients_[tensor].data() + i * bytes_of(type(tensor));
  if (type(tensor) == BANYAN_FLOAT64) {
    std::memcpy(element, &value, sizeof value);
    return;
  }
  const auto narrow = static_cast<float>(value);
  best_kernels().encode[type(tensor)](element, &narrow, 1, 1);
}

uint64_t Model::digest() const {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::vector<std::byte>& gradient : gradients_)
    for (const std::byte byte : gradient)
      hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
  return hash;
}

banyan_reducer_config_t reducer_config(banyan_op_t op) {
  banyan_reducer_config_t config = BANYAN_REDUCER_CONFIG_INIT;
  config.op = op;
  return config;
}

banyan_comm_t join_with(Rank& self, const char* codec, double timeout_s) {
  banyan_config_t config = BANYAN_CONFIG_INIT;
  const banyan_compression_t compression = codec_named(codec, 7);
  if (codec != nullptr) config.compression = &compression;
  config.timeout_s = timeout_s * time_factor();
  return self.join(&config);
}

banyan_reducer_t make_reducer(Rank& self, banyan_comm_t comm, const Model& model,
                              const banyan_reducer_config_t& config) {
  banyan_reducer_t reducer = nullptr;
  self.where("banyan_reducer_create");
  self.expect_ok(
      banyan_reducer_create(comm, model.tensors().data(), model.size(), &config, &reducer),
      "banyan_reducer_create");
  return reducer;
}

banyan_result_t make_ready(banyan_reducer_t reducer, Model& model, uint64_t seed) {
  std::vector<size_t> order(model.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  for (const size_t t : order) {
    const banyan_result_t result = banyan_reducer_ready(reducer, model.id(t), model.gradient(t));
    if (result != BANYAN_SUCCESS) return result;
  }
  return BANYAN_SUCCESS;
}

bool reduce(Rank& self, banyan_reducer_t reducer, Model& model, uint64_t seed) {
  return self.expect_ok(make_ready(reducer, model, seed), "ready") &&
         self.expect_ok(banyan_reducer_wait(reducer, BANYAN_ALL_TENSORS), "wait");
}

std::vector<std::byte> save(Rank& self, banyan_reducer_t reducer) {
  size_t bytes = 0;
  self.expect_ok(banyan_reducer_save(reducer, nullptr, &bytes), "how long a blob is");
  std::vector<std::byte> blob(bytes);
  self.expect_ok(banyan_reducer_save(reducer, blob.data(), &bytes), "save");
  self.expect(bytes == blob.size(), "a blob is as long as was said");
  return blob;
}

Checkpoint state_of(Rank& self, banyan_reducer_t reducer) {
  Result<Checkpoint> read = parse_checkpoint(save(self, reducer));
  if (self.expect(read.ok(), read.status().message())) return std::move(*read);
  return {};
}

bool load(Rank& self, banyan_reducer_t reducer, std::span<const std::vector<std::byte>> blobs) {
  std::vector<const void*> starts;
  std::vector<size_t> sizes;
  for (const std::vector<std::byte>& blob : blobs) {
    starts.push_back(blob.data());
    sizes.push_back(blob.size());
  }
  return self.expect_ok(banyan_reducer_load(reducer, starts.data(), sizes.data(), blobs.size()),
                        "load");
}

std::vector<std::vector<std::byte>> all_blobs(Rank& self, banyan_comm_t comm,
                                              const std::vector<std::byte>& blob) {
  int size = 0;
  self.expect_ok(banyan_comm_size(comm, &size), "size");
  std::vector<std::byte> all(blob.size() * static_cast<size_t>(size));
  self.expect_ok(banyan_allgather(blob.data(), all.data(), blob.size(), BANYAN_UINT8, comm),
                 "allgather of blobs, which are equally long");
  std::vector<std::vector<std::byte>> blobs;
  for (auto at = all.begin(); at != all.end(); at += static_cast<ptrdiff_t>(blob.size()))
    blobs.emplace_back(at, at + static_cast<ptrdiff_t>(blob.size()));
  return blobs;
}

banyan_tensor_stats_t stats_of(Rank& self, banyan_reducer_t reducer, uint64_t id) {
  banyan_tensor_stats_t stats{};
  stats.size = sizeof stats;
  self.expect_ok(banyan_reducer_stats(reducer, id, &stats), "stats");
  return stats;
}

std::string_view last_text() {
  return banyan_last_error(nullptr);
}

Account::Account(const Model& model) {
  for (size_t t = 0; t < model.size(); ++t) {
    ids_.push_back(model.id(t));
    balance_.emplace_back(model.count(t));
  }
}

void Account::take_out(const Model& model, double weight) {
  for (size_t t = 0; t < balance_.size(); ++t)
    for (size_t i = 0; i < balance_[t].size(); ++i) balance_[t][i] -= weight * model.at(t, i);
}

void Account::add_left(const Checkpoint& checkpoint) {
  for (const TensorState& state : checkpoint.tensors) {
    const auto t =
        static_cast<size_t>(std::find(ids_.begin(), ids_.end(), state.id) - ids_.begin());
    for (size_t i = 0; i < state.residual.size(); ++i) {
      const auto value = static_cast<double>(state.residual[i]);
      balance_[t][i] -= value;
      left_ += std::abs(value);
    }
  }
}

void Account::put_in(const Model& model, uint64_t step, int ranks) {
  for (size_t t = 0; t < balance_.size(); ++t)
    for (int rank = 0; rank < ranks; ++rank)
      for (size_t i = 0; i < balance_[t].size(); ++i)
        balance_[t][i] += fine_gradient(model.id(t), step, rank, i);
}

double Account::largest_difference() const {
  double largest = 0;
  for (const std::vector<double>& tensor : balance_)
    for (const double difference : tensor) largest = std::max(largest, std::abs(difference));
  return largest;
}

void add_all_left(Rank& self, banyan_comm_t comm, const std::vector<std::byte>& blob,
                  Account& account) {
  for (const std::vector<std::byte>& one : all_blobs(self, comm, blob)) {
    const Result<Checkpoint> read = parse_checkpoint(one);
    if (self.expect(read.ok(), read.status().message())) account.add_left(*read);
  }
}

}  // namespace banyan::test
