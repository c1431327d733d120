// SPDX-License-Identifier: Apache-2.0

#include "compression/cuda/module.h"

#include <fmt/core.h>

#include "compression/cuda/spans.h"

namespace banyan {

namespace {

Status driver_failure(const CudaFunctions& cuda, const char* call, int result) {
  const char* name = nullptr;
  if (cuda.error_name == nullptr || cuda.error_name(result, &name) != kCudaSuccess ||
      name == nullptr) {
    name = "an unknown error";
  }
  return {Code::kCuda, fmt::format("{} of the CUDA driver failed: {} ({})", call, name, result)};
}

// "9.0"; "an unknown one" where the driver does not say.
std::string capability(const CudaFunctions& cuda) {
  int device = 0;
  int major = 0;
  int minor = 0;
  if (cuda.current_device == nullptr || cuda.attribute == nullptr ||
      cuda.current_device(&device) != kCudaSuccess ||
      cuda.attribute(&major, kCudaCapabilityMajor, device) != kCudaSuccess ||
      cuda.attribute(&minor, kCudaCapabilityMinor, device) != kCudaSuccess) {
    return "an unknown one";
  }
  return fmt::format("{}.{}", major, minor);
}

}  // namespace

Result<CudaModule> CudaModule::load(const CudaFunctions& cuda, const CudaImage& image) {
  if (image.fatbin == nullptr) {
    return Status(Code::kUnsupported,
                  "this build has no kernels for GPUs: nvcc was not found when it was made "
                  "(-Dcuda=enabled says why)");
  }
  if (cuda.load_module == nullptr || cuda.unload_module == nullptr || cuda.function == nullptr ||
      cuda.launch == nullptr) {
    return Status(Code::kUnsupported,
                  "the CUDA driver cannot load modules and launch their kernels: it is not whole, "
                  "or older than R470");
  }
  void* module = nullptr;
  const int result = cuda.load_module(&module, image.fatbin);
  if (result == kCudaNoBinaryForGpu || result == kCudaInvalidPtx || result == kCudaUnsupportedPtx) {
    return Status(Code::kUnsupported,
                  fmt::format("the kernels of this build are for GPUs of compute capability {} and "
                              "later ones that the driver can translate them for; this one has {}: "
                              "a newer driver may know it",
                              image.capabilities, capability(cuda)));
  }
  if (result != kCudaSuccess) return driver_failure(cuda, "cuModuleLoadData", result);
  CudaModule loaded(cuda);
  loaded.module_ = {module, Unload{cuda.unload_module}};
  return loaded;
}

Result<CudaModule::Function> CudaModule::find(const std::string& name) const {
  Function function = nullptr;
  const int result = cuda_.function(&function, module_.get(), name.c_str());
  if (result == kCudaSuccess) return function;
  return driver_failure(cuda_, ("cuModuleGetFunction(" + name + ")").c_str(), result);
}

Status CudaModule::find_all(std::span<const char* const> names, std::span<Function> found) const {
  for (size_t i = 0; i < names.size(); ++i) {
    const Result<Function> function = find(names[i]);
    BANYAN_TRY(function.status());
    found[i] = *function;
  }
  return {};
}

Status CudaModule::launch(Function function, unsigned blocks, void* call, Stream stream) const {
  void* parameters[] = {call};
  const int result =
      cuda_.launch(function, blocks, 1, 1, kCudaThreads, 1, 1, 0, stream, parameters, nullptr);
  return result == kCudaSuccess ? Status() : driver_failure(cuda_, "cuLaunchKernel", result);
}

}  // namespace banyan
