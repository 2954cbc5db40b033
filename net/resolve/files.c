/* net/resolve/files.c: the system's files about names.
 *
 *     fresh, for WEIR__FILES_FRESH --then--> somebody looks --a file has changed--> a new struct weir__name_files
 *                ^                                 \---none has--.
 *                '------------------------------------------------'
 *
 * Threads: weir__name_files_now on any; a look on a thread that may read files.  Two may look at once: the last one counts.
 * Locks:   files.lock, a leaf, for the pointer to the newest ones and the time of the look. */
#include "net/resolve/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "kernel/base/lock.h"
#include "kernel/base/phase.h"
#include "kernel/data/ascii.h"

#define FILE_MOST (16 * 1024 * 1024) /* bytes; what is behind is not read */

struct weir__name_paths weir__name_paths = {"/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf"};

static struct {
        struct weir__lock lock;

        /* Guarded by lock. */
        struct weir__name_files *newest; /* a reference; or NULL */
        weir_nsec looked_at;             /* in real time; 0: never, or it was forgotten */
        unsigned generations;
} files = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

static void
before_fork(void)
{
        weir__lock_hold(&files.lock);
}

static void
after_fork(void)
{
        weir__unlock(&files.lock);
}

/* No look-up is left. */
static void
drop(void)
{
        weir__lock(&files.lock);
        struct weir__name_files *before = files.newest;
        files.newest = NULL;
        files.looked_at = 0;
        weir__unlock(&files.lock);
        weir__name_files_unref(before);
}

WEIR__STEPS_OF(WEIR__MODULE_SERVERS, [WEIR__STEP_ENDED] = drop, [WEIR__STEP_BEFORE_FORK] = before_fork,
               [WEIR__STEP_AFTER_FORK] = after_fork, [WEIR__STEP_IN_CHILD] = after_fork);

/* -- hosts -- */

static int
compare(const char *one, size_t one_size, const char *other, size_t other_size)
{
        int result = memcmp(one, other, one_size < other_size ? one_size : other_size);

        return result ? result : one_size < other_size ? -1 : one_size > other_size;
}

static int
compare_hosts(const void *one, const void *other)
{
        const struct weir__host *left = one, *right = other;
        int result = compare(left->name, left->size, right->name, right->size);

        return result ? result : left->number < right->number ? -1 : 1;
}

/* The next word of a line, and its size; NULL: there is none. */
static char *
next_word(char **at, const char *end, size_t *size)
{
        while (*at < end && (**at == ' ' || **at == '\t' || **at == '\r'))
                ++*at;
        char *word = *at;
        while (*at < end && **at != ' ' && **at != '\t' && **at != '\r')
                ++*at;
        *size = (size_t)(*at - word);
        return *size ? word : NULL;
}

static bool
add_host(struct weir__hosts *hosts, size_t *room, const char *name, size_t size, const struct weir__socket_address *address)
{
        if (hosts->count == *room) {
                size_t more = *room ? 2 * *room : 16;
                struct weir__host *all = realloc(hosts->all, more * sizeof *all);

                if (!all)
                        return false;
                hosts->all = all;
                *room = more;
        }
        hosts->all[hosts->count] = (struct weir__host){name, (uint32_t)size, (uint32_t)hosts->count, *address};
        hosts->count++;
        return true;
}

static bool
read_host_line(struct weir__hosts *hosts, size_t *room, char *at, const char *end)
{
        struct weir__address address;
        const char *reason;
        size_t size;
        char *word = next_word(&at, end, &size);

        if (!word || weir__address_set_host(&address, word, size, 0, &reason) != 0 || address.kind != WEIR__ADDRESS_LITERAL)
                return true;
        while ((word = next_word(&at, end, &size))) {
                for (size_t i = 0; i < size; i++)
                        word[i] = weir__to_lower(word[i]);
                if (!add_host(hosts, room, word, size, &address.name))
                        return false;
        }
        return true;
}

static void
free_hosts(struct weir__hosts *hosts)
{
        free(hosts->text);
        free(hosts->all);
        *hosts = (struct weir__hosts){0};
}

/* Takes over the text of a file of hosts, and changes it.  Result: 0 or -ENOMEM, and then the text is freed. */
static int
read_hosts(struct weir__hosts *hosts, char *text, size_t size)
{
        size_t room = 0;

        *hosts = (struct weir__hosts){.text = text};
        for (char *line = text, *end = text + size, *next; line < end; line = next + 1) {
                next = memchr(line, '\n', (size_t)(end - line));
                next = next ? next : end;
                const char *comment = memchr(line, '#', (size_t)(next - line));
                if (!read_host_line(hosts, &room, line, comment ? comment : next)) {
                        free_hosts(hosts);
                        return -ENOMEM;
                }
        }
        if (hosts->count)
                qsort(hosts->all, hosts->count, sizeof *hosts->all, compare_hosts);
        return 0;
}

unsigned
weir__hosts_find(const struct weir__hosts *hosts, const char *name, size_t size, int family, struct weir__socket_address *to,
                 unsigned room)
{
        size_t low = 0, high = hosts->count;
        unsigned found = 0;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (compare(hosts->all[middle].name, hosts->all[middle].size, name, size) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        for (; low < hosts->count && found < room; low++) {
                const struct weir__host *host = &hosts->all[low];

                if (compare(host->name, host->size, name, size) != 0)
                        break;
                if (!family || host->address.any.sa_family == family)
                        to[found++] = host->address;
        }
        return found;
}

/* -- nsswitch.conf -- */

/* The rest of the line that begins with "hosts:"; NULL: there is none. */
static const char *
find_line(const char *text)
{
        static const char key[] = "hosts:";

        for (const char *line = text; line; line = strchr(line, '\n')) {
                line += strspn(line, " \t\n");
                if (strncmp(line, key, strlen(key)) == 0)
                        return line + strlen(key);
                if (!*line)
                        break;
        }
        return NULL;
}

enum weir__name_order
weir__name_order_read(const char *text)
{
        bool has_files = false, has_dns = false, is_dns_first = false;
        const char *at = find_line(text);

        if (!at)
                return WEIR__ORDER_FILES_DNS;
        for (;;) {
                at += strspn(at, " \t\r");
                size_t size = strcspn(at, " \t\r\n#[");
                if (*at == '[')
                        return WEIR__ORDER_SYSTEM;
                if (!size)
                        break;
                if (size == 5 && memcmp(at, "files", size) == 0)
                        has_files = true;
                else if (size == 3 && memcmp(at, "dns", size) == 0)
                        has_dns = true;
                else
                        return WEIR__ORDER_SYSTEM;
                is_dns_first |= has_dns && !has_files;
                at += size;
        }
        if (has_files && has_dns)
                return is_dns_first ? WEIR__ORDER_DNS_FILES : WEIR__ORDER_FILES_DNS;
        return has_files ? WEIR__ORDER_FILES : has_dns ? WEIR__ORDER_DNS : WEIR__ORDER_FILES_DNS;
}

/* -- the files -- */

static struct weir__file_stamp
stamp_of(const char *path)
{
        struct stat status;

        if (stat(path, &status) < 0)
                return (struct weir__file_stamp){0};
        return (struct weir__file_stamp){status.st_dev, status.st_ino, status.st_size, status.st_mtim};
}

static bool
is_same(const struct weir__file_stamp *one, const struct weir__file_stamp *other)
{
        return one->device == other->device && one->inode == other->inode && one->size == other->size &&
               one->changed.tv_sec == other->changed.tv_sec && one->changed.tv_nsec == other->changed.tv_nsec;
}

/* A terminated text, and its size; "" for a file that cannot be read.  NULL when out of memory. */
static char *
read_file(const char *path, size_t *size)
{
        size_t room = 4096;
        char *text = malloc(room);
        int fd = text ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        ssize_t got = 1;

        *size = 0;
        while (fd >= 0 && got != 0) {
                got = read(fd, text + *size, room - *size - 1);
                if (got < 0 && errno != EINTR)
                        break;
                *size += got > 0 ? (size_t)got : 0;
                if (room - *size > 1)
                        continue;
                char *more = room < FILE_MOST ? realloc(text, 2 * room) : NULL;
                if (!more && room < FILE_MOST) {
                        free(text);
                        text = NULL;
                }
                if (!more)
                        break;
                text = more;
                room *= 2;
        }
        if (fd >= 0)
                close(fd);
        if (text)
                text[*size] = '\0';
        return text;
}

void
weir__name_files_unref(struct weir__name_files *self)
{
        if (!self || atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) != 1)
                return;
        free_hosts(&self->hosts);
        free(self);
}

static struct weir__name_files *
read_all(const struct weir__file_stamp stamps[3])
{
        struct weir__name_files *self = calloc(1, sizeof *self);
        size_t size;
        char *text = self ? read_file(weir__name_paths.nsswitch, &size) : NULL;

        if (!text) {
                free(self);
                return NULL;
        }
        atomic_init(&self->references, 1);
        memcpy(self->stamps, stamps, sizeof self->stamps);
        self->order = weir__name_order_read(text);
        free(text);
        text = read_file(weir__name_paths.hosts, &size);
        if (text && read_hosts(&self->hosts, text, size) == 0)
                return self;
        free(self);
        return NULL;
}

/* Under the lock. */
static struct weir__name_files *
share(void)
{
        if (files.newest)
                atomic_fetch_add_explicit(&files.newest->references, 1, memory_order_relaxed);
        return files.newest;
}

struct weir__name_files *
weir__name_files_now(void)
{
        weir_nsec now = weir__clock_monotonic();

        weir__lock(&files.lock);
        struct weir__name_files *self = files.looked_at && now - files.looked_at < WEIR__FILES_FRESH ? share() : NULL;
        weir__unlock(&files.lock);
        return self;
}

/* Takes the reference of the newest one, and returns one. */
static struct weir__name_files *
publish(struct weir__name_files *self, weir_nsec now)
{
        weir__lock(&files.lock);
        struct weir__name_files *before = files.newest;
        bool has_changed = !before || !is_same(&before->stamps[2], &self->stamps[2]);
        self->generation = has_changed ? ++files.generations : before->generation;
        files.newest = self;
        files.looked_at = now;
        (void)share();
        weir__unlock(&files.lock);
        weir__name_files_unref(before);
        return self;
}

struct weir__name_files *
weir__name_files_look(void)
{
        weir_nsec now = weir__clock_monotonic();
        const struct weir__file_stamp stamps[3] = {stamp_of(weir__name_paths.hosts), stamp_of(weir__name_paths.nsswitch),
                                                   stamp_of(weir__name_paths.resolv)};
        struct weir__name_files *self;

        weir__lock(&files.lock);
        self = share();
        bool is_new = self && is_same(&stamps[0], &self->stamps[0]) && is_same(&stamps[1], &self->stamps[1]) &&
                      is_same(&stamps[2], &self->stamps[2]);
        if (is_new)
                files.looked_at = now;
        weir__unlock(&files.lock);
        if (is_new)
                return self;
        weir__name_files_unref(self);
        self = read_all(stamps);
        return self ? publish(self, now) : NULL;
}

void
weir__name_files_forget(void)
{
        weir__lock(&files.lock);
        files.looked_at = 0;
        weir__unlock(&files.lock);
}
