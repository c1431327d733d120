// The figures of the cost model for ranks that share the memory of one host.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "algorithms/choice/select.h"
#include "algorithms/cost/cost.h"
#include "src/base/message_times.h"

namespace banyan {

// Gives the model of ranks that have `cores` cores in common. Figures are of source kTable: fitted
// to what was measured on one machine, which docs/choice.md names.
CostModel memory_model(int ranks, int cores);
// What a communicator knows of its cores is its medium. kNetwork: as kMemory.
CostModel memory_model(int ranks, Medium medium);
// Gives the model with what messages were measured to take, where something was: those figures are
// of source kMeasured. `ranks`: those that were measured, who had the model's cores.
CostModel with_message_times(CostModel model, const MessageTimes& times, int ranks);

}  // namespace banyan
