#include "server/daemon/access/tls.h"

#include <arpa/inet.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace libreyolo::daemon {
namespace {

constexpr unsigned kReloadSeconds = 1;

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

std::string OpensslError() {
  char text[256] = "unknown";
  if (const unsigned long code = ERR_get_error(); code != 0) {
    ERR_error_string_n(code, text, sizeof text);
  }
  ERR_clear_error();
  return text;
}

absl::Status Refuse(absl::string_view what, const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(what, " ", path, ": ", why));
}

// gRPC would start with files of no use, and refuse every handshake.
absl::Status CheckFiles(const TlsFiles& files) {
  struct stat info;
  if (stat(files.key.c_str(), &info) != 0) {
    return Refuse("the TLS key", files.key, strerror(errno));
  }
  if ((info.st_mode & (S_IWGRP | S_IRWXO)) != 0) {
    return Refuse("the TLS key", files.key, "is open to others; chmod 600 makes it private");
  }
  const std::unique_ptr<SSL_CTX, FreeContext> context(SSL_CTX_new(TLS_server_method()));
  if (SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) != 1) {
    return Refuse("the TLS certificate", files.certificate, OpensslError());
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return Refuse("the TLS key", files.key, OpensslError());
  }
  if (!files.client_ca.empty() &&
      SSL_CTX_load_verify_locations(context.get(), files.client_ca.c_str(), nullptr) != 1) {
    return Refuse("the clients' authority", files.client_ca, OpensslError());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CertificateInfo> ReadCertificate(const std::string& path) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> file(BIO_new_file(path.c_str(), "r"), &BIO_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      file == nullptr ? nullptr : PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr),
      &X509_free);
  if (certificate == nullptr) return Refuse("the TLS certificate", path, OpensslError());
  CertificateInfo info;
  tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1)
    return Refuse("the TLS certificate", path, "its end cannot be read");
  info.not_after = absl::FromTM(end, absl::UTCTimeZone());
  auto* const names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names, i);
    const ASN1_STRING* const text = name->d.ia5;  // an address is one too, of 4 or 16 bytes
    const auto* const data = ASN1_STRING_get0_data(text);
    const int size = ASN1_STRING_length(text);
    char shown[INET6_ADDRSTRLEN] = "";
    if (name->type == GEN_DNS) {
      info.names.emplace_back(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
    } else if (name->type == GEN_IPADD && (size == 4 || size == 16) &&
               inet_ntop(size == 4 ? AF_INET : AF_INET6, data, shown, sizeof shown) != nullptr) {
      info.names.emplace_back(shown);
    }
  }
  GENERAL_NAMES_free(names);
  return info;
}

void AllowTls13Only() {
  // A suite with a pre-shared key, and no key: TLS 1.2 finds no suite in common with anybody. The
  // suites of TLS 1.3 are another list.
  setenv("GRPC_SSL_CIPHER_SUITES", "PSK-AES256-GCM-SHA384", 1);
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeTlsCredentials(
    const TlsFiles& files, bool require_certificate) {
  namespace tls = grpc::experimental;
  LY_RETURN_IF_ERROR(CheckFiles(files));
  tls::TlsServerCredentialsOptions options(std::make_shared<tls::FileWatcherCertificateProvider>(
      files.key, files.certificate, files.client_ca, kReloadSeconds));
  options.watch_identity_key_cert_pairs();
  if (!files.client_ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(require_certificate
                                      ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                      : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return tls::TlsServerCredentials(options);
}

}  // namespace libreyolo::daemon
