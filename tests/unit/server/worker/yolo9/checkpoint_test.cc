// The restricted reader on every handed file, on hostile pickles, and on damaged copies.
#include "server/worker/yolo9/checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <random>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "server/worker/yolo9/zip_reader.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/server/worker/yolo9/checkpoint_writer.h"
#include "tests/unit/server/worker/yolo9/golden.h"

namespace libreyolo::yolo9 {
namespace {

using ::libreyolo::testing::FailsWith;
using testing::At;
using testing::FixturePath;
using testing::MakeZip;
using testing::PickleWriter;

constexpr const char* kGoodFiles[] = {"mini_all_dtypes.pt",    "yolo9t_nc2_views.pt",
                                      "mini_trainer_last.pt",  "legacy_nonzip.pt",
                                      "raw_state_dict_ddp.pt", "odd_byteorder_big.pt"};

std::string CkptPath(absl::string_view name) { return FixturePath(absl::StrCat("ckpt/", name)); }

class CheckpointTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& bytes) {
    const std::string path =
        absl::StrCat(::testing::TempDir(), "/checkpoint_test_", getpid(), ".pt");
    EXPECT_OK(WriteFile(path, bytes));
    return path;
  }
  void TearDown() override {
    std::filesystem::remove(
        absl::StrCat(::testing::TempDir(), "/checkpoint_test_", getpid(), ".pt"));
  }
  // A file with this pickle and one storage of three float32: 1, 2, 3.
  absl::StatusOr<std::unique_ptr<Checkpoint>> OpenPickle(const std::string& pickle) {
    const float values[] = {1, 2, 3};
    return Checkpoint::Open(
        Write(MakeZip({{"a/data.pkl", pickle},
                       {"a/data/0", std::string(reinterpret_cast<const char*>(values), 12)}})));
  }
};

// The dict that the recorded tensors come from: "model", else the root.
const PickleDict& TensorsOf(const PickleValue& root) {
  const auto* dict = root.As<PickleDict>();
  const PickleValue* model = dict->Find("model");
  return model != nullptr ? *model->As<PickleDict>() : *dict;
}

const char* TypeName(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kLong:
      return "int64";
    case at::kInt:
      return "int32";
    case at::kShort:
      return "int16";
    case at::kChar:
      return "int8";
    case at::kByte:
      return "uint8";
    case at::kBool:
      return "bool";
    default:
      return "?";
  }
}

void ExpectTensor(const at::Tensor& got, const JsonValue& want) {
  EXPECT_EQ(TypeName(got.scalar_type()), At(want, {"dtype"}).string_value());
  EXPECT_EQ(got.sizes().vec(), testing::Integers(At(want, {"shape"})));
  EXPECT_EQ(got.strides().vec(), testing::Integers(At(want, {"stride"})));
  EXPECT_EQ(got.storage_offset(), At(want, {"offset"}).int_value());
  const at::Tensor values = got.to(at::kDouble).contiguous();
  EXPECT_NEAR(values.sum().item<double>(), At(want, {"sum"}).number(),
              1e-9 * (1 + values.abs().sum().item<double>()));
  const std::vector<double> first = testing::Numbers(At(want, {"first"}));
  ASSERT_GE(values.numel(), static_cast<int64_t>(first.size()));
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_NEAR(values.const_data_ptr<double>()[i], first[i], 1e-9 * (1 + std::abs(first[i])));
  }
}

TEST_F(CheckpointTest, EveryGoodFileGivesTheRecordedTensors) {
  LY_NEEDS_FIXTURES();
  const JsonValue fixture = testing::ReadFixture("ckpt/ckpt.json");
  for (const char* name : kGoodFiles) {
    SCOPED_TRACE(name);
    const JsonValue& want = At(fixture, {name});
    ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(CkptPath(name)));
    const auto* root = checkpoint->root().As<PickleDict>();
    ASSERT_NE(root, nullptr);
    std::set<std::string> keys;
    for (const auto& [key, value] : root->items) keys.insert(*key->As<std::string>());
    for (const JsonValue& key : At(want, {"top_level_keys"}).array()) {
      EXPECT_TRUE(keys.count(key.string_value())) << key.string_value();
    }
    EXPECT_EQ(keys.size(), At(want, {"top_level_keys"}).array().size());
    const PickleDict& tensors = TensorsOf(checkpoint->root());
    EXPECT_EQ(static_cast<int64_t>(tensors.items.size()), At(want, {"tensor_count"}).int_value());
    for (const auto& [key, row] : At(want, {"tensors"}).object()) {
      SCOPED_TRACE(key);
      const PickleValue* value = tensors.Find(key);
      ASSERT_NE(value, nullptr);
      ASSERT_NE(value->As<PickleTensor>(), nullptr);
      ASSERT_OK_AND_ASSIGN(const at::Tensor tensor,
                           checkpoint->MakeTensor(*value->As<PickleTensor>()));
      ExpectTensor(tensor, row);
    }
  }
}

TEST_F(CheckpointTest, EveryBadFileIsRefusedWithItsNameAndWhatIsWrong) {
  LY_NEEDS_FIXTURES();
  const std::pair<const char*, const char*> cases[] = {
      {"bad_global.pt", "getcwd"},
      {"bad_truncated.pt", "cut short"},
      {"bad_byteorder_unknown.pt", "byte order"},
      {"bad_missing_storage.pt", "missing"},
      {"bad_short_storage.pt", "should hold 3 elements of 4 bytes, but has 8 bytes"},
      {"bad_huge_shape.pt", "past its storage"},
      {"bad_huge_numel.pt", "should hold 2147483647 elements"},
      {"bad_not_a_checkpoint.pt", "neither a ZIP file nor"},
      {"bad_empty.pt", "empty"},
  };
  size_t bad_count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FixturePath("ckpt"))) {
    bad_count += absl::StartsWith(entry.path().filename().string(), "bad_") ? 1 : 0;
  }
  EXPECT_EQ(bad_count, std::size(cases));
  for (const auto& [name, what] : cases) {
    const auto opened = Checkpoint::Open(CkptPath(name));
    EXPECT_THAT(opened, FailsWith(reason::kWeightsUnreadable)) << name;
    const std::string message = GetErrorDetail(opened.status()).message;
    EXPECT_TRUE(absl::StrContains(message, name)) << message;
    EXPECT_TRUE(absl::StrContains(message, what)) << message;
  }
}

TEST_F(CheckpointTest, AnAbsentFileAndAFolderAreToldApart) {
  EXPECT_THAT(Checkpoint::Open("/nonexistent/x.pt"), FailsWith(reason::kWeightsNotFound));
  EXPECT_THAT(Checkpoint::Open(::testing::TempDir()), FailsWith(reason::kWeightsUnreadable));
}

TEST_F(CheckpointTest, AFlippedBitInTheWeightsIsSeen) {
  LY_NEEDS_FIXTURES();
  ASSERT_OK_AND_ASSIGN(std::string bytes, ReadFile(CkptPath("yolo9t_nc2_views.pt")));
  // The storage of the floats is the largest run between the pickle and the directory.
  ASSERT_OK_AND_ASSIGN(const auto whole, Checkpoint::Open(Write(bytes)));
  const PickleTensor tensor = *TensorsOf(whole->root()).items[0].second->As<PickleTensor>();
  ASSERT_OK_AND_ASSIGN(const at::Tensor values, whole->MakeTensor(tensor));
  const char* raw = static_cast<const char*>(values.storage().data());
  const size_t at = bytes.find(std::string(raw, 64));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 40] = static_cast<char>(bytes[at + 40] ^ 1);
  ASSERT_OK_AND_ASSIGN(const auto damaged, Checkpoint::Open(Write(bytes)));
  const auto made = damaged->MakeTensor(tensor);
  EXPECT_THAT(made, FailsWith(reason::kWeightsUnreadable));
  EXPECT_TRUE(absl::StrContains(made.status().message(), "checksum")) << made.status();
}

TEST_F(CheckpointTest, HostilePicklesAreRefused) {
  const std::string nested_open(100, ']');
  const std::string nested_close(99, 'a');
  const struct {
    const char* name;
    std::string pickle;
    const char* what;
  } cases[] = {
      {"nested lists", PickleWriter().Raw(nested_open + nested_close).Stop(), "nested"},
      {"a list in itself", PickleWriter().Raw(std::string("]q\0h\0a", 6)).Stop(), "itself"},
      {"a cycle of two", PickleWriter().Raw(std::string("]q\0]q\1h\0ah\0h\1a", 14)).Stop(),
       "after its use"},
      {"negative offset", PickleWriter().Tensor("FloatStorage", "0", 3, -1, {1}, {1}).Stop(),
       "wrongly"},
      {"negative stride", PickleWriter().Tensor("FloatStorage", "0", 3, 2, {2}, {-1}).Stop(),
       "wrongly"},
      {"past the storage", PickleWriter().Tensor("FloatStorage", "0", 3, 1, {3}, {1}).Stop(),
       "past its storage"},
      {"overflowing reach",
       PickleWriter().Tensor("FloatStorage", "0", 3, 0, {3, 3}, {INT64_MAX, INT64_MAX}).Stop(),
       "past its storage"},
      {"too many elements",
       PickleWriter().Tensor("FloatStorage", "0", 3, 0, {1 << 20, 1 << 20}, {0, 0}).Stop(),
       "larger than any model"},
      {"negative count", PickleWriter().Tensor("FloatStorage", "0", -3, 0, {1}, {1}).Stop(),
       "wrongly"},
      {"another count", PickleWriter().Tensor("FloatStorage", "0", 4, 0, {1}, {1}).Stop(),
       "should hold 4"},
      {"another type", PickleWriter().Tensor("DoubleStorage", "0", 3, 0, {1}, {1}).Stop(),
       "should hold 3 elements of 8"},
      {"a record outside", PickleWriter().Tensor("FloatStorage", "../x", 3, 0, {1}, {1}).Stop(),
       "missing"},
      {"an unknown storage", PickleWriter().Tensor("EvilStorage", "0", 3, 0, {1}, {1}).Stop(),
       "torch.EvilStorage"},
      {"a call of nothing", PickleWriter().Raw(")R").Stop(), "empty stack"},
      {"a call of a number", PickleWriter().Int(1).Raw(")R").Stop(), "no name"},
      {"an empty stack", PickleWriter().Raw("0").Stop(), "opcode 48"},
      {"protocol 4", "\x80\x04N.", "protocol 4"},
      {"no end", PickleWriter().Raw("N").Stop().substr(0, 3), "ends early"},
      {"a text past the end", PickleWriter().Raw("X\xff\xff\x0f").Raw(std::string(1, '\0')).Stop(),
       "ends early"},
      {"a long text", PickleWriter().Raw("X\xff\xff\xff\xff").Stop(), "longer than the limit"},
      {"an object's state", PickleWriter().Int(1).Int(2).Raw("b").Stop(), "no dict"},
      {"sizes within sizes", PickleWriter().Global("torch", "Size").Raw("(]]a\x85tR").Stop(),
       "torch.Size"},
  };
  for (const auto& test : cases) {
    const auto opened = OpenPickle(test.pickle);
    EXPECT_THAT(opened, FailsWith(reason::kWeightsUnreadable)) << test.name;
    EXPECT_TRUE(absl::StrContains(opened.status().message(), test.what))
        << test.name << ": " << opened.status();
  }
}

TEST_F(CheckpointTest, LimitsHold) {
  EXPECT_OK(OpenPickle(PickleWriter().Tensor("FloatStorage", "0", 3, 0, {3}, {1}).Stop()));
  const std::string bytes =
      MakeZip({{"a/data.pkl", PickleWriter().Tensor("FloatStorage", "0", 3, 0, {3}, {1}).Stop()},
               {"a/data/0", std::string(12, '\0')}});
  const std::string path = Write(bytes);
  EXPECT_THAT(Checkpoint::Open(path, {.storage_bytes = 11}), FailsWith(reason::kWeightsUnreadable));
  EXPECT_THAT(Checkpoint::Open(path, {.pickle_bytes = 20}), FailsWith(reason::kWeightsUnreadable));
  EXPECT_THAT(Checkpoint::Open(path, {.pickle = {.operations = 5}}),
              FailsWith(reason::kWeightsUnreadable));
}

TEST_F(CheckpointTest, ATorchScriptProgramIsNotOpened) {
  const auto opened = Checkpoint::Open(
      Write(MakeZip({{"a/data.pkl", "x"}, {"a/constants.pkl", "x"}, {"a/code/x.py", "x"}})));
  EXPECT_THAT(opened, FailsWith(reason::kWeightsUnreadable));
  EXPECT_TRUE(absl::StrContains(opened.status().message(), "TorchScript"));
}

// The same for the pickle alone: inside a ZIP file the checksum would stop nearly every damage
// before the interpreter.
TEST_F(CheckpointTest, DamagedPicklesNeverCrash) {
  LY_NEEDS_FIXTURES();
  std::mt19937 random(20240608);
  int read_count = 0, refused_count = 0;
  for (const char* name : {"mini_all_dtypes", "mini_trainer_last", "raw_state_dict_ddp"}) {
    ASSERT_OK_AND_ASSIGN(const ZipReader zip, ZipReader::Open(CkptPath(absl::StrCat(name, ".pt"))));
    const ZipReader::Record* record = zip.Find(absl::StrCat(name, "/data.pkl"));
    ASSERT_NE(record, nullptr);
    std::string good(static_cast<size_t>(record->byte_count), '\0');
    ASSERT_OK(zip.Read(name, *record, good.data()));
    for (int round = 0; round < 2000; ++round) {
      std::string bad = good;
      for (int i = 0; i <= round % 4; ++i) {
        bad[random() % bad.size()] = static_cast<char>(random());
      }
      const auto pickle = ReadPickle(bad);
      ++(pickle.ok() ? read_count : refused_count);
    }
  }
  EXPECT_GT(read_count, 100);
  EXPECT_GT(refused_count, 1000);
}

// Any byte of a good file may be wrong: the reader answers with a status or with sound values, and
// never crashes.
TEST_F(CheckpointTest, DamagedCopiesNeverCrash) {
  LY_NEEDS_FIXTURES();
  std::mt19937 random(20240607);
  int opened_count = 0, refused_count = 0;
  for (const char* name : kGoodFiles) {
    ASSERT_OK_AND_ASSIGN(const std::string good, ReadFile(CkptPath(name)));
    for (int round = 0; round < 150; ++round) {
      std::string bad = good;
      const int kind = round % 3;
      if (kind == 0) bad.resize(random() % good.size());
      const int flips = kind == 1 ? 1 : 8;
      for (int i = 0; kind != 0 && i < flips; ++i) {
        // The pickle lies in the first part; damage it more often than the storages.
        const size_t range = round % 2 == 0 ? good.size() : std::min<size_t>(good.size(), 2000);
        bad[random() % range] = static_cast<char>(random());
      }
      const auto checkpoint = Checkpoint::Open(Write(bad));
      if (!checkpoint.ok()) {
        EXPECT_THAT(checkpoint, FailsWith(reason::kWeightsUnreadable));
        ++refused_count;
        continue;
      }
      ++opened_count;
      const auto* root = (*checkpoint)->root().As<PickleDict>();
      if (root == nullptr) continue;
      const PickleValue* model = root->Find("model");
      const PickleDict* tensors = model ? model->As<PickleDict>() : root;
      if (tensors == nullptr) continue;
      for (const auto& [key, value] : tensors->items) {
        const auto* tensor = value->As<PickleTensor>();
        if (tensor == nullptr) continue;
        const auto made = (*checkpoint)->MakeTensor(*tensor);
        if (made.ok() && made->numel() < (1 << 20)) made->to(at::kDouble).sum().item<double>();
      }
    }
  }
  EXPECT_GT(opened_count, 0);
  EXPECT_GT(refused_count, 300);
}

}  // namespace
}  // namespace libreyolo::yolo9
