// NVIDIA's management library is a table of functions here, so that it can be absent and tests can
// put another in its place. Prototypes are ours: nvml.h is not needed to build (NVML API reference,
// vR550; all of them have been in the library under these names since R470 at the latest).
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>

namespace banyan {

inline constexpr int kNvmlSuccess = 0;
inline constexpr unsigned kNvmlMostLinks = 18;  // NVML_NVLINK_MAX_LINKS
inline constexpr unsigned kNvmlTextBytes = 96;  // NVML_DEVICE_NAME_V2_BUFFER_SIZE and _UUID_V2_
inline constexpr int kNvmlRemoteSwitch = 1;     // NVML_NVLINK_DEVICE_TYPE_SWITCH

struct NvmlPciInfo {  // nvmlPciInfo_t
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct NvmlMemory {  // nvmlMemory_t
  unsigned long long total, free, used;
};

// Each returns nvmlReturn_t. Those marked may be null.
struct NvmlFunctions {
  using Device = void*;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*device_count)(unsigned*) = nullptr;
  int (*device)(unsigned, Device*) = nullptr;
  int (*pci_info)(Device, NvmlPciInfo*) = nullptr;
  int (*name)(Device, char*, unsigned) = nullptr;                // may be null
  int (*uuid)(Device, char*, unsigned) = nullptr;                // may be null
  int (*memory)(Device, NvmlMemory*) = nullptr;                  // may be null
  int (*capability)(Device, int*, int*) = nullptr;               // may be null
  int (*pcie_generation)(Device, unsigned*) = nullptr;           // may be null
  int (*pcie_width)(Device, unsigned*) = nullptr;                // may be null
  int (*mig_mode)(Device, unsigned*, unsigned*) = nullptr;       // may be null
  int (*mig_count)(Device, unsigned*) = nullptr;                 // may be null
  int (*mig_device)(Device, unsigned, Device*) = nullptr;        // may be null
  int (*link_state)(Device, unsigned, int*) = nullptr;           // may be null
  int (*link_version)(Device, unsigned, unsigned*) = nullptr;    // may be null
  int (*link_remote)(Device, unsigned, NvmlPciInfo*) = nullptr;  // may be null
  int (*link_remote_type)(Device, unsigned, int*) = nullptr;     // may be null
};

// Opens the library of this machine while this lives; null where there is none, or none with the
// functions that are needed.
class Nvml {
 public:
  static std::unique_ptr<Nvml> open();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml();
  const NvmlFunctions& functions() const { return functions_; }

 private:
  explicit Nvml(void* library) : library_(library) {}

  void* library_;
  NvmlFunctions functions_{};
};

}  // namespace banyan
