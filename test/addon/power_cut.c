/* test/addon/power_cut.c: a library to preload, by which a test can cut the power of a process.
 *
 * Behind each sync of a file there is a copy of it, FILE.synced, which is what a disk has at least.  When the process was
 * killed, the test puts the copies in place of the files: so all writes are lost that no sync has followed.
 *
 * WEIR_TEST_POWER_CUT is the number of a sync at which the process kills itself, before it or just behind it; 0: none. */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

int fsync(int fd);
int fdatasync(int fd);

/* One copy at a time: a checkpoint syncs the WAL while another connection writes to it, and syncs it, too.  Two copies into one
 * file would be none, and the older one must not replace the newer one. */
static pthread_mutex_t copying = PTHREAD_MUTEX_INITIALIZER;

/* The copy appears as a whole. */
static void
copy(int fd)
{
        char link[40], path[PATH_MAX], synced[PATH_MAX + 10], fresh[PATH_MAX + 10];
        struct stat status;
        off_t offset = 0;

        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t size = readlink(link, path, sizeof path - 1);
        if (size < 0 || fstat(fd, &status) || !S_ISREG(status.st_mode))
                return;
        path[size] = '\0';
        snprintf(synced, sizeof synced, "%s.synced", path);
        snprintf(fresh, sizeof fresh, "%s.fresh", path);
        int in = open(link, O_RDONLY | O_CLOEXEC), out = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        while (in >= 0 && out >= 0 && offset < status.st_size)
                if (sendfile(out, in, &offset, (size_t)(status.st_size - offset)) <= 0)
                        break;
        if (in >= 0)
                close(in);
        if (out >= 0)
                close(out);
        if (offset == status.st_size)
                rename(fresh, synced);
}

static int
sync_and_copy(const char *name, int fd)
{
        int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
        const char *cut = getenv("WEIR_TEST_POWER_CUT");
        static atomic_int count;
        bool is_last = cut && atomic_fetch_add(&count, 1) + 1 == atoi(cut);

        if (is_last && atoi(cut) % 2)
                raise(SIGKILL);
        int result = real(fd);
        if (is_last)
                raise(SIGKILL);
        pthread_mutex_lock(&copying);
        if (result == 0)
                copy(fd);
        pthread_mutex_unlock(&copying);
        return result;
}

int
fsync(int fd)
{
        return sync_and_copy("fsync", fd);
}

int
fdatasync(int fd)
{
        return sync_and_copy("fdatasync", fd);
}
