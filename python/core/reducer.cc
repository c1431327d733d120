// SPDX-License-Identifier: Apache-2.0

#include "python/core/reducer.h"

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "python/core/datatypes.h"
#include "python/core/errors.h"
#include "python/core/settings.h"
#include "python/core/waiting.h"

namespace py = pybind11;

namespace banyan::python {
namespace {

// What the C interface reads at creation, and the strings behind it, which stay where they are.
struct Tensors {
  explicit Tensors(const py::list& given) {
    for (const py::handle each : given) {
      const auto fields = py::cast<py::tuple>(each);
      names.push_back(py::cast<std::string>(fields[1]));
      compressions.emplace_back(fields[5]);
      rows.push_back({.size = sizeof(banyan_tensor_t),
                      .id = py::cast<uint64_t>(fields[0]),
                      .name = names.back().c_str(),
                      .count = py::cast<size_t>(fields[2]),
                      .dimensions = py::cast<int>(fields[3]),
                      .datatype = static_cast<banyan_datatype_t>(py::cast<int>(fields[4])),
                      .compression = compressions.back().get()});
    }
  }

  std::deque<std::string> names;
  std::deque<CompressionSetting> compressions;
  std::vector<banyan_tensor_t> rows;
};

}  // namespace

Reducer::Reducer(std::shared_ptr<Communicator> communicator, const py::list& given,
                 const py::tuple& settings)
    : communicator_(std::move(communicator)) {
  const Tensors tensors(given);
  for (const banyan_tensor_t& row : tensors.rows) tensors_[row.id] = {row.count, row.datatype};
  std::string rules;
  banyan_reducer_config_t config = BANYAN_REDUCER_CONFIG_INIT;
  config.bucket_bytes = py::cast<size_t>(settings[0]);
  config.op = py::cast<int>(settings[1]);
  config.error_feedback = py::cast<bool>(settings[2]) ? 1 : 0;
  config.momentum = py::cast<double>(settings[3]);
  config.clip_norm = py::cast<double>(settings[4]);
  config.warmup_steps = py::cast<uint64_t>(settings[5]);
  if (!settings[6].is_none()) {
    rules = py::cast<std::string>(settings[6]);
    config.rules = rules.c_str();
  }
  const banyan_comm_t comm = communicator_->handle();
  const Use use(*communicator_);
  check_waited(wait_for(comm,
                        [&] {
                          return banyan_reducer_create(comm, tensors.rows.data(),
                                                       tensors.rows.size(), &config, &handle_);
                        }),
               comm);
  communicator_->add(this);
}

// A step that is on its way writes to gradients, so the communicator cannot go on without it.
Reducer::~Reducer() {
  if (handle_ == nullptr) return;
  communicator_->remove(this);
  if (before_finalize() == BANYAN_SUCCESS) return;
  if (!communicator_->closed()) (void)banyan_comm_abort(communicator_->handle());
  (void)before_finalize();
}

banyan_reducer_t Reducer::handle() const {
  if (handle_ == nullptr)
    raise({.result = BANYAN_ERR_INVALID_USAGE, .text = "the reducer is closed"});
  return handle_;
}

void Reducer::ready(uint64_t id, py::handle gradient) {
  const banyan_reducer_t reducer = handle();
  Buffer buffer(gradient, Access::kWrite, "gradient");
  const auto found = tensors_.find(id);
  if (found != tensors_.end()) {
    const auto [count, type] = found->second;
    if (buffer.type() != type)
      throw py::type_error("gradient has elements of " + std::string(name_of(buffer.type())) +
                           "; right is " + std::string(name_of(type)) +
                           ", as the tensor was registered");
    if (buffer.count() != count)
      throw py::value_error("gradient has " + std::to_string(buffer.count()) +
                            " elements; right is " + std::to_string(count) +
                            ", as the tensor was registered");
  }
  void* data = buffer.data();
  banyan_result_t result = BANYAN_SUCCESS;
  {
    const WithoutGil released;
    result = banyan_reducer_ready(reducer, id, data);
  }
  check(result, communicator_->closed() ? nullptr : communicator_->handle());
  gradients_.emplace(id, std::move(buffer));
}

void Reducer::wait(uint64_t id) {
  const banyan_reducer_t reducer = handle();
  const banyan_comm_t comm = communicator_->handle();
  // What becomes ready meanwhile is of the next step.
  std::vector<Buffer> waited;
  const auto [first, last] = id == BANYAN_ALL_TENSORS
                                 ? std::pair(gradients_.begin(), gradients_.end())
                                 : gradients_.equal_range(id);
  for (auto each = first; each != last; ++each) waited.push_back(std::move(each->second));
  gradients_.erase(first, last);
  check_waited(wait_for(comm, [=] { return banyan_reducer_wait(reducer, id); }), comm);
}

py::bytes Reducer::save() {
  const banyan_reducer_t reducer = handle();
  size_t bytes = 0;
  check(banyan_reducer_save(reducer, nullptr, &bytes));
  std::string blob(bytes, '\0');
  check(banyan_reducer_save(reducer, blob.data(), &bytes));
  return {blob.data(), bytes};
}

void Reducer::load(const py::list& blobs) {
  std::deque<std::string> kept;
  std::vector<const void*> places;
  std::vector<size_t> lengths;
  for (const py::handle each : blobs) {
    kept.push_back(py::cast<std::string>(py::bytes(py::reinterpret_borrow<py::object>(each))));
    places.push_back(kept.back().data());
    lengths.push_back(kept.back().size());
  }
  check(banyan_reducer_load(handle(), places.data(), lengths.data(), places.size()));
}

py::dict Reducer::stats(uint64_t id) {
  banyan_tensor_stats_t stats{};
  stats.size = sizeof stats;
  check(banyan_reducer_stats(handle(), id, &stats));
  using py::literals::operator""_a;
  return py::dict("steps"_a = stats.steps, "bytes_raw"_a = stats.bytes_raw,
                  "bytes_sent"_a = stats.bytes_sent, "nonfinite"_a = stats.nonfinite,
                  "fallbacks"_a = stats.fallbacks, "error_nmse"_a = stats.error_nmse,
                  "residual_norm"_a = stats.residual_norm, "codec_seconds"_a = stats.codec_seconds,
                  "wait_seconds"_a = stats.wait_seconds);
}

void Reducer::close() {
  if (handle_ == nullptr) return;
  check(before_finalize());
  communicator_->remove(this);
}

banyan_result_t Reducer::before_finalize() {
  if (handle_ == nullptr) return BANYAN_SUCCESS;
  banyan_result_t result = BANYAN_SUCCESS;
  {
    const WithoutGil released;
    result = banyan_reducer_destroy(handle_);
  }
  if (result == BANYAN_SUCCESS) {
    handle_ = nullptr;
    gradients_.clear();
  }
  return result;
}

}  // namespace banyan::python
