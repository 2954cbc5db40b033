/* test/addon/durable_servers.h: the engines that a test of several nodes goes through.  Each server writes all that it has told
 * to the disk, and is killed and started on the same data. */
#ifndef WEIR_TEST_DURABLE_SERVERS_H
#define WEIR_TEST_DURABLE_SERVERS_H

#include "test/addon/durable_nodes.h"

static const struct engine sqlite_engine = {.name = "sqlite"};

#ifdef WEIR_HAS_PQ
#define SERVER_FSYNC       "fsync=on"
#define SERVER_CONNECTIONS "max_connections=200"
#include "test/addon/pq_server.h"

static inline int
start_postgresql(void)
{
        return server_make() ? server.port : 0;
}

static inline bool
postgresql_is_there(void)
{
        return PQping(server_conninfo(false)) == PQPING_OK;
}

static inline void
again_postgresql(void)
{
        server_order('s');
}

static inline void
stop_postgresql(void)
{
        close(server.keeper);
        server.keeper = -1;
}

static inline void
write_postgresql_url(char *url, size_t size, int port)
{
        snprintf(url, size, "postgresql://weir@127.0.0.1:%d/postgres", port);
}

static const struct engine postgresql_engine = {
        .name = "postgresql",
        .start = start_postgresql,
        .kill = server_kill,
        .again = again_postgresql,
        .is_there = postgresql_is_there,
        .stop = stop_postgresql,
        .write_url = write_postgresql_url,
};
#endif

#ifdef DURABLE_HAS_REDIS
#define free_port redis_free_port /* each header has one */
#include "test/addon/redis_server.h"
#undef free_port

static struct redis_server redis;

static inline int
start_redis(void)
{
        redis = (struct redis_server){0};
        if (!redis_is_installed())
                return 0;
        redis_start(&redis, "appendonly yes\nappendfsync always\n");
        return redis.port;
}

static inline void
kill_redis(void)
{
        redis_kill(&redis, SIGKILL);
}

static inline void
again_redis(void)
{
        redis_begin(&redis, NULL);
}

static inline bool
redis_is_there(void)
{
        return strncmp(redis_say(redis.port, "PING"), "+PONG", 5) == 0;
}

static inline void
stop_redis(void)
{
        redis_stop(&redis);
}

static inline void
write_redis_url(char *url, size_t size, int port)
{
        snprintf(url, size, "redis://127.0.0.1:%d", port);
}

static const struct engine redis_engine = {
        .name = "redis",
        .start = start_redis,
        .kill = kill_redis,
        .again = again_redis,
        .is_there = redis_is_there,
        .stop = stop_redis,
        .write_url = write_redis_url,
};
#endif

#endif
