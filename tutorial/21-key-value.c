/* 21-key-value.c: a key-value store over a protocol of its own: messages with their length before them.
 *
 *     21-key-value serve [address]          default 127.0.0.1:7777; "unix:/tmp/store" works as well
 *     21-key-value set KEY VALUE [address]
 *     21-key-value get KEY [address]
 *
 * A message begins with its length in 4 bytes, the highest first, which count the bytes behind them.  A request is 's', a key, a
 * NUL and a value, or 'g' and a key.  A reply is '+' and the value, or '-' and a reason.
 *
 * One description makes both ends.  The server may have 16 requests of a connection under way, and so may the client.
 *
 * Try it:  21-key-value serve &
 *          21-key-value set color blue; 21-key-value get color
 *          printf '\0\0\0\6gcolor' | nc -q1 127.0.0.1 7777
 *
 * Ctrl-C stops the server: what is under way is answered. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

static const struct weir_protocol store = {
        .size = sizeof store,
        .length_width = 4,
        .length_adjust = 4, /* the length does not count itself */
        .bare = 1,          /* and the program does not see it */
        .max_message = 1 << 20,
        .depth = 16,
        .is_idempotent = 1, /* a set twice is a set once */
};

/* -- the store: callbacks of several connections use it at the same time -- */

struct entry {
        struct entry *next;
        char *value;
        char key[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries; /* guarded by lock; a real store has a table */

/* Under the lock. */
static struct entry *find(const char *key)
{
        struct entry *entry = entries;

        while (entry && strcmp(entry->key, key) != 0)
                entry = entry->next;
        return entry;
}

/* Under the lock.  NULL when out of memory. */
static struct entry *find_or_make(const char *key)
{
        size_t size = strlen(key) + 1;
        struct entry *entry = find(key);

        if (entry || !(entry = calloc(1, sizeof *entry + size)))
                return entry;
        memcpy(entry->key, key, size);
        entry->next = entries;
        entries = entry;
        return entry;
}

static const char *set(const char *key, const char *value)
{
        char *copy = strdup(value);

        pthread_mutex_lock(&lock);
        struct entry *entry = copy ? find_or_make(key) : NULL;
        if (entry) {
                free(entry->value);
                entry->value = copy;
        }
        pthread_mutex_unlock(&lock);
        if (!entry)
                free(copy);
        return entry ? "+" : "-no memory";
}

static void get(weir_task *message, const char *key)
{
        char reply[4096] = "-not found";

        pthread_mutex_lock(&lock);
        const struct entry *entry = find(key);
        if (entry)
                snprintf(reply, sizeof reply, "+%s", entry->value);
        pthread_mutex_unlock(&lock);
        weir_message_reply(message, reply, strlen(reply));
}

/* -- the server -- */

static void on_message(weir_task *message, void *context)
{
        size_t size;
        const char *data = weir_message_data(message, &size);
        const char *end = size ? memchr(data, '\0', size) : NULL; /* of the key; the library has put a NUL behind all */
        const char *reply = "-unknown request";

        (void)context;
        if (size > 1 && data[0] == 'g' && !end) {
                get(message, data + 1);
                return;
        }
        if (size > 1 && data[0] == 's' && end)
                reply = set(data + 1, end + 1);
        weir_message_reply(message, reply, strlen(reply));
}

static void on_connection(weir_stream *stream, weir_series *series, void *context)
{
        weir_series_push(series, weir_protocol_serve_new(stream, &store, on_message, NULL, context));
}

/* -- the client -- */

static void on_reply(weir_task *ask, void *context)
{
        static const char *const stages[] = {
                "waiting for a connection", "connecting", "the hello", "sending", "waiting", "answered"};
        size_t size;
        const char *reply = weir_ask_reply(ask, &size);
        int status = weir_task_status(ask);

        *(int *)context = status || reply[0] != '+';
        if (status)
                fprintf(stderr, "%s: %s\n", stages[weir_ask_stage(ask)], weir_strerror(status));
        else
                fprintf(reply[0] == '+' ? stdout : stderr, "%s\n", size ? reply + 1 : "");
}

static int ask(const char *address, const char *request, size_t size)
{
        weir_endpoint *server = weir_endpoint_new(address, &store);
        int failed = 1;

        weir_task_run(weir_ask_new(server, request, size, on_reply, &failed));
        weir_endpoint_unref(server);
        return failed;
}

int main(int argc, char *argv[])
{
        static const char usage[] = "usage: 21-key-value serve [address] | set KEY VALUE [address] | get KEY [address]\n";
        const char *what = argc > 1 ? argv[1] : "";
        int arguments = strcmp(what, "set") == 0 ? 4 : strcmp(what, "get") == 0 ? 3 : strcmp(what, "serve") == 0 ? 2 : 99;
        const char *address = argc > arguments ? argv[arguments] : "127.0.0.1:7777";
        char request[4096];
        int size;

        if (argc < arguments) {
                fputs(usage, stderr);
                return 2;
        }
        if (arguments == 2) {
                int failed = weir_stream_serve(address, on_connection, NULL);

                if (failed < 0)
                        fprintf(stderr, "cannot serve at %s: %s\n", address, weir_strerror(failed));
                return failed != 0;
        }
        if (arguments == 4)
                size = snprintf(request, sizeof request, "s%s%c%s", argv[2], '\0', argv[3]);
        else
                size = snprintf(request, sizeof request, "g%s", argv[2]);
        if (size >= (int)sizeof request) {
                fputs("the key or the value is too long\n", stderr);
                return 2;
        }
        return ask(address, request, (size_t)size);
}
