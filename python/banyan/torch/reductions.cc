// The collectives that combine tensors.
//
// The C interface has sums, products, minima, maxima and averages. Bits are combined here, of what
// all ranks gave; that moves as many bytes as a gather.
// SPDX-License-Identifier: Apache-2.0

#include <utility>

#include "python/banyan/torch/backend.h"
#include "python/banyan/torch/tensors.h"

namespace banyan::process_group {
namespace {

using c10d::OpType;
using c10d::ReduceOp;

bool is_bitwise(const ReduceOp& op) {
  return op.op_ == ReduceOp::BAND || op.op_ == ReduceOp::BOR || op.op_ == ReduceOp::BXOR;
}

void check_reducible(const char* what, const ReduceOp& op, const Tensors& tensors) {
  check_tensors(what, tensors);
  const at::ScalarType type = tensors[0].scalar_type();
  TORCH_CHECK(op.op_ != ReduceOp::UNUSED, "banyan ", what, ": the operation is none");
  if (is_bitwise(op)) {
    TORCH_CHECK(at::isIntegralType(type, true), "banyan ", what, ": tensors of ", type,
                " have no bitwise operations; valid: integers and bool");
    return;
  }
  const bool linear =
      op.op_ == ReduceOp::SUM || op.op_ == ReduceOp::AVG || op.op_ == ReduceOp::PREMUL_SUM;
  if (at::isComplexType(type)) {
    TORCH_CHECK(linear, "banyan ", what, ": complex tensors have sums and averages only");
    return;
  }
  if (type == at::ScalarType::Bool) {
    TORCH_CHECK(op.op_ != ReduceOp::AVG && op.op_ != ReduceOp::PREMUL_SUM, "banyan ", what,
                ": bool tensors have no averages; valid: SUM, PRODUCT, MIN, MAX and bitwise ones");
    return;
  }
  const bool known = elements_of(type).datatype != BANYAN_UINT8 || type == at::ScalarType::Byte;
  TORCH_CHECK(known || is_widened(type), "banyan ", what, ": tensors of ", type,
              " cannot be combined, but moved");
}

// The operation in the C interface; made for the call where it has a factor.
class Operation {
 public:
  Operation(const Calls& calls, const ReduceOp& op, const at::Tensor& operand)
      : comm_(calls.comm.handle()) {
    const bool is_bool = operand.scalar_type() == at::kBool;
    switch (op.op_) {
      case ReduceOp::SUM: value_ = is_bool ? BANYAN_MAX : BANYAN_SUM; return;
      case ReduceOp::AVG: value_ = BANYAN_AVG; return;
      case ReduceOp::PRODUCT: value_ = is_bool ? BANYAN_MIN : BANYAN_PROD; return;
      case ReduceOp::MIN: value_ = BANYAN_MIN; return;
      case ReduceOp::MAX: value_ = BANYAN_MAX; return;
      case ReduceOp::PREMUL_SUM: scale(calls, op, operand); return;
      case ReduceOp::BAND:
      case ReduceOp::BOR:
      case ReduceOp::BXOR:
      case ReduceOp::UNUSED: break;
    }
    TORCH_CHECK(false, "banyan ", calls.what, ": operation ", static_cast<int>(op.op_),
                " is not of the C interface");
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation() {
    if (made_) (void)banyan_op_destroy(comm_, value_);
  }
  banyan_op_t value() const { return value_; }

 private:
  void scale(const Calls& calls, const ReduceOp& op, const at::Tensor& operand) {
    const auto factor =
        c10::dynamic_intrusive_pointer_cast<c10d::PreMulSumSupplement>(op.supplement_);
    TORCH_CHECK(factor, "banyan ", calls.what,
                ": PREMUL_SUM has no factor; make it by "
                "torch.distributed._make_nccl_premul_sum");
    const at::ScalarType type = c10::toRealValueType(operand.scalar_type());
    const at::Tensor scalar = factor->tensor_factor.defined()
                                  ? factor->tensor_factor.to(at::kCPU).to(type).contiguous()
                                  : at::full({1}, factor->double_factor, at::kDouble).to(type);
    check(banyan_op_create_premulsum(comm_, scalar.data_ptr(), elements_of(type).datatype, &value_),
          calls.what, comm_);
    made_ = true;
  }

  banyan_comm_t comm_;
  banyan_op_t value_ = BANYAN_SUM;
  bool made_ = false;
};

// Bits, and what tensors of one rank make together: for them an average is none.
void combine(const ReduceOp& op, const at::Tensor& sum, const at::Tensor& next) {
  switch (op.op_) {
    case ReduceOp::SUM: sum.add_(next); return;
    case ReduceOp::PRODUCT: sum.mul_(next); return;
    case ReduceOp::MIN: sum.copy_(at::minimum(sum, next)); return;
    case ReduceOp::MAX: sum.copy_(at::maximum(sum, next)); return;
    case ReduceOp::BAND: sum.bitwise_and_(next); return;
    case ReduceOp::BOR: sum.bitwise_or_(next); return;
    case ReduceOp::BXOR: sum.bitwise_xor_(next); return;
    case ReduceOp::AVG:
    case ReduceOp::PREMUL_SUM:
    case ReduceOp::UNUSED: break;
  }
  TORCH_CHECK(false, "banyan: several tensors of a rank have no operation ",
              static_cast<int>(op.op_), "; valid: SUM, PRODUCT, MIN, MAX and bitwise ones");
}

// What every rank gave, combined, on all ranks.
at::Tensor bitwise(const Calls& calls, const ReduceOp& op, const at::Tensor& tensor) {
  const at::Tensor given = dense(tensor);
  const at::Tensor rows = at::empty({calls.size, given.numel()}, given.options());
  calls.run(call_of(BANYAN_ALLGATHER, given, rows, given.numel()));
  const at::Tensor sum = rows[0].clone();
  for (int64_t row = 1; row < rows.size(0); ++row) combine(op, sum, rows[row]);
  return sum.view(tensor.sizes());
}

void sum_everywhere(const Calls& calls, const ReduceOp& op, const Tensors& tensors) {
  if (is_bitwise(op)) {
    for (const at::Tensor& tensor : tensors) tensor.copy_(bitwise(calls, op, tensor));
    return;
  }
  Tensors memory;
  for (const at::Tensor& tensor : tensors) memory.push_back(operand(tensor));
  // One tensor may be there twice; each is the sum of what was given.
  if (overlap(memory))
    for (at::Tensor& tensor : memory) tensor = tensor.clone();
  const Operation operation(calls, op, memory[0]);
  std::vector<banyan_call_t> wanted;
  for (const at::Tensor& tensor : memory) {
    wanted.push_back(call_of(BANYAN_ALLREDUCE, tensor, tensor, tensor.numel()));
    wanted.back().op = operation.value();
  }
  calls.run(wanted);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!memory[i].is_same(tensors[i])) tensors[i].copy_(memory[i]);
  }
}

// What all tensors of all ranks make together, in each of them.
void sum_of_several(const Calls& calls, const ReduceOp& op, const Tensors& tensors) {
  const at::Tensor sum = dense(tensors[0]).clone();
  for (size_t i = 1; i < tensors.size(); ++i) combine(op, sum, tensors[i]);
  sum_everywhere(calls, op, {sum});
  for (const at::Tensor& tensor : tensors) tensor.copy_(sum);
}

void sum_at_root(const Calls& calls, const ReduceOp& op, const at::Tensor& tensor, int root) {
  if (is_bitwise(op)) {
    const at::Tensor result = bitwise(calls, op, tensor);
    if (calls.rank == root) tensor.copy_(result);
    return;
  }
  const at::Tensor memory = operand(tensor);
  const Operation operation(calls, op, memory);
  banyan_call_t call = call_of(BANYAN_REDUCE, memory, memory, memory.numel());
  call.op = operation.value();
  call.root = root;
  calls.run(call);
  if (calls.rank == root && !memory.is_same(tensor)) tensor.copy_(memory);
}

// The blocks lie in a row, one for each rank; counts in tensor elements.
void sum_blocks(const Calls& calls, const ReduceOp& op, const at::Tensor& output,
                const at::Tensor& blocks, const std::vector<int64_t>& counts) {
  if (is_bitwise(op)) {
    int64_t at = 0;
    for (int rank = 0; rank < calls.rank; ++rank) at += counts[static_cast<size_t>(rank)];
    const at::Tensor all = bitwise(calls, op, blocks.view({-1}));
    output.copy_(all.narrow(0, at, output.numel()).view(output.sizes()));
    return;
  }
  const at::Tensor given = operand(blocks);
  const at::Tensor made = operand(output);
  const Operation operation(calls, op, given);
  banyan_call_t call = call_of(BANYAN_REDUCE_SCATTERV, given, made, made.numel());
  std::vector<size_t> sizes;
  bool same = true;
  for (int64_t count : counts) {
    sizes.push_back(static_cast<size_t>(count) * elements_of(given.scalar_type()).per);
    same = same && count == counts[0];
  }
  call.recv_counts = sizes.data();
  if (same) call.collective = BANYAN_REDUCE_SCATTER;
  call.op = operation.value();
  calls.run(call);
  if (!made.is_same(output)) output.copy_(made);
}

}  // namespace

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::allreduce(Tensors& tensors,
                                                          const c10d::AllreduceOptions& options) {
  if (!tensors.empty() && tensors[0].layout() == at::kSparse)
    return allreduce_sparse(tensors, options);
  check_reducible("all_reduce", options.reduceOp, tensors);
  check_sizes("all_reduce", tensors);
  const bool scales =
      options.reduceOp.op_ == ReduceOp::AVG || options.reduceOp.op_ == ReduceOp::PREMUL_SUM;
  TORCH_CHECK(tensors.size() == 1 || !scales, "banyan all_reduce: there are ", tensors.size(),
              " tensors; valid: one for AVG and PREMUL_SUM");
  const auto body = [list = tensors, op = options.reduceOp](const Calls& calls) {
    list.size() == 1 ? sum_everywhere(calls, op, list) : sum_of_several(calls, op, list);
  };
  return submit(
      {OpType::ALLREDUCE, "all_reduce", "banyan:all_reduce", options.timeout, options.asyncOp},
      tensors, tensors, body);
}

// The indices of ranks differ, so that all values and their places are gathered and added here.
ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::allreduce_sparse(
    Tensors& tensors, const c10d::AllreduceOptions& options) {
  const char* what = "all_reduce of sparse tensors";
  for (size_t i = 0; i < tensors.size(); ++i)
    TORCH_CHECK(tensors[i].layout() == at::kSparse, "banyan ", what,
                ": invalid tensor layout at index ", i, ": ", tensors[i].layout(),
                "; valid: sparse_coo");
  check_sizes(what, tensors);
  TORCH_CHECK(options.reduceOp.op_ == ReduceOp::SUM, "banyan ", what,
              ": unsupported reduction operation ", static_cast<int>(options.reduceOp.op_),
              "; valid: SUM");
  const auto body = [tensors](const Calls& calls) {
    at::Tensor given = tensors[0];
    for (size_t i = 1; i < tensors.size(); ++i) given = given + tensors[i];
    const at::Tensor mine = given.coalesce();
    const at::Tensor nnz = at::full({1}, mine._nnz(), at::kLong);
    const at::Tensor all_nnz = at::empty({calls.size}, at::kLong);
    calls.finish(call_of(BANYAN_ALLGATHER, nnz, all_nnz, 1));
    const int64_t most = all_nnz.max().item<int64_t>();
    const at::Tensor indices = mine.indices(), values = mine.values();
    std::vector<int64_t> value_sizes = values.sizes().vec();
    value_sizes[0] = most;
    const at::Tensor given_places = at::zeros({indices.size(0), most}, indices.options());
    const at::Tensor given_values = at::zeros(value_sizes, values.options());
    given_places.narrow(1, 0, mine._nnz()).copy_(indices);
    given_values.narrow(0, 0, mine._nnz()).copy_(values);
    const at::Tensor places = at::empty({calls.size, indices.size(0), most}, indices.options());
    value_sizes.insert(value_sizes.begin(), calls.size);
    const at::Tensor gathered = at::empty(value_sizes, values.options());
    calls.run(call_of(BANYAN_ALLGATHER, given_places, places, given_places.numel()));
    calls.run(call_of(BANYAN_ALLGATHER, given_values, gathered, given_values.numel()));
    at::Tensor sum = at::zeros_like(mine);
    for (int rank = 0; rank < calls.size; ++rank) {
      const int64_t count = all_nnz[rank].item<int64_t>();
      sum = sum + at::sparse_coo_tensor(places[rank].narrow(1, 0, count),
                                        gathered[rank].narrow(0, 0, count), given.sizes());
    }
    sum = sum.coalesce();
    for (const at::Tensor& tensor : tensors) tensor.copy_(sum);
  };
  return submit(
      {OpType::_ALLREDUCE_SPARSE, what, "banyan:all_reduce", options.timeout, options.asyncOp},
      tensors, tensors, body);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  check_reducible("all_reduce_coalesced", options.reduceOp, tensors);
  const auto body = [list = tensors, op = options.reduceOp](const Calls& calls) {
    sum_everywhere(calls, op, list);
  };
  return submit({OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced", "banyan:all_reduce_coalesced",
                 options.timeout, options.asyncOp},
                tensors, tensors, body);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::reduce(Tensors& tensors,
                                                       const c10d::ReduceOptions& options) {
  check_root("reduce", options.rootRank);
  TORCH_CHECK(tensors.size() == 1,
              "banyan reduce: requires a single-element tensor list; there are ", tensors.size(),
              " tensors");
  TORCH_CHECK(options.rootTensor == 0, "banyan reduce: invalid root tensor ", options.rootTensor,
              "; valid: 0, as there is one tensor");
  check_reducible("reduce", options.reduceOp, tensors);
  const auto body = [tensor = tensors[0], op = options.reduceOp,
                     root = static_cast<int>(options.rootRank)](const Calls& calls) {
    sum_at_root(calls, op, tensor, root);
  };
  return submit({OpType::REDUCE, "reduce", "banyan:reduce", options.timeout, options.asyncOp},
                tensors, tensors, body);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::reduce_scatter(
    Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& options) {
  const char* what = "reduce_scatter";
  TORCH_CHECK(outputs.size() == 1 && inputs.size() == 1, "banyan ", what, ": there are ",
              outputs.size(), " outputs and ", inputs.size(), " input lists; valid: one of each");
  const Tensors& list = inputs[0];
  TORCH_CHECK(static_cast<int>(list.size()) == getSize(), "banyan ", what, ": the list has ",
              list.size(), " tensors; valid: ", getSize(), ", one for each rank");
  check_reducible(what, options.reduceOp, list);
  check_reducible(what, options.reduceOp, {list[0], outputs[0]});
  TORCH_CHECK(list[static_cast<size_t>(getRank())].numel() == outputs[0].numel(), "banyan ", what,
              ": the output has ", outputs[0].numel(),
              " elements; valid: ", list[static_cast<size_t>(getRank())].numel(),
              ", as this rank's input");
  const auto body = [list, output = outputs[0], op = options.reduceOp](const Calls& calls) {
    std::vector<int64_t> counts;
    for (const at::Tensor& tensor : list) counts.push_back(tensor.numel());
    sum_blocks(calls, op, output, joined(list), counts);
  };
  return submit(
      {OpType::REDUCE_SCATTER, what, "banyan:reduce_scatter", options.timeout, options.asyncOp},
      list, outputs, body);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output}, inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  const char* what = "reduce_scatter_tensor";
  TORCH_CHECK(outputs.size() == inputs.size(), "banyan ", what, ": there are ", inputs.size(),
              " inputs and ", outputs.size(), " outputs; valid: as many");
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_reducible(what, options.reduceOp, {inputs[i], outputs[i]});
    TORCH_CHECK(inputs[i].numel() == outputs[i].numel() * getSize(), "banyan ", what,
                ": the input has ", inputs[i].numel(), " elements; valid: ", getSize(),
                " times the ", outputs[i].numel(), " of the output");
  }
  const auto body = [outputs, inputs, op = options.reduceOp](const Calls& calls) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::vector<int64_t> counts(static_cast<size_t>(calls.size), outputs[i].numel());
      sum_blocks(calls, op, outputs[i], dense(inputs[i]), counts);
    }
  };
  return submit({OpType::_REDUCE_SCATTER_BASE, what, "banyan:_reduce_scatter_base", options.timeout,
                 options.asyncOp},
                inputs, outputs, body);
}

}  // namespace banyan::process_group
