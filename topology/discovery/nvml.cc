// SPDX-License-Identifier: Apache-2.0

#include "topology/discovery/nvml.h"

#include <dlfcn.h>

namespace banyan {

namespace {

template <typename Function>
void find(void* library, const char* name, Function** function) {
  // POSIX has dlsym() give functions as void*.
  *function = reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace

std::unique_ptr<Nvml> Nvml::open() {
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  std::unique_ptr<Nvml> nvml(new Nvml(library));
  NvmlFunctions& f = nvml->functions_;
  find(library, "nvmlInit_v2", &f.init);
  find(library, "nvmlShutdown", &f.shutdown);
  find(library, "nvmlDeviceGetCount_v2", &f.device_count);
  find(library, "nvmlDeviceGetHandleByIndex_v2", &f.device);
  find(library, "nvmlDeviceGetPciInfo_v3", &f.pci_info);
  find(library, "nvmlDeviceGetName", &f.name);
  find(library, "nvmlDeviceGetUUID", &f.uuid);
  find(library, "nvmlDeviceGetMemoryInfo", &f.memory);
  find(library, "nvmlDeviceGetCudaComputeCapability", &f.capability);
  find(library, "nvmlDeviceGetMaxPcieLinkGeneration", &f.pcie_generation);
  find(library, "nvmlDeviceGetMaxPcieLinkWidth", &f.pcie_width);
  find(library, "nvmlDeviceGetMigMode", &f.mig_mode);
  find(library, "nvmlDeviceGetMaxMigDeviceCount", &f.mig_count);
  find(library, "nvmlDeviceGetMigDeviceHandleByIndex", &f.mig_device);
  find(library, "nvmlDeviceGetNvLinkState", &f.link_state);
  find(library, "nvmlDeviceGetNvLinkVersion", &f.link_version);
  find(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2", &f.link_remote);
  find(library, "nvmlDeviceGetNvLinkRemoteDeviceType", &f.link_remote_type);
  const bool usable = f.init != nullptr && f.shutdown != nullptr && f.device_count != nullptr &&
                      f.device != nullptr && f.pci_info != nullptr;
  return usable ? std::move(nvml) : nullptr;
}

Nvml::~Nvml() {
  ::dlclose(library_);
}

}  // namespace banyan
