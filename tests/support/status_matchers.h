// Matchers and macros for absl::Status in tests, which this Abseil does not ship.
//
//   ASSERT_OK_AND_ASSIGN(const Profile profile, LoadProfile(path));
//   EXPECT_THAT(LoadProfile("absent").status(), HasReason(reason::kProfileNotFound));
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::testing {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER_P(StatusIs, code, "") {
  *result_listener << "whose status is " << StatusOf(arg);
  return StatusOf(arg).code() == code;
}

MATCHER_P(FailsWith, want, std::string("fails with reason ") + want.name) {
  *result_listener << "whose status is " << StatusOf(arg);
  return !StatusOf(arg).ok() && libreyolo::GetErrorDetail(StatusOf(arg)).reason == want.name;
}

}  // namespace libreyolo::testing

#define EXPECT_OK(expr) \
  EXPECT_TRUE(::libreyolo::testing::StatusOf(expr).ok()) << ::libreyolo::testing::StatusOf(expr)
#define ASSERT_OK(expr)                                         \
  do {                                                          \
    const auto& ly_value_ = (expr);                             \
    ASSERT_TRUE(::libreyolo::testing::StatusOf(ly_value_).ok()) \
        << ::libreyolo::testing::StatusOf(ly_value_);           \
  } while (false)
#define ASSERT_OK_AND_ASSIGN(lhs, expr) \
  ASSERT_OK_AND_ASSIGN_IMPL_(LY_CONCAT_(ly_test_status_or_, __LINE__), lhs, expr)
#define ASSERT_OK_AND_ASSIGN_IMPL_(result, lhs, expr) \
  auto result = (expr);                               \
  ASSERT_TRUE(result.ok()) << result.status();        \
  lhs = std::move(result).value()
