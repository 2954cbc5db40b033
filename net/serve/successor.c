/* net/serve/successor.c: gives listening sockets to another process, the successor.
 *
 * Threads: any that may wait.
 * Locks:   the server's, while the sockets are read: they stay as long as it serves. */
#include "net/serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel/socket/inherit.h"
#include "kernel/observe/sink.h"
#include "kernel/runtime/runtime.h"

int
weir__server_fds(struct weir__server *server, int *fds, size_t room)
{
        int failed = weir__runtime_may_stop();
        size_t count = 0;

        if (failed || !server || (!fds && room))
                return failed ? failed : -EINVAL;
        weir__lock(&server->lock);
        bool is_serving = server->state == WEIR__SERVER_SERVING;
        for (unsigned i = 0; is_serving && i < server->sockets.count; i++) {
                if (!atomic_load_explicit(&server->sockets.all[i].users, memory_order_acquire))
                        continue; /* closed */
                if (count < room)
                        fds[count] = server->sockets.all[i].fd;
                count++;
        }
        weir__unlock(&server->lock);
        return count ? (int)count : -EDOM;
}

/* Adds a copy with a descriptor of its own, because a stop may come meanwhile. */
static int
copy_socket(struct weir__sockets *to, struct weir__socket *from)
{
        if (!weir__socket_join(from))
                return 0; /* the runtime has ended, and closed it */
        int fd = fcntl(from->fd, F_DUPFD_CLOEXEC, 0);
        int failed = fd < 0 ? -errno : 0;
        weir__socket_leave(from);
        if (failed)
                return failed;
        struct weir__socket *copy = weir__sockets_add(to, fd);
        if (!copy) {
                close(fd);
                return -ENOMEM;
        }
        copy->origin = from->origin;
        copy->number = from->number;
        copy->has_file = from->has_file;
        copy->device = from->device;
        copy->inode = from->inode;
        return 0;
}

static int
copy_sockets(struct weir__sockets *to, struct weir__server *server)
{
        int failed = 0;

        weir__lock(&server->lock);
        if (server->state == WEIR__SERVER_SERVING)
                for (unsigned i = 0; i < server->sockets.count && !failed; i++)
                        failed = copy_socket(to, &server->sockets.all[i]);
        weir__unlock(&server->lock);
        return failed;
}

static int
start_child(struct weir__successor *successor, const struct weir__givers *givers, const char *path, char *const arguments[])
{
        struct weir__sockets copies = {0};
        int failed = 0;

        for (unsigned i = 0; i < givers->count && !failed; i++)
                failed = copy_sockets(&copies, givers->servers[i]);
        if (!failed && !copies.count)
                failed = -EDOM;
        if (!failed)
                failed = weir__successor_start(successor, path, arguments, &copies);
        for (unsigned i = 0; i < copies.count; i++)
                close(copies.all[i].fd);
        weir__sockets_free(&copies);
        return failed;
}

/* While a successor starts, a stop leaves the files that the successor needs, even if its start fails in the end.  A stop that
 * began meanwhile has set `has_successor` already. */
static void
count_successor(const struct weir__givers *givers, int change, bool has_sockets)
{
        for (unsigned i = 0; i < givers->count; i++) {
                struct weir__server *server = givers->servers[i];

                weir__lock(&server->lock);
                server->successors += change;
                if (server->state == WEIR__SERVER_SERVING)
                        server->has_successor |= has_sockets;
                weir__unlock(&server->lock);
        }
}

/* Starts a program with the sockets of those servers, and waits until it serves, or one of `impatient` is readable.  Then the
 * new process has the sockets.
 *
 * Result: its process; negative as weir_http_server_inherit. */
static int
start(const struct weir__givers *givers, const char *path, char *const arguments[], weir_nsec within, const int impatient[2])
{
        struct weir__successor successor;

        count_successor(givers, 1, false);
        int failed = start_child(&successor, givers, path, arguments);
        failed = failed ? failed : weir__successor_wait(&successor, within, impatient);
        count_successor(givers, -1, !failed);
        return failed ? failed : (int)successor.pid;
}

int
weir__server_inherit(struct weir__server *server, const char *path, char *const arguments[], weir_nsec within)
{
        static const int nobody[2] = {-1, -1};
        const struct weir__givers givers = {&server, 1};
        int failed = weir__runtime_may_stop();

        if (failed || !server || !path || !arguments || !arguments[0])
                return failed ? failed : -EINVAL;
        return start(&givers, path, arguments, within, nobody);
}

/* -- this program, started anew -- */

/* The command that this program was started with. */
struct command {
        struct weir__memory_sink text; /* the arguments, each with a NUL */
        char **arguments;              /* into it; NULL behind the last one */
        const char *path;
        char file[PATH_MAX]; /* where `path` may lie */
};

static int
read_text(struct weir__memory_sink *text)
{
        int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
        char part[1024];
        ssize_t count;

        if (fd < 0)
                return -errno;
        while ((count = read(fd, part, sizeof part)) > 0)
                weir__sink_write(&text->sink, part, (size_t)count);
        int failed = count < 0 ? -errno : weir__sink_flush(&text->sink);
        close(fd);
        return failed || text->size ? failed : -ENOENT;
}

static int
split(struct command *command)
{
        char *at = command->text.bytes, *end = at + command->text.size;

        command->arguments = calloc(command->text.size + 1, sizeof *command->arguments); /* an argument may be empty */
        if (!command->arguments)
                return -ENOMEM;
        for (char **to = command->arguments; at < end; at += strlen(at) + 1)
                *to++ = at;
        return 0;
}

/* An absolute path is used as it is: it may be a link to the present release, which has changed.  Otherwise the program is the
 * file that runs, or the file that has replaced it: "/usr/bin/program (deleted)". */
static int
find_program(struct command *command)
{
        static const char deleted[] = " (deleted)";
        size_t tail = sizeof deleted - 1;

        if (command->arguments[0][0] == '/') {
                command->path = command->arguments[0];
                return 0;
        }
        ssize_t size = readlink("/proc/self/exe", command->file, sizeof command->file - 1);
        if (size < 0)
                return -errno;
        command->file[size] = '\0';
        if ((size_t)size > tail && strcmp(command->file + size - tail, deleted) == 0 && access(command->file, F_OK) < 0)
                command->file[(size_t)size - tail] = '\0';
        command->path = command->file;
        return 0;
}

int
weir__server_restart(const struct weir__givers *givers, weir_nsec within, const int impatient[2])
{
        struct command *command = calloc(1, sizeof *command);

        if (!command)
                return -ENOMEM;
        weir__memory_sink_init(&command->text);
        int result = read_text(&command->text);
        result = result ? result : split(command);
        result = result ? result : find_program(command);
        if (!result)
                result = start(givers, command->path, command->arguments, within, impatient);
        free(command->arguments);
        weir__memory_sink_done(&command->text);
        free(command);
        return result;
}
