/* server/operate/restart.c: this program, started anew with the sockets of its servers.
 *
 * Threads: any that may wait; no state. */
#include "server/operate/restart.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
weir__restart(const struct weir__handover *handover, weir_nsec within, const int impatient[2])
{
        struct command *command = calloc(1, sizeof *command);
        int result = command ? read_command(command) : -ENOMEM;

        if (!result)
                result = weir__handover_start(handover, command->path, command->arguments, within, impatient);
        if (command) {
                free(command->arguments);
                free(command->text);
        }
        free(command);
        return result;
}
