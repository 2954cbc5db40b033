/* kernel/tls/tls_roots.c: the system's roots, all of them, read once.
 *
 * Threads: any but the owner of a poller: it reads files.
 * Locks:   none; no state.
 *
 * OpenSSL itself would look into its directories during handshakes, one file for each issuer.  That is a disk on a poller. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>

#include "kernel/data/ascii.h"
#include "kernel/tls/tls_internal.h"

#define HASH_DIGITS 8
#define PATH        4096

static const char *
setting(const char *variable, const char *otherwise)
{
        const char *value = secure_getenv(variable);

        return value ? value : otherwise;
}

/* "0123abcd.0": the hash of a subject, and a number. */
static bool
is_hash(const char *name)
{
        if (strspn(name, "0123456789abcdef") != HASH_DIGITS || name[HASH_DIGITS] != '.')
                return false;
        const char *number = name + HASH_DIGITS + 1;
        return *number && number[strspn(number, "0123456789")] == '\0';
}

/* Reads the certificates of a file.  One that is not there or not to be read, and one that is malformed in a directory, is passed
 * over, as OpenSSL does. */
static int
read_file(X509_STORE *store, const char *path, bool is_alone)
{
        if (X509_STORE_load_file(store, path) == 1)
                return 0;
        unsigned long error = ERR_peek_error();
        int reason = ERR_GET_REASON(error);
        bool is_passed_over = ERR_SYSTEM_ERROR(error) ? reason == ENOENT || reason == ENOTDIR || reason == EACCES
                                                      : !is_alone && reason != ERR_R_MALLOC_FAILURE;

        if (!is_passed_over)
                return weir__tls_complain(WEIR_ETLS_CERTIFICATE, "file of the system's roots", path);
        ERR_clear_error();
        return 0;
}

static int
read_directory(X509_STORE *store, const char *directory)
{
        DIR *entries = opendir(directory);
        const struct dirent *entry;
        char path[PATH];
        int failed = 0;

        if (!entries)
                return errno == ENOENT || errno == ENOTDIR || errno == EACCES
                               ? 0
                               : weir__tls_complain(-errno, "directory of the system's roots", directory);
        while (!failed && (entry = readdir(entries)))
                if (is_hash(entry->d_name) &&
                    (size_t)snprintf(path, sizeof path, "%s/%s", directory, entry->d_name) < sizeof path)
                        failed = read_file(store, path, false);
        closedir(entries);
        return failed;
}

/* Directories that colons separate. */
static int
read_directories(X509_STORE *store, const char *directories)
{
        int failed = 0;
        char name[PATH];

        for (const char *at = directories; *at && !failed;) {
                size_t size = strcspn(at, ":");

                if (size > 0 && size < sizeof name) {
                        memcpy(name, at, size);
                        name[size] = '\0';
                        failed = read_directory(store, name);
                }
                at += size + (at[size] == ':');
        }
        return failed;
}

int
weir__tls_read_roots(X509_STORE *store)
{
        const char *directories = setting(X509_get_default_cert_dir_env(), X509_get_default_cert_dir());
        int failed = read_file(store, setting(X509_get_default_cert_file_env(), X509_get_default_cert_file()), true);

        if (!failed)
                failed = read_directories(store, directories);
        if (!failed && sk_X509_OBJECT_num(X509_STORE_get0_objects(store)) == 0)
                failed = weir__tls_complain(WEIR_ETLS_CERTIFICATE, "the system's roots (SSL_CERT_FILE, SSL_CERT_DIR)",
                                            directories);
        return failed;
}
