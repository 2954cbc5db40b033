/* terminal-keys.c: single keys of a terminal, beside a clock that goes on.
 *
 *     terminal-keys                    each key is told; q or the end of the input ends it
 *
 * The terminal gives each key at once (tcsetattr), and a task waits for the next one.  With a key that was pressed in time the
 * flow goes on; a key that does not come for a while is a deadline. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <termios.h>
#include <unistd.h>

#include <weir/weir.h>

#define PATIENCE WEIR_SEC(10)

static weir_fd *keys;
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

static void on_key(weir_task *readable, void *context)
{
        weir_series *series = weir_series_of(readable);
        char key;

        (void)context;
        if (weir_task_status(readable) == -ETIMEDOUT)
                puts("no key came");
        if (weir_task_status(readable) != 0)
                return;
        /* The terminal may be blocking, because other processes share its settings.  It is readable, and nobody else reads. */
        ssize_t size = read(STDIN_FILENO, &key, 1);
        if (size <= 0 || key == 'q') {
                puts("the end");
                return;
        }
        printf("key %02x\n", (unsigned char)key);
        fflush(stdout);
        weir_series_set_deadline(series, PATIENCE);
        weir_series_push(series, weir_fd_readable_new(keys, on_key, NULL));
}

int main(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        if (!take_keys(STDIN_FILENO)) {
                perror("terminal-keys: the standard input");
                weir_series_dismiss(series);
                return 1;
        }
        keys = weir_fd_new(STDIN_FILENO);
        weir_series_push(series, weir_fd_readable_new(keys, on_key, NULL));
        weir_series_set_deadline(series, PATIENCE);
        int status = weir_series_run(series);
        weir_fd_forget(keys);
        give_back(STDIN_FILENO);
        weir_shutdown();
        return status == 0 || status == -ETIMEDOUT ? 0 : 1;
}
