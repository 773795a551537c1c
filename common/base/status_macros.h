// Early return for absl::Status and absl::StatusOr, which this Abseil does not ship.
//
//   LY_RETURN_IF_ERROR(WriteHeader(out));
//   LY_ASSIGN_OR_RETURN(const Profile profile, LoadProfile(path));
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define LY_CONCAT_INNER_(a, b) a##b
#define LY_CONCAT_(a, b) LY_CONCAT_INNER_(a, b)

#define LY_RETURN_IF_ERROR(expr)             \
  do {                                       \
    ::absl::Status ly_status_ = (expr);      \
    if (!ly_status_.ok()) return ly_status_; \
  } while (false)

#define LY_ASSIGN_OR_RETURN(lhs, expr) \
  LY_ASSIGN_OR_RETURN_IMPL_(LY_CONCAT_(ly_status_or_, __LINE__), lhs, expr)

#define LY_ASSIGN_OR_RETURN_IMPL_(result, lhs, expr)   \
  auto result = (expr);                                \
  if (!result.ok()) return std::move(result).status(); \
  lhs = std::move(result).value()
