// SPDX-License-Identifier: Apache-2.0

#include "topology/nvlink.h"

#include <array>
#include <string_view>

namespace banyan {

Figure nvlink_bandwidth(unsigned nvml_version) {
  constexpr std::array<double, 8> kBandwidths = {0, 20, 25, 25, 25, 25, 25, 50};
  if (nvml_version == 0 || nvml_version >= kBandwidths.size())
    return {std::nullopt, Source::kTable};
  return {kBandwidths[nvml_version], Source::kTable};
}

Figure nvlink_of_capability(int64_t capability) {
  if (capability < 60) return {std::nullopt, Source::kTable};
  return {capability < 70 ? 20.0 : capability < 100 ? 25.0 : 50.0, Source::kTable};
}

std::string nvlink_name(unsigned nvml_version) {
  constexpr std::array<std::string_view, 8> kNames = {"NVLink",     "NVLink 1", "NVLink 2",
                                                      "NVLink 2.2", "NVLink 3", "NVLink 3.1",
                                                      "NVLink 4",   "NVLink 5"};
  return std::string(kNames[nvml_version < kNames.size() ? nvml_version : 0]);
}

}  // namespace banyan
