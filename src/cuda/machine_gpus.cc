// SPDX-License-Identifier: Apache-2.0

#include "src/cuda/machine_gpus.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include "src/base/file.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

template <typename Predicate>
bool any_in(const fs::path& folder, const Predicate& is) {
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error))
    if (is(each->path())) return true;
  return false;
}

bool is_of_nvidia(const fs::path& pci_device) {
  const Result<std::string> vendor = read_file((pci_device / "vendor").string(), 16);
  return vendor.ok() && vendor->starts_with("0x10de");
}

bool is_named_by_a_driver(const fs::path& device) {
  const std::string name = device.filename().string();
  constexpr std::string_view kBegins[] = {"nvidia", "nvhost", "nvmap", "nvgpu", "dxg"};
  return std::any_of(std::begin(kBegins), std::end(kBegins),
                     [&](std::string_view begin) { return name.starts_with(begin); });
}

}  // namespace

bool may_have_gpu(const std::string& root) {
  return any_in(fs::path(root) / "dev", is_named_by_a_driver) ||
         any_in(fs::path(root) / "sys/bus/pci/devices", is_of_nvidia);
}

}  // namespace banyan
