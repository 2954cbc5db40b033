/* terminal-keys.c: single keys of a terminal, beside a clock that goes on.
 *
 *     terminal-keys                    each key is told; q or the end of the input ends it
 *
 * The terminal gives each key at once (tcsetattr).  A fiber waits for the next one, for a while. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <termios.h>
#include <unistd.h>

#include <weir/weir.h>

#define PATIENCE WEIR_SEC(10)

static struct termios before;

/* Keys come as they are pressed, and are not shown.  Ctrl-C remains a signal. */
static bool take_keys(int terminal)
{
        struct termios raw;

        if (tcgetattr(terminal, &before) < 0)
                return false;
        raw = before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 1;
        raw.c_cc[VTIME] = 0;
        return tcsetattr(terminal, TCSANOW, &raw) == 0;
}

static void give_back(int terminal)
{
        tcsetattr(terminal, TCSANOW, &before);
}

static int read_keys(void *context)
{
        weir_fd *keys = context;
        int err;

        while (!(err = weir_await_within(weir_fd_readable_new(keys, NULL, NULL), PATIENCE))) {
                char key;
                /* The terminal may be blocking, because other processes share its settings.  It is readable, and nobody else
                 * reads. */
                ssize_t size = read(STDIN_FILENO, &key, 1);

                if (size <= 0 || key == 'q') {
                        puts("the end");
                        return 0;
                }
                printf("key %02x\n", (unsigned char)key);
                fflush(stdout);
        }
        if (err == -ETIMEDOUT)
                puts("no key came");
        return err;
}

int main(void)
{
        if (!take_keys(STDIN_FILENO)) {
                perror("terminal-keys: the standard input");
                return 1;
        }
        weir_fd *keys = weir_fd_new(STDIN_FILENO);
        int status = weir_task_run(weir_fiber_new(read_keys, NULL, keys));
        weir_fd_forget(keys);
        give_back(STDIN_FILENO);
        weir_shutdown();
        return status == 0 || status == -ETIMEDOUT ? 0 : 1;
}
