/* server/operate/handover.c: listening sockets that go to another process.
 *
 * Threads: any that may wait.
 * Locks:   the server's, while the sockets are read: they stay until the state has changed. */
#include "server/operate/operate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel/socket/inherit.h"
#include "kernel/runtime/runtime.h"
#include "server/base/server.h"

static bool
is_open(struct weir__socket *socket)
{
        return atomic_load_explicit(&socket->users, memory_order_acquire) > 0;
}

int
weir_http_server_fds(weir_http_server *server, int *fds, size_t room)
{
        int failed = weir__runtime_may_stop();
        size_t count = 0;

        if (failed || !server || (!fds && room))
                return failed ? failed : -EINVAL;
        weir__lock(&server->lock);
        bool serves = server->state == WEIR__SERVER_SERVING;
        for (unsigned i = 0; serves && i < server->sockets.count; i++) {
                if (!is_open(&server->sockets.all[i]))
                        continue;
                if (count < room)
                        fds[count] = server->sockets.all[i].fd;
                count++;
        }
        weir__unlock(&server->lock);
        return count ? (int)count : -EDOM;
}

/* A copy with a descriptor of its own: a stop may come meanwhile. */
static int
copy_socket(struct weir__sockets *to, struct weir__socket *from)
{
        if (!weir__socket_join(from))
                return 0; /* the runtime has ended, and closed it */
        int fd = fcntl(from->fd, F_DUPFD_CLOEXEC, 0);
        int failed = fd < 0 ? -errno : 0;
        weir__socket_leave(from);
        struct weir__socket *copy = failed ? NULL : weir__sockets_add(to, fd);
        if (!copy) {
                if (fd >= 0)
                        close(fd);
                return failed ? failed : -ENOMEM;
        }
        copy->origin = from->origin;
        copy->said = from->said;
        copy->has_file = from->has_file;
        copy->device = from->device;
        copy->inode = from->inode;
        return 0;
}

static int
copy_sockets(struct weir__sockets *to, weir_http_server *server)
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
start_child(struct weir__heir *heir, const struct weir__handover *handover, const char *path, char *const arguments[])
{
        struct weir__sockets copies = {0};
        int failed = 0;

        for (unsigned i = 0; i < handover->count && !failed; i++)
                failed = copy_sockets(&copies, handover->servers[i]);
        if (!failed && !copies.count)
                failed = -EDOM;
        if (!failed)
                failed = weir__heir_start(heir, path, arguments, &copies);
        for (unsigned i = 0; i < copies.count; i++)
                close(copies.all[i].fd);
        weir__sockets_free(&copies);
        return failed;
}

/* From here on a stop leaves what the heir will need, even if that is not ready in the end. */
static void
begin_hand_over(weir_http_server *server)
{
        weir__lock(&server->lock);
        server->hand_overs++;
        weir__unlock(&server->lock);
}

/* A stop that has begun meanwhile has taken it for handed over. */
static void
end_hand_over(weir_http_server *server, bool is_done)
{
        weir__lock(&server->lock);
        server->hand_overs--;
        if (server->state == WEIR__SERVER_SERVING)
                server->is_handed_over |= is_done;
        weir__unlock(&server->lock);
}

/* Starts a program with the sockets of those servers, and waits until it serves, or one of `impatient` is readable.  Then the
 * sockets are handed over.
 *
 * Result: its process; negative as weir_http_server_inherit. */
static int
start(const struct weir__handover *handover, const char *path, char *const arguments[], weir_nsec within, const int impatient[2])
{
        struct weir__heir heir;

        for (unsigned i = 0; i < handover->count; i++)
                begin_hand_over(handover->servers[i]);
        int failed = start_child(&heir, handover, path, arguments);

        failed = failed ? failed : weir__heir_wait(&heir, within, impatient);
        for (unsigned i = 0; i < handover->count; i++)
                end_hand_over(handover->servers[i], !failed);
        return failed ? failed : (int)heir.pid;
}

int
weir_http_server_inherit(weir_http_server *server, const char *path, char *const arguments[], weir_nsec within)
{
        static const int nobody[2] = {-1, -1};
        const struct weir__handover handover = {&server, 1};
        int failed = weir__runtime_may_stop();

        if (failed || !server || !path || !arguments || !arguments[0])
                return failed ? failed : -EINVAL;
        return start(&handover, path, arguments, within, nobody);
}

int
weir_http_server_ready(void)
{
        int failed = weir__runtime_may_stop();

        failed = failed ? failed : weir__inherit();
        return failed ? failed : (int)weir__inherit_ready();
}

/* -- this program, started anew -- */

/* What the program was started with: strings, one after another. */
struct command {
        char *text;
        size_t size;
        char **arguments; /* into text */
        char path[PATH_MAX];
};

static int
read_all(int fd, struct command *command)
{
        size_t room = 0;

        for (;;) {
                if (room - command->size < 2) {
                        room = room * 2 + 4096;
                        char *text = realloc(command->text, room);
                        if (!text)
                                return -ENOMEM;
                        command->text = text;
                }
                ssize_t count = read(fd, command->text + command->size, room - command->size - 1);
                if (count < 0 && errno != EINTR)
                        return -errno;
                if (count == 0)
                        break;
                command->size += count > 0 ? (size_t)count : 0;
        }
        command->text[command->size] = '\0'; /* for a last one that has no end */
        return command->size ? 0 : -ENOENT;
}

static int
split(struct command *command)
{
        size_t count = 0;

        for (char *at = command->text; at < command->text + command->size; at += strlen(at) + 1)
                count++;
        command->arguments = calloc(count + 1, sizeof *command->arguments);
        if (!command->arguments)
                return -ENOMEM;
        count = 0;
        for (char *at = command->text; at < command->text + command->size; at += strlen(at) + 1)
                command->arguments[count++] = at;
        return 0;
}

/* An absolute path is taken as it was said: where it is a link to the present release, that is another one now.  Otherwise the
 * file that runs; or the one that has replaced it: "/usr/bin/program (deleted)". */
static int
find_program(struct command *command)
{
        static const char deleted[] = " (deleted)";
        size_t tail = sizeof deleted - 1;

        if (command->arguments[0][0] == '/') {
                if (strlen(command->arguments[0]) >= sizeof command->path)
                        return -ENAMETOOLONG;
                strcpy(command->path, command->arguments[0]);
                return 0;
        }
        ssize_t size = readlink("/proc/self/exe", command->path, sizeof command->path - 1);
        if (size < 0)
                return -errno;
        command->path[size] = '\0';
        if ((size_t)size > tail && strcmp(command->path + size - tail, deleted) == 0 && access(command->path, F_OK) < 0)
                command->path[(size_t)size - tail] = '\0';
        return 0;
}

static int
read_command(struct command *command)
{
        int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        int failed = read_all(fd, command);
        close(fd);
        failed = failed ? failed : split(command);
        return failed ? failed : find_program(command);
}

int
weir__handover_restart(const struct weir__handover *handover, weir_nsec within, const int impatient[2])
{
        struct command *command = calloc(1, sizeof *command);
        int result = command ? read_command(command) : -ENOMEM;

        if (!result)
                result = start(handover, command->path, command->arguments, within, impatient);
        if (command) {
                free(command->arguments);
                free(command->text);
        }
        free(command);
        return result;
}
