// SPDX-License-Identifier: Apache-2.0

#include "python/banyan/torch/tensors.h"

#include <algorithm>
#include <utility>

namespace banyan::process_group {

Elements elements_of(at::ScalarType type) {
  using at::ScalarType;
  switch (type) {
    case ScalarType::Bool:
    case ScalarType::Byte: return {BANYAN_UINT8, 1};
    case ScalarType::Char: return {BANYAN_INT8, 1};
    case ScalarType::Int: return {BANYAN_INT32, 1};
    case ScalarType::UInt32: return {BANYAN_UINT32, 1};
    case ScalarType::Long: return {BANYAN_INT64, 1};
    case ScalarType::UInt64: return {BANYAN_UINT64, 1};
    case ScalarType::Half: return {BANYAN_FLOAT16, 1};
    case ScalarType::BFloat16: return {BANYAN_BFLOAT16, 1};
    case ScalarType::Float: return {BANYAN_FLOAT32, 1};
    case ScalarType::Double: return {BANYAN_FLOAT64, 1};
    case ScalarType::Float8_e4m3fn: return {BANYAN_FLOAT8_E4M3, 1};
    case ScalarType::Float8_e5m2: return {BANYAN_FLOAT8_E5M2, 1};
    case ScalarType::ComplexHalf: return {BANYAN_FLOAT16, 2};
    case ScalarType::ComplexFloat: return {BANYAN_FLOAT32, 2};
    case ScalarType::ComplexDouble: return {BANYAN_FLOAT64, 2};
    default: return {BANYAN_UINT8, c10::elementSize(type)};
  }
}

bool is_widened(at::ScalarType type) {
  return type == at::ScalarType::Short || type == at::ScalarType::UInt16;
}

at::Tensor dense(const at::Tensor& tensor) {
  return tensor.resolve_conj().resolve_neg().contiguous();
}

at::Tensor operand(const at::Tensor& tensor) {
  return is_widened(tensor.scalar_type()) ? dense(tensor.to(at::kInt)) : dense(tensor);
}

at::Tensor joined(const std::vector<at::Tensor>& tensors) {
  if (tensors.size() == 1) return dense(tensors[0]).view({-1});
  const at::Tensor vector = room_for(tensors);
  int64_t at = 0;
  for (const at::Tensor& tensor : tensors) {
    vector.narrow(0, at, tensor.numel()).view(tensor.sizes()).copy_(tensor);
    at += tensor.numel();
  }
  return vector;
}

void part(const at::Tensor& vector, const std::vector<at::Tensor>& tensors) {
  int64_t at = 0;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor piece = vector.narrow(0, at, tensor.numel());
    if (tensor.numel() > 0) tensor.copy_(piece.view(tensor.sizes()));
    at += tensor.numel();
  }
}

at::Tensor room_for(const std::vector<at::Tensor>& tensors) {
  int64_t count = 0;
  for (const at::Tensor& tensor : tensors) count += tensor.numel();
  return at::empty({count}, tensors[0].options().memory_format(std::nullopt));
}

banyan_call_t call_of(banyan_collective_t collective, const void* send, void* recv, int64_t count,
                      at::ScalarType type) {
  const Elements elements = elements_of(type);
  banyan_call_t call = BANYAN_CALL_INIT;
  call.collective = collective;
  call.send = send;
  call.recv = recv;
  call.count = static_cast<size_t>(count) * elements.per;
  call.datatype = elements.datatype;
  return call;
}

bool overlap(const std::vector<at::Tensor>& tensors) {
  if (tensors.size() < 2) return false;
  std::vector<std::pair<const char*, const char*>> ranges;
  for (const at::Tensor& tensor : tensors) {
    const auto* begin = static_cast<const char*>(tensor.data_ptr());
    if (tensor.nbytes() > 0) ranges.emplace_back(begin, begin + tensor.nbytes());
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second) return true;
  return false;
}

void check_tensors(const char* what, const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(!tensors.empty(), "banyan ", what,
              ": there is no tensor; the call requires non-empty tensor lists");
  const at::Tensor& first = tensors[0];
  TORCH_CHECK(first.layout() == at::kStrided, "banyan ", what, ": unsupported layout ",
              first.layout(), "; valid: strided (dense) tensors");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    TORCH_CHECK(tensor.layout() == at::kStrided, "banyan ", what,
                ": invalid tensor layout at index ", i, ": ", tensor.layout(),
                "; valid: strided (dense) tensors");
    TORCH_CHECK(tensor.is_cpu() || tensor.is_cuda(), "banyan ", what, ": unsupported device type ",
                tensor.device(), "; valid: cpu, cuda");
    TORCH_CHECK(tensor.scalar_type() == first.scalar_type(), "banyan ", what,
                ": invalid tensor type at index ", i, ": ", tensor.scalar_type(), " and not ",
                first.scalar_type(), "; tensors must all have the same type");
  }
}

void check_sizes(const char* what, const std::vector<at::Tensor>& tensors) {
  for (size_t i = 1; i < tensors.size(); ++i)
    TORCH_CHECK(tensors[i].sizes() == tensors[0].sizes(), "banyan ", what,
                ": invalid tensor size at index ", i, ": ", tensors[i].sizes(),
                "; valid: ", tensors[0].sizes(), ", as of the first");
}

}  // namespace banyan::process_group
