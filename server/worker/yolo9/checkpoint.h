// A torch.save file (.pt) read without trust: plain data and dense tensors only, nothing in it is
// executed, every size is checked before memory is taken for it. Takes the ZIP container of
// torch 1.6 and later in both byte orders, and the older container (little-endian, without storage
// views).
//
// What is checked when: names, shapes and the sizes of all storages on Open; the CRC-32 of a
// storage when the first tensor on it is made (the old container has no checksums). One thread at a
// time.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/worker/yolo9/pickle_reader.h"

namespace libreyolo::yolo9 {

struct CheckpointLimits {
  int64_t pickle_bytes = int64_t{64} << 20;
  int64_t storage_bytes = int64_t{4} << 30;  // all storages together
  PickleLimits pickle;
};

class Checkpoint {
 public:
  //   WEIGHTS_NOT_FOUND   there is no such file
  //   WEIGHTS_UNREADABLE  it cannot be read or is not such a checkpoint; the message names the file
  //   and what is wrong
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& path,
                                                          const CheckpointLimits& limits = {});
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  const PickleValue& root() const;
  // A view of the tensor's storage on the CPU, with the file's strides. Tensors of one storage
  // share memory. WEIGHTS_UNREADABLE when the storage's bytes are damaged; OUT_OF_MEMORY.
  absl::StatusOr<at::Tensor> MakeTensor(const PickleTensor& tensor);

 private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace libreyolo::yolo9
