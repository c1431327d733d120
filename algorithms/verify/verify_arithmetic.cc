// Conversions change the width of elements; additions need the same elements on both sides.
// SPDX-License-Identifier: Apache-2.0

#include "algorithms/verify/verify_arithmetic.h"

#include <algorithm>
#include <utility>

namespace banyan {
namespace {

// Calls visit(left, right) with the pieces, of equal range, that both lists have in common.
template <class Visit>
ScheduleFault walk(const std::vector<Run>& left, const std::vector<Run>& right, Visit visit) {
  auto one = left.begin();
  auto other = right.begin();
  while (one != left.end() && other != right.end()) {
    const uint64_t begin = std::max(one->begin, other->begin);
    const uint64_t end = std::min(one->end, other->end);
    if (begin < end) {
      ScheduleFault fault = visit(one->cut(begin, end), other->cut(begin, end));
      if (!fault.empty()) return fault;
    }
    if (one->end == end) ++one;
    if (other->end == end) ++other;
  }
  return {};
}

bool is_torn(const Run& run, uint64_t width) {
  return run.begin % width != 0 || run.end % width != 0 || run.origin % width != 0;
}

// The same elements with another width.
Run resized(const Run& run, uint64_t from, uint64_t to, SymbolId symbol) {
  return {run.begin / from * to, run.end / from * to, symbol, run.origin / from * to};
}

std::string bytes_of(const Run& run) {
  return "bytes [" + std::to_string(run.begin) + ".." + std::to_string(run.end) + ")";
}

}  // namespace

ScheduleFault SymbolArithmetic::decode(std::vector<Run>& runs, int rank, bool with_scalar) {
  const uint64_t narrow = size_of(call_.type);
  const uint64_t wide = size_of(call_.accumulator);
  const bool scales = call_.op == ReduceOp::kPreMulSum;
  if (scales && !with_scalar) return "combines a contribution that was not scaled";
  for (Run& run : runs) {
    if (is_torn(run, narrow)) return "decodes a part of an element";
    if (!call_.needs_decode) {
      if (symbols_.stage(run.symbol) != SymbolStage::kPartial) return "decodes what was encoded";
      continue;
    }
    if (symbols_.stage(run.symbol) != SymbolStage::kRaw) return "decodes what is no contribution";
    if (scales && run.symbol != symbols_.contribution(rank))
      return "scales a contribution of another rank";
    run = resized(run, narrow, wide, symbols_.decoded(run.symbol));
  }
  return {};
}

ScheduleFault SymbolArithmetic::encode(std::vector<Run>& runs) {
  const uint64_t narrow = size_of(call_.type);
  const uint64_t wide = size_of(call_.accumulator);
  for (Run& run : runs) {
    if (is_torn(run, wide)) return "encodes a part of an element";
    if (symbols_.stage(run.symbol) != SymbolStage::kPartial) return "encodes what is not decoded";
    if (call_.needs_encode) run = resized(run, wide, narrow, symbols_.encoded(run.symbol));
  }
  return {};
}

// What is in a wire slot is a message, as the structure has it; a window may have anything.
ScheduleFault SymbolArithmetic::open_message(const Step& step, std::vector<Run>& runs) const {
  const Run& first = runs.front();
  if (runs.size() != 1 || first.origin != 0 ||
      symbols_.stage(first.symbol) != SymbolStage::kMessage)
    return "takes for a message what is none";
  const Symbols::Saying& saying = symbols_.said(first.symbol);
  if (saying.codec != step.codec)
    return "decodes by codec " + std::to_string(step.codec) + " what codec " +
           std::to_string(saying.codec) + " has encoded";
  runs = saying.values;
  return {};
}

ScheduleFault SymbolArithmetic::decode_message(const Step& step, std::vector<Run>& runs) const {
  ScheduleFault fault = open_message(step, runs);
  const uint64_t wanted = step.dst.size / size_of(step.type) * size_of(call_.accumulator);
  if (!fault.empty() || runs.back().end == wanted) return fault;
  return "takes a message of " + std::to_string(runs.back().end) + " bytes of values for one of " +
         std::to_string(wanted);
}

// The structure has been checked: the table has the place.
ScheduleFault SymbolArithmetic::keep(const Step& step, int rank, const std::vector<Run>& values,
                                     SymbolId message) {
  Kept& kept = kept_.try_emplace(message, Kept{rank, step.dst.slot, 0}).first->second;
  if (step.dst2.size == 0) return {};
  ++kept.times;
  const Schedule& schedule = call_.schedules[static_cast<size_t>(rank)];
  const uint64_t width = size_of(call_.accumulator);
  const uint64_t place = kept_at(schedule, step.dst2).offset;
  const auto left = std::find_if(schedule.lefts.begin(), schedule.lefts.end(),
                                 [&](const Left& each) { return each.place * width == place; });
  const uint64_t first = left->elements.begin * width;
  const bool fits = std::all_of(values.begin(), values.end(),
                                [&](const Run& run) { return run.origin == first + run.begin; });
  return fits ? "" : "leaves over what is of other elements than the table says";
}

ScheduleFault SymbolArithmetic::check_kept() const {
  for (const auto& [message, kept] : kept_)
    if (kept.times != 1)
      return "what is left of wire slot " + std::to_string(kept.slot) + " of rank " +
             std::to_string(kept.rank) + " is kept " + std::to_string(kept.times) + " times";
  return {};
}

ScheduleFault SymbolArithmetic::encode_message(const Step& step, int rank, std::vector<Run>& runs,
                                               const std::vector<Run>& selection) {
  if (!selection.empty() && (symbols_.stage(selection.front().symbol) != SymbolStage::kMessage ||
                             symbols_.said(selection.front().symbol).codec != step.codec))
    return "encodes by what is no selection of its codec";
  for (const Run& run : runs) {
    const SymbolStage stage = symbols_.stage(run.symbol);
    if (step.op == Op::kSelect && stage == SymbolStage::kMessage) continue;  // a look
    if (is_torn(run, size_of(call_.accumulator))) return "encodes a part of an element";
    if (stage != SymbolStage::kPartial) return "encodes what is not decoded";
  }
  const SymbolId message = symbols_.message(step.codec, runs);
  ScheduleFault fault;
  if (step.op == Op::kEncode && call_.problems.front().keeps_left)
    fault = keep(step, rank, runs, message);
  runs = {Run{0, step.dst.size, message, 0}};
  return fault;
}

ScheduleFault SymbolArithmetic::combine(std::vector<Run>& left, const std::vector<Run>& right) {
  const uint64_t width = size_of(call_.accumulator);
  result_.clear();
  ScheduleFault fault = walk(left, right, [&](const Run& one, const Run& other) -> ScheduleFault {
    if (symbols_.stage(one.symbol) != SymbolStage::kPartial ||
        symbols_.stage(other.symbol) != SymbolStage::kPartial)
      return "combines what is not decoded, or is encoded already";
    if (is_torn(one, width) || is_torn(other, width)) return "combines a part of an element";
    if (one.origin != other.origin)
      return "combines element " + std::to_string(one.origin / width) + " with element " +
             std::to_string(other.origin / width);
    const SymbolId sum = symbols_.combined(one.symbol, other.symbol);
    if (symbols_.is_complete(sum)) finished_ += one.end - one.begin;
    result_.push_back({one.begin, one.end, sum, one.origin});
    return {};
  });
  left.swap(result_);
  return fault;
}

ScheduleFault SymbolArithmetic::fold(const Step& step, int rank,
                                     std::vector<std::vector<Run>>& windows) {
  const bool coded = step.codec != kNoCodec;
  const bool partial = step.dst.space == Space::kScratch;
  std::vector<Run>& sum = windows.front();
  for (size_t of = 0; of < windows.size(); ++of) {
    ScheduleFault fault;
    if (coded)
      fault = open_message(step, windows[of]);
    else if (call_.needs_decode && !partial)
      fault = decode(windows[of], static_cast<int>(of), true);
    if (fault.empty() && windows[of].back().end != sum.back().end)
      fault = "folds messages of values of different lengths";
    if (fault.empty() && of != 0) fault = combine(sum, windows[of]);
    if (!fault.empty()) return fault;
  }
  if (coded) return encode_message(step, rank, sum, {});
  return call_.needs_encode && !partial ? encode(sum) : ScheduleFault{};
}

ScheduleFault SymbolArithmetic::apply(const Step& step, int rank, std::vector<Run>& left,
                                      std::vector<Run>& right) {
  switch (step.op) {
    case Op::kSend:
    case Op::kCopy: return {};
    case Op::kRecv: left.swap(right); return {};
    case Op::kEncode: {
      if (step.codec == kNoCodec) return encode(left);
      ScheduleFault fault;
      if (step.type != call_.accumulator) fault = decode(left, rank, false);
      return fault.empty() ? encode_message(step, rank, left, right) : fault;
    }
    case Op::kSelect: return encode_message(step, rank, left, {});
    case Op::kDecode: {
      if (step.codec == kNoCodec) return decode(left, rank, true);
      ScheduleFault fault = decode_message(step, left);
      return fault.empty() && step.type != call_.accumulator ? encode(left) : fault;
    }
    case Op::kReduce:
    case Op::kRecvReduce: return combine(left, right);
    case Op::kDecodeAdd:
    case Op::kRecvDecodeAdd: {
      ScheduleFault fault =
          step.codec != kNoCodec ? decode_message(step, right) : decode(right, rank, false);
      return fault.empty() ? combine(left, right) : fault;
    }
    case Op::kOffer:
    case Op::kDecide:
    case Op::kFold:
    case Op::kDelegate:
    case Op::kWithdraw: break;  // these are no arithmetic
  }
  return "is of no known kind";
}

// A single rank may copy its contribution, unless it has to be scaled.
ScheduleFault SymbolArithmetic::compare_result(const Run& found, uint64_t origin) const {
  const bool copied = call_.ranks == 1 && call_.op != ReduceOp::kPreMulSum &&
                      symbols_.is_contribution(found.symbol);
  const SymbolStage wanted = call_.needs_encode ? SymbolStage::kFinal : SymbolStage::kPartial;
  if (symbols_.stage(found.symbol) != wanted && !copied)
    return bytes_of(found) + " of the output are no result";
  if (found.origin != origin)
    return bytes_of(found) + " of the output are the result for the element at byte " +
           std::to_string(found.origin) + " instead of " + std::to_string(origin);
  ScheduleFault fault = symbols_.incomplete(found.symbol);
  if (!fault.empty()) return bytes_of(found) + " of the output: " + fault;
  if (sums_in_rank_order(call_.problems.front()) && !symbols_.is_in_rank_order(found.symbol))
    return bytes_of(found) + " of the output are not summed in the order of ranks";
  return {};
}

// The lists cover the same bytes: only output that was there from the start can be written.
ScheduleFault SymbolArithmetic::compare(const std::vector<Run>& found,
                                        const std::vector<Run>& expected) const {
  return walk(found, expected, [&](const Run& is, const Run& wanted) -> ScheduleFault {
    if (wanted.symbol == symbols_.result()) return compare_result(is, wanted.origin);
    if (is.symbol == wanted.symbol && is.origin == wanted.origin) return {};
    const bool kept = symbols_.stage(wanted.symbol) == SymbolStage::kUntouched;
    if (kept) return bytes_of(is) + " of the output were written, but do not belong to the result";
    return bytes_of(is) + " of the output are not the bytes from " + std::to_string(wanted.origin) +
           " on of rank " + std::to_string(wanted.symbol);
  });
}

ScheduleFault SymbolArithmetic::same_order(const std::vector<Run>& left,
                                           const std::vector<Run>& right) const {
  return walk(left, right, [&](const Run& one, const Run& other) -> ScheduleFault {
    if (one.symbol == other.symbol) return {};
    return bytes_of(one) + " of the output were combined in another order, or encoded otherwise";
  });
}

}  // namespace banyan
