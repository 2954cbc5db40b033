/* test/tls_peer.c: certificates that are made on the spot, and the client's side of TLS.
 *
 * Threads: files belong to the main thread; a client to one thread. */
#include "test/tls_peer.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#define PATHS 16

static char directory[256];

#define EXPECT(condition) ((condition) ? (void)0 : give_up(#condition))

static void
give_up(const char *what)
{
        fprintf(stderr, "tls_peer: %s\n", what);
        ERR_print_errors_fp(stderr);
        abort();
}

/* -- files -- */

void
tls_files_begin(void)
{
        strcpy(directory, "/tmp/weir-tls-XXXXXX");
        EXPECT(mkdtemp(directory));
}

void
tls_files_use(const char *path)
{
        snprintf(directory, sizeof directory, "%s", path);
}

void
tls_files_end(void)
{
        DIR *entries = opendir(directory);
        struct dirent *entry;

        EXPECT(entries);
        while ((entry = readdir(entries))) {
                if (entry->d_name[0] != '.') {
                        unlink(tls_path(entry->d_name));
                }
        }
        closedir(entries);
        rmdir(directory);
}

const char *
tls_path(const char *name)
{
        static _Thread_local char paths[PATHS][sizeof directory + 256];
        static _Thread_local unsigned turn;
        char *path = paths[turn++ % PATHS];

        snprintf(path, sizeof paths[0], "%s/%s", directory, name);
        return path;
}

void
tls_write_file(const char *name, const void *data, size_t size)
{
        FILE *stream = fopen(tls_path(name), "wbe");

        EXPECT(stream && fwrite(data, 1, size, stream) == size && fclose(stream) == 0);
}

static FILE *
open_file(const char *name, const char *suffix, const char *mode)
{
        char whole[128];

        snprintf(whole, sizeof whole, "%s%s", name, suffix);
        FILE *stream = fopen(tls_path(whole), mode);
        EXPECT(stream);
        return stream;
}

/* -- certificates -- */

static void
add_extension(X509 *x509, X509 *issuer, int nid, const char *value)
{
        X509V3_CTX context;

        X509V3_set_ctx(&context, issuer, x509, NULL, NULL, 0);
        X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
        EXPECT(extension && X509_add_ext(x509, extension, -1));
        X509_EXTENSION_free(extension);
}

static EVP_PKEY *
read_key(const char *name)
{
        FILE *stream = open_file(name, ".key", "rbe");
        EVP_PKEY *key = PEM_read_PrivateKey(stream, NULL, NULL, NULL);

        EXPECT(key);
        fclose(stream);
        return key;
}

static X509 *
read_certificate(const char *name)
{
        FILE *stream = open_file(name, ".pem", "rbe");
        X509 *x509 = PEM_read_X509(stream, NULL, NULL, NULL);

        EXPECT(x509);
        fclose(stream);
        return x509;
}

static X509 *
new_certificate(const char *common_name, EVP_PKEY *key, const struct tls_wish *wish)
{
        static atomic_int serial;
        X509 *x509 = X509_new();

        EXPECT(x509);
        X509_set_version(x509, X509_VERSION_3);
        ASN1_INTEGER_set(X509_get_serialNumber(x509), atomic_fetch_add(&serial, 1) + 1);
        X509_gmtime_adj(X509_getm_notBefore(x509), wish->begins_in ? wish->begins_in : -3600);
        X509_gmtime_adj(X509_getm_notAfter(x509), wish->ends_in ? wish->ends_in : 24 * 3600);
        X509_set_pubkey(x509, key);
        X509_NAME_add_entry_by_txt(X509_get_subject_name(x509), "O", MBSTRING_ASC, (const unsigned char *)"weir", -1, -1, 0);
        X509_NAME_add_entry_by_txt(X509_get_subject_name(x509), "CN", MBSTRING_ASC, (const unsigned char *)common_name, -1, -1,
                                   0);
        return x509;
}

static void
write_pair(const char *name, X509 *x509, EVP_PKEY *key)
{
        FILE *certificate = open_file(name, ".pem", "wbe"), *private_key = open_file(name, ".key", "wbe");

        EXPECT(PEM_write_X509(certificate, x509));
        EXPECT(PEM_write_PrivateKey(private_key, key, NULL, NULL, 0, NULL, NULL));
        EXPECT(fclose(certificate) == 0 && fclose(private_key) == 0);
}

void
tls_make_certificate(const char *name, const struct tls_wish *wish)
{
        EVP_PKEY *key = wish->key == TLS_RSA ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256");
        X509 *x509 = new_certificate(wish->common_name ? wish->common_name : name, key, wish);
        X509 *issuer = wish->issuer ? read_certificate(wish->issuer) : x509;
        EVP_PKEY *signer = wish->issuer ? read_key(wish->issuer) : key;

        EXPECT(key && X509_set_issuer_name(x509, X509_get_subject_name(issuer)));
        add_extension(x509, issuer, NID_basic_constraints, wish->issuer && !wish->is_authority ? "CA:FALSE" : "critical,CA:TRUE");
        add_extension(x509, issuer, NID_subject_key_identifier, "hash");
        if (wish->alternative_names) {
                add_extension(x509, issuer, NID_subject_alt_name, wish->alternative_names);
        }
        if (wish->usage) {
                add_extension(x509, issuer, NID_ext_key_usage, wish->usage);
        }
        EXPECT(X509_sign(x509, signer, EVP_sha256()));
        write_pair(name, x509, key);
        if (wish->issuer) {
                X509_free(issuer);
                EVP_PKEY_free(signer);
        }
        X509_free(x509);
        EVP_PKEY_free(key);
}

const char *
tls_hash_of(const char *name)
{
        static char hash[32];
        X509 *x509 = read_certificate(name);

        snprintf(hash, sizeof hash, "%08lx.0", X509_subject_name_hash(x509));
        X509_free(x509);
        return hash;
}

void
tls_join(const char *name, const char *const *certificates, size_t count)
{
        FILE *stream = open_file(name, ".pem", "wbe");

        for (size_t i = 0; i < count; i++) {
                X509 *x509 = read_certificate(certificates[i]);

                EXPECT(PEM_write_X509(stream, x509));
                X509_free(x509);
        }
        EXPECT(fclose(stream) == 0);
}

static void
write_response(const char *name, OCSP_BASICRESP *basic)
{
        OCSP_RESPONSE *response = OCSP_response_create(OCSP_RESPONSE_STATUS_SUCCESSFUL, basic);
        unsigned char *der = NULL;
        int size = i2d_OCSP_RESPONSE(response, &der);

        EXPECT(size > 0);
        tls_write_file(name, der, (size_t)size);
        OPENSSL_free(der);
        OCSP_RESPONSE_free(response);
}

void
tls_make_staple(const char *name, const char *certificate, bool is_good)
{
        EVP_PKEY *key = read_key(certificate);
        X509 *x509 = read_certificate(certificate);
        OCSP_BASICRESP *basic = OCSP_BASICRESP_new();
        OCSP_CERTID *id = OCSP_cert_to_id(NULL, x509, x509);
        ASN1_TIME *now = X509_gmtime_adj(NULL, 0);
        int status = is_good ? V_OCSP_CERTSTATUS_GOOD : V_OCSP_CERTSTATUS_REVOKED;

        EXPECT(OCSP_basic_add1_status(basic, id, status, OCSP_REVOKED_STATUS_NOSTATUS, is_good ? NULL : now, now, NULL));
        EXPECT(OCSP_basic_sign(basic, x509, key, EVP_sha256(), NULL, 0));
        write_response(name, basic);
        ASN1_TIME_free(now);
        OCSP_CERTID_free(id);
        OCSP_BASICRESP_free(basic);
        X509_free(x509);
        EVP_PKEY_free(key);
}

/* -- clients -- */

static void
show_certificate(SSL *ssl, const char *name)
{
        X509 *x509 = read_certificate(name);
        EVP_PKEY *key = read_key(name);

        EXPECT(SSL_use_certificate(ssl, x509) == 1 && SSL_use_PrivateKey(ssl, key) == 1);
        X509_free(x509);
        EVP_PKEY_free(key);
}

SSL *
tls_client(int fd, const struct tls_client_wish *wish)
{
        SSL_CTX *context = SSL_CTX_new(TLS_client_method());
        SSL *ssl = context ? SSL_new(context) : NULL;

        EXPECT(ssl);
        SSL_CTX_free(context);
        SSL_set_connect_state(ssl);
        if (fd >= 0) {
                EXPECT(SSL_set_fd(ssl, fd) == 1);
        } else {
                SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
        }
        if (wish->server_name) {
                SSL_set_tlsext_host_name(ssl, wish->server_name);
        }
        if (wish->protocols) {
                EXPECT(SSL_set_alpn_protos(ssl, (const unsigned char *)wish->protocols, (unsigned)strlen(wish->protocols)) == 0);
        }
        if (wish->certificate) {
                show_certificate(ssl, wish->certificate);
        }
        if (wish->version) {
                SSL_set_security_level(ssl, 0);
                SSL_set_min_proto_version(ssl, wish->version);
                SSL_set_max_proto_version(ssl, wish->version);
        }
        if (wish->session) {
                EXPECT(SSL_set_session(ssl, wish->session) == 1);
        }
        if (wish->groups) {
                EXPECT(SSL_set1_groups_list(ssl, wish->groups) == 1);
        }
        if (wish->wants_staple) {
                SSL_set_tlsext_status_type(ssl, TLSEXT_STATUSTYPE_ocsp);
        }
        return ssl;
}

const char *
tls_server_shown(SSL *client)
{
        static _Thread_local char name[128];
        X509 *x509 = SSL_get0_peer_certificate(client);

        if (!x509 || X509_NAME_get_text_by_NID(X509_get_subject_name(x509), NID_commonName, name, sizeof name) < 0) {
                return "";
        }
        return name;
}

/* OpenSSL's own writes, of this client, may go to a connection that the server has closed. */
static void
block_sigpipe(void)
{
        sigset_t pipe;

        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        EXPECT(pthread_sigmask(SIG_BLOCK, &pipe, NULL) == 0);
}

SSL *
tls_connect(int port, const struct tls_client_wish *wish)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        const struct timeval patience = {.tv_sec = 30};
        const int on = 1;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        EXPECT(fd >= 0);
        block_sigpipe();
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        /* Behind the connect the system would throw away what the former window lets in, and the sender would pause for long. */
        if (wish->window)
                setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &wish->window, sizeof wish->window);
        EXPECT(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
        SSL *ssl = tls_client(fd, wish);
        if (SSL_connect(ssl) == 1) {
                return ssl;
        }
        ERR_clear_error();
        tls_hang_up(ssl);
        return NULL;
}

void
tls_hang_up(SSL *client)
{
        close(SSL_get_fd(client));
        SSL_free(client);
}

bool
tls_send(SSL *client, const void *data, size_t size)
{
        size_t sent;

        ERR_clear_error();
        return SSL_write_ex(client, data, size, &sent) == 1 && sent == size;
}

/* The size of a reply of which so much is there; 0: not known yet. */
static size_t
reply_size(const char *reply)
{
        const char *end = strstr(reply, "\r\n\r\n");
        const char *length = strcasestr(reply, "content-length: ");

        return end && length ? (size_t)(end + 4 - reply) + strtoul(length + 16, NULL, 10) : 0;
}

bool
tls_receive(SSL *client, char **reply, size_t *size)
{
        size_t room = 16384, have = 0, whole = 0, count;
        char *data = calloc(1, room);

        ERR_clear_error();
        while ((!whole || have < whole) && SSL_read_ex(client, data + have, (whole ? whole : room - 1) - have, &count) == 1) {
                have += count;
                data[have] = '\0';
                whole = whole ? whole : reply_size(data);
                if (whole >= room) {
                        room = whole + 1;
                        data = realloc(data, room);
                }
        }
        data[have] = '\0';
        *reply = data;
        if (size) {
                *size = have;
        }
        return whole && have == whole;
}

bool
tls_is_over(SSL *client)
{
        size_t count;
        char byte;

        ERR_clear_error();
        int result = SSL_read_ex(client, &byte, 1, &count);
        return result != 1 && SSL_get_error(client, result) == SSL_ERROR_ZERO_RETURN;
}
