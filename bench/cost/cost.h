/* bench/cost/cost.h: the operations whose instructions and bytes `make check-cost` counts. */
#ifndef WEIR_COST_H
#define WEIR_COST_H

#include <stdbool.h>
#include <stddef.h>

/* One kind of operation.  `operation` starts one of them, and each ends with one call of cost_ended, at once or later. */
struct cost_case {
        const char *name;
        size_t count; /* how many are measured: a multiple of slice */
        size_t slice; /* how many a callback starts; the next callback begins when they have ended */
        size_t parts; /* what one operation consists of; the cost of one part is reported; 0 is 1 */
        void (*prepare)(const struct cost_case *self); /* on the main thread, before the first operation; or NULL */
        void (*operation)(size_t index);               /* in a callback; `index` counts within the slice */
        bool (*client)(void); /* in place of `operation`: a step of an HTTP client while the poller has nothing to do.
                                 Returns whether it did something. */
        bool (*peer)(void);   /* beside `operation`: the same of a server that it asks */
        const void *argument; /* of prepare */
};

/* One kind of object, whose bytes are counted.  `make` keeps one more of them. */
struct cost_object {
        const char *name;
        size_t count;
        void (*prepare)(void);
        void (*make)(size_t index);
        bool (*client)(void);
        bool is_of_heap; /* its bytes are those that malloc has given out, with what it needs itself; not pages */
};

extern const struct cost_case cost_timer_cases[], cost_flow_cases[], cost_sync_cases[], cost_http_cases[], cost_client_cases[];
extern const struct cost_object cost_objects[];

/* Ends one operation.  Any thread of the library. */
void cost_ended(void);

/* A task's callback that ends one operation. */
struct weir_task;
void cost_on_end(struct weir_task *task, void *context);

/* Ends the process with a message when the call failed. */
void cost_must(bool good, const char *what);

/* -- the HTTP client of http.c, which bytes.c uses as well -- */

struct cost_case;
void cost_http_serve(bool is_delayed);
int cost_http_connect(void);
void cost_http_send(int fd);
bool cost_http_receive(int fd);

/* A server of TLS with a new certificate, which has begun. */
struct weir_http_server;
struct weir_http_server *cost_http_serve_secure(void (*handle)(struct weir_task *exchange, void *context));

/* -- the server of client.c, and clients that keep connections to it, which bytes.c uses as well -- */

void cost_client_prepare_idle(void);
bool cost_client_step_idle(void);
#define COST_CLIENT_CONNECTIONS 3000

/* The same over TLS, with a server in a process of its own: `cost serve`, which cost_client_serve does not return from. */
void cost_client_prepare_secure(void);
bool cost_client_step_secure(void);
void cost_client_serve(void) __attribute__((noreturn));
#define COST_CLIENT_SECURE 500

#endif
