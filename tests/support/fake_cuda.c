/* In place of libcuda.so.1: a GPU, and one range of ordinary memory that is said to be its.
 * SPDX-License-Identifier: Apache-2.0 */

#include <stddef.h>
#include <stdio.h>

static unsigned long long fake_begin, fake_bytes;
static unsigned fake_type, fake_managed;
static unsigned long long fake_buffer; /* each range has a number of its own */
static long fake_questions;            /* calls that ask for one attribute */

/* type: as CUmemorytype, 1 of the host, 2 of a device. */
void fake_cuda_owns(void* begin, unsigned long long bytes, unsigned type, unsigned managed) {
  fake_begin = (unsigned long long)begin;
  fake_bytes = bytes;
  fake_type = type;
  fake_managed = managed;
  ++fake_buffer;
}

long fake_cuda_questions(void) {
  return fake_questions;
}

static int fake_tell(void* value, int attribute) {
  switch (attribute) {
    case 2: *(unsigned*)value = fake_type; return 0;
    case 7: *(unsigned long long*)value = fake_buffer; return 0;
    case 8: *(unsigned*)value = fake_managed; return 0;
    case 9: *(int*)value = 0; return 0;
    default: return 1; /* CUDA_ERROR_INVALID_VALUE */
  }
}

int cuPointerGetAttribute(void* value, int attribute, unsigned long long pointer) {
  ++fake_questions;
  return pointer - fake_begin < fake_bytes ? fake_tell(value, attribute) : 1;
}

/* The type and the number of memory that is not the driver's are 0. */
int cuPointerGetAttributes(unsigned count, int* attributes, void** values,
                           unsigned long long pointer) {
  for (unsigned i = 0; i < count; ++i) {
    if (pointer - fake_begin < fake_bytes)
      fake_tell(values[i], attributes[i]);
    else if (attributes[i] == 7)
      *(unsigned long long*)values[i] = 0;
    else
      *(unsigned*)values[i] = 0;
  }
  return 0;
}

/* One GPU, to be described. */
int cuInit(unsigned flags) {
  return flags == 0 ? 0 : 1;
}
int cuDeviceGetCount(int* count) {
  return *count = 1, 0;
}
int cuDeviceGet(int* device, int ordinal) {
  return *device = 7, ordinal == 0 ? 0 : 101; /* CUDA_ERROR_INVALID_DEVICE */
}
int cuDeviceGetPCIBusId(char* text, int bytes, int device) {
  return snprintf(text, (size_t)bytes, "0000:0A:00.0") < bytes && device == 7 ? 0 : 101;
}
int cuDeviceGetName(char* text, int bytes, int device) {
  return snprintf(text, (size_t)bytes, "Made GPU") < bytes && device == 7 ? 0 : 101;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  return *bytes = (size_t)80 << 30, device == 7 ? 0 : 101;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  return *value = attribute == 75 ? 9 : 0, device == 7 ? 0 : 101;
}
int cuDeviceGetUuid(unsigned char* bytes, int device) {
  for (unsigned char i = 0; i < 16; ++i) bytes[i] = i;
  return device == 7 ? 0 : 101;
}
int cuDeviceGetUuid_v2(unsigned char* bytes, int device) {
  return cuDeviceGetUuid(bytes, device);
}
