// How often `compare` calls two measurements of the SAME code different, by the contract's rule
// (twice the combined standard error, population deviation) and by the calibrated one (Welch's
// interval), and how often each sees a real change of 5 %. Prints a table in Markdown.
//
// A trial's throughput is 100 with a normal error of 2 %. With drift the machine's speed walks:
// each trial adds a normal step of 1 %, over the trials of both sides in the order in which they
// are measured: first all of the one, then all of the other, or taking turns.
#include <cstdio>
#include <random>
#include <vector>

#include "common/analysis/compare.h"
#include "common/analysis/statistics.h"

namespace libreyolo::analysis {
namespace {

constexpr int kRounds = 20000;
constexpr double kNoise = 0.02;
constexpr double kDriftStep = 0.01;

enum class Drift { kNone, kOneAfterTheOther, kTakingTurns };

const char* NameOf(Drift drift) {
  switch (drift) {
    case Drift::kNone:
      return "none";
    case Drift::kOneAfterTheOther:
      return "one side after the other";
    case Drift::kTakingTurns:
      return "sides taking turns";
  }
  return "";
}

Profile RepeatOf(const std::vector<double>& rates) {
  Profile profile;
  profile.ours = true;
  profile.img_per_s = Mean(rates);
  profile.img_per_s_std = Deviation(rates, /*sample=*/false);
  profile.img_per_s_n = static_cast<int64_t>(rates.size());
  for (const double rate : rates) profile.trials.push_back({rate, 1000 / rate});
  return profile;
}

struct Rates {
  double contract = 0;
  double calibrated = 0;
};

Rates Simulate(int trials, double change, Drift drift) {
  std::mt19937_64 random(static_cast<uint64_t>(trials) * 977 + static_cast<uint64_t>(drift));
  std::normal_distribution<double> normal;
  int contract = 0;
  int calibrated = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> sides[2];
    double speed = 1;
    for (int i = 0; i < 2 * trials; ++i) {
      const int side = drift == Drift::kTakingTurns ? i % 2 : i / trials;
      if (drift != Drift::kNone) speed *= 1 + kDriftStep * normal(random);
      const double mean = 100 * speed * (side == 1 ? 1 + change : 1);
      sides[side].push_back(mean * (1 + kNoise * normal(random)));
    }
    const auto report = Compare(RepeatOf(sides[0]), RepeatOf(sides[1]), {});
    if (!report.ok()) continue;
    contract += report->significant.value_or(false);
    calibrated += report->calibrated_verdict == "faster" || report->calibrated_verdict == "slower";
  }
  return {100.0 * contract / kRounds, 100.0 * calibrated / kRounds};
}

void PrintTable() {
  std::printf(
      "| trials per side | drift | same code, contract | same code, calibrated | 5 %% faster, "
      "contract | 5 %% faster, calibrated |\n|---|---|---|---|---|---|\n");
  for (const Drift drift : {Drift::kNone, Drift::kOneAfterTheOther, Drift::kTakingTurns}) {
    for (const int trials : {2, 3, 5, 10}) {
      const Rates same = Simulate(trials, 0, drift);
      const Rates faster = Simulate(trials, 0.05, drift);
      std::printf("| %d | %s | %.1f %% | %.1f %% | %.1f %% | %.1f %% |\n", trials, NameOf(drift),
                  same.contract, same.calibrated, faster.contract, faster.calibrated);
    }
  }
}

}  // namespace
}  // namespace libreyolo::analysis

int main() {
  libreyolo::analysis::PrintTable();
  return 0;
}
