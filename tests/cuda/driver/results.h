// Numbers of CUresult (CUDA Driver API reference, 13).
// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace banyan::standin {

inline constexpr int kSuccess = 0;
inline constexpr int kInvalidValue = 1;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kNotInitialized = 3;
inline constexpr int kDeinitialized = 4;
inline constexpr int kNoDevice = 100;
inline constexpr int kInvalidDevice = 101;
inline constexpr int kInvalidImage = 200;
inline constexpr int kInvalidContext = 201;
inline constexpr int kMapFailed = 205;
inline constexpr int kAlreadyMapped = 208;
inline constexpr int kPeerAccessUnsupported = 217;
inline constexpr int kOperatingSystem = 304;
inline constexpr int kInvalidHandle = 400;
inline constexpr int kIllegalState = 401;
inline constexpr int kNotFound = 500;
inline constexpr int kNotReady = 600;
inline constexpr int kIllegalAddress = 700;
inline constexpr int kPeerAccessAlreadyEnabled = 704;
inline constexpr int kPeerAccessNotEnabled = 705;
inline constexpr int kContextIsDestroyed = 709;
inline constexpr int kHostMemoryAlreadyRegistered = 712;
inline constexpr int kHostMemoryNotRegistered = 713;
inline constexpr int kLaunchFailed = 719;
inline constexpr int kNotPermitted = 800;
inline constexpr int kNotSupported = 801;
inline constexpr int kCaptureUnsupported = 900;
inline constexpr int kCaptureInvalidated = 901;
inline constexpr int kCaptureMerge = 902;
inline constexpr int kCaptureUnmatched = 903;
inline constexpr int kCaptureUnjoined = 904;
inline constexpr int kCaptureIsolation = 905;
inline constexpr int kCaptureImplicit = 906;
inline constexpr int kCapturedEvent = 907;
inline constexpr int kCaptureWrongThread = 908;
inline constexpr int kUnknown = 999;

// "CUDA_ERROR_INVALID_VALUE"; null: no number of one.
const char* name_of_result(int result);

}  // namespace banyan::standin
