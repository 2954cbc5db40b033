/* with_hiredis.c: commands to Redis as tasks, without a thread for them (docs/own-tasks.md).
 *
 *     with_hiredis PORT COMMAND [MILLISECONDS] */
#include <hiredis/async.h>
#include <stdio.h>
#include <string.h>

#include "watch.h"

static redisAsyncContext *redis; /* NULL: the connection has ended, and hiredis frees it */

static void go_on(int socket, bool is_readable, bool is_writable)
{
        (void)socket;
        if (is_readable)
                redisAsyncHandleRead(redis);
        if (is_writable && redis)
                redisAsyncHandleWrite(redis);
}

/* It always waits for replies. */
static void add_write(void *context)
{
        watch_set(((redisAsyncContext *)context)->c.fd, true, true);
}

static void del_write(void *context)
{
        watch_set(((redisAsyncContext *)context)->c.fd, true, false);
}

static void clean_up(void *context)
{
        watch_set(((redisAsyncContext *)context)->c.fd, false, false);
        redis = NULL;
}

static void redis_connect(int port)
{
        redis = redisAsyncConnect("127.0.0.1", port);
        redis->ev.data = redis;
        redis->ev.addWrite = add_write;
        redis->ev.delWrite = del_write;
        redis->ev.cleanup = clean_up;
        add_write(redis); /* then it is connected */
}

/* Inside a call of hiredis, once for each command, also when the connection has ended. */
static void on_reply(redisAsyncContext *context, void *answer, void *promise)
{
        redisReply *reply = answer; /* hiredis frees it */
        int status = !reply ? -ENOTCONN : reply->type == REDIS_REPLY_ERROR ? -EPROTO : 0;
        char *text = reply && reply->str ? strdup(reply->str) : NULL;

        (void)context;
        if (weir_promise_finish(promise, status, text, free) < 0)
                free(text); /* nobody waits for it any more: Redis cannot take a command back */
}

static weir_task *command_new(const char *command, weir_task_fn *done)
{
        weir_task *promise = weir_promise_new(NULL, done, NULL);

        weir_promise_set_label(promise, command);
        weir_promise_ref(promise); /* for on_reply */
        pthread_mutex_lock(&mutex);
        if (!redis || redisAsyncCommand(redis, on_reply, promise, command) != REDIS_OK)
                weir_promise_finish(promise, -ENOTCONN, NULL, NULL);
        pthread_mutex_unlock(&mutex);
        return promise;
}

static void on_answer(weir_task *promise, void *context)
{
        const char *text = weir_promise_value(promise);
        int status = weir_task_status(promise);

        (void)context;
        puts(status != 0 ? weir_strerror(status) : text ? text : "(nothing)");
}

int main(int argc, char *argv[])
{
        weir_nsec limit = WEIR_MSEC(argc > 3 ? atol(argv[3]) : 10000);

        pthread_mutex_lock(&mutex);
        redis_connect(argc > 1 ? atoi(argv[1]) : 6379);
        pthread_mutex_unlock(&mutex);
        weir_task *command = command_new(argc > 2 ? argv[2] : "PING", on_answer);
        weir_task_run(weir_timeout_new(command, limit));
        weir_shutdown(); /* first: hiredis is not called any more */
        if (redis)
                redisAsyncFree(redis);
        return 0;
}
