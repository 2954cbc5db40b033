/* test/soak.h: the parts of the soak: servers of all sorts, and clients of all sorts that come to them for as long as one likes.
 *
 *     soak.c            rounds, counts that must return to their start, and a watchdog
 *     soak_server.c     the servers
 *     soak_request.c    random requests, each with the reply it must have
 *     soak_peer.c       a connection of a client's, plain or TLS
 *     soak_client.c     the clients
 *
 * An error ends the process, with a message that holds all that is known about it. */
#ifndef WEIR_TEST_SOAK_H
#define WEIR_TEST_SOAK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/ssl.h>

#include <weir/weir.h>

#include "test/support.h"

#define SOAK_LIMIT   (WEIR_TEST_SANITIZED ? WEIR_MSEC(1500) : WEIR_MSEC(500)) /* of the servers, for whatever has one */
#define SOAK_EXCUSE  (SOAK_LIMIT / 5) /* a client slower than this may have met a limit: the machine may have stood still */
#define SOAK_PATIENT 30               /* seconds in which something has to happen */

/* Ends the process, with a message. */
void soak_fail(const char *what, ...) __attribute__((format(printf, 1, 2), noreturn));

/* -- soak_server.c -- */

enum soak_server_kind {
        SOAK_PLAIN,
        SOAK_COLLECTING, /* bodies come as a whole */
        SOAK_SECURE,     /* TLS */
        SOAK_NARROW,     /* has room for few connections: any may be refused, or lost when it is idle */
        SOAK_RESTARTED,  /* is stopped and started all the time, at a Unix socket: any may be lost */
        SOAK_SERVERS,
};

struct soak_server {
        weir_http_server *server;
        const char *name;
        int port;
        char path[64]; /* of the Unix socket */
        bool is_secure;
        bool is_unreliable; /* replies may be lost, but not be wrong */
};

extern struct soak_server soak_servers[SOAK_SERVERS];
extern atomic_size_t soak_handled, soak_freed;
extern atomic_size_t soak_logged; /* requests that the access logs have got or lost */

void soak_files_begin(void); /* what is served, and certificates */
void soak_files_end(void);
void soak_server_start(enum soak_server_kind kind);
void soak_server_stop(enum soak_server_kind kind, weir_nsec within);
void soak_logs_rotate(struct weir_test_random *random); /* truncates the files of the access logs, and opens some anew */

#define SOAK_PAGE "<p>This is none of the server's own words.\n" /* in place of the body of an error */

/* The content of the bodies of replies. */
char soak_byte(size_t at);
uint64_t soak_sum(uint64_t sum, const char *data, size_t size);
#define SOAK_SUM_START UINT64_C(14695981039346656037)
#define SOAK_FILE_SIZE ((size_t)3000000)

/* -- soak_request.c -- */

struct soak_request {
        char *bytes;
        size_t size;
        size_t head_size; /* of these: up to the empty line */
        int status;       /* of the reply; 0: it is dropped */
        char *body;       /* of the reply */
        size_t body_size;
        bool is_head, is_last; /* the server closes the connection behind it */
        bool expects;          /* waits for 100 behind the head */
};

/* One that must be answered.  `largest`: bytes that it may send, about; of what it gets there may be more. */
void soak_request_make(struct soak_request *request, struct weir_test_random *random, size_t largest);
void soak_request_done(struct soak_request *request);

/* -- soak_peer.c -- */

struct soak_peer {
        const struct soak_server *server;
        const char *doing; /* for messages */
        int fd;
        SSL *tls;
        int64_t began;     /* the present request: a client that is slow is excused */
        char answered[48]; /* the last request that was, for messages */
        char *input;
        size_t size, room;
        bool ended;
};

enum soak_end { SOAK_CLOSE, SOAK_RESET };

/* Returns false when there is nobody, which only unreliable servers may do.  `window`: 0 is the system's choice. */
bool soak_peer_open(struct soak_peer *peer, const struct soak_server *server, struct weir_test_random *random, int window);
bool soak_peer_connect(struct soak_peer *peer, const struct soak_server *server, struct weir_test_random *random, int window);
void soak_peer_end(struct soak_peer *peer, enum soak_end how);
void soak_peer_finish(struct soak_peer *peer); /* its side */

/* Whether all of it was taken. */
bool soak_peer_send(struct soak_peer *peer, const char *data, size_t size);

/* Takes in some, or sees the end; of what was taken in, `size` bytes are thrown away. */
void soak_peer_receive(struct soak_peer *peer);
void soak_peer_take(struct soak_peer *peer, size_t size);

/* The connection is lost.  Fails where that must not be; else returns false. */
bool soak_peer_lost(const struct soak_peer *peer, const char *what);

extern atomic_size_t soak_packed; /* replies that came compressed */

/* The reply is the one that it has to be.  Returns false when the connection is lost. */
bool soak_peer_expect(struct soak_peer *peer, const struct soak_request *request);

/* The head of a reply, terminated, in the input, and its size.  0: the connection is lost.  Interim ones are skipped, unless
 * they are wanted. */
size_t soak_peer_head(struct soak_peer *peer, int *status, bool interim);

/* Waits until the server has ended it. */
void soak_peer_drain(struct soak_peer *peer);

/* -- soak_client.c -- */

struct soak_client;

extern atomic_bool soak_stopping;  /* clients are to leave, and wait */
extern atomic_size_t soak_sessions; /* that have ended */
extern atomic_size_t soak_excused;  /* connections that a reliable server has ended, of clients that were slow */

struct soak_client *soak_clients_new(unsigned count, uint64_t seed);
void soak_clients_begin(struct soak_client *clients); /* a round */
void soak_clients_end(struct soak_client *clients);   /* nothing of theirs is left then */
void soak_clients_free(struct soak_client *clients);
void soak_clients_print(const struct soak_client *clients); /* to standard error: their present and last actions */

#endif
