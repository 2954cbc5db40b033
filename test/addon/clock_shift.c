/* test/addon/clock_shift.c: a library to preload, by which a test makes the wall clock of a process wrong.
 *
 * WEIR_TEST_CLOCK names a file with a number of nanoseconds, which is added to the wall clock.  The test may write another one at
 * any time.  The monotonic clock is as it is. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const _Atomic int64_t *shift;

__attribute__((constructor)) static void
begin(void)
{
        const char *path = getenv("WEIR_TEST_CLOCK");
        int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        void *memory = fd >= 0 ? mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

        if (fd >= 0)
                close(fd);
        if (memory != MAP_FAILED)
                shift = memory;
}

static int64_t
wall(void)
{
        struct timespec now;

        syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
        return now.tv_sec * INT64_C(1000000000) + now.tv_nsec + (shift ? *shift : 0);
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
        if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
                int64_t at = wall();

                *now = (struct timespec){at / 1000000000, at % 1000000000};
                return 0;
        }
        return (int)syscall(SYS_clock_gettime, clock, now);
}

int
gettimeofday(struct timeval *restrict now, void *restrict zone)
{
        int64_t at = wall();

        (void)zone;
        *now = (struct timeval){at / 1000000000, at % 1000000000 / 1000};
        return 0;
}

time_t
time(time_t *now)
{
        time_t at = wall() / 1000000000;

        if (now)
                *now = at;
        return at;
}
