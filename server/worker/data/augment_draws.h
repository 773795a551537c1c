// Where an augmentation's chance comes from. A seam: the loader draws from a seeded generator,
// tests replay the reference's recorded draws.
#pragma once

#include <array>
#include <cstdint>

namespace libreyolo::data {

class AugmentDraws {
 public:
  virtual ~AugmentDraws() = default;
  virtual double Random() = 0;                          // in [0, 1)
  virtual double Uniform(double low, double high) = 0;  // in [low, high]
  virtual int Integer(int low, int high) = 0;           // in [low, high]
  virtual std::array<double, 3> ColorGains() = 0;       // three in [-1, 1)
  virtual std::array<int, 3> ColorFlags() = 0;          // three of 0 or 1
};

// The same seed gives the same draws on every machine.
class SeededDraws : public AugmentDraws {
 public:
  explicit SeededDraws(uint64_t seed) : state_(seed) {}
  double Random() override;
  double Uniform(double low, double high) override;
  int Integer(int low, int high) override;
  std::array<double, 3> ColorGains() override;
  std::array<int, 3> ColorFlags() override;

 private:
  uint64_t Next();
  uint64_t state_;
};

}  // namespace libreyolo::data
