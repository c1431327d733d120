// GPUs by CUDA: a driver made to order, and one that is loaded.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "src/base/cuda_driver.h"
#include "tests/topology/sysfs_tree.h"
#include "topology/discovery/discover.h"
#include "topology/discovery/gpus.h"
#include "topology/formats/json.h"

namespace banyan::cuda_gpus_test {
namespace {

using test::Tree;
using test::vertex;

struct FakeGpu {
  std::string bus_id;
  std::string name = "Made GPU";
  unsigned char uuid = 1;       // all bytes
  unsigned char partition = 1;  // the same: it is the GPU
};
struct FakeDriver {
  std::vector<FakeGpu> gpus;
  int init = kCudaSuccess;
  std::string refused{};  // the call that fails
  int opened = 0;
  int answer(const char* call) const { return refused == call ? 999 : kCudaSuccess; }
};
FakeDriver fake;  // of the test that runs

// Half of what is written is rubbish where a call fails.
int put(const std::string& text, char* target, int bytes, const char* call) {
  const size_t most = std::min(text.size() + 1, static_cast<size_t>(bytes));
  std::memcpy(target, text.c_str(), most);
  return fake.answer(call);
}

const FakeGpu& gpu_of(int device) {
  return fake.gpus[static_cast<size_t>(device - 100)];
}

CudaFunctions fake_functions() {
  CudaFunctions f;
  f.init = [](unsigned flags) { return flags == 0 ? fake.init : 1; };
  f.device_count = [](int* count) {
    *count = static_cast<int>(fake.gpus.size());
    return fake.answer("count");
  };
  f.device = [](int* device, int ordinal) {
    *device = 100 + ordinal;
    return fake.answer("device");
  };
  f.bus_id = [](char* text, int bytes, int device) {
    return put(gpu_of(device).bus_id, text, bytes, "bus_id");
  };
  f.name = [](char* text, int bytes, int device) {
    return put(gpu_of(device).name, text, bytes, "name");
  };
  f.memory = [](size_t* memory, int) {
    *memory = size_t{40} << 30;
    return fake.answer("memory");
  };
  f.attribute = [](int* value, int attribute, int) {
    *value = attribute == kCudaCapabilityMajor ? 8 : 6;
    return fake.answer("attribute");
  };
  f.uuid = [](CudaUuid* uuid, int device) {
    std::memset(uuid->bytes, gpu_of(device).uuid, sizeof uuid->bytes);
    return fake.answer("uuid");
  };
  f.partition_uuid = [](CudaUuid* uuid, int device) {
    std::memset(uuid->bytes, gpu_of(device).partition, sizeof uuid->bytes);
    return fake.answer("partition_uuid");
  };
  return f;
}

Topology discovered(const Tree& tree, const NvmlFunctions* nvml, const CudaFunctions& cuda) {
  auto found = discover(tree.sys(), nvml, [&] { return ++fake.opened, std::optional(cuda); });
  EXPECT_TRUE(found.ok()) << found.status().message();
  if (!found.ok()) return empty_topology();
  const auto again = from_json(to_json(*found));
  EXPECT_TRUE(again.ok() && *again == *found);
  return std::move(*found);
}

// One GPU, of which NVML says all or but its number.
bool nvml_says_all = true;
NvmlFunctions nvml_functions() {
  static char place;
  NvmlFunctions f;
  f.init = [] { return kNvmlSuccess; };
  f.shutdown = f.init;
  f.device_count = [](unsigned* count) { return *count = 1, kNvmlSuccess; };
  f.device = [](unsigned, void** device) { return *device = &place, kNvmlSuccess; };
  f.pci_info = [](void*, NvmlPciInfo* info) {
    std::strcpy(info->bus_id, "00000000:03:00.0");
    return kNvmlSuccess;
  };
  f.name = [](void*, char* text, unsigned) {
    std::strcpy(text, "NVML's");
    return nvml_says_all ? kNvmlSuccess : 999;
  };
  f.uuid = f.name;
  f.memory = [](void*, NvmlMemory* memory) {
    memory->total = 80ULL << 30;
    return nvml_says_all ? kNvmlSuccess : 999;
  };
  f.capability = [](void*, int* major, int* minor) {
    *major = 9;
    *minor = 0;
    return nvml_says_all ? kNvmlSuccess : 999;
  };
  return f;
}

TEST(CudaGpus, JoinThoseOfPciAndAddThoseThatItDoesNotShow) {
  const Tree tree;
  tree.processors();
  tree.devices();
  fake = {
      .gpus = {{.bus_id = "0000:81:00.0", .uuid = 2, .partition = 2}, {.bus_id = "0000:03:00.0"}}};
  const Topology found = discovered(tree, nullptr, fake_functions());
  ASSERT_EQ(vertices_of(found, VertexKind::kGpu).size(), 2U);
  const Vertex& gpu = vertex(found, "made/gpu1");
  EXPECT_EQ(full_name(found, gpu.parent), "made/pci-0000:01:00.0");
  EXPECT_EQ(gpu.index, 1);
  EXPECT_EQ(gpu.model, "Made GPU");
  EXPECT_EQ(gpu.memory, uint64_t{40} << 30);
  EXPECT_EQ(gpu.capability, 86);
  EXPECT_EQ(gpu.guid, "GPU-01010101-0101-0101-0101-010101010101");
  EXPECT_EQ(full_name(found, vertex(found, "made/gpu0").parent), "made");
  EXPECT_EQ(vertex(found, "made/gpu0").bus_id, "0000:81:00.0");
}

TEST(CudaGpus, CompleteWhatNvmlSaysAndChangeNothing) {
  const Tree tree;
  tree.processors();
  tree.devices();
  const NvmlFunctions nvml = nvml_functions();
  // Their orders differ.
  fake = {.gpus = {{.bus_id = "0000:81:00.0"}, {.bus_id = "0000:03:00.0"}}};
  nvml_says_all = true;
  const Topology told = discovered(tree, &nvml, fake_functions());
  EXPECT_EQ(fake.opened, 0) << "NVML said all";
  EXPECT_EQ(vertex(told, "made/gpu0").capability, 90);
  EXPECT_EQ(vertices_of(told, VertexKind::kGpu).size(), 1U);
  nvml_says_all = false;
  const Topology found = discovered(tree, &nvml, fake_functions());
  EXPECT_EQ(vertex(found, "made/gpu0").bus_id, "0000:03:00.0");
  EXPECT_EQ(vertex(found, "made/gpu0").index, 0);
  EXPECT_EQ(vertex(found, "made/gpu0").model, "Made GPU");
  EXPECT_EQ(vertex(found, "made/gpu0").capability, 86);
  EXPECT_EQ(vertex(found, "made/gpu1").bus_id, "0000:81:00.0");
  EXPECT_EQ(vertex(found, "made/gpu1").index, -1) << "a number of another order";
}

TEST(CudaGpus, InstancesOfMigArePartsOfOneGpu) {
  const Tree tree;
  tree.processors();
  tree.devices();
  fake = {.gpus = {{.bus_id = "0000:03:00.0", .name = "Made GPU MIG 1g.5gb", .partition = 5},
                   {.bus_id = "0000:03:00.0", .name = "Made GPU MIG 2g.10gb", .partition = 6},
                   {.bus_id = "0000:03:00.0", .name = "Made GPU MIG 2g.10gb", .partition = 6}}};
  const Topology found = discovered(tree, nullptr, fake_functions());
  ASSERT_EQ(vertices_of(found, VertexKind::kGpu).size(), 1U);
  EXPECT_EQ(vertex(found, "made/gpu0").model, "Made GPU");
  EXPECT_EQ(vertex(found, "made/gpu0").memory, 0U) << "of one instance";
  EXPECT_EQ(vertex(found, "made/gpu0").guid, "GPU-01010101-0101-0101-0101-010101010101");
  ASSERT_EQ(vertices_of(found, VertexKind::kPartition).size(), 2U);
  const Vertex& part = vertex(found, "made/gpu0.mig");
  EXPECT_EQ(full_name(found, part.parent), "made/gpu0");
  EXPECT_EQ(part.guid, "MIG-05050505-0505-0505-0505-050505050505");
  EXPECT_EQ(part.model, "Made GPU MIG 1g.5gb");
  EXPECT_EQ(part.memory, uint64_t{40} << 30);
}

// Whatever call fails or is missing, GPUs that PCI has found stay as they are.
TEST(CudaGpus, WhatFailsTakesNothingElseWithIt) {
  const Tree tree;
  tree.processors();
  tree.devices();
  const auto without = discover(tree.sys(), nullptr);
  ASSERT_TRUE(without.ok()) << without.status().message();
  for (const char* call : {"init", "count", "device", "bus_id", "name", "memory", "attribute",
                           "uuid", "partition_uuid"}) {
    SCOPED_TRACE(call);
    fake = {.gpus = {{.bus_id = "0000:03:00.0"}}, .refused = call};
    if (fake.refused == "init") fake.init = 100;
    const Topology found = discovered(tree, nullptr, fake_functions());
    ASSERT_EQ(vertices_of(found, VertexKind::kGpu).size(), 1U);
    const Vertex& gpu = vertex(found, "made/gpu0");
    const bool joined = std::strchr("nmaup", *call) != nullptr;
    EXPECT_EQ(gpu.model, joined && fake.refused != "name" ? "Made GPU" : "");
    EXPECT_EQ(gpu.capability, joined && fake.refused != "attribute" ? 86 : 0);
    EXPECT_EQ(gpu.memory != 0, joined && fake.refused != "memory");
    EXPECT_EQ(gpu.guid.empty(), !joined || fake.refused == "uuid");
    EXPECT_EQ(found == *without, !joined);
  }
  fake = {.gpus = {{.bus_id = "0000:03:00.0"}}};
  CudaFunctions least = fake_functions();
  least.name = nullptr;
  least.memory = nullptr;
  least.attribute = nullptr;
  least.uuid = least.partition_uuid = nullptr;
  EXPECT_EQ(vertex(discovered(tree, nullptr, least), "made/gpu0").index, 0);
  EXPECT_EQ(discovered(tree, nullptr, {}), *without);
  fake.gpus = {{.bus_id = std::string(1000, 'x')}, {.bus_id = ""}};
  EXPECT_EQ(discovered(tree, nullptr, fake_functions()), *without);
}

TEST(CudaDriver, IsOpenedAndHasAllFunctions) {
  const auto driver = open_cuda_driver();
  ASSERT_TRUE(driver) << "LD_LIBRARY_PATH has a libcuda.so.1";
  const Tree masked;
  const Topology found = discovered(masked, nullptr, *driver);
  ASSERT_EQ(vertices_of(found, VertexKind::kGpu).size(), 1U);
  const Vertex& gpu = vertex(found, "node/gpu0");
  EXPECT_EQ(gpu.bus_id, "0000:0a:00.0");
  EXPECT_EQ(gpu.model, "Made GPU");
  EXPECT_EQ(gpu.memory, uint64_t{80} << 30);
  EXPECT_EQ(gpu.capability, 90);
  EXPECT_EQ(gpu.guid, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
  EXPECT_TRUE(vertices_of(found, VertexKind::kPartition).empty());
  EXPECT_NE(driver->pointer_attribute, nullptr);
}

}  // namespace
}  // namespace banyan::cuda_gpus_test
