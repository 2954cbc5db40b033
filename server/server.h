/* server/server.h: the parts of an HTTP server and how they hold each other.
 *
 *     weir_http_server --- a shard for each poller --- its listeners, its connections --- at most one exchange each
 *
 * Shards, listeners and connections are touched by the owner of their poller alone; the server is what they share.  `open` counts
 * listeners, connections and work on its way: what must be gone before the server's memory may go. */
#ifndef WEIR_SERVER_SERVER_H
#define WEIR_SERVER_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <weir/http_body.h>
#include <weir/http_server.h>

#include "factory/task/series.h"
#include "factory/task/task.h"
#include "kernel/base/latch.h"
#include "kernel/socket/listen.h"
#include "kernel/base/lock.h"
#include "kernel/memory/memory.h"
#include "kernel/loop/poller.h"
#include "kernel/socket/stream.h"
#include "protocol/chunked.h"
#include "protocol/forwarded.h"
#include "protocol/gate.h"
#include "protocol/peer.h"
#include "protocol/request.h"
#include "protocol/response.h"
#include "protocol/routes.h"
#include "server/access.h"
#include "server/addresses.h"
#include "server/counts.h"

struct weir__connection;
struct weir__fields;
struct weir__shard;

/* A piece of a file that is the body of a reply. */
struct weir__file_part {
        int fd;
        uint64_t at, size;
        uint64_t whole;   /* the size of the file */
        const char *type; /* of its name; constant */
};

static inline void weir__file_close(struct weir__file_part **file)
{
        if (!*file)
                return;
        close((*file)->fd);
        free(*file);
        *file = NULL;
}

/* A request and the reply to it: the task that the handler gets. */
struct weir__exchange {
        struct weir_task task; /* first */

        /* Owner of the connection's poller only.  The connection outlives it. */
        struct weir__connection *connection;
        uint64_t body_left;           /* of one with a length; of one without, not 0 until its end was read */
        uint64_t reply_left;          /* what was said as its length and not written yet; UINT64_MAX: none was said */
        size_t body_room;
        uint16_t fault;     /* an HTTP status: what became of the reading, unless the handler says something else; 0: nothing */
        bool has_whole_body; /* `body` is all of it, from the first byte to the last.  Constant when that is */
        bool in_pieces;     /* a task has read some of the body */
        bool continued;     /* 100 was sent, or is not wanted */
        bool probed;        /* it was sent to find out whether the client has gone */
        bool reply_chunked; /* of one that has begun */
        bool counted;       /* among the replies of its status */
        bool raw;           /* upgraded: bytes both ways */
        bool has_fine_grain; /* its series: WEIR__FINE_GRAIN, not WEIR__GRAIN; constant */
        _Atomic bool begun; /* the head is on its way.  With release; read by anybody */

        _Atomic uint8_t events; /* enum weir__events_state; relaxed: it guards nothing.  Anybody's */

        int fd; /* the connection's; constant, for people */

        /* Constant once the handler has it. */
        struct weir__request *request; /* NULL once an access log has it, when the exchange is over */
        weir_nsec began; /* about when its head had come; exactly, with an access log */

        /* The connection's until the handler has it, or while a task collects it; else constant. */
        char *body; /* with a NUL behind it; NULL without one */
        size_t body_size;

        /* The series' callbacks', until the reply has begun. */
        struct weir__response response;
        struct weir__file_part *file; /* the body; or NULL */
        struct weir__file_part *withheld; /* it would be, but for what the request asks: 304, 412 or 416; or NULL */
        char *upgrade; /* the protocol's name; NULL: none */
        bool failed; /* building the reply ran out of memory */
        uint16_t file_said; /* what of the reply file.c has said, not the handler: its bits */
        uint32_t page_size; /* so much of the body, from its beginning, is what the server says of a file that cannot be had */
        struct weir__route_match *route; /* what a router has found in the path; or NULL */
        struct weir__fields *fields; /* what was asked for of the request's; or NULL */

        /* Its series, once that is made, or WEIR__CUT: what the handler's worker and the connection's exchange.  Who sees the
         * other's cancels the series, which is kept until the exchange is freed. */
        _Atomic uintptr_t reach;

        int result;             /* of the series, on its way to the connection */
        _Atomic uint32_t holds; /* the series, whoever has a reference, and transfers; acq_rel: the last one ends the reply */
        struct weir__work end_events; /* of who makes `events` ENDED by weir_http_sse_end */
        _Atomic size_t unsent;  /* bytes of write tasks that have started and not ended; relaxed */
};

#define WEIR__CUT ((uintptr_t)1)

enum weir__events_state { WEIR__EVENTS_NONE = 0, WEIR__EVENTS_OPEN, WEIR__EVENTS_ENDED };

/* A stream of events: the task that keeps it open. */
struct weir__event_stream {
        struct weir_task task; /* first; its word: sse.c */

        /* Constant. */
        struct weir__exchange *exchange; /* held; NULL: it is wrong from its making */
        weir_nsec heartbeat;

        /* Owner of the connection's poller only. */
        bool tried;  /* the owner has had it */
        bool linked; /* it is the connection's */
};

enum weir__transfer_kind { WEIR__TRANSFER_READ, WEIR__TRANSFER_COLLECT, WEIR__TRANSFER_WRITE };

/* A piece of a body on its way in or out: the task that reads or writes it. */
struct weir__transfer {
        struct weir_task task; /* first; its word: transfer.c */

        /* Constant. */
        struct weir__exchange *exchange; /* held */
        uint8_t kind;                    /* enum weir__transfer_kind */

        /* Its maker's, then the owner's of the connection's poller, then its callback's. */
        bool tried;  /* the owner has had it */
        bool linked; /* it waits in the connection */
        bool under_way; /* some of it is written */
        struct weir__transfer *next; /* of the connection's writers */
        char *memory;                /* of a write: with room for the frame of a chunk around the data */
        char *data;                  /* what is left to write, or what was read */
        size_t size;
        weir_nsec expires_at; /* READ and COLLECT, while it waits */
        size_t max;       /* COLLECT: bytes; 0: the server's limit */
        size_t announced; /* WRITE: in `unsent` */
};

enum weir__connection_state {
        WEIR__READING_HEAD = 0,
        WEIR__HANDSHAKING, /* TLS, before all else */
        WEIR__READING_BODY,
        WEIR__ANSWERING, /* the exchange is out at the handler; it may read and write pieces of bodies meanwhile */
        WEIR__WRITING,   /* the exchange is over, and the peer slow to read the reply */
        WEIR__LINGERING, /* our side is finished; what the peer still sends is thrown away */
        WEIR__GONE,      /* descriptor closed; waits for its exchange, if it has one */
};

/* Owner of the poller only. */
struct weir__connection {
        struct weir__stream stream; /* first; closed when GONE */
        struct weir__shard *shard;
        struct weir__peer peer; /* constant: its exchange looks at it on any thread, and through `shard` at the server */
        struct weir__connection *previous, *next; /* in the shard */
        struct weir__connection *idle_previous, *idle_next; /* in the shard's list of idle ones */

        uint8_t state; /* enum weir__connection_state; connection.c: enter() */
        bool readable; /* there may be input that was not read */
        bool ended;    /* the peer may have finished its side: a short read does not mean that there is no more */
        bool last;     /* no further request after this one */
        bool used;     /* a first request has come */
        bool refused;  /* what the peer still sends is not looked at */
        bool unread;   /* and is a body that nobody wanted */
        bool idle;     /* in that list */
        bool more_queued; /* `more` is on its way */
        bool admitted;    /* it has a place among those that there may be; else it is to be turned away, and is one of `turned_away` */
        bool has_place;   /* which its end gives back: not of one that is evicted, whose place has gone to somebody else */
        bool ends_reply;  /* its end is that of the reply that goes out: before that it must not look like one */
        uint32_t turn;    /* reads since others had theirs, larger ones counted as several: connection.c */

        union {
                struct weir__gate gate;       /* of the head that is being read */
                struct weir__chunked chunked; /* of the body, if it comes in chunks */
        };
        char *input; /* what was read and not used: part of a head, or of a body that is streamed, or later requests */
        size_t input_size, input_room;

        struct weir__exchange *exchange; /* from READING_BODY on, until its reply is handed over */
        size_t untaken; /* what the peer's system had not taken in when the time limit of writing began */

        char *client; /* who has shown a certificate; constant once there is an exchange */

        char *output; /* what the peer has not taken yet: before all writers */
        size_t output_size, output_sent;
        struct weir__transfer *writers, **writers_end;
        struct weir__transfer *reader;
        struct weir__event_stream *events; /* of its exchange; NULL: none is open */
        struct weir__file_part *file; /* behind the output; or NULL */
        struct weir__work more; /* goes on with what is long, after other work had its turn */

        uint64_t sent;      /* of the last reply, or of the one that goes out now */
        uint32_t head_size; /* of it: so much is its head */

        /* From the beginning of the end of a reply on until all of it is written; the status with an access log only, and the others, too,
         * unless it is written at once. */
        uint16_t replied_status;       /* 0: there is none */
        struct weir__request *replied; /* NULL: it was none */
        weir_nsec replied_began;

        union {
                weir_nsec idle_since;
                weir_nsec lingers_until; /* LINGERING: whatever still comes */
        };
        weir_nsec expires_at;     /* the time limit of the state; WEIR_FOREVER: none */
        weir_nsec queued_for;     /* what `limit` is set to: may be earlier, and is put off when it comes */
        struct weir__limit limit;
};

/* Owner of the poller only. */
struct weir__listener {
        struct weir__source source; /* first; fd is -1 when closed */
        struct weir__shard *shard;
        struct weir__socket *socket; /* one use of it; NULL when closed */
        bool shared;                 /* others watch it too */
        struct weir__work again;    /* accepts on, after other work had its turn */
        struct weir__limit pause;   /* after EMFILE and the like: accepts on when it comes, or when a connection closes */
        bool paused;  /* does not accept */
        bool pausing, again_queued; /* `pause` is set, or its work on its way; `again` is on its way */
};

/* Whether idle connections are to go for what is above the limit: admission.c. */
enum weir__eviction {
        WEIR__EVICTION_NONE = 0,
        WEIR__EVICTION_ASKED, /* the work is on its way */
        WEIR__EVICTION_OWED,  /* it has found none: the next one that becomes idle goes */
};

/* What a server has on one poller.  Owner of the poller only. */
struct weir__shard {
        weir_http_server *server;
        struct weir__poller *poller;
        struct weir__listener *listeners; /* one or more for each address, made and freed with the shard */
        unsigned listener_count;
        struct weir__access *log; /* the server's, while it serves; NULL: none */
        struct weir__connection *first; /* of the connections */
        struct weir__connection *idle, *idle_last; /* those that wait for a request, the longest first */
        _Atomic weir_nsec idle_since; /* of the first of these; WEIR_FOREVER: there is none.  Written by the owner; relaxed */

        struct weir__limit look; /* by which lateness is measured */
        bool looking;            /* it is set, or its work on its way */
        weir_nsec look_due, lateness, measured_at;

        struct weir__work evict; /* of who makes `eviction` ASKED */
        _Atomic int eviction;    /* enum weir__eviction; seq_cst: admission.c.  From NONE by anybody, else by the owner */

        int64_t date_second; /* what `date` says */
        char date[30];

        struct weir__report *reports; /* on what was cut; of who gave the order, when it has been carried out */
        unsigned unreported;
        uint16_t report_count;

        bool stopping;       /* the order to stop has come */
        uint8_t turned_away; /* connections that wait for the handshake to be told so, or for their clients to read it */

        struct weir__counts counts;

        struct weir__work order; /* open, stop or cut; guarded by the order's being under way */
        int failed;              /* of the order to open */
};

/* What a stop has to say of an exchange that it cut. */
struct weir__report {
        struct weir__report *next;
        char text[512];
};

#define WEIR__LEAVES_FIRST ((size_t)8 * 1024) /* bytes of a reply: fewer than any system sends before it waits for the peer */

enum weir__server_state {
        WEIR__SERVER_NEW = 0,
        WEIR__SERVER_STARTING,
        WEIR__SERVER_SERVING,
        WEIR__SERVER_STOPPING,
        WEIR__SERVER_STOPPED,
};

/* Who waits until a start or stop is over, to stop it; on the stack of its thread. */
struct weir__bystander {
        struct weir__bystander *next;
        pthread_t thread;
        bool is_to_stop; /* the server is this one's: else another has stopped it, and it may be gone */
        struct weir__latch over;
};

/* What a server needs for TLS: secure.c. */
struct weir__secure {
        /* Constant. */
        const char *fault; /* of the config; or NULL */

        char *ocsp_file, *client_ca_file;

        /* Guarded by the server's lock; constant from the first try to start on. */
        struct weir__tls_pair *pairs;
        size_t pair_count;
        bool is_on_its_way; /* a start was tried */

        bool is_on; /* of who starts the server; constant from there on */

        _Atomic unsigned turn;  /* of who reads the files; relaxed */
        struct weir__lock lock; /* a leaf */

        /* Guarded by lock. */
        unsigned installed;                /* whose turn it was to make ... */
        struct weir__tls_context *context; /* ... this, of new connections; NULL: plain, or not started */
};

struct weir_http_server {
        /* Constant. */
        struct weir_http_server_config config; /* defaults filled in */
        struct weir__gate_limits gate_limits;
        struct weir__error_page *error_pages; /* from the start on; before that guarded by lock */
        struct weir__proxies *proxies;
        struct weir__access *access; /* the access log; or NULL */
        struct weir__addresses *addresses; /* from the start on; NULL: connections of one address are not limited */
        weir_task_fn *handler;
        void *context;
        int fault;    /* what its start reports */
        int quiet_fd; /* eventfd: written when `open` comes to 0, once in a start and stop, as the last touch of the server */
        int ended_fd; /* eventfd: written when the end of the runtime closes a listener */

        struct weir__secure secure;

        struct weir__lock lock; /* a leaf: nobody waits with it held */

        /* Guarded by lock. */
        uint8_t state; /* enum weir__server_state; server.c has the diagram */
        pthread_t changer;                  /* STARTING, STOPPING: whose thread that is ... */
        pid_t changer_process;              /* ... in which process: a forked child has no such thread */
        struct weir__bystander *bystanders; /* STARTING, STOPPING */
        unsigned hand_overs; /* under way: guarded by lock */
        bool handed_over; /* another process has the sockets too, or may soon; constant from the beginning of a stop on, for all to read */

        /* Written by who starts or stops it, constant while it serves: then others read the sockets, with the lock. */
        unsigned shard_count;
        unsigned generation; /* of the runtime that the shards belong to */
        struct weir__shard *shards;
        struct weir__sockets sockets; /* that listen */

        struct weir__serving serving; /* while it serves; guarded by the lock of counts.c */

        _Atomic int port;           /* relaxed; -EDOM: none */
        _Atomic size_t open;        /* acq_rel: who brings it to 0 has seen the end of all */
        _Atomic size_t connections; /* that have a place; seq_cst where it may pass the limit: admission.c */
        _Atomic size_t cut;         /* exchanges; relaxed, read after the orders were carried out */

        _Atomic unsigned orders_left; /* shards that have not carried out the order; acq_rel */
        struct weir__latch *ordered;  /* opened when all have; of the thread that gave it */
};

/* server.c: what keeps the server's memory from going; the second is the last touch. */
void weir__server_opened(weir_http_server *server);
void weir__server_closed(weir_http_server *server);

/* Whether this thread may wait until all that a server has told is over: 0; -EDEADLK on a worker, and where an access log is
 * told; -ECHILD in a forked child. */
int weir__server_may_stop(void);

/* Stops; cuts as soon as `impatient_fd` (-1: none) becomes readable. */
int weir__server_stop(weir_http_server *server, weir_nsec within, int impatient_fd);

/* secure.c */
int weir__secure_init(weir_http_server *server); /* from its config; returns what the start is to report */
void weir__secure_done(weir_http_server *server);
void weir__secure_complain(const weir_http_server *server); /* of its config, if that is wrong; with no lock held */
int weir__secure_start(weir_http_server *server); /* STARTING: reads the files, if there are any; with no lock held */
bool weir__secure_is_on(const weir_http_server *server); /* constant from the start on */
struct weir__tls *weir__secure_accept(weir_http_server *server, int fd); /* NULL when out of memory */

/* listener.c */
int weir__listeners_open(struct weir__shard *shard);   /* after a failure some are open, and to be closed */
void weir__listeners_close(struct weir__shard *shard); /* accepts what waits: a close would reset it */
void weir__listeners_room(struct weir__shard *shard);  /* a descriptor has become free */

/* handover.c */
/* Gives each shard its listeners.  Result: 0 or -ENOMEM.  And takes them away again, with the uses of those that are not open. */
int weir__listeners_spread(weir_http_server *server);
void weir__listeners_drop(weir_http_server *server);

/* Starts a program with the sockets of those servers, and waits until it serves, or one of `impatient` is readable.  Then they
 * are handed over.
 * Result:  its process; negative as weir_http_server_inherit. */
struct weir__heritage {
        weir_http_server *const *servers;
        unsigned count;
};
int weir__servers_hand_over(const struct weir__heritage *heritage, const char *path, char *const arguments[], weir_nsec within,
                            const int impatient[2]);

/* restart.c: starts this program anew, with its arguments. */
int weir__servers_restart(const struct weir__heritage *heritage, weir_nsec within, const int impatient[2]);

/* admission.c */
bool weir__admit_connection(struct weir__shard *shard, const struct weir__peer *peer); /* counts it; false: turn it away */
void weir__dismiss_connection(struct weir__shard *shard, const struct weir__peer *peer, bool has_place);
void weir__admission_repay(struct weir__shard *shard); /* which owes: one has become idle */
bool weir__admit_request(struct weir__shard *shard); /* false: all here is late, refuse it */
void weir__admission_close(struct weir__shard *shard);

/* errors.c */
int weir__error_response(const weir_http_server *server, int status, struct weir__response *response); /* 0 or -ENOMEM */
void weir__error_pages_free(weir_http_server *server);

/* connection.c: the life of a connection and its states.  A connection that any of these, or of receive.c and reply.c, has closed
 * stays in memory, GONE, until the worker's loop has its turn. */
/* Takes the descriptor.  Returns false when out of memory. */
bool weir__connection_new(struct weir__shard *shard, int fd, const struct weir__peer *peer, bool admitted);
void weir__connection_enter(struct weir__connection *connection, enum weir__connection_state state);
void weir__connection_close(struct weir__connection *connection);
void weir__connection_shake_hands(struct weir__connection *connection);
void weir__connection_finish(struct weir__connection *connection);        /* close politely, when all is written */
void weir__connection_bury(struct weir__connection *connection);          /* frees one that is GONE, if nothing needs it */
struct weir__connection *weir__connection_longest_idle(struct weir__shard *shard); /* whose request has not come either; or NULL */
void weir__connection_evict(struct weir__connection *connection, bool has_place);  /* closes an idle one; which still has a place */
void weir__connection_drop_exchange(struct weir__connection *connection); /* and with it, one that is GONE: the last touch */
void weir__connection_stop(struct weir__connection *connection);

/* One that always has more to read, or to send, comes again when others had their turn. */
void weir__connection_has_read(struct weir__connection *connection, size_t size);
bool weir__connection_may_read(struct weir__connection *connection); /* else, if there is input, it comes again */
void weir__connection_come_again(struct weir__connection *connection);

/* receive.c: what comes in */
void weir__connection_receive(struct weir__connection *connection); /* reads on, if it is the time for it */
int weir__connection_read(struct weir__connection *connection, struct weir__transfer *transfer); /* its status, unless linked */
bool weir__connection_is_to_head(const struct weir__connection *connection); /* the request that is being read */
void weir__connection_reader_failed(struct weir__connection *connection, int fault); /* an HTTP status */
void weir__connection_next(struct weir__connection *connection);    /* the exchange is over: on to the next request */

/* reply.c: what goes out */
void weir__connection_answer(struct weir__exchange *exchange); /* the series of the exchange has ended; frees the exchange */
void weir__connection_refuse(struct weir__connection *connection, int status, bool is_head); /* an error, then close */
size_t weir__reply_turning_away(struct weir__shard *shard); /* writes the whole 503 to the scratch buffer; 0: it cannot be had */
void weir__connection_flush(struct weir__connection *connection);
int weir__connection_write(struct weir__connection *connection, struct weir__transfer *transfer); /* its status, unless linked */
int weir__connection_begin_reply(struct weir__connection *connection); /* unless it has begun: 0 or -ENOMEM */
void weir__connection_beat(struct weir__connection *connection); /* into a stream of events that is silent */
bool weir__exchange_carries_body(const struct weir__exchange *exchange); /* of a reply: not behind HEAD, 204 or 304 */
void weir__connection_continue(struct weir__connection *connection); /* 100: the peer waits for it */

/* exchange.c */
/* Takes the request, also on failure. */
struct weir__exchange *weir__exchange_new(struct weir__connection *connection, struct weir__request *request);
void weir__exchange_start(struct weir__exchange *exchange);
void weir__exchange_free(struct weir__exchange *exchange);
struct weir__exchange *weir__exchange_of(const struct weir_task *task); /* NULL: it is none */
void weir__exchange_hold(struct weir__exchange *exchange);
void weir__exchange_drop(struct weir__exchange *exchange); /* the last one ends the reply.  Any thread */
bool weir__exchange_is_all_read(const struct weir__exchange *exchange);

/* sse.c */
void weir__event_stream_complete(struct weir__event_stream *stream, int status); /* of one that is a connection's.  Owner */

/* exchange.c */
void weir__exchange_describe_wait(const struct weir__exchange *exchange, char *out, size_t room); /* "waiting for ..."; any thread */
void weir__exchange_describe_peer(const struct weir__exchange *exchange, char *out, size_t room); /* "192.0.2.1:80, fd 7"; any thread */
void weir__exchange_cut(struct weir__exchange *exchange); /* its reply is not wanted any more: cancels its series */
/* Whether the reply can be changed no more: its head is made, or being made.  A stream of events is sealed before its head is on
 * its way: another thread may send that. */
bool weir__exchange_has_begun(const struct weir__exchange *exchange);

/* These only before that. */
void weir__exchange_set_status(struct weir__exchange *exchange, int status); /* takes an upgrade back */
int weir__exchange_error(struct weir__exchange *exchange, int status);  /* makes the reply the server's own of that status */
int weir__exchange_refuse(struct weir__exchange *exchange, int status); /* the same, but fields stay */
int weir__exchange_set_field(struct weir__exchange *exchange, const char *name, const char *value);

/* file.c: the reply becomes another one than that which weir_http_reply_file has made of it, if it has: `file_said` is not 0. */
void weir__file_take_back(struct weir__exchange *exchange); /* all that it said */
void weir__file_other_status(struct weir__exchange *exchange, int status); /* before that is set: the file is the body, all of it */
void weir__file_settle(struct weir__exchange *exchange); /* it stays so: what is said in place of a file that is withheld */
bool weir__file_leave_field(struct weir__exchange *exchange, const char *name); /* to the handler: whether it was the file's */

/* transfer.c */
/* A write with room for `size` bytes at `data`; reports `fault` when it is started, unless that is 0.  NULL when out of
 * memory. */
struct weir__transfer *weir__write_new(weir_task *exchange, size_t size, int fault, weir_task_fn *done, void *context);
void weir__transfer_complete(struct weir__transfer *transfer, int status); /* of one that waited and was taken out.  Owner */
void weir__transfer_frame(struct weir__transfer *transfer);                /* makes its data a chunk */

/* fields.c */
void weir__fields_free(struct weir__fields *fields); /* accepts NULL */

/* server.c: another eventfd in the place of one.  A server that was made before a fork may be started by several processes: each has its
 * own from then on.  Returns 0 or a negative errno. */
int weir__eventfd_renew(int fd);

/* cut.c */
bool weir__connection_cut(struct weir__connection *connection); /* returns whether an exchange was cut */
unsigned weir__reports_take(weir_http_server *server, struct weir__report **reports); /* returns how many are missing */
void weir__reports_log(const struct weir__report *reports, unsigned missing);
void weir__reports_free(struct weir__report *reports);

/* counts.c: of one whose reply was not finished, or that has none. */
void weir__count_unanswered(struct weir__exchange *exchange);

/* record.c: what the access log is told, in the life of a request.  Where there is none, each of these is a look at one word.
 *
 *     exchange --replying--> its request belongs to the connection --replied--> recorded
 *     exchange --unanswered--> recorded
 *
 * A reply that the client has not read yet keeps its request in any case, for the report of a stop that cuts it. */
void weir__record_replying(struct weir__connection *connection, struct weir__exchange *exchange, int status);
void weir__record_request(struct weir__connection *connection, struct weir__request *request);
void weir__keep_request(struct weir__connection *connection, struct weir__exchange *exchange);
void weir__record_replied(struct weir__connection *connection, bool is_complete);
void weir__record_unanswered(struct weir__exchange *exchange);

/* Of receive.c's making.  Accepts NULL. */
static inline void weir__server_free_request(struct weir__request *request)
{
        if (request)
                weir__free(request, request->size);
}

/* The reply with that status is about to go out, the last that is seen of its exchange; NULL: it is to no exchange. */
static inline void weir__reply_begins(struct weir__connection *connection, struct weir__exchange *exchange, int status)
{
        weir__count_reply(&connection->shard->counts, status ? status : 200);
        if (exchange)
                exchange->counted = true;
        if (__builtin_expect(connection->shard->log != NULL, 0))
                weir__record_replying(connection, exchange, status);
}

/* It is out, or never will be. */
static inline void weir__reply_ends(struct weir__connection *connection, bool is_complete)
{
        if (__builtin_expect(connection->replied != NULL || connection->replied_status, 0))
                weir__record_replied(connection, is_complete);
}

/* The exchange is about to be freed. */
static inline void weir__exchange_ends(struct weir__exchange *exchange)
{
        if (__builtin_expect(!exchange->counted, 0))
                weir__count_unanswered(exchange);
        if (__builtin_expect(exchange->connection->shard->log && exchange->request, 0))
                weir__record_unanswered(exchange);
}

#endif
