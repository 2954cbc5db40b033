/* bench/secure.h: the client's side of TLS, and a certificate for the server's. */
#ifndef WEIR_BENCH_SECURE_H
#define WEIR_BENCH_SECURE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Writes a new key (EC P-256) and a certificate that it has signed itself into files of that directory. */
#define BENCH_CERTIFICATE_FILE "certificate.pem"
#define BENCH_KEY_FILE         "key.pem"
bool bench_make_certificate(const char *directory);

/* TLS 1.3 over a connected socket, which stays open.  Whom it speaks to is not checked, no session is resumed.  One cipher suite
 * is offered, TLS_AES_128_GCM_SHA256, so that all servers have the same work. */
struct bench_secure *bench_secure_new(int fd);
void bench_secure_free(struct bench_secure *secure); /* accepts NULL */

/* 1 once it is over; 0: wait for the server; -1: it failed. */
int bench_secure_handshake(struct bench_secure *secure);

/* As read and write: the bytes, 0 at the end that the server has said, -1 with EAGAIN or another errno. */
ssize_t bench_secure_read(struct bench_secure *secure, void *data, size_t size);
ssize_t bench_secure_write(struct bench_secure *secure, const void *data, size_t size);

/* Whether a read can give something that has come already. */
bool bench_secure_has_more(const struct bench_secure *secure);

#endif
