// The collectives that move tensors and change nothing in them.
// SPDX-License-Identifier: Apache-2.0

#include <string_view>
#include <utility>

#include "python/banyan/torch/backend.h"
#include "python/banyan/torch/tensors.h"

namespace banyan::process_group {
namespace {

using c10d::OpType;

bool same_counts(const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() != tensors[0].numel()) return false;
  }
  return true;
}

// Counts as the C interface has them, in elements of the C type.
std::vector<size_t> counts_of(const Tensors& tensors) {
  std::vector<size_t> counts;
  for (const at::Tensor& tensor : tensors)
    counts.push_back(static_cast<size_t>(tensor.numel()) * elements_of(tensor.scalar_type()).per);
  return counts;
}

void check_list(const char* what, const Tensors& tensors, int size) {
  TORCH_CHECK(static_cast<int>(tensors.size()) == size, "banyan ", what, ": a list has ",
              tensors.size(), " tensors; valid: ", size, ", one for each rank");
  check_tensors(what, tensors);
}

// The only tensor of a rank that gathers or scatters; `side` is input or output.
void check_one(const char* what, const char* side, const Tensors& tensors) {
  TORCH_CHECK(tensors.size() == 1, "banyan ", what, ": requires a single-element ", side,
              " tensor list; there are ", tensors.size(), " tensors");
  check_tensors(what, tensors);
}

// The root has one list with a tensor for each rank, which is as `own`; the others have none.
void check_lists(const char* what, const char* side, const TensorLists& lists, bool is_root,
                 int size, const at::Tensor& own) {
  if (!is_root) {
    TORCH_CHECK(lists.empty(), "banyan ", what, ": requires empty ", side,
                " on non-root; there are ", lists.size(), " lists");
    return;
  }
  TORCH_CHECK(lists.size() == 1, "banyan ", what, ": requires a single-element ", side,
              " list at the root; there are ", lists.size(), " lists");
  const size_t length = lists[0].size();
  TORCH_CHECK(length == static_cast<size_t>(size), "banyan ", what, ": Incorrect ", side,
              " list size ", length, ". ", side == std::string_view("input") ? "Input" : "Output",
              " list size should be ", size, ", one tensor for each rank");
  check_tensors(what, lists[0]);
  for (const at::Tensor& tensor : lists[0]) {
    TORCH_CHECK(tensor.scalar_type() == own.scalar_type(), "banyan ", what,
                ": invalid tensor type: the ", side, " list is of ", tensor.scalar_type(),
                "; valid: ", own.scalar_type(), ", as the other tensor of this rank");
    TORCH_CHECK(tensor.numel() == own.numel(), "banyan ", what, ": invalid tensor size: the ", side,
                " list has one of ", tensor.numel(), " elements; valid: ", own.numel(),
                ", as the other tensor of this rank");
  }
}

void check_same_type(const char* what, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "banyan ", what,
              ": invalid tensor type: the input is of ", a.scalar_type(), " and the output of ",
              b.scalar_type(), "; valid: one type");
}

// Each list takes what all ranks give. A rank that gives several gives as many as all others.
void gather_to_all(const Calls& calls, const TensorLists& lists, const Tensors& inputs) {
  const at::Tensor given = inputs.size() == 1 ? dense(inputs[0]) : joined(inputs);
  const at::Tensor all = room_for(lists[0]);
  banyan_call_t call = call_of(BANYAN_ALLGATHER, given, all, given.numel());
  std::vector<size_t> counts;
  if (!same_counts(lists[0])) {
    counts = counts_of(lists[0]);
    call.collective = BANYAN_ALLGATHERV;
    call.recv_counts = counts.data();
  }
  calls.run(call);
  for (const Tensors& list : lists) part(all, list);
}

// One list for each input, with as many tensors as all ranks give; lengths may differ by rank where
// each gives one.
void check_gathered(const TensorLists& lists, const Tensors& inputs, int rank, int size) {
  const char* what = "all_gather";
  TORCH_CHECK(!inputs.empty(), "banyan ", what,
              ": there is no tensor; the call requires non-empty input tensor lists");
  check_tensors(what, inputs);
  check_sizes(what, inputs);
  TORCH_CHECK(lists.size() == inputs.size(), "banyan ", what,
              ": requires input/output tensor lists to have the same length; there are ",
              inputs.size(), " inputs and ", lists.size(), " output lists");
  const size_t length = inputs.size() * static_cast<size_t>(size);
  for (const Tensors& list : lists) {
    TORCH_CHECK(list.size() == length, "banyan ", what, ": invalid output tensor list of ",
                list.size(), " tensors; valid: ", length, ", one for each input of each rank");
    check_tensors(what, list);
    check_same_type(what, inputs[0], list[0]);
    const bool alone = inputs.size() == 1;
    for (size_t i = 0; i < length; ++i)
      TORCH_CHECK((alone && i != static_cast<size_t>(rank)) || list[i].numel() == inputs[0].numel(),
                  "banyan ", what, ": invalid tensor size: output ", i, " has ", list[i].numel(),
                  " elements; valid: ", inputs[0].numel(), ", as the input");
  }
}

// Sizes of the pieces along the first dimension; none: equal ones.
std::vector<size_t> counts_of_splits(const char* what, const at::Tensor& tensor,
                                     const std::vector<int64_t>& splits, int size) {
  const int64_t length = tensor.dim() > 0 ? tensor.size(0) : 0;
  std::vector<int64_t> sizes = splits;
  if (sizes.empty()) {
    TORCH_CHECK(length % size == 0, "banyan ", what, ": the first dimension is ", length,
                "; valid: a multiple of the ", size, " ranks, or a list of splits");
    sizes.assign(static_cast<size_t>(size), length / size);
  }
  TORCH_CHECK(static_cast<int>(sizes.size()) == size, "banyan ", what, ": there are ", sizes.size(),
              " splits; valid: ", size, ", one for each rank");
  const int64_t row = length > 0 ? tensor.numel() / length : 0;
  int64_t total = 0;
  std::vector<size_t> counts;
  for (int64_t split : sizes) {
    TORCH_CHECK(split >= 0, "banyan ", what, ": a split is ", split, "; valid: at least 0");
    total += split;
    counts.push_back(static_cast<size_t>(split * row) * elements_of(tensor.scalar_type()).per);
  }
  TORCH_CHECK(total == length, "banyan ", what, ": the splits add up to ", total,
              " and the first dimension is ", length, "; valid: the same");
  return counts;
}

banyan_call_t exchange_of(const at::Tensor& send, const at::Tensor& recv,
                          const std::vector<size_t>& send_counts,
                          const std::vector<size_t>& recv_counts) {
  banyan_call_t call = call_of(BANYAN_ALLTOALLV, send, recv, 0);
  call.send_counts = send_counts.data();
  call.recv_counts = recv_counts.data();
  return call;
}

}  // namespace

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::broadcast(Tensors& tensors,
                                                          const c10d::BroadcastOptions& options) {
  check_root("broadcast", options.rootRank);
  TORCH_CHECK(options.rootTensor >= 0 && options.rootTensor < static_cast<int64_t>(tensors.size()),
              "banyan broadcast: invalid root tensor ", options.rootTensor, " in a list of ",
              tensors.size(), "; valid: an index of the list");
  check_tensors("broadcast", tensors);
  check_sizes("broadcast", tensors);
  const auto body = [tensors, first = static_cast<size_t>(options.rootTensor),
                     root = static_cast<int>(options.rootRank)](const Calls& calls) {
    const at::Tensor memory = dense(tensors[first]);
    banyan_call_t call = call_of(BANYAN_BROADCAST, memory, memory, memory.numel());
    call.root = root;
    calls.run(call);
    for (const at::Tensor& tensor : tensors)
      if (!memory.is_same(tensor)) tensor.copy_(memory);
  };
  return submit(
      {OpType::BROADCAST, "broadcast", "banyan:broadcast", options.timeout, options.asyncOp},
      tensors, tensors, body);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::allgather(TensorLists& outputs, Tensors& inputs,
                                                          const c10d::AllgatherOptions& options) {
  check_gathered(outputs, inputs, getRank(), getSize());
  const auto body = [outputs, inputs](const Calls& calls) {
    gather_to_all(calls, outputs, inputs);
  };
  Tensors all;
  for (const Tensors& list : outputs) all.insert(all.end(), list.begin(), list.end());
  return submit({OpType::ALLGATHER, "all_gather", "banyan:all_gather", options.timeout,
                 options.asyncOp, outputs.size()},
                inputs, all, body);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::_allgather_base(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  Tensors outputs{output}, inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const char* what = "all_gather_into_tensor";
  TORCH_CHECK(outputs.size() == inputs.size() && !inputs.empty(), "banyan ", what, ": there are ",
              inputs.size(), " inputs and ", outputs.size(), " outputs; valid: as many");
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_tensors(what, {inputs[i]});
    check_same_type(what, inputs[i], outputs[i]);
    TORCH_CHECK(outputs[i].numel() == inputs[i].numel() * getSize(), "banyan ", what,
                ": the output has ", outputs[i].numel(), " elements; valid: ", getSize(),
                " times the ", inputs[i].numel(), " of the input");
  }
  const auto body = [outputs, inputs](const Calls& calls) {
    Tensors given, made;
    std::vector<banyan_call_t> wanted;
    for (size_t i = 0; i < inputs.size(); ++i) {
      given.push_back(dense(inputs[i]));
      made.push_back(dense(outputs[i]));
      wanted.push_back(call_of(BANYAN_ALLGATHER, given[i], made[i], given[i].numel()));
    }
    calls.run(wanted);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!made[i].is_same(outputs[i])) outputs[i].copy_(made[i]);
    }
  };
  return submit(
      {OpType::_ALLGATHER_BASE, what, "banyan:_all_gather_base", options.timeout, options.asyncOp},
      inputs, outputs, body);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::allgather_coalesced(
    TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const char* what = "all_gather_coalesced";
  check_tensors(what, inputs);
  TORCH_CHECK(static_cast<int>(outputs.size()) == getSize(), "banyan ", what, ": there are ",
              outputs.size(), "; output lists should be equal to world size, which is ", getSize());
  for (const Tensors& list : outputs)
    TORCH_CHECK(list.size() == inputs.size(), "banyan ", what, ": a list has ", list.size(),
                " tensors; valid: ", inputs.size(), ", as the inputs");
  Tensors all;
  TensorLists by_input(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (const Tensors& list : outputs) {
      const at::Tensor& output = list[i];
      TORCH_CHECK(output.numel() == inputs[i].numel(), "banyan ", what,
                  ": invalid size of output tensor at index ", i, ": ", output.numel(),
                  " elements; valid: ", inputs[i].numel(), ", as the input");
      TORCH_CHECK(output.scalar_type() == inputs[i].scalar_type(), "banyan ", what,
                  ": invalid tensor type at index ", i, ": ", output.scalar_type(),
                  "; valid: ", inputs[i].scalar_type(), ", as the input");
      by_input[i].push_back(output);
    }
    check_tensors(what, by_input[i]);
    all.insert(all.end(), by_input[i].begin(), by_input[i].end());
  }
  const auto body = [by_input, inputs](const Calls& calls) {
    for (size_t i = 0; i < inputs.size(); ++i) gather_to_all(calls, {by_input[i]}, {inputs[i]});
  };
  return submit({OpType::ALLGATHER_COALESCED, what, "banyan:all_gather_coalesced", options.timeout,
                 options.asyncOp},
                inputs, all, body);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::gather(TensorLists& outputs, Tensors& inputs,
                                                       const c10d::GatherOptions& options) {
  check_root("gather", options.rootRank);
  check_one("gather", "input", inputs);
  const bool is_root = options.rootRank == getRank();
  check_lists("gather", "output", outputs, is_root, getSize(), inputs[0]);
  const Tensors list = is_root ? outputs[0] : Tensors();
  const auto body = [list, input = inputs[0],
                     root = static_cast<int>(options.rootRank)](const Calls& calls) {
    const at::Tensor given = dense(input);
    const at::Tensor all = list.empty() ? at::Tensor() : room_for(list);
    banyan_call_t call =
        call_of(BANYAN_GATHER, given.data_ptr(), list.empty() ? nullptr : all.data_ptr(),
                given.numel(), given.scalar_type());
    call.root = root;
    calls.run(call);
    if (!list.empty()) part(all, list);
  };
  return submit({OpType::GATHER, "gather", "banyan:gather", options.timeout, options.asyncOp},
                inputs, list, body);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::scatter(Tensors& outputs, TensorLists& inputs,
                                                        const c10d::ScatterOptions& options) {
  check_root("scatter", options.rootRank);
  check_one("scatter", "output", outputs);
  const bool is_root = options.rootRank == getRank();
  check_lists("scatter", "input", inputs, is_root, getSize(), outputs[0]);
  const Tensors list = is_root ? inputs[0] : Tensors();
  const auto body = [list, output = outputs[0],
                     root = static_cast<int>(options.rootRank)](const Calls& calls) {
    const at::Tensor all = list.empty() ? at::Tensor() : joined(list);
    const at::Tensor made = dense(output);
    banyan_call_t call = call_of(BANYAN_SCATTER, list.empty() ? nullptr : all.data_ptr(),
                                 made.data_ptr(), made.numel(), made.scalar_type());
    call.root = root;
    calls.run(call);
    if (!made.is_same(output)) output.copy_(made);
  };
  return submit({OpType::SCATTER, "scatter", "banyan:scatter", options.timeout, options.asyncOp},
                list, outputs, body);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::alltoall_base(
    at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
    std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) {
  const char* what = "all_to_all_single";
  check_tensors(what, {input, output});
  const auto body =
      [output, input, send = counts_of_splits(what, input, input_splits, getSize()),
       recv = counts_of_splits(what, output, output_splits, getSize())](const Calls& calls) {
        const at::Tensor given = dense(input);
        const at::Tensor made = dense(output);
        calls.run(exchange_of(given, made, send, recv));
        if (!made.is_same(output)) output.copy_(made);
      };
  return submit(
      {OpType::ALLTOALL_BASE, what, "banyan:all_to_all", options.timeout, options.asyncOp}, {input},
      {output}, body);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::alltoall(Tensors& outputs, Tensors& inputs,
                                                         const c10d::AllToAllOptions& options) {
  check_list("all_to_all", inputs, getSize());
  check_list("all_to_all", outputs, getSize());
  check_same_type("all_to_all", inputs[0], outputs[0]);
  const auto body = [outputs, inputs](const Calls& calls) {
    const at::Tensor given = joined(inputs);
    const at::Tensor made = room_for(outputs);
    const std::vector<size_t> send = counts_of(inputs), recv = counts_of(outputs);
    calls.run(exchange_of(given, made, send, recv));
    part(made, outputs);
  };
  return submit(
      {OpType::ALLTOALL, "all_to_all", "banyan:all_to_all", options.timeout, options.asyncOp},
      inputs, outputs, body);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::barrier(const c10d::BarrierOptions& options) {
  const auto body = [](const Calls& calls) {
    banyan_call_t call = BANYAN_CALL_INIT;
    call.collective = BANYAN_BARRIER;
    calls.run(call);
  };
  return submit({OpType::BARRIER, "barrier", "banyan:barrier", options.timeout, options.asyncOp},
                {}, {}, body);
}

}  // namespace banyan::process_group
