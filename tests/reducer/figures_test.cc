// What is said of a tensor, and when its codec does not keep up.
// SPDX-License-Identifier: Apache-2.0

#include "src/reducer/figures.h"

#include <gtest/gtest.h>

#include <cmath>

namespace banyan::figures_test {
namespace {

// A piece has so many elements, of which all are in the sample.
PieceFigures piece(double gradient, double sum, double left, uint64_t values = 10) {
  return {
      .nonfinite = 0, .gradient = {gradient, values}, .sum = {sum, values}, .left = {left, values}};
}

void step(TensorLog& log, double gradient, double sum, double left, bool finite = true) {
  log.add(piece(gradient, sum, left), 10);
  log.end_step(finite);
}

TEST(Figures, EstimateByASample) {
  EXPECT_EQ(estimate({6, 3}, 12), 24);
  EXPECT_EQ(estimate({6, 3}, 3), 6);
  EXPECT_EQ(estimate({}, 12), 0);
}

TEST(Figures, AreOfTheLastStep) {
  TensorLog log;
  step(log, 100, 100, 25);
  EXPECT_EQ(log.figures.error_nmse, 0.25);
  EXPECT_EQ(log.figures.residual_norm, 5);
  log.add(piece(8, 10, 2), 10);
  log.add(piece(8, 10, 2, 5), 10);  // half of it was seen
  log.end_step(true);
  EXPECT_EQ(log.figures.error_nmse, 6.0 / 30);
  EXPECT_EQ(log.figures.residual_norm, std::sqrt(6));
  EXPECT_EQ(log.squares_sent, 30);
  EXPECT_EQ(log.squares_left, 6);
  EXPECT_EQ(log.figures.steps, 2U);
  step(log, 0, 0, 0);
  EXPECT_EQ(log.figures.error_nmse, 0);
  EXPECT_EQ(log.figures.residual_norm, 0);
}

TEST(Figures, AreThoseBeforeAStepThatIsNotFinite) {
  TensorLog log;
  step(log, 100, 100, 25);
  PieceFigures wrong = piece(NAN, NAN, INFINITY);
  wrong.nonfinite = 3;
  log.add(wrong, 10);
  log.end_step(false);
  EXPECT_EQ(log.figures.error_nmse, 0.25);
  EXPECT_EQ(log.figures.residual_norm, 5);
  EXPECT_EQ(log.figures.nonfinite, 3U);
  EXPECT_EQ(log.figures.steps, 2U);
  EXPECT_FALSE(log.is_out_of_hand(false));
  step(log, 100, 100, 36);
  EXPECT_EQ(log.figures.residual_norm, 6);
}

TEST(Figures, TellWhenTooMuchIsLeft) {
  TensorLog log;
  step(log, 1, 1, 1024.0 * 1024);
  EXPECT_FALSE(log.is_out_of_hand(true));
  step(log, 1, 1, 1025.0 * 1025);
  EXPECT_TRUE(log.is_out_of_hand(true));
  step(log, 1, 1, 0);
  EXPECT_FALSE(log.is_out_of_hand(true));
}

// After a restart a residual may be there before any gradient.
TEST(Figures, DoNotJudgeAResidualWithoutAGradient) {
  TensorLog log;
  step(log, 0, 9, 9);
  EXPECT_FALSE(log.is_out_of_hand(true));
}

TEST(Figures, TellOfACodecThatMissesMost) {
  TensorLog log;
  step(log, 1, 1, 0.5);
  EXPECT_FALSE(log.is_out_of_hand(false));
  step(log, 1, 1, 0.51);
  EXPECT_TRUE(log.is_out_of_hand(false));
  EXPECT_FALSE(log.is_out_of_hand(true));  // which it does by design
}

// A gradient that falls to zero for a while does not make what is left too much.
TEST(Figures, RememberTheLargestGradients) {
  TensorLog log;
  step(log, 1e4, 1e4, 1e4);
  int steps = 0;
  for (; !log.is_out_of_hand(true) && steps < 10'000; ++steps) step(log, 0, 1e4, 1e4);
  EXPECT_EQ(steps, 690);  // 0.99^690 is below 1/1024
}

// Whether anything was sent by a tensor that never had a gradient is no question.
TEST(Figures, AreNothingOfNothing) {
  TensorLog log;
  step(log, 0, 0, 0);
  EXPECT_FALSE(log.is_out_of_hand(false));
  EXPECT_EQ(log.figures.error_nmse, 0);
}

}  // namespace
}  // namespace banyan::figures_test
