// What DLPack has in memory, as far as we read it: https://dmlc.github.io/dlpack, versions 0.x
// and 1.x.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace banyan::python {

enum class DlDevice : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };

struct DlDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct DlTensor {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t dimensions;
  DlDataType type;
  const int64_t* shape;
  const int64_t* strides;  // null: C order
  uint64_t byte_offset;
};

// In a capsule "dltensor".
struct DlManaged {
  DlTensor tensor;
  void* context;
  void (*deleter)(DlManaged*);
};

// In a capsule "dltensor_versioned".
struct DlManagedVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(DlManagedVersioned*);
  uint64_t flags;
  DlTensor tensor;
};

// A type has this since DLPack 1.3: __dlpack_c_exchange_api__ is a capsule "dlpack_exchange_api"
// of it.
struct DlExchange {
  uint32_t major, minor;
  DlExchange* former;
  void* allocate;
  // 0, or -1 with an exception of Python. The caller has the GIL.
  int (*export_managed)(void* object, DlManagedVersioned** exported);
};

inline constexpr uint64_t kDlReadOnly = 1;
inline constexpr uint32_t kDlMajor = 1;  // which has this layout

}  // namespace banyan::python
