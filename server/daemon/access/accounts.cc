#include "server/daemon/access/accounts.h"

#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/server_credentials.h>
#include <pwd.h>

#include <mutex>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace libreyolo::daemon {
namespace {

constexpr char kUidProperty[] = "libreyolo_uid";
constexpr char kNameProperty[] = "libreyolo_account";

std::string NameOf(uid_t uid) {
  passwd entry{};
  passwd* found = nullptr;
  char buffer[1 << 14];
  getpwuid_r(uid, &entry, buffer, sizeof buffer, &found);
  return found == nullptr ? "" : found->pw_name;
}

// Says whose the connection is before a handler runs.
class Introducer : public grpc::AuthMetadataProcessor {
 public:
  // Before the first connection.
  void SetAccount(Account account) {
    const std::lock_guard<std::mutex> lock(mu_);
    account_ = std::move(account);
  }

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata&, grpc::AuthContext* context, OutputMetadata*,
                       OutputMetadata*) override {
    const std::lock_guard<std::mutex> lock(mu_);
    // All calls of a connection share the context; handlers read it only after they came by here.
    if (context->FindPropertyValues(kUidProperty).empty()) {
      context->AddProperty(kNameProperty, account_.name);
      context->AddProperty(kUidProperty, absl::StrCat(account_.uid));
    }
    return grpc::Status::OK;
  }

 private:
  std::mutex mu_;
  Account account_;
};

}  // namespace

struct AccountEntrances::Entrance {
  std::shared_ptr<Introducer> introducer = std::make_shared<Introducer>();
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
};

std::optional<Account> AccountOf(const grpc::AuthContext& context) {
  const std::vector<grpc::string_ref> uids = context.FindPropertyValues(kUidProperty);
  const std::vector<grpc::string_ref> names = context.FindPropertyValues(kNameProperty);
  Account account;
  if (uids.size() != 1 || names.size() != 1 ||
      !absl::SimpleAtoi(absl::string_view(uids[0].data(), uids[0].size()), &account.uid)) {
    return std::nullopt;
  }
  account.name = std::string(names[0].data(), names[0].size());
  return account;
}

AccountEntrances::AccountEntrances(grpc::ServerBuilder& builder, int count) {
  for (int i = 0; i < count; ++i) {
    auto entrance = std::make_unique<Entrance>();
    const auto credentials = grpc::experimental::LocalServerCredentials(UDS);
    credentials->SetAuthMetadataProcessor(entrance->introducer);
    entrance->acceptor = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
    entrances_.push_back(std::move(entrance));
  }
}

AccountEntrances::~AccountEntrances() = default;

bool AccountEntrances::Take(uid_t uid, UniqueFd connection) {
  auto found = taken_.find(uid);
  if (found == taken_.end()) {
    if (taken_.size() == entrances_.size()) return false;
    // Never given to another one: calls may still be on their way through it.
    Entrance* entrance = entrances_[taken_.size()].get();
    entrance->introducer->SetAccount({uid, NameOf(uid)});
    found = taken_.emplace(uid, entrance).first;
  }
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.fd = connection.Release();
  found->second->acceptor->HandleNewConnection(&parameters);
  return true;
}

}  // namespace libreyolo::daemon
