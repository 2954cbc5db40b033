/* test/reference_io_guide_test.c: the examples of the reference for headers of tasks that wait for the system.
 *
 * They run on the virtual clock. */
#include "test/fixture.h"

#include <errno.h>
#include <sys/socket.h>

/* -- weir/fd.h -- */

static void
note_status(weir_task *task, void *status)
{
        *(int *)status = weir_task_status(task);
}

static void
a_socket_is_waited_for(void)
{
        int ends[2], seen = 1, room = 1, urgent = 1, late = 1;

        CU_ASSERT_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
        weir_fd *fd = weir_fd_new(ends[0]);
        weir_task_start(weir_fd_readable_new(fd, note_status, &seen));
        weir_task_start(weir_fd_writable_new(fd, note_status, &room));
        weir_task_start(weir_fd_urgent_new(fd, note_status, &urgent));
        weir_clock_advance(0);
        CU_ASSERT(room == 0 && seen == 1); /* it has room, and nothing has come */
        CU_ASSERT(write(ends[1], "x", 1) == 1);
        weir_clock_advance(0);
        CU_ASSERT(seen == 0);
        weir_fd_wake(fd);
        weir_clock_advance(0);
        CU_ASSERT(urgent == -EINTR);
        weir_task_start(weir_fd_urgent_new(fd, note_status, &late));
        weir_fd_forget(fd); /* before close */
        close(ends[0]);
        weir_clock_advance(0);
        CU_ASSERT(late == -EBADF);
        close(ends[1]);
}

#define EXAMPLE(name)                      \
        static void run_##name(void)       \
        {                                  \
                weir_test_begin_virtual(); \
                name();                    \
                weir_test_end();           \
        }

EXAMPLE(a_socket_is_waited_for)

static const struct weir_test tests[] = {
        WEIR_TEST(run_a_socket_is_waited_for),
};

int
main(void)
{
        return weir_test_main("reference_io_guide", tests, sizeof tests / sizeof *tests);
}
