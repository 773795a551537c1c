// Welch's interval for the difference of two means from few trials. Pure.
#pragma once

#include <optional>
#include <vector>

namespace libreyolo::analysis {

struct WelchInterval {
  double change = 0;  // after minus before
  double low = 0;     // limits of the change
  double high = 0;
  double freedom = 0;   // degrees of freedom, by Welch and Satterthwaite
  double smallest = 0;  // the smallest change that these trials could have shown as one
};

// Absent when a side has fewer than two values. `resolution` is the step to which the values were
// rounded: equal values spread at least as much as that rounding hides.
std::optional<WelchInterval> CompareMeans(const std::vector<double>& before,
                                          const std::vector<double>& after, double resolution,
                                          double confidence = 0.95);

}  // namespace libreyolo::analysis
