// A bucket's run, step by step, where the test stands for the call: it says what the sum is and
// what is left.
// SPDX-License-Identifier: Apache-2.0

#include "src/reducer/bucket_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

#include "algorithms/choice/compression.h"
#include "compression/codecs.h"

namespace banyan::bucket_run_test {
namespace {

using Floats = std::vector<float>;

Compression by(std::string_view text) {
  const Result<Compression> read = parse_compression(text);
  EXPECT_TRUE(read.ok()) << text;
  return *read;
}

Floats ramp(uint64_t count, float first, float step = 1) {
  Floats values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i) * step;
  return values;
}

Floats copy_of(std::span<const float> values) {
  return {values.begin(), values.end()};
}

// A model in buckets, of which one runs.
class Runner {
 public:
  Runner(std::vector<Tensor> tensors, const ReducerOptions& options, int ranks = 2,
         size_t which = 0)
      : tensors_(std::move(tensors)),
        options_(options),
        scales_(tensors_.size(), 1.0F),
        buckets_(banyan::compose(tensors_, options_.bucket_bytes)),
        run(buckets_[which], tensors_, options_, ranks, scales_, host_) {
    for (const Tensor& tensor : tensors_) gradients_.emplace_back(tensor.count * 2);
    room_.resize(buckets_[which].count);
  }

  // The gradients of the step, as float32; of 16-bit tensors they are rounded.
  void fill(const std::vector<Floats>& gradients) {
    std::vector<std::byte*> addresses;
    for (size_t t = 0; t < tensors_.size(); ++t) {
      best_kernels().encode[static_cast<size_t>(tensors_[t].type)](
          gradients_[t].data(), gradients[t].data(), tensors_[t].count, 1);
    }
    for (const Piece& piece : run.bucket().pieces)
      addresses.push_back(reinterpret_cast<std::byte*>(gradients_[piece.tensor].data()) +
                          piece.first * size_of(tensors_[piece.tensor].type));
    EXPECT_TRUE(run.fill(addresses, reinterpret_cast<std::byte*>(room_.data()), host_, call).ok());
  }
  // Space for what is left, by a table of it.
  std::span<float> expect(std::vector<Left> lefts) {
    Schedule schedule;
    for (const Left& left : lefts)
      schedule.left_count = std::max(schedule.left_count, left.place + left.elements.count);
    schedule.lefts = std::move(lefts);
    EXPECT_TRUE(run.expect(schedule, call).ok());
    return {reinterpret_cast<float*>(call.left), schedule.left_count};
  }
  // What the call sends, and what it then makes of it.
  std::span<float> vector() const { return {static_cast<float*>(call.recv), run.bucket().count}; }
  Floats delivered(size_t tensor) {
    Floats values(tensors_[tensor].count);
    best_kernels().decode[static_cast<size_t>(tensors_[tensor].type)](
        values.data(), gradients_[tensor].data(), values.size(), nullptr);
    return values;
  }

  // Whether the sums are finite.
  bool deliver(bool scan = true) {
    const Result<bool> finite = run.deliver(scan);
    EXPECT_TRUE(finite.ok()) << finite.status().message();
    return finite.ok() && *finite;
  }

  Call call;

 private:
  HostPacking host_;
  std::vector<Tensor> tensors_;
  ReducerOptions options_;
  std::vector<float> scales_;
  std::vector<Bucket> buckets_;
  std::vector<Floats> gradients_;  // room for any type
  Floats room_;

 public:
  BucketRun run;
};

Tensor tensor(uint64_t count, std::string_view codec, DataType type = DataType::kFloat32) {
  return {.id = 7, .name = "t", .count = count, .type = type, .compression = by(codec)};
}

ReducerOptions options(ReduceOp op = ReduceOp::kSum) {
  return {.op = op, .bucket_bytes = 1 << 20};
}

// A step whose sum is twice what is sent, of which so much is left.
bool step(Runner& runner, const Floats& gradient, float left) {
  runner.fill({gradient});
  std::span<float> room = runner.expect({{0, {0, gradient.size()}}});
  std::fill(room.begin(), room.end(), left);
  for (float& value : runner.vector()) value = 2 * (value - left);
  const bool finite = runner.deliver();
  runner.run.keep(finite);
  return finite;
}

TEST(BucketRun, AddsWhatIsLeftToTheNextStep) {
  Runner runner({tensor(5000, "threshold:1")}, options());
  EXPECT_FALSE(runner.run.bucket().staged);
  EXPECT_TRUE(step(runner, ramp(5000, 0), 0.5F));
  EXPECT_EQ(copy_of(runner.run.residual(0)), Floats(5000, 0.5F));
  EXPECT_EQ(runner.delivered(0), ramp(5000, -1, 2));
  EXPECT_TRUE(step(runner, ramp(5000, 3), 0.25F));
  EXPECT_EQ(copy_of(runner.run.residual(0)), Floats(5000, 0.25F));
  EXPECT_EQ(runner.delivered(0), ramp(5000, 6.5F, 2));
  EXPECT_TRUE(runner.run.velocity(0).empty());
}

// One element has a NaN that only the gradient has, or an infinity that only the sum has.
TEST(BucketRun, ForgetsAStepThatIsNotFinite) {
  ReducerOptions with_momentum = options();
  with_momentum.momentum = 0.5;
  Runner runner({tensor(5000, "topk:0.1")}, with_momentum);
  EXPECT_TRUE(step(runner, ramp(5000, 0), 7));
  const Floats residual = copy_of(runner.run.residual(0));
  const Floats velocity = copy_of(runner.run.velocity(0));
  Floats gradient = ramp(5000, 7);
  gradient[4711] = NAN;
  EXPECT_FALSE(step(runner, gradient, 9));
  EXPECT_EQ(runner.run.figures()[0].nonfinite, 1U);
  EXPECT_EQ(copy_of(runner.run.residual(0)), residual);
  EXPECT_EQ(copy_of(runner.run.velocity(0)), velocity);
  gradient[4711] = 3e38F;
  EXPECT_FALSE(step(runner, gradient, 9));
  EXPECT_EQ(runner.run.figures()[0].nonfinite, 0U);
  EXPECT_EQ(copy_of(runner.run.residual(0)), residual);
  EXPECT_EQ(copy_of(runner.run.velocity(0)), velocity);
  // As if they had not been.
  runner.fill({Floats(5000)});
  EXPECT_EQ(runner.vector()[7], 3.5F + 7);  // of this element nothing was sent
  EXPECT_EQ(runner.vector()[4711], 7);
}

TEST(BucketRun, LooksForWhatIsNotFiniteWhereItIsToldTo) {
  Runner runner({tensor(10, "off")}, options());
  Floats gradient(10);
  gradient[3] = INFINITY;
  gradient[4] = NAN;
  for (const bool scan : {true, false}) {
    runner.fill({gradient});
    (void)runner.expect({});
    EXPECT_EQ(runner.deliver(scan), !scan);
    EXPECT_EQ(runner.run.figures()[0].nonfinite, scan ? 2U : 0U);
  }
  EXPECT_TRUE(runner.run.residual(0).empty());
}

// The means of three ranks, rounded once. What is left is in units of the sum.
TEST(BucketRun, DeliversMeans) {
  Runner runner({tensor(5000, "int8", DataType::kBfloat16)}, options(ReduceOp::kAvg), 3);
  EXPECT_TRUE(runner.run.bucket().staged);
  runner.fill({Floats(5000, 1.5F)});
  std::span<float> left = runner.expect({{0, {0, 5000}}});
  std::fill(left.begin(), left.end(), 0.75F);
  EXPECT_EQ(copy_of(runner.vector()), Floats(5000, 1.5F));
  std::fill(runner.vector().begin(), runner.vector().end(), 4.0F);
  EXPECT_TRUE(runner.deliver());
  runner.run.keep(true);
  EXPECT_EQ(runner.delivered(0), Floats(5000, 1.3359375F));  // 4 / 3 in bfloat16
  EXPECT_EQ(copy_of(runner.run.residual(0)), Floats(5000, 0.75F));
}

// Three tensors in one vector, with zeros between; what sums lost lies behind it.
TEST(BucketRun, SharesAVector) {
  Runner runner({tensor(300, "int8"), tensor(256, "int8", DataType::kFloat16), tensor(5, "int8")},
                options());
  const Bucket& bucket = runner.run.bucket();
  ASSERT_EQ(bucket.pieces.size(), 3U);
  EXPECT_EQ(bucket.count, 256 + 256 + 300U);
  runner.fill({Floats(300, 3), Floats(256, 2), Floats(5, 1)});
  Floats expected(812);
  std::fill_n(expected.begin(), 5, 1.0F);
  std::fill_n(expected.begin() + 256, 256, 2.0F);
  std::fill_n(expected.begin() + 512, 300, 3.0F);
  EXPECT_EQ(copy_of(runner.vector()), expected);
  std::span<float> left = runner.expect({{0, {0, 812}}, {812, {500, 20}}});
  for (size_t i = 0; i < left.size(); ++i) left[i] = i < 812 ? 0.5F : 0.25F;
  EXPECT_TRUE(runner.deliver());
  runner.run.keep(true);
  EXPECT_EQ(copy_of(runner.run.residual(0)), Floats(5, 0.5F));
  Floats second(256, 0.5F);
  std::fill(second.end() - 12, second.end(), 0.75F);
  EXPECT_EQ(copy_of(runner.run.residual(1)), second);
  EXPECT_EQ(runner.run.residual(2)[7], 0.75F);
  EXPECT_EQ(runner.run.residual(2)[8], 0.5F);
  EXPECT_EQ(runner.delivered(1), Floats(256, 2));
  const std::span<const PieceFigures> figures = runner.run.figures();
  EXPECT_EQ(figures[0].gradient.squares, 5);
  EXPECT_EQ(figures[1].gradient.squares, 4 * 256);
  EXPECT_EQ(figures[2].sum.squares, 9 * 300);
  EXPECT_EQ(figures[0].left.squares, 1.25);
  EXPECT_EQ(figures[2].left.squares, 8 * 0.5625 + 292 * 0.25);
}

// What is between tensors is zero in every step, whatever the room has had in between.
TEST(BucketRun, HasZerosBetweenTensors) {
  Runner runner({tensor(3, "int8"), tensor(2, "int8")}, options());
  for (int turn = 0; turn < 2; ++turn) {
    runner.fill({Floats(3, 1), Floats(2, 1)});
    EXPECT_EQ(std::count(runner.vector().begin(), runner.vector().end(), 0.0F), 254);
    (void)runner.expect({});
    std::fill(runner.vector().begin(), runner.vector().end(), 77.0F);
    EXPECT_TRUE(runner.deliver());
    runner.run.keep(true);
  }
}

// All was sent: nothing is left, and the velocity stays, as that of plain momentum does.
TEST(BucketRun, LeavesNothingOfAnExactStep) {
  ReducerOptions with_momentum = options();
  with_momentum.momentum = 0.5;
  Runner runner({tensor(5000, "topk:0.1")}, with_momentum);
  EXPECT_TRUE(step(runner, Floats(5000, 1), 0.5F));
  runner.fill({Floats(5000, 1)});
  (void)runner.expect({});
  EXPECT_TRUE(runner.deliver());
  runner.run.keep(true);
  EXPECT_EQ(copy_of(runner.run.residual(0)), Floats(5000));
  EXPECT_EQ(copy_of(runner.run.velocity(0)), Floats(5000, 1));  // the first one is over
}

// A codec inside the host rounds every contribution, so that the sum says what went further.
TEST(BucketRun, MasksBySumsWhereAllIsSaid) {
  ReducerOptions with_momentum = options();
  with_momentum.momentum = 0.5;
  for (const std::string_view codec : {"inter=topk:0.1,intra=int8", "inter=topk:0.1,intra=off"}) {
    Runner runner({tensor(5000, codec)}, with_momentum);
    runner.fill({Floats(5000, 1)});
    std::span<float> left = runner.expect({{0, {0, 5000}}});
    std::fill(left.begin(), left.end(), 0.5F);
    std::fill_n(runner.vector().begin(), 4000, 0.0F);
    EXPECT_TRUE(runner.deliver());
    runner.run.keep(true);
    Floats expected(5000, codec.back() == '8' ? 1.0F : 0.0F);
    std::fill_n(expected.begin() + 4000, 1000, 0.0F);
    EXPECT_EQ(copy_of(runner.run.velocity(0)), expected) << codec;
  }
}

// The same without a residual of its own: what a checkpoint has goes with the next finite step.
TEST(BucketRun, CarriesWhatItDoesNotKeep) {
  ReducerOptions without = options();
  without.feedback = false;
  for (const std::string_view codec : {"off", "threshold:1"}) {
    Runner runner({tensor(5000, codec)}, without);
    EXPECT_TRUE(runner.run.residual(0).empty());
    EXPECT_FALSE(runner.run.carries());
    runner.run.take_over(0, Floats(5000, 0.25F), {});
    EXPECT_TRUE(runner.run.carries());
    for (const bool finite : {false, true}) {
      EXPECT_EQ(copy_of(runner.run.residual(0)), Floats(5000, 0.25F));
      runner.fill({Floats(5000, 1)});
      EXPECT_EQ(copy_of(runner.vector()), Floats(5000, 1.25F));
      (void)runner.expect({});
      EXPECT_TRUE(runner.deliver());
      runner.run.keep(finite);
    }
    EXPECT_FALSE(runner.run.carries());
    runner.fill({Floats(5000, 1)});
    EXPECT_EQ(copy_of(runner.vector()), Floats(5000, 1));
  }
}

// Clipping is for gradients.
TEST(BucketRun, ClipsNothingThatACheckpointHas) {
  ReducerOptions clipping = options();
  clipping.feedback = false;
  clipping.clip_norm = 10;
  Runner runner({tensor(10'000, "threshold:1")}, clipping, 4);
  runner.run.take_over(0, Floats(10'000, 3), {});
  runner.fill({Floats(10'000, 1)});  // of norm 100, where 5 is the most
  EXPECT_EQ(copy_of(runner.vector()), Floats(10'000, 1 * 0.05F + 3));
}

TEST(BucketRun, TakesOver) {
  ReducerOptions with_momentum = options();
  with_momentum.momentum = 0.5;
  Runner runner({tensor(5000, "topk:0.1")}, with_momentum);
  runner.run.take_over(0, Floats(5000, 3), Floats(5000, 4));
  EXPECT_EQ(copy_of(runner.run.residual(0)), Floats(5000, 3));
  EXPECT_EQ(copy_of(runner.run.velocity(0)), Floats(5000, 4));
  EXPECT_FALSE(runner.run.carries());
  runner.fill({Floats(5000, 1)});
  EXPECT_EQ(copy_of(runner.vector()), Floats(5000, 1 + 0.5F * 4 + 3));
}

// Bounds are on the error of one step, and quantisers say something of every value.
TEST(BucketRun, KeepsWhatItsCodecNeeds) {
  ReducerOptions with_momentum = options();
  with_momentum.momentum = 0.5;
  Tensor bound = tensor(5000, "off");
  bound.compression.inter = bound.compression.alone = {.codec = kAbsoluteBound, .parameter = 0.1};
  for (const Tensor& each : {bound, tensor(5000, "int8"), tensor(5000, "sign:1")}) {
    const Runner runner({each}, with_momentum);
    const bool is_bound = each.compression == bound.compression;
    EXPECT_EQ(runner.run.residual(0).empty(), is_bound);
    EXPECT_EQ(runner.run.has_velocity(), each.compression == by("sign:1"));
  }
}

// The bucket with the first piece of a tensor sets by how much all of it is scaled.
TEST(BucketRun, ClipsAWholeTensor) {
  ReducerOptions clipping = options();
  clipping.clip_norm = 2;
  clipping.bucket_bytes = 4 * 4096;
  std::vector<Tensor> tensors = {tensor(5000, "int8", DataType::kBfloat16)};
  const std::vector<Bucket> buckets = compose(tensors, clipping.bucket_bytes);
  ASSERT_EQ(buckets.size(), 2U);
  Floats scales(1, 1.0F), room(4096);
  std::vector<uint16_t> gradient(5000, 0x3F80);  // 1
  const auto address_of = [&](size_t which) {
    auto* first = reinterpret_cast<std::byte*>(gradient.data());
    return std::vector<std::byte*>{first + buckets[which].pieces.front().first * 2};
  };
  HostPacking host;
  const auto scale = static_cast<float>(1 / std::sqrt(5000.0));  // 2 / sqrt(4) over the norm
  for (const size_t which : {0, 1}) {
    BucketRun run(buckets[which], tensors, clipping, 4, scales, host);
    Call call;
    ASSERT_TRUE(
        run.fill(address_of(which), reinterpret_cast<std::byte*>(room.data()), host, call).ok());
    EXPECT_NEAR(room[0], scale, 1e-7F) << which;
    EXPECT_NEAR(room[buckets[which].count - 1], scale, 1e-7F) << which;
  }
  clipping.clip_norm = 1e6;  // which is above the norm
  BucketRun run(buckets[0], tensors, clipping, 4, scales, host);
  Call call;
  ASSERT_TRUE(run.fill(address_of(0), reinterpret_cast<std::byte*>(room.data()), host, call).ok());
  EXPECT_EQ(room[0], 1);
}

}  // namespace
}  // namespace banyan::bucket_run_test
