// SPDX-License-Identifier: Apache-2.0

#include "tests/cuda/driver/results.h"

#include "tests/cuda/driver/calls.h"

namespace banyan::standin {

const char* name_of_result(int result) {
  switch (result) {
    case kSuccess: return "CUDA_SUCCESS";
    case kInvalidValue: return "CUDA_ERROR_INVALID_VALUE";
    case kOutOfMemory: return "CUDA_ERROR_OUT_OF_MEMORY";
    case kNotInitialized: return "CUDA_ERROR_NOT_INITIALIZED";
    case kDeinitialized: return "CUDA_ERROR_DEINITIALIZED";
    case kNoDevice: return "CUDA_ERROR_NO_DEVICE";
    case kInvalidDevice: return "CUDA_ERROR_INVALID_DEVICE";
    case kInvalidImage: return "CUDA_ERROR_INVALID_IMAGE";
    case kInvalidContext: return "CUDA_ERROR_INVALID_CONTEXT";
    case kMapFailed: return "CUDA_ERROR_MAP_FAILED";
    case kAlreadyMapped: return "CUDA_ERROR_ALREADY_MAPPED";
    case 209: return "CUDA_ERROR_NO_BINARY_FOR_GPU";
    case 214: return "CUDA_ERROR_ECC_UNCORRECTABLE";
    case kPeerAccessUnsupported: return "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED";
    case 218: return "CUDA_ERROR_INVALID_PTX";
    case 222: return "CUDA_ERROR_UNSUPPORTED_PTX_VERSION";
    case kOperatingSystem: return "CUDA_ERROR_OPERATING_SYSTEM";
    case kInvalidHandle: return "CUDA_ERROR_INVALID_HANDLE";
    case kIllegalState: return "CUDA_ERROR_ILLEGAL_STATE";
    case kNotFound: return "CUDA_ERROR_NOT_FOUND";
    case kNotReady: return "CUDA_ERROR_NOT_READY";
    case kIllegalAddress: return "CUDA_ERROR_ILLEGAL_ADDRESS";
    case 702: return "CUDA_ERROR_LAUNCH_TIMEOUT";
    case kPeerAccessAlreadyEnabled: return "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED";
    case kPeerAccessNotEnabled: return "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED";
    case kContextIsDestroyed: return "CUDA_ERROR_CONTEXT_IS_DESTROYED";
    case kHostMemoryAlreadyRegistered: return "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED";
    case kHostMemoryNotRegistered: return "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED";
    case kLaunchFailed: return "CUDA_ERROR_LAUNCH_FAILED";
    case kNotPermitted: return "CUDA_ERROR_NOT_PERMITTED";
    case kNotSupported: return "CUDA_ERROR_NOT_SUPPORTED";
    case kCaptureUnsupported: return "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
    case kCaptureInvalidated: return "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
    case kCaptureMerge: return "CUDA_ERROR_STREAM_CAPTURE_MERGE";
    case kCaptureUnmatched: return "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED";
    case kCaptureUnjoined: return "CUDA_ERROR_STREAM_CAPTURE_UNJOINED";
    case kCaptureIsolation: return "CUDA_ERROR_STREAM_CAPTURE_ISOLATION";
    case kCaptureImplicit: return "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT";
    case kCapturedEvent: return "CUDA_ERROR_CAPTURED_EVENT";
    case kCaptureWrongThread: return "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD";
    case kUnknown: return "CUDA_ERROR_UNKNOWN";
    default: return nullptr;
  }
}

}  // namespace banyan::standin

namespace standin = banyan::standin;

int cuGetErrorName(int error, const char** name) {
  if (name == nullptr) return standin::kInvalidValue;
  *name = standin::name_of_result(error);
  return *name == nullptr ? standin::kInvalidValue : standin::kSuccess;
}

int cuGetErrorString(int error, const char** text) {
  return cuGetErrorName(error, text);
}
