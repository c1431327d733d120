// Tells whether NICs could read GPUs by themselves: the links of the chain, in the order in which
// they are worth looking at.
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/info/doctor/doctor.h"

namespace banyan {

namespace {

constexpr std::string_view kDriver = "/proc/driver/nvidia/version";
constexpr std::array<std::string_view, 3> kPeerMemory{"/sys/module/nvidia_peermem/version",
                                                      "/sys/kernel/mm/memory_peers/nv_mem/version",
                                                      "/sys/module/nv_peer_mem/version"};

struct Answer {
  GpuDirect verdict;
  std::string why, fix;
};

// What has to be there for any NIC. Nothing: it is.
std::optional<Answer> gpu_obstacle(const SysRoot& root, const Vertex& gpu) {
  if (gpu.vendor != "NVIDIA")
    return Answer{GpuDirect::kUnknown,
                  fmt::format("[gpu.vendor] nothing is known here of GPUs of {}",
                              gpu.vendor.empty() ? "an unknown vendor" : gpu.vendor),
                  {}};
  const std::string kind = root.line(fmt::format("/sys/bus/pci/devices/{}/class", gpu.bus_id));
  if (kind.starts_with("0x0300") || gpu.model.find("GeForce") != std::string::npos)
    return Answer{GpuDirect::kUnknown,
                  fmt::format("[gpu.kind] {} of class {}: of GPUs for screens only some can",
                              gpu.model.empty() ? gpu.name : gpu.model, kind),
                  {}};
  const std::string driver = root.line(kDriver);
  if (driver.empty())
    return Answer{GpuDirect::kUnknown, fmt::format("[gpu.driver] {}: not there", kDriver),
                  "load the NVIDIA driver, or let the container see it"};
  for (const std::string_view module : kPeerMemory)
    if (root.exists(module)) return std::nullopt;
  const bool open = driver.find("Open Kernel Module") != std::string::npos;
  if (!open)
    return Answer{GpuDirect::kPossible,
                  fmt::format("[gpu.module] {}: not an open kernel module; {}: not there", kDriver,
                              kPeerMemory.front()),
                  "modprobe nvidia-peermem, or install the open kernel modules"};
  const std::string kernel = root.line("/proc/sys/kernel/osrelease");
  int major = 0, minor = 0;
  if (std::sscanf(kernel.c_str(), "%d.%d", &major, &minor) != 2)
    return Answer{GpuDirect::kUnknown, "[gpu.kernel] /proc/sys/kernel/osrelease: not there", {}};
  if (major < 5 || (major == 5 && minor < 12))
    return Answer{GpuDirect::kPossible,
                  fmt::format("[gpu.kernel] kernel {}: RDMA with dma-buf came with 5.12; {}: not "
                              "there",
                              kernel, kPeerMemory.front()),
                  "modprobe nvidia-peermem, or a newer kernel"};
  return std::nullopt;
}

std::optional<Answer> nic_obstacle(const SysRoot& root, const Vertex& nic,
                                   const std::map<std::string, Finding>& obstacles) {
  if (!root.exists("/sys/class/infiniband/" + nic.name))
    return Answer{GpuDirect::kImpossible,
                  fmt::format("[nic.rdma] /sys/class/infiniband/{}: not there", nic.name),
                  "load its RDMA driver, if it has one"};
  const auto found = obstacles.find(nic.name);
  if (found == obstacles.end()) return std::nullopt;
  const Finding& obstacle = found->second;
  return Answer{GpuDirect::kPossible,
                fmt::format("[{}] {} ({})", obstacle.id, obstacle.seen, obstacle.evidence),
                obstacle.fix};
}

}  // namespace

void examine_cuda(const Patient& patient, std::vector<Finding>& findings) {
  if (const std::string& why = patient.process.no_gpu; !why.empty())
    findings.push_back({.id = "cuda.device",
                        .severity = vertices_of(patient.topology, VertexKind::kGpu).empty()
                                        ? Severity::kNote
                                        : Severity::kWarning,
                        .seen = "the CUDA driver gives this process no GPU",
                        .evidence = why,
                        .fix = "look at CUDA_VISIBLE_DEVICES, at /dev/nvidia*, and whether the "
                               "driver's library and module are of one version"});
  if (const std::string& why = patient.process.no_kernels; !why.empty())
    findings.push_back({.id = "cuda.kernels",
                        .severity = Severity::kWarning,
                        .seen = "the host encodes what lies in a GPU",
                        .evidence = why,
                        .fix = "install a newer driver"});
  const ProcessFacts& process = patient.process;
  if (!process.no_handles.empty() && process.no_descriptors.empty())
    findings.push_back({.id = "cuda.ipc",
                        .severity = Severity::kNote,
                        .seen = "ranks that are processes read each other's memory of GPUs by "
                                "descriptors, as handles are refused",
                        .evidence = process.no_handles,
                        .fix = "nothing needs to be done: some calls go through the host first"});
  if (!process.no_handles.empty() && !process.no_descriptors.empty())
    findings.push_back({.id = "cuda.ipc",
                        .severity = Severity::kWarning,
                        .seen = "ranks that are processes cannot read each other's memory of GPUs, "
                                "so that it goes through the host",
                        .evidence = process.no_handles + "; " + process.no_descriptors,
                        .fix = "let the containers of a job share the IPC namespace (--ipc=host) "
                               "and the GPUs, or start one with all of its ranks"});
}

std::vector<GpuNic> examine_gpus(const Patient& patient) {
  std::vector<GpuNic> pairs;
  const Topology& topology = patient.topology;
  const auto gpus = vertices_of(topology, VertexKind::kGpu);
  if (gpus.empty()) return pairs;
  const auto obstacles = rdma_obstacles(patient.root);
  std::vector<std::pair<int, std::optional<Answer>>> nics;
  for (const int nic : vertices_of(topology, VertexKind::kNic))
    nics.emplace_back(
        nic, nic_obstacle(patient.root, topology.vertices[static_cast<size_t>(nic)], obstacles));
  const Answer ready{GpuDirect::kPossible,
                     "[library.memory] calls of this version bring what lies in a GPU to the host; "
                     "the parts of the system are there, and nothing was transferred",
                     {}};
  const Paths paths(topology);
  for (const int gpu : gpus) {
    const Vertex& device = topology.vertices[static_cast<size_t>(gpu)];
    const Answer of_gpu = gpu_obstacle(patient.root, device).value_or(ready);
    for (const auto& [nic, of_nic] : nics) {
      const Answer& answer = of_nic ? *of_nic : of_gpu;
      pairs.push_back({device.name, topology.vertices[static_cast<size_t>(nic)].name,
                       paths.between(gpu, nic).type, answer.verdict, answer.why, answer.fix});
    }
  }
  return pairs;
}

}  // namespace banyan
