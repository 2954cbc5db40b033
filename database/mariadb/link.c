/* database/mariadb/link.c: connections: how they are made, cut and closed.
 *
 * The client library closes its socket itself when it finds an error, and the number may then be that of another file.  So a cut
 * shuts down a duplicate, which is closed here and nowhere else.  While the client library connects, it calls wait_for_socket for
 * each wait, with the socket that it has just then: that is duplicated there, so that an attempt can be cut, too.
 *
 * Threads: the function that serves the link.  Others where it says so.
 * Locks:   the pool's, for the duplicate. */
#include "database/mariadb/mariadb.h"

#include <errmsg.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The link that this thread connects; NULL: none. */
static _Thread_local struct weir__mariadb_link *connecting;

/* -- the duplicate -- */

/* Replaces it by one of `fd`; -1: by none. */
static int
watch(struct weir__mariadb_link *link, int fd)
{
        int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3), failed = fd >= 0 && copy < 0 ? -errno : 0;

        pthread_mutex_lock(&link->pool->base.lock);
        int old = link->fd;
        link->fd = copy;
        if (link->is_cut && copy >= 0)
                shutdown(copy, SHUT_RDWR);
        pthread_mutex_unlock(&link->pool->base.lock);
        if (old >= 0)
                close(old);
        return failed;
}

void
weir__mariadb_link_cut(struct weir__mariadb_link *link)
{
        link->is_cut = true;
        if (link->fd >= 0)
                shutdown(link->fd, SHUT_RDWR);
}

/* -- waits -- */

static int
poll_until(int fd, short events, int timeout, weir_nsec deadline)
{
        struct pollfd entry = {.fd = fd, .events = events};
        int outcome;

        do {
                weir_nsec left = deadline == WEIR_FOREVER ? WEIR_FOREVER : deadline - weir_now();
                int wait = left >= WEIR_MSEC(INT_MAX) ? -1 : left <= 0 ? 0 : (int)(left / WEIR_MSEC(1)) + 1;

                if (timeout > 0 && (wait < 0 || timeout < wait))
                        wait = timeout;
                outcome = poll(&entry, 1, wait);
        } while (outcome < 0 && errno == EINTR);
        if (outcome == 0)
                errno = ETIMEDOUT;
        return outcome;
}

/* The client library does not say why an attempt has failed: errno is that of its connect(2).  This makes it the socket's. */
static int
check(int fd, int outcome)
{
        int failure = 0;
        socklen_t size = sizeof failure;

        if (outcome <= 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0 || failure == 0)
                return outcome;
        errno = failure;
        return -1;
}

/* In place of the client library's own: 1, or 0 at the end of the time, or -1.  A cut ends it, because the socket is readable and
 * writable then. */
static int
wait_for_socket(my_socket fd, my_bool is_read, int timeout)
{
        struct weir__mariadb_link *link = connecting;
        short events = is_read ? POLLIN : POLLOUT;

        if (!link)
                return poll_until(fd, events, timeout, WEIR_FOREVER);
        return watch(link, fd) == 0 ? check(fd, poll_until(fd, events, timeout, link->until)) : -1;
}

/* -- connecting -- */

int
weir__mariadb_fail(struct weir__mariadb_link *link, MYSQL_STMT *statement, struct weir__mariadb_outcome *outcome)
{
        unsigned code = statement ? mysql_stmt_errno(statement) : mysql_errno(link->connection);
        const char *sqlstate = statement ? mysql_stmt_sqlstate(statement) : mysql_sqlstate(link->connection);
        const char *text = statement ? mysql_stmt_error(statement) : mysql_error(link->connection);

        outcome->code = code ? code : CR_UNKNOWN_ERROR;
        outcome->status = weir__mariadb_status(outcome->code, sqlstate, text);
        memcpy(outcome->sqlstate, sqlstate, strnlen(sqlstate, sizeof outcome->sqlstate - 1));
        free(outcome->problem);
        outcome->problem = strdup(*text ? text : "the client library has failed without a reason");
        if (weir__mariadb_breaks(outcome->code))
                link->is_broken = true;
        else
                outcome->is_complete = true;
        return outcome->status;
}

static void
set_tls(MYSQL *connection, const struct weir__mariadb_target *target)
{
        my_bool is_wanted = target->tls != WEIR_MARIADB_TLS_NONE, is_verified = target->tls == WEIR_MARIADB_TLS_VERIFIED;

        if (is_wanted) {
                mysql_ssl_set(connection, target->key, target->certificate, target->ca, NULL, NULL);
                mysql_options(connection, MYSQL_OPT_SSL_ENFORCE, &is_wanted);
        }
        mysql_options(connection, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &is_verified);
}

static MYSQL *
make(const struct weir__mariadb_link *link)
{
        const weir_mariadb *pool = link->pool;
        weir_nsec limit = pool->config.connect_limit;
        unsigned seconds = limit >= WEIR_SEC(INT_MAX / 1000) ? 0 : (unsigned)((limit + WEIR_SEC(1) - 1) / WEIR_SEC(1));
        unsigned protocol = pool->target.host ? MYSQL_PROTOCOL_TCP : MYSQL_PROTOCOL_SOCKET, no_files = 0;
        MYSQL *connection = mysql_init(NULL);

        if (!connection)
                return NULL;
        if (seconds > 0)
                mysql_options(connection, MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
        mysql_options(connection, MYSQL_OPT_PROTOCOL, &protocol);
        mysql_options(connection, MYSQL_OPT_LOCAL_INFILE, &no_files);
        mysql_options(connection, MYSQL_SET_CHARSET_NAME, "utf8mb4");
        mysql_options4(connection, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", program_invocation_short_name);
        if (pool->target.session)
                mysql_options(connection, MYSQL_INIT_COMMAND, pool->target.session);
        mysql_optionsv(connection, MARIADB_OPT_IO_WAIT, wait_for_socket);
        set_tls(connection, &pool->target);
        return connection;
}

int
weir__mariadb_connect(struct weir__mariadb_link *link, struct weir__mariadb_outcome *outcome)
{
        const struct weir__mariadb_target *target = &link->pool->target;

        link->is_broken = false;
        link->packet = 0;
        link->connection = make(link);
        if (!link->connection)
                return outcome->status = -ENOMEM;
        connecting = link;
        bool is_there = mysql_real_connect(link->connection, target->host, target->user, target->password ? target->password : "",
                                           target->database, target->port, target->socket, CLIENT_MULTI_RESULTS);
        connecting = NULL;
        int status = is_there ? watch(link, mysql_get_socket(link->connection)) : weir__mariadb_fail(link, NULL, outcome);
        if (status) {
                weir__mariadb_disconnect(link);
                return outcome->status = status;
        }
        pthread_mutex_lock(&link->pool->base.lock);
        link->thread = mysql_thread_id(link->connection);
        link->since = weir_now();
        pthread_mutex_unlock(&link->pool->base.lock);
        return 0;
}

/* The goodbye of TLS, and that of the protocol behind it, may find that nobody reads: SIGPIPE. */
static void
close_quietly(MYSQL *connection)
{
        sigset_t pipe, before, pending;
        struct timespec at_once = {0, 0};

        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        sigpending(&pending);
        pthread_sigmask(SIG_BLOCK, &pipe, &before);
        mysql_close(connection);
        if (!sigismember(&pending, SIGPIPE))
                sigtimedwait(&pipe, NULL, &at_once);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Its statements are freed behind it, so that nothing is sent for each of them. */
void
weir__mariadb_disconnect(struct weir__mariadb_link *link)
{
        if (link->result)
                link->result->handle = NULL; /* else what is left of it would be read */
        if (link->is_broken && link->fd >= 0)
                shutdown(link->fd, SHUT_RDWR);
        if (link->connection)
                close_quietly(link->connection);
        link->connection = NULL;
        mysql_free_result(link->result);
        link->result = NULL;
        weir__mariadb_columns_unref(link->columns);
        link->columns = NULL;
        weir__mariadb_statement_free_all(link);
        watch(link, -1);
        link->is_broken = false;
        link->is_begun = false;
}

bool
weir__mariadb_is_stale(struct weir__mariadb_link *link)
{
        char byte;
        ssize_t size = recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

        if (size < 0 && (errno == EAGAIN || errno == EINTR))
                return false;
        /* Nothing comes unasked, but a failure before the end; and TLS has messages of its own. */
        return size <= 0 || link->pool->target.tls == WEIR_MARIADB_TLS_NONE || mysql_ping(link->connection) != 0;
}

uint64_t
weir__mariadb_ask(struct weir__mariadb_link *link, const char *sql, unsigned column)
{
        MYSQL_RES *result = mysql_real_query(link->connection, sql, strlen(sql)) == 0 ? mysql_store_result(link->connection)
                                                                                      : NULL;
        MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;
        uint64_t value = row && column < mysql_num_fields(result) && row[column] ? strtoull(row[column], NULL, 10) : 0;

        mysql_free_result(result);
        return value;
}

void
weir__mariadb_link_free(struct weir__mariadb_link *link)
{
        weir__mariadb_disconnect(link);
        weir__sql_unref_memory(&link->pool->base);
        free(link);
}
