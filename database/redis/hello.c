/* database/redis/hello.c: what a fresh connection begins with, and the errors of servers.
 *
 *     HELLO 3 AUTH user password SETNAME name --> SELECT database --> ROLE
 *        \--the server knows no HELLO--> AUTH --> CLIENT SETNAME --> SELECT --> ROLE
 *
 * ROLE is asked where sentinels have named the server: one that was a master may be none any more, and sentinels may not have
 * noticed yet.
 *
 * Threads: callbacks of one series. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "database/redis/redis.h"

#define REPLY_MOST      16384 /* bytes */
#define HELLO_READ_MOST 4096  /* bytes */

enum step { HELLO, AUTH, SETNAME, SELECT, ROLE, OVER };

struct hello {
        _Atomic unsigned references; /* one for each task, and one for who pushes more */
        struct weir__redis_node *node;
        weir_stream *stream; /* the tasks keep it */
        enum step step;
        uint64_t words[4];
        size_t used;
        char reply[REPLY_MOST];
};

static void
unref(void *context)
{
        struct hello *hello = context;

        if (atomic_fetch_sub_explicit(&hello->references, 1, memory_order_acq_rel) == 1)
                free(hello);
}

static void
push(struct hello *hello, weir_series *series, weir_task *task)
{
        atomic_fetch_add_explicit(&hello->references, 1, memory_order_relaxed);
        weir_task_set_context(task, hello, unref);
        weir_series_push(series, task);
}

static enum step
first_step(const struct weir__redis_settings *settings)
{
        return settings->config.version == 2 ? AUTH : HELLO;
}

/* The step, or the next one for which there is something to say. */
static enum step
step_from(const struct weir__redis_settings *settings, enum step step)
{
        if (step == AUTH && !settings->password)
                step = SETNAME;
        if (step == SETNAME && !settings->name)
                step = SELECT;
        if (step == SELECT && !settings->database)
                step = ROLE;
        return step == ROLE && settings->mode != WEIR__REDIS_SENTINEL ? OVER : step;
}

static size_t
write_words(const struct weir__redis_settings *settings, enum step step, const char *words[8], char number[16])
{
        const char *user = settings->user ? settings->user : "default";
        size_t count = 0;

        if (step == HELLO) {
                words[count++] = "HELLO";
                words[count++] = "3";
                if (settings->password) {
                        words[count++] = "AUTH";
                        words[count++] = user;
                        words[count++] = settings->password;
                }
                if (settings->name) {
                        words[count++] = "SETNAME";
                        words[count++] = settings->name;
                }
        } else if (step == AUTH) {
                words[count++] = "AUTH";
                if (settings->user)
                        words[count++] = user;
                words[count++] = settings->password;
        } else if (step == SETNAME) {
                words[count++] = "CLIENT";
                words[count++] = "SETNAME";
                words[count++] = settings->name;
        } else if (step == ROLE) {
                words[count++] = "ROLE";
        } else {
                snprintf(number, 16, "%u", settings->database);
                words[count++] = "SELECT";
                words[count++] = number;
        }
        return count;
}

static void on_read(weir_task *read, void *context);

static void
say(struct hello *hello, weir_series *series, enum step step)
{
        const struct weir__redis_settings *settings = hello->node->settings;
        const char *words[8];
        char number[16];

        hello->step = step_from(settings, step);
        if (hello->step == OVER)
                return;
        size_t count = write_words(settings, hello->step, words, number), size = weir__redis_encoded_size(count, words, NULL);
        char *bytes = malloc(size);
        if (!bytes) {
                weir_series_fail(series, -ENOMEM);
                return;
        }
        weir__redis_encode(bytes, count, words, NULL);
        push(hello, series, weir_stream_write_new(hello->stream, bytes, size, NULL, NULL));
        push(hello, series, weir_stream_read_new(hello->stream, 1, HELLO_READ_MOST, on_read, NULL));
        free(bytes);
}

/* The server is older than HELLO, or does not let the user call it. */
static bool
is_unknown(const char *text)
{
        return strncmp(text, "-ERR unknown command", 20) == 0 || strncmp(text, "-NOPROTO", 8) == 0 ||
               (strncmp(text, "-NOPERM", 7) == 0 && strstr(text, "hello"));
}

/* Whether the reply to ROLE is of a master, or of a server that does not tell. */
static bool
may_be_master(const char *reply, size_t size)
{
        static const char word[] = "$6\r\nmaster\r\n";
        const char *first = memchr(reply, '$', size);

        if (*reply == '-')
                return true;
        return first && (size_t)(reply + size - first) >= sizeof word - 1 && memcmp(first, word, sizeof word - 1) == 0;
}

static void
on_reply(struct hello *hello, weir_series *series, size_t size)
{
        enum step step = hello->step;

        if (step == ROLE) {
                if (may_be_master(hello->reply, size))
                        return;
                weir__redis_node_set_problem(hello->node, "it is no master any more");
                weir_series_fail(series, -EAGAIN); /* the sentinels are asked again */
                return;
        }
        if (*hello->reply != '-') {
                say(hello, series, step == HELLO ? SELECT : step + 1);
                return;
        }
        hello->reply[size - 2] = '\0'; /* the CR */
        if (step == HELLO && hello->node->settings->config.version != 3 && is_unknown(hello->reply)) {
                say(hello, series, AUTH);
                return;
        }
        weir__redis_node_set_problem(hello->node, hello->reply + 1);
        weir_series_fail(series, weir__redis_status_of(hello->reply + 1));
}

static void
on_read(weir_task *read, void *context)
{
        struct hello *hello = context;
        weir_series *series = weir_series_of(read);
        size_t size;
        const char *data = weir_stream_data(read, &size);

        if (weir_task_status(read) != 0)
                return; /* the series stops */
        if (size > sizeof hello->reply - hello->used) {
                weir_series_fail(series, -EMSGSIZE);
                return;
        }
        memcpy(hello->reply + hello->used, data, size);
        hello->used += size;
        ssize_t end = weir__redis_frame(hello->reply, hello->used, hello->words, sizeof hello->reply);
        if (end < 0 || (end > 0 && (size_t)end < hello->used)) { /* nothing more was asked for */
                weir_series_fail(series, end < 0 ? (int)end : -EPROTO);
                return;
        }
        if ((size_t)end != hello->used) {
                push(hello, series, weir_stream_read_new(hello->stream, 1, HELLO_READ_MOST, on_read, NULL));
                return;
        }
        hello->used = 0;
        memset(hello->words, 0, sizeof hello->words);
        on_reply(hello, series, (size_t)end);
}

void
weir__redis_hello(weir_stream *stream, weir_series *series, void *context)
{
        struct weir__redis_node *node = context;
        struct hello *hello = malloc(sizeof *hello);

        if (!hello) {
                weir_series_fail(series, -ENOMEM);
                return;
        }
        memset(hello, 0, offsetof(struct hello, reply));
        atomic_init(&hello->references, 1);
        hello->node = node;
        hello->stream = stream;
        say(hello, series, first_step(node->settings));
        unref(hello);
}

/* -- errors -- */

int
weir__redis_status_of(const char *text)
{
        static const struct {
                const char *word;
                int status;
        } known[] = {
                {"NOAUTH", -EACCES}, {"WRONGPASS", -EACCES}, {"NOPERM", -EACCES},      {"LOADING", -EAGAIN},
                {"BUSY", -EAGAIN},   {"TRYAGAIN", -EAGAIN},  {"CLUSTERDOWN", -EAGAIN}, {"MASTERDOWN", -EAGAIN},
                {"ASK", -EAGAIN},    {"READONLY", -EROFS},   {"NOSCRIPT", -ENOENT},
        };
        size_t size = strcspn(text, " ");

        for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
                if (strncmp(text, known[i].word, size) == 0 && !known[i].word[size])
                        return known[i].status;
        return -EREMOTEIO;
}
