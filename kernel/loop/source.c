/* kernel/loop/source.c: descriptors that are registered with a poller.
 *
 * Threads: the owner of the poller.
 * Locks:   none.
 *
 * Edge-triggered, registered once.  A source that is removed leaves a slot of another generation, so an event that was on its way
 * finds no source. */
#include "kernel/loop/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/base/panic.h"
#include "kernel/loop/poller.h"
#include "kernel/data/prefetch.h"

#define SLOTS_FIRST    64
#define NUMBERS_FIRST  64
#define PREFETCH_BYTES 384 /* bytes from a source on, of a connection for example, that its event will use */

static int
control(const struct weir__poller *poller, int operation, int fd, uint32_t events, uint64_t data)
{
        bool is_level = events & WEIR__EVENT_LEVEL;
        struct epoll_event event = {.events = is_level ? events ^ WEIR__EVENT_LEVEL : (events & ~WEIR__EVENT_STEADY) | EPOLLET,
                                    .data.u64 = data};

        return epoll_ctl(poller->epoll_fd, operation, fd, &event) < 0 ? -errno : 0;
}

int
weir__sources_register(struct weir__poller *poller, int fd, uint32_t events, uint64_t data)
{
        return control(poller, EPOLL_CTL_ADD, fd, events, data);
}

static uint64_t
data_of(const struct weir__poller *poller, uint32_t slot)
{
        return (uint64_t)poller->slots[slot].generation << 32 | slot;
}

static uintptr_t
next_free(uint32_t slot)
{
        return 2 * (uintptr_t)slot + 1;
}

/* There is no free slot: makes one.  The part of the table that is not used yet takes no memory. */
static int
make_slot(struct weir__poller *poller)
{
        if (poller->slot_count == poller->slot_room) {
                uint32_t room = poller->slot_room ? poller->slot_room * 2 : SLOTS_FIRST;
                struct weir__source_slot *slots = realloc(poller->slots, room * sizeof *slots);

                if (!slots)
                        return -ENOMEM;
                poller->slots = slots;
                poller->slot_room = room;
        }
        poller->slots[poller->slot_count] = (struct weir__source_slot){.next_free = next_free(WEIR__SLOT_NONE)};
        poller->free_slot = poller->slot_count++;
        return 0;
}

/* The part that is not used yet takes no memory. */
static int
grow_numbers(struct weir__poller *poller, uint32_t least)
{
        uint32_t count = poller->number_count ? poller->number_count : NUMBERS_FIRST;

        while (count <= least)
                count *= 2;
        uint32_t *numbers = calloc(count, sizeof *numbers);
        if (!numbers)
                return -ENOMEM;
        if (poller->numbers)
                memcpy(numbers, poller->numbers, poller->number_count * sizeof *numbers);
        free(poller->numbers);
        poller->numbers = numbers;
        poller->number_count = count;
        return 0;
}

/* 1 + the slot of the source that was noted last for that number; 0: none was. */
static uint32_t
slot_of_number(const struct weir__poller *poller, int fd)
{
        return fd >= 0 && (uint32_t)fd < poller->number_count ? poller->numbers[fd] : 0;
}

/* The source that was noted last for that number, if it is still there; else NULL. */
static struct weir__source *
source_of_number(const struct weir__poller *poller, int fd)
{
        uint32_t slot = slot_of_number(poller, fd);
        struct weir__source *source = slot ? weir__slot_source(&poller->slots[slot - 1]) : NULL;

        return source && source->fd == fd ? source : NULL;
}

/* The same by a look at all of them: also one that is steady. */
static __attribute__((cold, noinline)) bool
has_source(const struct weir__poller *poller, int fd)
{
        const struct weir__source *source;
        uint32_t slot = 0;

        while ((source = weir__source_next(poller, &slot)) && source->fd != fd)
                continue;
        return source;
}

/* Notes which source has that number now.  Result: 0 or -ENOMEM. */
static int
note_number(struct weir__poller *poller, int fd, uint32_t slot, bool is_steady)
{
        if (is_steady && !slot_of_number(poller, fd))
                return 0;
        if ((uint32_t)fd >= poller->number_count && grow_numbers(poller, (uint32_t)fd) != 0)
                return -ENOMEM;
        poller->numbers[fd] = slot + 1;
        return 0;
}

int
weir__source_add_over(struct weir__poller *poller, struct weir__source *source, uint32_t events, struct weir__source **before)
{
        int failed = poller->free_slot == WEIR__SLOT_NONE ? make_slot(poller) : 0;

        if (failed)
                return failed;
        uint32_t number = poller->free_slot;
        struct weir__source_slot *slot = &poller->slots[number];
        failed = weir__sources_register(poller, source->fd, events, data_of(poller, number));
        if (failed == -EEXIST && !has_source(poller, source->fd)) /* what is left of one that was withdrawn */
                failed = control(poller, EPOLL_CTL_MOD, source->fd, events, data_of(poller, number));
        if (failed)
                return failed;
        struct weir__source *replaced = source_of_number(poller, source->fd);
        if (note_number(poller, source->fd, number, events & WEIR__EVENT_STEADY) != 0) {
                epoll_ctl(poller->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
                return -ENOMEM;
        }
        source->slot = number;
        poller->free_slot = (uint32_t)(slot->next_free / 2);
        slot->source = source;
        *before = replaced;
        return 0;
}

int
weir__source_add(struct weir__poller *poller, struct weir__source *source, uint32_t events)
{
        struct weir__source *before = NULL;
        int failed = weir__source_add_over(poller, source, events, &before);

        if (__builtin_expect(before && before->ops != source->ops, 0))
                before->ops->ready(before, WEIR__EVENT_DISPLACED);
        return failed;
}

/* Epoll knows a registration by the number and the open file.  If the number belongs to another source by now, this call would
 * change the registration of that one. */
int
weir__source_rearm(struct weir__poller *poller, const struct weir__source *source, uint32_t events)
{
        if (poller->numbers[source->fd] != source->slot + UINT32_C(1))
                return -ENOENT;
        return control(poller, EPOLL_CTL_MOD, source->fd, events, data_of(poller, source->slot));
}

void
weir__source_remove(struct weir__poller *poller, struct weir__source *source)
{
        struct weir__source_slot *slot = &poller->slots[source->slot];

        if (slot->source != source)
                weir__panic("source of descriptor %d removed twice", source->fd);
        slot->generation = (slot->generation + 1) & 0x7fffffff; /* never the data of the descriptors of our own */
        slot->next_free = next_free(poller->free_slot);
        poller->free_slot = source->slot;
}

void
weir__source_withdraw(struct weir__poller *poller, struct weir__source *source)
{
        weir__source_remove(poller, source);
        epoll_ctl(poller->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
}

struct weir__source *
weir__source_next(const struct weir__poller *poller, uint32_t *slot)
{
        struct weir__source *source = NULL;

        while (!source && *slot < poller->slot_count)
                source = weir__slot_source(&poller->slots[(*slot)++]);
        return source;
}

void
weir__sources_shutdown(struct weir__poller *poller)
{
        struct weir__source *source;

        for (uint32_t slot = 0; (source = weir__source_next(poller, &slot));)
                source->ops->shutdown(source);
}

void
weir__sources_destroy(struct weir__poller *poller)
{
        struct weir__source *source;

        for (uint32_t slot = 0; (source = weir__source_next(poller, &slot));)
                source->ops->destroy(source);
}

void
weir__sources_prefetch(const struct weir__poller *poller, const struct epoll_event *events, int count)
{
        for (int i = 0; i < count; i++) {
                uint32_t index = (uint32_t)events[i].data.u64;

                if (events[i].data.u64 < WEIR__SLOT_SIGNAL && index < poller->slot_count)
                        weir__prefetch(poller->slots[index].source, PREFETCH_BYTES);
        }
}

static void (*on_signal)(void);

void
weir__sources_on_signal(void (*fn)(void))
{
        on_signal = fn;
}

void
weir__sources_close(struct weir__poller *poller)
{
        free(poller->numbers);
        free(poller->slots);
        poller->numbers = NULL;
        poller->slots = NULL;
        poller->number_count = poller->slot_count = poller->slot_room = 0;
}

/* Edge-triggered, so neither eventfds nor timerfds have to be read. */
static void
dispatch_own(struct weir__poller *poller, uint64_t data)
{
        if (data == WEIR__SLOT_CLOCK_CHANGE)
                weir__clock_timers_event(poller);
        else if (data == WEIR__SLOT_SIGNAL)
                on_signal();
}

void
weir__sources_dispatch(struct weir__poller *poller, const struct epoll_event *event)
{
        uint64_t data = event->data.u64;
        uint32_t index = (uint32_t)data;

        if (data >= WEIR__SLOT_SIGNAL) {
                dispatch_own(poller, data);
                return;
        }
        if (index >= poller->slot_count)
                return;
        struct weir__source_slot *slot = &poller->slots[index];
        if (slot->generation == data >> 32)
                slot->source->ops->ready(slot->source, event->events);
}
