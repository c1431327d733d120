// SPDX-License-Identifier: Apache-2.0

#include "compression/cuda/gradients.h"

#include <algorithm>
#include <string>

namespace banyan {

Result<CudaGradients> CudaGradients::load(const CudaFunctions& cuda, const CudaImage& image) {
  return load_alone<CudaGradients>(cuda, image);
}

Result<CudaGradients> CudaGradients::find_in(std::shared_ptr<const CudaModule> module) {
  CudaGradients gradients(std::move(module));
  BANYAN_TRY(gradients.find_all());
  return gradients;
}

Status CudaGradients::find_all() {
  const auto find = [this](const std::string& name, CudaModule::Function& function) -> Status {
    const Result<CudaModule::Function> found = module_->find(name);
    if (found.ok()) function = *found;
    return found.status();
  };
  const auto of_type = [](const char* verb, DataType type) {
    return std::string(verb).append(name_of(type));
  };
  for (const DataType type :
       {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16, DataType::kFloat64}) {
    const auto index = static_cast<size_t>(type);
    BANYAN_TRY(find(of_type("look_at_", type), look_at_[index]));
    if (type != DataType::kFloat64)
      BANYAN_TRY(find(of_type("contribute_", type), contribute_[index]));
  }
  return find("forget_sent", forget_sent_);
}

Status CudaGradients::launch(CudaModule::Function function, CudaGradientCall call,
                             Stream stream) const {
  if (call.count == 0) return {};
  const uint64_t blocks = std::min(gradient_stretches(call.count), kMostCudaBlocks);
  return module_->launch(function, static_cast<unsigned>(blocks), &call, stream);
}

Status CudaGradients::contribute(DataType type, const CudaGradientCall& call, Stream stream) const {
  return launch(contribute_[static_cast<size_t>(type)], call, stream);
}

Status CudaGradients::look_at(DataType type, const CudaGradientCall& call, Stream stream) const {
  return launch(look_at_[static_cast<size_t>(type)], call, stream);
}

Status CudaGradients::forget_sent(const CudaGradientCall& call, Stream stream) const {
  return launch(forget_sent_, call, stream);
}

}  // namespace banyan
