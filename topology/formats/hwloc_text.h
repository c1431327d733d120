// hwloc's XML, element by element.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topology/cpu_set.h"

namespace banyan {

// "0x00000001,,0x0000ffff", as hwloc writes a bitmap: groups of 0 are empty but for the last.
std::string hwloc_bitmap(const CpuSet& set);

class HwlocText {
 public:
  HwlocText();

  // Writes <object type="TYPE" gp_index="N". Its attributes follow, then either open(), what is
  // within and close(), or end(). The number is returned: matrices name objects by it.
  int begin(std::string_view type);
  void attribute(std::string_view name, std::string_view value);  // escaped
  void attribute(std::string_view name, uint64_t value);
  void open();
  void close();
  void end();
  // Nothing where the value is empty.
  void info(std::string_view name, std::string_view value);
  // After all objects. `element` with attributes; `attributes` come after the name.
  void matrix(std::string_view element, std::string_view name, std::string_view attributes,
              const std::vector<std::string>& objects,
              const std::vector<std::vector<uint64_t>>& values);
  std::string finish();

 private:
  std::string text_;
  size_t depth_ = 1;
  int objects_ = 0;
};

}  // namespace banyan
