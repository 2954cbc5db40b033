/* kernel/stack/arena.c: arenas of 64 MiB, cut into slots of one size.
 *
 *      a slot:   fresh --taken--> out <--> idle: free, and its pages are in memory
 *                                 out <--- blank <--its pages go back-- idle
 *      an arena: new --> has free slots <--> has none
 *                wasteful, for a second --> its idle slots lose their pages;  has no slot out --> kept, or unmapped
 *
 * What is known about the slots lies before them: a stack that sleeps touches nothing but its own page.
 *
 * Threads: one lock, a leaf, guards all.  Under it are no system calls, and at most some hundred steps.
 *
 * Invariants:
 *   - an arena is in the list if and only if it has free slots of the present size;
 *   - an arena that is wasteful, or has no slot out, waits, but for the kept one;
 *   - while arenas wait, somebody tends to them (stack.h), or is about to be asked to.
 * A slot whose pages are being given back counts as out.
 *
 * An arena is wasteful when it has more idle slots than slots that are out, and more than FEW_IDLE.  It loses the pages of its
 * idle slots when it has been so for DECAY: a page that goes and comes back costs more than all else that a fiber does.  An arena
 * that has no slot out for as long is unmapped; one is kept.
 *
 * A stack that was used deeply keeps many pages, and would keep them for its next user, who may need one.  So some of the stacks
 * that come back are looked at, and where one of these is deep so are the others of its chain.  Deep ones lose all pages but the
 * first.  DEEP_MOST of them may stay as they are: where each fiber recurses deeply, the next one needs these pages again, and
 * touching a page costs more than all else here.
 *
 * Fork: stack.c holds the lock meanwhile, so the child finds all this whole. */
#include "kernel/stack/arena.h"

#include <errno.h>

#include "kernel/base/clock.h"
#include "kernel/base/lock.h"

#define FEW_IDLE  16          /* slots: an arena may have as many whatever else it has */
#define DECAY     WEIR_SEC(1) /* so long an arena may be wasteful */
#define DEEP_MOST 64          /* free stacks that may stay deep */
#define SAMPLE    32          /* of so many stacks that come back one is looked at */

bool (*weir__stack_call_tender)(weir_nsec due);

static struct {
        struct weir__lock lock;

        /* Guarded by lock. */
        struct weir__list arenas;  /* with free slots */
        struct weir__arena *kept;  /* the one of them that has no slot out and does not wait; NULL: none */
        struct weir__list waiting; /* by the time until which they wait */
        bool is_tended;            /* somebody was asked to tend, and has not found that nothing waits */
        unsigned deep;             /* free stacks */
        size_t out, made;          /* slots */
        size_t size;               /* usable bytes of a stack in a new arena; 0: not known yet */
} all = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

/* What is given back after the lock was released. */
struct garbage {
        bool should_keep;
        struct weir__list arenas;     /* to be unmapped */
        struct weir__arena *wasteful; /* loses the pages of `idle`, which count as out meanwhile; NULL: none */
        struct weir__stack *idle;
};

/* -- arenas, with the lock held -- */

static bool
has_free(const struct weir__arena *arena)
{
        return arena->idle || arena->blank || arena->bare || arena->fresh < arena->count;
}

static bool
is_present(const struct weir__arena *arena)
{
        return arena->slot == arena->guard + all.size;
}

static struct weir__stack *
pop(struct weir__stack **list)
{
        struct weir__stack *first = *list;

        *list = first->next;
        return first;
}

static void
push(struct weir__stack **list, struct weir__stack *stack)
{
        stack->next = *list;
        *list = stack;
}

/* A free slot of an arena that has one. */
static struct weir__stack *
take_slot(struct weir__arena *arena)
{
        struct weir__stack *stack;

        if (arena->idle) {
                stack = pop(&arena->idle);
                arena->idle_count--;
        } else if (arena->blank) {
                stack = pop(&arena->blank);
        } else if (arena->bare) {
                stack = pop(&arena->bare);
        } else {
                stack = &arena->stacks[arena->fresh++];
                all.made++;
        }
        all.deep -= stack->is_deep;
        stack->is_deep = false;
        arena->out++;
        all.out++;
        return stack;
}

static bool
is_wasteful(const struct weir__arena *arena)
{
        return !arena->out || arena->idle_count > FEW_IDLE + arena->out;
}

static void
end_wait(struct weir__arena *arena)
{
        if (weir__link_is_used(&arena->waiting))
                weir__link_remove(&arena->waiting);
}

static void
note_taken(struct weir__arena *arena)
{
        if (!has_free(arena))
                weir__link_remove(&arena->link);
        if (arena == all.kept)
                all.kept = NULL;
        if (!is_wasteful(arena))
                end_wait(arena);
}

/* So many slots of one arena, or fewer, in order.  NULL: there are none. */
static struct weir__stack *
take_slots(unsigned most)
{
        struct weir__link *link = weir__list_first(&all.arenas);
        struct weir__stack *chain = NULL, **end = &chain;

        if (!link)
                return NULL;
        struct weir__arena *arena = weir__container_of(link, struct weir__arena, link);
        for (; most && has_free(arena); most--) {
                *end = take_slot(arena);
                end = &(*end)->next;
        }
        *end = NULL;
        note_taken(arena);
        return chain;
}

/* A slot with a guard, wherever it is. */
static struct weir__stack *
take_guarded(void)
{
        for (struct weir__link *link = weir__list_first(&all.arenas); link; link = weir__list_next(&all.arenas, link)) {
                struct weir__arena *arena = weir__container_of(link, struct weir__arena, link);

                if (!arena->idle && !arena->blank)
                        continue;
                struct weir__stack *stack = take_slot(arena);
                stack->next = NULL;
                note_taken(arena);
                return stack;
        }
        return NULL;
}

/* No slot of the arena is out any more. */
static void
drop_arena(struct weir__arena *arena, struct garbage *garbage)
{
        end_wait(arena);
        if (garbage->should_keep && is_present(arena) && !all.kept) {
                all.kept = arena;
                return;
        }
        for (struct weir__stack *stack = arena->idle; stack; stack = stack->next)
                all.deep -= stack->is_deep;
        all.made -= arena->fresh;
        if (weir__link_is_used(&arena->link))
                weir__link_remove(&arena->link);
        weir__list_append(&garbage->arenas, &arena->link);
}

/* The idle slots count as out from now on. */
static void
take_idle(struct weir__arena *arena, struct garbage *garbage)
{
        for (struct weir__stack *stack = arena->idle; stack; stack = stack->next) {
                all.deep -= stack->is_deep;
                stack->is_deep = false;
        }
        garbage->wasteful = arena;
        garbage->idle = arena->idle;
        arena->out += arena->idle_count;
        all.out += arena->idle_count;
        arena->idle = NULL;
        arena->idle_count = 0;
        if (!has_free(arena) && weir__link_is_used(&arena->link))
                weir__link_remove(&arena->link);
}

/* What an arena has too much of goes. */
static void
end_arena_waste(struct weir__arena *arena, struct garbage *garbage)
{
        end_wait(arena);
        if (!arena->out)
                drop_arena(arena, garbage);
        else if (is_wasteful(arena))
                take_idle(arena, garbage);
}

static struct weir__arena *
first_waiting(void)
{
        struct weir__link *link = weir__list_first(&all.waiting);

        return link ? weir__container_of(link, struct weir__arena, waiting) : NULL;
}

static void
note_free(struct weir__arena *arena, unsigned count)
{
        arena->out -= count;
        all.out -= count;
        if (!weir__link_is_used(&arena->link) && is_present(arena))
                weir__list_prepend(&all.arenas, &arena->link);
}

static void
put_slot(struct weir__stack *stack)
{
        struct weir__arena *arena = weir__arena_of(stack);

        if (stack->is_guarded) {
                push(&arena->idle, stack);
                arena->idle_count++;
        } else {
                push(&arena->bare, stack);
        }
        all.deep += stack->is_deep;
        note_free(arena, 1);
        if (!is_wasteful(arena) || weir__link_is_used(&arena->waiting))
                return;
        arena->waits_until = weir__clock_monotonic() + DECAY;
        weir__list_append(&all.waiting, &arena->waiting);
}

/* -- pages, without the lock -- */

/* A few deep stacks stay so: `deep` of them are free by now. */
static void
look_at_depth(struct weir__stack *stack, unsigned *deep)
{
        if (!stack->is_guarded || !weir__slots_is_deep(stack))
                return;
        if (++*deep <= DEEP_MOST)
                stack->is_deep = true;
        else
                weir__slots_make_shallow(stack);
}

/* Looks at one stack in SAMPLE, and at all of a chain where that one is deep. */
static void
trim_chain(struct weir__stack *chain)
{
        unsigned i = 0, deep;

        weir__lock(&all.lock);
        deep = all.deep;
        weir__unlock(&all.lock);
        for (struct weir__stack *stack = chain; stack; stack = stack->next, i++) {
                if (i % SAMPLE || !stack->is_guarded || !weir__slots_is_deep(stack))
                        continue;
                for (stack = chain; stack; stack = stack->next)
                        look_at_depth(stack, &deep);
                return;
        }
}

static void
end_waste(struct garbage *garbage)
{
        struct weir__arena *arena = garbage->wasteful;
        unsigned count = 0;

        weir__slots_drop(arena, garbage->idle);
        weir__lock(&all.lock);
        for (struct weir__stack *next; garbage->idle; garbage->idle = next, count++) {
                next = garbage->idle->next;
                push(&arena->blank, garbage->idle);
        }
        note_free(arena, count);
        if (!arena->out)
                drop_arena(arena, garbage);
        weir__unlock(&all.lock);
}

static void
give_back(struct garbage *garbage)
{
        if (garbage->wasteful)
                end_waste(garbage);
        for (struct weir__link *link; (link = weir__list_pop(&garbage->arenas));)
                weir__slots_unmap(weir__container_of(link, struct weir__arena, link));
}

/* -- the interface -- */

size_t
weir__arenas_stack_size(void)
{
        size_t size;

        weir__lock(&all.lock);
        size = all.size;
        weir__unlock(&all.lock);
        return size ? size : weir__slots_size(0);
}

/* Two threads may come here at once for want of one slot: then there is one arena too many. */
static struct weir__stack *
take_of_new_arena(unsigned most)
{
        size_t size = weir__arenas_stack_size();
        struct weir__arena *arena = weir__slots_map(size);
        struct weir__stack *chain;

        if (!arena)
                return NULL;
        weir__lock(&all.lock);
        if (!all.size)
                all.size = size;
        weir__list_prepend(&all.arenas, &arena->link);
        chain = take_slots(most);
        weir__unlock(&all.lock);
        return chain;
}

struct weir__stack *
weir__arenas_take(unsigned most, bool should_be_guarded, int *failed)
{
        struct weir__stack *chain;

        weir__lock(&all.lock);
        chain = should_be_guarded ? take_guarded() : take_slots(most);
        weir__unlock(&all.lock);
        if (!chain && !should_be_guarded)
                chain = take_of_new_arena(most);
        *failed = chain ? 0 : should_be_guarded ? -EAGAIN : -ENOMEM;
        return chain;
}

/* What waits until then or is due loses what it has too much of, one arena at a time.  Returns until when the next one waits; 0:
 * none does. */
static weir_nsec
tend(weir_nsec now, bool should_keep, bool is_tender)
{
        struct garbage garbage = {.should_keep = should_keep};

        weir__lock(&all.lock);
        struct weir__arena *arena = first_waiting();
        if (arena && arena->waits_until <= now)
                end_arena_waste(arena, &garbage);
        arena = first_waiting();
        weir_nsec next = arena ? arena->waits_until : 0;
        if (is_tender && !next)
                all.is_tended = false;
        weir__unlock(&all.lock);
        give_back(&garbage);
        return next;
}

static void
tend_at_once(bool should_keep, bool is_tender)
{
        while (tend(WEIR_FOREVER, should_keep, is_tender))
                continue;
}

weir_nsec
weir__stack_tend(weir_nsec now)
{
        return tend(now, true, true);
}

/* The virtual clock says nothing about how long memory is not used. */
static bool
may_wait(bool should_keep)
{
        return should_keep && weir__stack_call_tender && !weir__clock_is_virtual();
}

void
weir__arenas_give(struct weir__stack *chain, bool should_keep)
{
        weir_nsec due = 0;

        trim_chain(chain);
        weir__lock(&all.lock);
        for (struct weir__stack *next; chain; chain = next) {
                next = chain->next;
                put_slot(chain);
        }
        bool waste_waits = first_waiting(), may = may_wait(should_keep);
        if (waste_waits && may && !all.is_tended) {
                all.is_tended = true;
                due = first_waiting()->waits_until;
        }
        weir__unlock(&all.lock);
        if (due && !weir__stack_call_tender(due))
                tend_at_once(should_keep, true);
        else if (waste_waits && !may)
                tend_at_once(should_keep, false);
}

void
weir__arenas_trim(void)
{
        struct garbage garbage = {.should_keep = false};

        weir__lock(&all.lock);
        if (all.kept)
                drop_arena(all.kept, &garbage);
        all.kept = NULL;
        weir__unlock(&all.lock);
        give_back(&garbage);
        tend_at_once(false, false);
}

/* Arenas of another size take no part any more, and go when their last stack comes back. */
void
weir__arenas_configure(size_t size)
{
        size = weir__slots_size(size);
        weir__lock(&all.lock);
        bool is_same = all.size == size;
        weir__unlock(&all.lock);
        if (is_same)
                return;
        weir__arenas_trim();
        weir__lock(&all.lock);
        all.size = size;
        for (struct weir__link *link; (link = weir__list_first(&all.arenas));)
                weir__link_remove(link);
        weir__unlock(&all.lock);
}

void
weir__arenas_count(size_t *made, size_t *out)
{
        weir__lock(&all.lock);
        *made = all.made;
        *out = all.out;
        weir__unlock(&all.lock);
}

void
weir__arenas_hold(void)
{
        weir__lock_hold(&all.lock);
}

void
weir__arenas_release(void)
{
        weir__unlock(&all.lock);
}
