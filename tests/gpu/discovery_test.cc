// What NVML, CUDA and PCI say of the real GPUs of this host agrees.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "src/base/cuda_driver.h"
#include "tests/support/temporary_folder.h"
#include "topology/discovery/discover.h"
#include "topology/discovery/nvml.h"
#include "topology/formats/export.h"
#include "topology/formats/import.h"
#include "topology/formats/json.h"

namespace banyan {
namespace {

struct SeenGpu {
  Vertex gpu;
  std::optional<Edge> pcie{};
};
using Gpus = std::map<std::string, SeenGpu>;  // by bus id

Topology found_by(const SysRoot& root, const NvmlFunctions* nvml, bool cuda, int* opened) {
  const auto found = discover(root, nvml, [&]() -> std::optional<CudaFunctions> {
    ++*opened;
    return cuda ? open_cuda_driver() : std::nullopt;
  });
  EXPECT_TRUE(found.ok()) << found.status().message();
  return found.ok() ? *found : empty_topology();
}

Gpus gpus_of(const Topology& topology) {
  Gpus gpus;
  for (const int gpu : vertices_of(topology, VertexKind::kGpu)) {
    SeenGpu seen{.gpu = topology.vertices[static_cast<size_t>(gpu)]};
    if (seen.gpu.vendor != "NVIDIA") continue;
    for (const Edge& edge : topology.edges)
      if (edge.kind == EdgeKind::kPcie && edge.from == gpu) seen.pcie = edge;
    gpus.emplace(seen.gpu.bus_id, seen);
  }
  return gpus;
}

class GpuDiscovery : public testing::Test {
 protected:
  Gpus by_nvml(const SysRoot& root = SysRoot()) {
    return gpus_of(found_by(root, &nvml_->functions(), false, &opened_));
  }
  Gpus by_cuda(const SysRoot& root = SysRoot()) {
    return gpus_of(found_by(root, nullptr, true, &opened_));
  }
  Gpus by_pci() { return gpus_of(found_by(SysRoot(), nullptr, false, &opened_)); }

  std::unique_ptr<Nvml> nvml_ = Nvml::open();
  int opened_ = 0;  // how often the driver of CUDA was asked for
  const test::TemporaryFolder masked_{};
};

TEST_F(GpuDiscovery, NvmlSaysAllThatCudaCould) {
  if (nvml_ == nullptr) GTEST_SKIP() << "there is no libnvidia-ml.so.1";
  const Gpus gpus = by_nvml();
  ASSERT_FALSE(gpus.empty());
  for (const auto& [bus_id, seen] : gpus) {
    SCOPED_TRACE(bus_id);
    EXPECT_GE(seen.gpu.index, 0);
    EXPECT_NE(seen.gpu.model, "");
    EXPECT_TRUE(seen.gpu.guid.starts_with("GPU-")) << seen.gpu.guid;
    EXPECT_GT(seen.gpu.memory, 0U);
    EXPECT_GT(seen.gpu.capability, 0);
    EXPECT_TRUE(seen.pcie && seen.pcie->bandwidth.known());
  }
  EXPECT_EQ(opened_, 0) << "CUDA need not be asked";
  const auto whole = discover(std::string());
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(*whole, found_by(SysRoot(), &nvml_->functions(), true, &opened_));
  const auto again = from_json(to_json(*whole));
  EXPECT_TRUE(again.ok() && *again == *whole);
}

// A device of MIG is a part, whose memory is not the GPU's. CUDA keeps some of the memory for
// itself, and its order of the GPUs may be another one.
TEST_F(GpuDiscovery, CudaAgreesWithNvml) {
  if (nvml_ == nullptr) GTEST_SKIP() << "there is no libnvidia-ml.so.1";
  const Gpus nvml = by_nvml();
  const Gpus cuda = by_cuda();
  int asked = 0;
  for (const auto& [bus_id, seen] : cuda) {
    if (seen.gpu.model.empty()) continue;  // it is of PCI, and not visible to this process
    SCOPED_TRACE(bus_id);
    ++asked;
    ASSERT_TRUE(nvml.contains(bus_id));
    const Vertex& wanted = nvml.at(bus_id).gpu;
    EXPECT_EQ(seen.gpu.model, wanted.model);
    EXPECT_EQ(seen.gpu.guid, wanted.guid);
    EXPECT_EQ(seen.gpu.capability, wanted.capability);
    if (seen.gpu.memory == 0) continue;
    EXPECT_LE(seen.gpu.memory, wanted.memory);
    EXPECT_GT(seen.gpu.memory, wanted.memory / 100 * 95);
  }
  EXPECT_GT(asked, 0);
}

TEST_F(GpuDiscovery, PciAgreesWithNvml) {
  if (nvml_ == nullptr) GTEST_SKIP() << "there is no libnvidia-ml.so.1";
  const Gpus pci = by_pci();
  if (pci.empty()) GTEST_SKIP() << "/sys/bus/pci/devices shows no GPU";
  for (const auto& [bus_id, seen] : by_nvml()) {
    SCOPED_TRACE(bus_id);
    ASSERT_TRUE(pci.contains(bus_id));
    EXPECT_EQ(pci.at(bus_id).gpu.vendor, seen.gpu.vendor);
    ASSERT_TRUE(seen.pcie);
    if (pci.at(bus_id).pcie) {
      EXPECT_EQ(pci.at(bus_id).pcie->text, seen.pcie->text);
    }
  }
  // In a container without /sys there is only what the driver says. It may know of a slot that is
  // slower than the GPU, as sysfs does not.
  for (const auto& [bus_id, seen] : by_nvml(SysRoot(masked_.path()))) {
    SCOPED_TRACE(bus_id);
    ASSERT_TRUE(pci.contains(bus_id));
    EXPECT_EQ(pci.at(bus_id).gpu.vendor, seen.gpu.vendor);
    ASSERT_TRUE(seen.pcie && seen.pcie->bandwidth.known());
    const std::optional<Edge>& of_pci = pci.at(bus_id).pcie;
    if (!of_pci || !of_pci->bandwidth.known()) continue;
    EXPECT_LE(*seen.pcie->bandwidth.value, *of_pci->bandwidth.value);
  }
}

TEST_F(GpuDiscovery, NeedsNoSys) {
  const Gpus cuda = by_cuda(SysRoot(masked_.path()));
  ASSERT_FALSE(cuda.empty());
  const Gpus whole = by_cuda();
  for (const auto& [bus_id, seen] : cuda) {
    ASSERT_TRUE(whole.contains(bus_id)) << bus_id;
    EXPECT_EQ(whole.at(bus_id).gpu.guid, seen.gpu.guid);
  }
  if (nvml_ == nullptr) GTEST_SKIP() << "there is no libnvidia-ml.so.1";
  const Gpus nvml = by_nvml(SysRoot(masked_.path()));
  for (const auto& [bus_id, seen] : cuda) EXPECT_TRUE(nvml.contains(bus_id)) << bus_id;
}

TEST_F(GpuDiscovery, IsReadBackFromNcclsForm) {
  const auto whole = discover(std::string());
  ASSERT_TRUE(whole.ok());
  const auto text = to_nccl_xml(*whole);
  ASSERT_TRUE(text.ok()) << text.status().message();
  const auto again = import_topology(*text);
  if (again.status().code() == Code::kUnsupported)
    GTEST_SKIP() << std::string(again.status().message());
  ASSERT_TRUE(again.ok()) << again.status().message();
  const Gpus gpus = gpus_of(*again);
  for (const auto& [bus_id, seen] : gpus_of(*whole)) {
    SCOPED_TRACE(bus_id);
    ASSERT_TRUE(gpus.contains(bus_id));
    EXPECT_EQ(gpus.at(bus_id).gpu.index, seen.gpu.index);
    EXPECT_EQ(gpus.at(bus_id).gpu.capability, seen.gpu.capability);
    ASSERT_EQ(gpus.at(bus_id).pcie.has_value(), seen.pcie.has_value());
    if (seen.pcie) {
      EXPECT_EQ(gpus.at(bus_id).pcie->text, seen.pcie->text);
    }
  }
}

}  // namespace
}  // namespace banyan
