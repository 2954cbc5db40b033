/* with_hiredis.c: commands to Redis as tasks, without a thread for them: docs/own-tasks.md shows it.
 *
 *     with_hiredis PORT COMMAND [MILLISECONDS] */
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "watch.h"

static redisAsyncContext *redis; /* NULL: the connection has ended */

/* -- what hiredis waits for; with the mutex held -- */

static void on_ready(struct watch *watch, bool reads, bool writes)
{
        if (reads)
                redisAsyncHandleRead(redis);
        if (writes && redis && watch->fd)
                redisAsyncHandleWrite(redis);
}

static void add_read(void *watch)
{
        watch_set(watch, true, ((struct watch *)watch)->writes);
}

static void del_read(void *watch)
{
        watch_set(watch, false, ((struct watch *)watch)->writes);
}

static void add_write(void *watch)
{
        watch_set(watch, ((struct watch *)watch)->reads, true);
}

static void del_write(void *watch)
{
        watch_set(watch, ((struct watch *)watch)->reads, false);
}

static void clean_up(void *watch)
{
        watch_end(watch);
}

static void on_connected(const redisAsyncContext *context, int status)
{
        if (status != REDIS_OK && context == redis)
                redis = NULL; /* hiredis frees it */
}

static void on_disconnected(const redisAsyncContext *context, int status)
{
        on_connected(context, status == REDIS_OK ? REDIS_ERR : status);
}

static void redis_connect(int port)
{
        redis = redisAsyncConnect("127.0.0.1", port);
        struct watch *watch = watch_new(redis->c.fd, on_ready, NULL);
        redis->ev.data = watch;
        redis->ev.addRead = add_read;
        redis->ev.delRead = del_read;
        redis->ev.addWrite = add_write;
        redis->ev.delWrite = del_write;
        redis->ev.cleanup = clean_up;
        redisAsyncSetConnectCallback(redis, on_connected); /* waits until it is writable */
        redisAsyncSetDisconnectCallback(redis, on_disconnected);
}

/* -- the task -- */

/* Inside a call of hiredis, once for each command, also when the connection has ended. */
static void on_reply(redisAsyncContext *context, void *answer, void *promise)
{
        redisReply *reply = answer; /* hiredis frees it */
        int status = !reply ? -ENOTCONN : reply->type == REDIS_REPLY_ERROR ? -EPROTO : 0;
        char *text = reply && reply->str ? strdup(reply->str) : NULL;

        (void)context;
        if (weir_promise_end_with(promise, status, text, free) < 0)
                free(text); /* nobody waits for it any more: Redis cannot take a command back */
        weir_promise_unref(promise);
}

static weir_task *command_new(const char *command, weir_task_fn *done)
{
        weir_task *promise = weir_promise_new(NULL, done, NULL);

        weir_promise_set_label(promise, command);
        pthread_mutex_lock(&mutex);
        weir_promise_ref(promise); /* for on_reply */
        if (!redis || redisAsyncCommand(redis, on_reply, promise, command) != REDIS_OK) {
                weir_promise_end(promise, -ENOTCONN);
                weir_promise_unref(promise);
        }
        pthread_mutex_unlock(&mutex);
        return promise;
}

/* -- a flow -- */

static void on_answer(weir_task *promise, void *context)
{
        const char *text = weir_promise_value(promise);

        (void)context;
        puts(weir_task_status(promise) != 0 ? weir_strerror(weir_task_status(promise))
             : text                         ? text
                                            : "(nothing)");
}

int main(int argc, char *argv[])
{
        weir_series *series = weir_series_new(NULL, NULL);

        pthread_mutex_lock(&mutex);
        redis_connect(argc > 1 ? atoi(argv[1]) : 6379);
        pthread_mutex_unlock(&mutex);
        weir_series_push(series, command_new(argc > 2 ? argv[2] : "PING", on_answer));
        weir_series_set_deadline(series, WEIR_MSEC(argc > 3 ? atol(argv[3]) : 10000));
        weir_series_run(series);
        weir_shutdown(); /* first: nothing waits for the connection any more */
        pthread_mutex_lock(&mutex);
        if (redis)
                redisAsyncFree(redis);
        pthread_mutex_unlock(&mutex);
        return 0;
}
