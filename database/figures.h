/* database/figures.h: what the libraries beside libweir count, as text: the same for all of them.
 *
 * A library has a list of its things: pools, databases, clients, stores.  Their figures are read from the struct of its _stats.
 *
 * Threads: any.
 * Locks:   that of the list, above those of the things. */
#ifndef WEIR_DATABASE_FIGURES_H
#define WEIR_DATABASE_FIGURES_H

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/time.h>

/* What a field of the struct is: a gauge, but for the last two, which only grow. */
enum weir__figure_type { WEIR__FIGURE_UNSIGNED, WEIR__FIGURE_SIZE, WEIR__FIGURE_NUMBER, WEIR__FIGURE_COUNT, WEIR__FIGURE_TIME };

struct weir__figure {
        const char *name, *help;
        enum weir__figure_type type;
        size_t at; /* in the struct */
};

/* Begins a thing whose figures are written. */
struct weir__figured {
        const char *name; /* constant */
        struct weir__figured *older, *newer;
};

#define WEIR__FIGURES_SIZE 256 /* of a struct of stats, at most */

struct weir__figures {
        /* Constant. */
        const char *library; /* "pq": names begin with weir_pq_ */
        const char *label;   /* "pool" */
        const struct weir__figure *list;
        size_t count;
        void (*fill)(const struct weir__figured *thing, void *stats); /* under the lock */

        pthread_mutex_t lock;

        /* Guarded by lock. */
        struct weir__figured *newest;
        bool is_child;
};

static inline void
weir__figures_add(struct weir__figures *all, struct weir__figured *thing, const char *name)
{
        thing->name = name;
        pthread_mutex_lock(&all->lock);
        thing->older = all->newest;
        if (thing->older)
                thing->older->newer = thing;
        all->newest = thing;
        pthread_mutex_unlock(&all->lock);
}

static inline void
weir__figures_remove(struct weir__figures *all, struct weir__figured *thing)
{
        pthread_mutex_lock(&all->lock);
        if (thing->newer)
                thing->newer->older = thing->older;
        else if (all->newest == thing) /* else it is that of the parent */
                all->newest = thing->older;
        if (thing->older)
                thing->older->newer = thing->newer;
        pthread_mutex_unlock(&all->lock);
}

/* In a forked child.  The things belong to the parent, and the lock may be held by a thread that the child does not have. */
static inline void
weir__figures_forked(struct weir__figures *all)
{
        pthread_mutex_init(&all->lock, NULL);
        all->newest = NULL;
        all->is_child = true;
}

/* -- as text -- */

/* With a number behind it, if an older one has the same name. */
static inline void
weir__figures_print_name(FILE *text, const struct weir__figured *thing)
{
        unsigned number = 1;

        for (const char *name = thing->name; *name; name++)
                if (*name == '\n')
                        fputs("\\n", text);
                else
                        fprintf(text, *name == '"' || *name == '\\' ? "\\%c" : "%c", *name);
        for (const struct weir__figured *older = thing->older; older; older = older->older)
                number += strcmp(older->name, thing->name) == 0;
        if (number > 1)
                fprintf(text, "#%u", number);
}

static inline void
weir__figures_print_value(FILE *text, const void *at, enum weir__figure_type type)
{
        if (type == WEIR__FIGURE_TIME)
                fprintf(text, " %.9f\n", (double)*(const weir_nsec *)at / 1e9);
        else
                fprintf(text, " %" PRIu64 "\n",
                        type == WEIR__FIGURE_UNSIGNED ? *(const unsigned *)at
                        : type == WEIR__FIGURE_SIZE   ? *(const size_t *)at
                                                      : *(const uint64_t *)at);
}

/* Returns whether there is something to write. */
static inline bool
weir__figures_print(FILE *text, struct weir__figures *all)
{
        _Alignas(max_align_t) unsigned char stats[WEIR__FIGURES_SIZE];

        pthread_mutex_lock(&all->lock);
        bool is_there = all->newest || !all->is_child;
        for (const struct weir__figure *figure = all->list; figure < all->list + all->count; figure++) {
                fprintf(text, "# HELP weir_%s_%s %s\n# TYPE weir_%s_%s %s\n", all->library, figure->name, figure->help,
                        all->library, figure->name, figure->type >= WEIR__FIGURE_COUNT ? "counter" : "gauge");
                for (const struct weir__figured *thing = all->newest; thing; thing = thing->older) {
                        all->fill(thing, stats);
                        fprintf(text, "weir_%s_%s{%s=\"", all->library, figure->name, all->label);
                        weir__figures_print_name(text, thing);
                        fputs("\"}", text);
                        weir__figures_print_value(text, stats + figure->at, figure->type);
                }
        }
        pthread_mutex_unlock(&all->lock);
        return is_there;
}

/* 0; what write(2) reports; -ENOMEM; -ECHILD in a child of fork that has nothing of its own. */
static inline int
weir__figures_write(struct weir__figures *all, int fd)
{
        char *data = NULL;
        size_t size = 0;
        FILE *text = open_memstream(&data, &size);

        if (!text)
                return -ENOMEM;
        bool is_there = weir__figures_print(text, all), is_lost = ferror(text) != 0;
        is_lost |= fclose(text) != 0;
        int failed = is_lost ? -ENOMEM : is_there ? 0 : -ECHILD;
        for (size_t at = 0; at < size && !failed;) {
                ssize_t written = write(fd, data + at, size - at);

                if (written > 0)
                        at += (size_t)written;
                else if (written < 0 && errno != EINTR)
                        failed = -errno;
        }
        free(data);
        return failed;
}

#endif
