// A gradient reducer for Python.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <map>
#include <memory>

#include "banyan/banyan.h"
#include "python/core/buffers.h"
#include "python/core/communicator.h"

namespace banyan::python {

class Reducer final : public Dependent {
 public:
  // given: (id, name, count, dimensions, datatype, compression) each; settings: (bucket_bytes, op,
  // error_feedback, momentum, clip_norm, warmup_steps, rules or None).
  Reducer(std::shared_ptr<Communicator> communicator, const pybind11::list& given,
          const pybind11::tuple& settings);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  void ready(uint64_t id, pybind11::handle gradient);
  void wait(uint64_t id);
  pybind11::bytes save();
  void load(const pybind11::list& blobs);
  pybind11::dict stats(uint64_t id);
  // Between steps.
  void close();

  banyan_result_t before_finalize() override;
  void after() noexcept override { (void)before_finalize(); }

 private:
  struct Registered {
    size_t count;
    banyan_datatype_t type;
  };

  banyan_reducer_t handle() const;

  std::shared_ptr<Communicator> communicator_;
  banyan_reducer_t handle_ = nullptr;
  std::map<uint64_t, Registered> tensors_;
  std::multimap<uint64_t, Buffer> gradients_;  // which the library has
};

}  // namespace banyan::python
