#include "client/rpc/inputs.h"

#include <fcntl.h>

#include "tests/support/status_matchers.h"
#include "tests/unit/client/rpc/client_place.h"
#include "tests/unit/client/rpc/fake_server.h"

namespace libreyolo::client {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(IsOwnPathTest, FollowsFromTheFirstCharacters) {
  for (const char* word : {"/a", "./a", "../a", "~/a", "~", ".", ".."}) {
    EXPECT_TRUE(IsOwnPath(word)) << word;
  }
  for (const char* word : {"a", "a/b", ".hidden", "..a", "-", "", "runs/profile/infer"}) {
    EXPECT_FALSE(IsOwnPath(word)) << word;
  }
}

class InputsTest : public ::testing::Test {
 protected:
  InputsTest() : fake_(client_.Path("run/server.sock")), remote_(fake_.AsRemote()) {
    local_ = remote_;
    local_.local = true;
  }
  std::vector<std::pair<std::string, std::string>> Blobs(const v1::InputRef& ref) const {
    std::vector<std::pair<std::string, std::string>> out;
    for (const v1::BlobRef& blob : ref.blobs().blobs()) {
      out.emplace_back(blob.name(), fake_.profiles.blobs.at(blob.digest()));
    }
    return out;
  }
  absl::StatusOr<v1::InputRef> Source(const std::string& word) {
    return ResolveInput(remote_, word, InputKind::kImages, nullptr);
  }
  absl::StatusOr<v1::InputRef> Weights(const std::string& word) {
    return ResolveInput(remote_, word, InputKind::kWeights, nullptr);
  }

  ClientPlace client_;
  FakeServer fake_;
  Server remote_;
  Server local_;
};

TEST_F(InputsTest, ALocalDaemonGetsNamesAndPaths) {
  client_.AddFile("work/runs/t.json", "{}");
  std::filesystem::create_symlink(client_.Path("work/runs"), client_.Path("link"));
  ASSERT_OK_AND_ASSIGN(const v1::TraceRef name,
                       ResolveTrace(local_, "runs/t.json", "1:3", Beside::kNothing));
  EXPECT_EQ(name.name(), "runs/t.json");
  EXPECT_EQ(name.typed(), "runs/t.json");
  EXPECT_EQ(name.window(), "1:3");
  ASSERT_OK_AND_ASSIGN(const v1::TraceRef path,
                       ResolveTrace(local_, "../link/t.json", "", Beside::kNothing));
  EXPECT_EQ(path.local_path(), client_.Path("work/runs/t.json"));
  EXPECT_EQ(path.typed(), "../link/t.json");
  ASSERT_OK_AND_ASSIGN(const v1::InputRef source,
                       ResolveInput(local_, "./runs", InputKind::kImages, nullptr));
  EXPECT_EQ(source.local_path(), client_.Path("work/runs"));
  ASSERT_OK_AND_ASSIGN(const v1::InputRef weights,
                       ResolveInput(local_, "a.pt", InputKind::kWeights, nullptr));
  EXPECT_EQ(weights.name(), "a.pt");
  EXPECT_THAT(fake_.profiles.uploaded, IsEmpty());
}

TEST_F(InputsTest, ATildeIsTheHomeFolder) {
  client_.AddFile("home/t.json", "{}");
  ASSERT_OK_AND_ASSIGN(const v1::TraceRef ref,
                       ResolveTrace(local_, "~/t.json", "", Beside::kNothing));
  EXPECT_EQ(ref.local_path(), client_.Path("home/t.json"));
}

TEST_F(InputsTest, OwnFilesThatAreMissingAreNamedAsTyped) {
  for (const Server& server : {local_, remote_}) {
    const auto trace = ResolveTrace(server, "./none.json", "", Beside::kNothing);
    EXPECT_THAT(trace, FailsWith(reason::kProfileNotFound));
    EXPECT_EQ(trace.status().message(), "not found: ./none.json");
    EXPECT_THAT(ResolveInput(server, "./none.pt", InputKind::kWeights, nullptr),
                FailsWith(reason::kWeightsNotFound));
    EXPECT_THAT(ResolveInput(server, "./none.jpg", InputKind::kImages, nullptr),
                FailsWith(reason::kSourceNotFound));
  }
}

TEST_F(InputsTest, ATraceIsUploadedOnceWithItsSummary) {
  client_.AddFile("work/t.json", "trace");
  client_.AddFile("work/profile_summary.json", "summary");
  for (int round = 0; round < 2; ++round) {
    ASSERT_OK_AND_ASSIGN(const v1::TraceRef ref,
                         ResolveTrace(remote_, "./t.json", "", Beside::kNothing));
    EXPECT_EQ(ref.blob_digest(), Sha256Hex("trace"));
    EXPECT_EQ(ref.sibling_summary_digest(), Sha256Hex("summary"));
    EXPECT_EQ(ref.typed(), "./t.json");
  }
  EXPECT_THAT(fake_.profiles.uploaded, ElementsAre(Sha256Hex("trace"), Sha256Hex("summary")));
}

TEST_F(InputsTest, AProfileNeedsNoSummary) {
  client_.AddFile("work/profile.json", "profile");
  client_.AddFile("work/profile_summary.json", "summary");
  ASSERT_OK_AND_ASSIGN(const v1::TraceRef ref,
                       ResolveTrace(remote_, "./profile.json", "", Beside::kNothing));
  EXPECT_EQ(ref.sibling_summary_digest(), "");
  EXPECT_THAT(fake_.profiles.uploaded, ElementsAre(Sha256Hex("profile")));
}

TEST_F(InputsTest, AFolderIsNoTrace) {
  EXPECT_THAT(ResolveTrace(remote_, "../bin", "", Beside::kNothing),
              FailsWith(reason::kTraceUnparsable));
}

TEST_F(InputsTest, ARemoteServerIsAskedFirstForARelativeTrace) {
  client_.AddFile("work/t.json", "trace");
  ASSERT_OK_AND_ASSIGN(const v1::TraceRef ref,
                       ResolveTrace(remote_, "t.json", "", Beside::kNothing));
  EXPECT_EQ(ref.name(), "t.json");
  EXPECT_TRUE(ExistsHere("t.json"));
  ASSERT_OK_AND_ASSIGN(const v1::TraceRef own,
                       RetryTraceAsOwnFile(remote_, "t.json", "0:2", Beside::kNothing));
  EXPECT_EQ(own.blob_digest(), Sha256Hex("trace"));
  EXPECT_EQ(own.window(), "0:2");
  EXPECT_FALSE(ExistsHere("none.json"));
  EXPECT_TRUE(
      absl::IsNotFound(RetryTraceAsOwnFile(remote_, "none.json", "", Beside::kNothing).status()));
}

TEST_F(InputsTest, StandardInputIsUploaded) {
  const std::string text(1'300'000, 'x');
  client_.AddFile("stdin", text);
  const int before = dup(STDIN_FILENO);
  const int file = open(client_.Path("stdin").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(dup2(file, STDIN_FILENO), STDIN_FILENO);
  const auto ref = ResolveTrace(local_, "-", "", Beside::kNothing);
  dup2(before, STDIN_FILENO);
  close(before);
  close(file);
  ASSERT_OK(ref);
  EXPECT_EQ(ref->typed(), "-");
  EXPECT_EQ(fake_.profiles.blobs.at(ref->blob_digest()), text);
}

TEST_F(InputsTest, BytesGoUpInChunksWithProgress) {
  const std::string text(1'300'000, 'w');
  client_.AddFile("work/a.pt", text);
  std::vector<std::pair<int64_t, int64_t>> shown;
  ASSERT_OK_AND_ASSIGN(const v1::InputRef ref, ResolveInput(remote_, "./a.pt", InputKind::kWeights,
                                                            [&](int64_t done, int64_t total) {
                                                              shown.emplace_back(done, total);
                                                            }));
  EXPECT_THAT(Blobs(ref), ElementsAre(Pair("a.pt", text)));
  EXPECT_THAT(shown,
              ElementsAre(Pair(524288, 1300000), Pair(1048576, 1300000), Pair(1300000, 1300000)));
  EXPECT_EQ(fake_.profiles.largest_chunk, 524288);
}

TEST_F(InputsTest, ABrokenUploadStartsAgain) {
  client_.AddFile("work/a.pt", "weights");
  fake_.profiles.failing_uploads = 1;
  ASSERT_OK_AND_ASSIGN(const v1::InputRef ref, Weights("./a.pt"));
  EXPECT_THAT(Blobs(ref), ElementsAre(Pair("a.pt", "weights")));
}

TEST_F(InputsTest, AFileThatChangesMeanwhileIsNotTaken) {
  client_.AddFile("work/a.pt", std::string(1'300'000, 'w'));
  const auto change = [&](int64_t done, int64_t) {
    if (done == 524288) client_.AddFile("work/a.pt", std::string(1'300'000, 'v'));
  };
  EXPECT_THAT(ResolveInput(remote_, "./a.pt", InputKind::kWeights, change),
              FailsWith(reason::kDigestMismatch));
  client_.AddFile("work/a.pt", std::string(1'300'000, 'w'));
  const auto shorten = [&](int64_t, int64_t) { client_.AddFile("work/a.pt", "w"); };
  EXPECT_THAT(ResolveInput(remote_, "./a.pt", InputKind::kWeights, shorten),
              FailsWith(reason::kDigestMismatch));
  EXPECT_THAT(fake_.profiles.uploaded, IsEmpty());
}

TEST_F(InputsTest, OfAFolderItsImagesGoUpInOrder) {
  client_.AddFile("work/pictures/b.JPG", "b");
  client_.AddFile("work/pictures/a.png", "same");
  client_.AddFile("work/pictures/c.webp", "same");
  client_.AddFile("work/pictures/notes.txt", "no image");
  client_.AddFile("work/pictures/sub/d.png", "not a direct child");
  std::filesystem::create_directory(client_.Path("work/pictures/e.png"));
  ASSERT_OK_AND_ASSIGN(const v1::InputRef ref, Source("./pictures"));
  EXPECT_THAT(Blobs(ref),
              ElementsAre(Pair("a.png", "same"), Pair("b.JPG", "b"), Pair("c.webp", "same")));
  EXPECT_EQ(fake_.profiles.uploaded.size(), 2);
  EXPECT_EQ(ref.typed(), "./pictures");
}

TEST_F(InputsTest, AFolderWithoutImagesIsNoSource) {
  std::filesystem::create_directory("empty");
  const auto ref = Source("./empty");
  EXPECT_THAT(ref, FailsWith(reason::kSourceNotFound));
  EXPECT_EQ(ref.status().message(), "no images found at: ./empty");
  EXPECT_THAT(Weights("./empty"), FailsWith(reason::kWeightsUnreadable));
}

TEST_F(InputsTest, TheServersOwnComesBeforeAFileHere) {
  client_.AddFile("work/a.pt", "weights");
  client_.AddFile("work/a.png", "image");
  client_.AddFile("work/coco/a.png", "image");
  fake_.jobs.known_weights = {"a.pt"};
  fake_.jobs.known_sources = {"a.png"};
  fake_.jobs.known_datasets = {"coco"};
  ASSERT_OK_AND_ASSIGN(const v1::InputRef weights, Weights("a.pt"));
  EXPECT_EQ(weights.name(), "a.pt");
  ASSERT_OK_AND_ASSIGN(const v1::InputRef source, Source("a.png"));
  EXPECT_EQ(source.name(), "a.png");
  ASSERT_OK_AND_ASSIGN(const v1::InputRef data,
                       ResolveInput(remote_, "coco", InputKind::kDataset, nullptr));
  EXPECT_EQ(data.name(), "coco");
  EXPECT_THAT(fake_.profiles.uploaded, IsEmpty());
}

TEST_F(InputsTest, AFileThatIsOnlyHereIsSent) {
  client_.AddFile("work/a.pt", "weights");
  client_.AddFile("work/a.png", "image");
  ASSERT_OK_AND_ASSIGN(const v1::InputRef weights, Weights("a.pt"));
  EXPECT_THAT(Blobs(weights), ElementsAre(Pair("a.pt", "weights")));
  ASSERT_OK_AND_ASSIGN(const v1::InputRef source, Source("a.png"));
  EXPECT_THAT(Blobs(source), ElementsAre(Pair("a.png", "image")));
  // One that is nowhere is for the server to refuse, with the places where it looked.
  ASSERT_OK_AND_ASSIGN(const v1::InputRef neither, Weights("b.pt"));
  EXPECT_EQ(neither.name(), "b.pt");
}

TEST_F(InputsTest, RandomIsAWordForWeightsOnly) {
  ASSERT_OK_AND_ASSIGN(const v1::InputRef weights, Weights("random"));
  EXPECT_TRUE(weights.random());
  ASSERT_OK_AND_ASSIGN(const v1::InputRef source, Source("random"));
  EXPECT_EQ(source.name(), "random");
}

TEST_F(InputsTest, ADatasetGoesUpWithItsFolder) {
  client_.AddFile("work/d/data.yaml", "train: images");
  client_.AddFile("work/d/images/train/1.jpg", "one");
  client_.AddFile("work/d/labels/train/1.txt", "0 0.5 0.5 1 1");
  client_.AddFile("work/d/notes.md", "not sent");
  ASSERT_OK_AND_ASSIGN(const v1::InputRef ref,
                       ResolveInput(remote_, "./d", InputKind::kDataset, nullptr));
  EXPECT_THAT(Blobs(ref),
              ElementsAre(Pair("data.yaml", "train: images"), Pair("images/train/1.jpg", "one"),
                          Pair("labels/train/1.txt", "0 0.5 0.5 1 1")));
}

TEST_F(InputsTest, ANamedDatasetFileLeavesItsNeighboursBehind) {
  client_.AddFile("work/d/a.yaml", "train: images");
  client_.AddFile("work/d/b.yaml", "train: others");
  client_.AddFile("work/d/images/1.jpg", "one");
  ASSERT_OK_AND_ASSIGN(const v1::InputRef ref,
                       ResolveInput(remote_, "./d/a.yaml", InputKind::kDataset, nullptr));
  EXPECT_THAT(Blobs(ref),
              ElementsAre(Pair("a.yaml", "train: images"), Pair("images/1.jpg", "one")));
  EXPECT_THAT(ResolveInput(remote_, "./none.yaml", InputKind::kDataset, nullptr),
              FailsWith(reason::kDatasetNotFound));
}

}  // namespace
}  // namespace libreyolo::client
