// Structs of the C interface from what the package hands over, with the strings that they point to.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "banyan/banyan.h"

namespace banyan::python {

// It stays where it is: what it points to is its own.
class CompressionSetting {
 public:
  CompressionSetting() = default;
  // None, or (fidelity, bound, codec or None, min_bytes, seed).
  explicit CompressionSetting(pybind11::handle given);
  CompressionSetting(const CompressionSetting&) = delete;
  CompressionSetting& operator=(const CompressionSetting&) = delete;

  void set(pybind11::handle given);
  const banyan_compression_t* get() const { return given_ ? &value_ : nullptr; }

 private:
  bool given_ = false;
  std::string codec_;
  banyan_compression_t value_ = BANYAN_COMPRESSION_INIT;
};

class ConfigSetting {
 public:
  // (name or None, transports or None, timeout, init_timeout, determinism, compression); times are
  // seconds, and 0 is the default.
  explicit ConfigSetting(const pybind11::tuple& given);
  ConfigSetting(const ConfigSetting&) = delete;
  ConfigSetting& operator=(const ConfigSetting&) = delete;

  const banyan_config_t* get() const { return &value_; }

 private:
  std::string name_, transports_;
  CompressionSetting compression_;
  banyan_config_t value_ = BANYAN_CONFIG_INIT;
};

}  // namespace banyan::python
