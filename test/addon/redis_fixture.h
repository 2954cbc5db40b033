/* test/addon/redis_fixture.h: commands of the test, and what their callbacks have seen. */
#ifndef WEIR_TEST_REDIS_FIXTURE_H
#define WEIR_TEST_REDIS_FIXTURE_H

#include <weir/redis.h>
#include <weir/weir.h>

#include "test/addon/redis_server.h"
#include "test/fixture.h"

struct seen {
        _Atomic int calls;
        int status;
        char text[512], problem[512];
};

static inline void
write_reply(const struct weir_redis_reply *reply, char *out, size_t room)
{
        if (!reply) {
                snprintf(out, room, "none");
                return;
        }
        switch (reply->type) {
        case WEIR_REDIS_NULL: snprintf(out, room, "nil"); return;
        case WEIR_REDIS_INTEGER: snprintf(out, room, "%lld", (long long)reply->integer); return;
        case WEIR_REDIS_DOUBLE: snprintf(out, room, "%g", reply->number); return;
        case WEIR_REDIS_BOOLEAN: snprintf(out, room, "%s", reply->integer ? "true" : "false"); return;
        default: break;
        }
        if (reply->type < WEIR_REDIS_ARRAY) {
                snprintf(out, room, "%s%.*s", reply->type == WEIR_REDIS_ERROR ? "!" : "",
                         (int)(reply->size < 400 ? reply->size : 400), reply->text);
                return;
        }
        snprintf(out, room, reply->type == WEIR_REDIS_MAP ? "{" : "[");
        for (size_t i = 0; i < reply->size && strlen(out) < room - 8; i++) {
                size_t used = strlen(out);

                used += (size_t)snprintf(out + used, room - used, "%s", i ? " " : "");
                write_reply(weir_redis_item(reply, i), out + used, room - used);
        }
        if (strlen(out) < room - 1)
                strcat(out, reply->type == WEIR_REDIS_MAP ? "}" : "]");
}

static inline void
see(weir_task *task, void *context)
{
        struct seen *seen = context;

        seen->status = weir_task_status(task);
        write_reply(weir_redis_reply(task), seen->text, sizeof seen->text);
        snprintf(seen->problem, sizeof seen->problem, "%s", weir_redis_problem(task) ? weir_redis_problem(task) : "");
        CU_ASSERT((weir_redis_problem(task) == NULL) == (seen->status == 0) && (*seen->problem == '\0') == (seen->status == 0));
        seen->calls++;
}

/* The reply to a command that this thread waits for. */
static struct seen last;

static inline const char *
run(weir_task *task)
{
        last = (struct seen){0};
        int status = weir_task_run(task);

        if (!last.calls) {
                last.status = status;
                snprintf(last.text, sizeof last.text, "not started: %d", status);
        }
        return last.text;
}

#define SAY(redis, ...)            run(weir_redis_format_new((redis), see, &last, __VA_ARGS__))
#define SAYS(redis, expected, ...) CU_ASSERT_STRING_EQUAL(SAY(redis, __VA_ARGS__), expected)

/* Waits until the server has `count` clients.  It may still end those of earlier tests. */
static inline void
until_connected(weir_redis *redis, const char *count)
{
        static const char ask[] = "return tonumber(string.match(redis.call('info', 'clients'), 'connected_clients:(%d+)'))";

        WEIR_TEST_EVENTUALLY(strcmp(SAY(redis, "EVAL %s 0", ask), count) == 0);
}

#endif
