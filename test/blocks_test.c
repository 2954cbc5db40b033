/* test/blocks_test.c: small blocks, their slabs and arenas, and the caches before them.
 *
 * The suite has kernel/memory/memory.c with its caches switched on under sanitizers too (test/CMakeLists.txt).  So the runtime
 * below runs on slabs there as well.  The linker puts the functions below in front of those of the C library.  They count the
 * memory that is mapped, and refuse it when a test says so. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/weir.h>

#include "kernel/base/clock.h"
#include "kernel/memory/memory.h"
#include "test/slab_check.h"
#include "test/support.h"

#define ARENA ((size_t)2 << 20)
#define SLAB  ((size_t)8192)
#define SMALL 1 /* arenas that are never huge; such a one has a quarter of the slabs */

/* -- the kernel -- */

void *__real_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *address, size_t size);
int __real_madvise(void *address, size_t size, int advice);
void *__wrap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *address, size_t size);
int __wrap_madvise(void *address, size_t size, int advice);

static _Atomic size_t mapped;       /* bytes */
static _Atomic int maps_left = -1;  /* that are not refused; below 0: no limit */
static _Atomic bool misaligned;     /* what is mapped is to be so */
static _Atomic unsigned made_huge;  /* arenas */
static _Atomic unsigned made_small; /* arenas */
static _Atomic unsigned given_back; /* slabs that lost their pages */

void *
__wrap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
        int may = atomic_load(&maps_left);

        if (may == 0)
                return MAP_FAILED;
        if (may > 0)
                atomic_store(&maps_left, may - 1);
        if (atomic_load(&misaligned)) { /* what is larger is aligned then, by chance */
                size_t offset_wanted = size == ARENA ? 4096 : 0;
                char *memory = __real_mmap(address, size + 2 * ARENA, protection, flags, fd, offset);
                size_t before = ARENA - (uintptr_t)memory % ARENA + offset_wanted;

                __real_munmap(memory, before);
                __real_munmap(memory + before + size, 2 * ARENA - before);
                atomic_fetch_add(&mapped, size);
                return memory + before;
        }
        void *memory = __real_mmap(address, size, protection, flags, fd, offset);
        atomic_fetch_add(&mapped, memory == MAP_FAILED ? 0 : size);
        return memory;
}

int
__wrap_munmap(void *address, size_t size)
{
        int failed = __real_munmap(address, size);

        CU_ASSERT_EQUAL(failed, 0);
        atomic_fetch_sub(&mapped, size);
        return failed;
}

int
__wrap_madvise(void *address, size_t size, int advice)
{
        if (advice == MADV_HUGEPAGE)
                atomic_fetch_add(&made_huge, 1);
        if (advice == MADV_NOHUGEPAGE)
                atomic_fetch_add(&made_small, 1);
        if (advice == MADV_DONTNEED)
                atomic_fetch_add(&given_back, (unsigned)(size / SLAB));
        return __real_madvise(address, size, advice);
}

/* -- blocks of the slabs themselves -- */

struct blocks {
        void **at;
        size_t count, room;
};

static void
add(struct blocks *blocks, void *block)
{
        if (blocks->count == blocks->room) {
                blocks->room = blocks->room ? 2 * blocks->room : 1024;
                blocks->at = realloc(blocks->at, blocks->room * sizeof *blocks->at);
        }
        blocks->at[blocks->count++] = block;
}

/* Takes a chain apart, and looks whether it is as long as it says. */
static bool
take(struct blocks *blocks, size_t size_class)
{
        struct weir__block *chain = weir__slabs_take(size_class);
        size_t said = chain ? chain->count : 0, count = 0;

        for (struct weir__block *next; chain; chain = next, count++) {
                next = chain->next;
                add(blocks, chain);
        }
        CU_ASSERT_EQUAL(count, said);
        return count > 0;
}

static void
take_arenas(struct blocks *blocks, size_t size_class, size_t arenas)
{
        size_t until = atomic_load(&mapped) + arenas * ARENA;

        while (atomic_load(&mapped) < until)
                if (!take(blocks, size_class))
                        break;
}

static void
shuffle(struct blocks *blocks)
{
        struct weir_test_random random = {weir_test_seed()};

        for (size_t i = blocks->count; i > 1; i--) {
                size_t k = (size_t)weir_test_random_below(&random, i);
                void *block = blocks->at[k];

                blocks->at[k] = blocks->at[i - 1];
                blocks->at[i - 1] = block;
        }
}

/* The last ones, as one chain. */
static void
give(struct blocks *blocks, size_t count, bool keep)
{
        struct weir__block *chain = NULL;

        for (; count > 0 && blocks->count > 0; count--) {
                struct weir__block *block = blocks->at[--blocks->count];

                block->next = chain;
                chain = block;
        }
        weir__slabs_give(chain, keep);
}

static void
end(struct blocks *blocks)
{
        give(blocks, blocks->count, false);
        slab_check();
        weir__slabs_trim();
        CU_ASSERT_EQUAL(atomic_load(&mapped), 0);
        free(blocks->at);
        *blocks = (struct blocks){0};
}

/* -- slabs and arenas -- */

/* Writes all of a block, so that one that lies in another shows. */
static void
fill(void *block, size_t size_class, unsigned char byte)
{
        memset(block, byte, weir__block_size(size_class));
}

static bool
holds(const void *block, size_t size_class, unsigned char byte)
{
        const unsigned char *bytes = block;

        for (size_t i = 0; i < weir__block_size(size_class); i++)
                if (bytes[i] != byte)
                        return false;
        return true;
}

static void
blocks_of_every_class_are_aligned_to_8_bytes_and_lie_apart(void)
{
        struct blocks blocks[WEIR__BLOCK_CLASSES] = {0};

        for (size_t class = 0; class < WEIR__BLOCK_CLASSES; class ++) {
                take(&blocks[class], class);
                for (size_t i = 0; i < blocks[class].count; i++)
                        fill(blocks[class].at[i], class, (unsigned char)(class + i));
        }
        for (size_t class = 0; class < WEIR__BLOCK_CLASSES; class ++)
                for (size_t i = 0; i < blocks[class].count; i++) {
                        CU_ASSERT_EQUAL((uintptr_t)blocks[class].at[i] % 8, 0);
                        CU_ASSERT_EQUAL(weir__slabs_class(blocks[class].at[i]), class);
                        CU_ASSERT(holds(blocks[class].at[i], class, (unsigned char)(class + i)));
                }
        for (size_t class = 0; class < WEIR__BLOCK_CLASSES; class ++) {
                size_t out = weir__slabs_out(), count = blocks[class].count;

                give(&blocks[class], SIZE_MAX, true);
                CU_ASSERT_EQUAL(weir__slabs_out(), out - count);
                slab_check();
                free(blocks[class].at);
        }
        end(&(struct blocks){0});
}

/* A size is served by the smallest class that holds it. */
static void
sizes_are_rounded_up_to_eight_bytes(void)
{
        for (size_t size = 0; size <= WEIR__BLOCK_MAX; size++) {
                size_t class = weir__block_class(size), got = weir__block_size(class);

                CU_ASSERT(class < WEIR__BLOCK_CLASSES && got >= size && (class == 0 || got < size + 8));
        }
        CU_ASSERT(weir__block_class(WEIR__BLOCK_MAX + 1) >= WEIR__BLOCK_CLASSES);
}

static void
tend_to_all(void)
{
        while (weir__slabs_tend(WEIR_FOREVER))
                continue;
}

static void
all_memory_returns_whatever_the_order_but_for_one_arena(void)
{
        struct blocks blocks = {0};

        take_arenas(&blocks, 8, 9);
        shuffle(&blocks);
        give(&blocks, SIZE_MAX, true);
        slab_check();
        tend_to_all();
        slab_check();
        CU_ASSERT_EQUAL(atomic_load(&mapped), ARENA);
        end(&blocks);
}

/* In the order in which they were made, so that arenas become unused as a whole; and in any order. */
static void
load_that_comes_and_goes_within_a_second_maps_nothing(void)
{
        struct blocks blocks = {0};

        take_arenas(&blocks, 8, 20);
        size_t full = blocks.count;
        unsigned before = atomic_load(&given_back);
        atomic_store(&maps_left, 0);
        for (int i = 0; i < 4; i++) {
                if (i % 2)
                        shuffle(&blocks);
                give(&blocks, SIZE_MAX, true);
                slab_check();
                while (blocks.count < full && take(&blocks, 8))
                        continue;
                CU_ASSERT(blocks.count >= full);
        }
        CU_ASSERT_EQUAL(atomic_load(&mapped), 20 * ARENA);
        CU_ASSERT_EQUAL(atomic_load(&given_back), before);
        atomic_store(&maps_left, -1);
        end(&blocks);
}

/* A call of the kernel for memory interrupts all other CPUs, so none is made while a load ends. */
static void
any_number_of_arenas_may_wait(void)
{
        struct blocks blocks = {0};

        take_arenas(&blocks, 8, 60);
        unsigned before = atomic_load(&given_back);
        give(&blocks, SIZE_MAX, true);
        slab_check();
        CU_ASSERT_EQUAL(atomic_load(&mapped), 60 * ARENA);
        CU_ASSERT_EQUAL(atomic_load(&given_back), before);
        tend_to_all();
        CU_ASSERT_EQUAL(atomic_load(&mapped), ARENA);
        end(&blocks);
}

/* Nothing tells there how long memory has not been used.  One more is the kept one. */
static void
two_arenas_wait_on_the_virtual_clock(void)
{
        struct blocks blocks = {0};

        weir__clock_start(true);
        take_arenas(&blocks, 8, 60);
        give(&blocks, SIZE_MAX, true);
        slab_check();
        CU_ASSERT_EQUAL(atomic_load(&mapped), 3 * ARENA);
        tend_to_all();
        CU_ASSERT_EQUAL(atomic_load(&mapped), ARENA);
        end(&blocks);
        weir__clock_start(false);
}

/* An operation that a process repeats must not cost a mapping each time. */
static void
arena_is_kept_against_going_to_and_fro(void)
{
        struct blocks blocks = {0};

        take_arenas(&blocks, 8, 2);
        size_t full = blocks.count;
        atomic_store(&maps_left, 0);
        unsigned before = atomic_load(&given_back);
        for (int i = 0; i < 100; i++) {
                give(&blocks, 500, true);
                while (blocks.count < full && take(&blocks, 8))
                        continue;
        }
        CU_ASSERT_EQUAL(atomic_load(&given_back), before);
        atomic_store(&maps_left, -1);
        end(&blocks);
}

static void
few_slabs_keep_their_pages_when_they_are_unused(void)
{
        struct blocks blocks = {0};
        unsigned before = atomic_load(&given_back);

        take(&blocks, 8);
        size_t of_a_slab = blocks.count;
        for (int i = 0; i < 100; i++) {
                while (blocks.count < 30 * of_a_slab)
                        CU_ASSERT_FATAL(take(&blocks, 8));
                give(&blocks, 29 * of_a_slab, true);
        }
        CU_ASSERT_EQUAL(atomic_load(&given_back), before);
        end(&blocks);
}

static size_t
slab_number(const void *block)
{
        return (uintptr_t)block / SLAB;
}

/* Keeps one block of every `each`-th slab, and gives all others back: in any order, or the newest first. */
static void
thin_out(struct blocks *blocks, size_t each, bool in_any_order)
{
        struct blocks gone = {0};
        size_t kept = 0, last = 0;

        for (size_t i = 0; i < blocks->count; i++) {
                size_t number = slab_number(blocks->at[i]);

                if (number % each == 0 && number != last)
                        blocks->at[kept++] = blocks->at[i], last = number;
                else
                        add(&gone, blocks->at[i]);
        }
        blocks->count = kept;
        if (in_any_order)
                shuffle(&gone);
        give(&gone, SIZE_MAX, true);
        free(gone.at);
}

/* One block in many slabs stays.  So their arenas stay, but the pages of the slabs between go back. */
static void
pages_between_blocks_that_stay_return(void)
{
        struct blocks blocks = {0};

        take_arenas(&blocks, 8, 24);
        unsigned before = atomic_load(&given_back);
        thin_out(&blocks, 16, true);
        slab_check();
        CU_ASSERT_EQUAL(atomic_load(&given_back), before); /* it waits for a second */
        CU_ASSERT(weir__slabs_tend(0) > 0);
        CU_ASSERT_EQUAL(atomic_load(&given_back), before);
        tend_to_all();
        slab_check();
        size_t gone = (atomic_load(&given_back) - before) * SLAB, stays = atomic_load(&mapped) - gone;
        CU_ASSERT(atomic_load(&mapped) >= 23 * ARENA);
        CU_ASSERT(stays < 7 * ARENA); /* one slab in 16 holds a block, each arena keeps about as many */
        end(&blocks);
}

/* An idle poller sets an alarm for it. */
static void
memory_goes_back_when_nobody_has_used_it_for_a_second(void)
{
        struct blocks blocks = {0};

        take_arenas(&blocks, 8, 24);
        unsigned before = atomic_load(&given_back);
        thin_out(&blocks, 16, true);
        CU_ASSERT(weir__slabs_are_wasteful);
        CU_ASSERT_EQUAL(weir_init(NULL), 0);
        CU_ASSERT_EQUAL(weir_task_run(weir_empty_new(NULL, NULL)), 0);
        for (int i = 0; i < 6000 && weir__slabs_are_wasteful; i++)
                usleep(10000);
        CU_ASSERT_FALSE(weir__slabs_are_wasteful);
        CU_ASSERT((atomic_load(&given_back) - before) * SLAB > 16 * ARENA);
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        slab_check();
        end(&blocks);
}

/* Objects of the program that outlive a shutdown keep their own slabs, also in arenas that had waited. */
static void
pages_of_arenas_that_wait_return_with_the_shutdown(void)
{
        struct blocks blocks = {0};

        take_arenas(&blocks, 8, 8);
        unsigned before = atomic_load(&given_back);
        thin_out(&blocks, 64, false);
        weir__slabs_trim();
        slab_check();
        size_t stays = atomic_load(&mapped) - (atomic_load(&given_back) - before) * SLAB;
        CU_ASSERT(atomic_load(&mapped) >= 7 * ARENA);
        CU_ASSERT(stays < 2 * ARENA); /* two arenas that wait would be as much */
        end(&blocks);
}

/* -- huge pages -- */

static void
only_the_first_arena_has_small_pages(void)
{
        struct blocks blocks = {0};

        atomic_store(&made_huge, 0);
        take_arenas(&blocks, 8, SMALL);
        CU_ASSERT_EQUAL(atomic_load(&made_huge), 0);
        take_arenas(&blocks, 8, 3);
        CU_ASSERT_EQUAL(atomic_load(&made_huge), 3);
        end(&blocks);
}

/* When some blocks go, that splits no huge page.  When few are left each page is split, once. */
static void
huge_page_is_split_when_most_of_it_is_unused(void)
{
        struct blocks blocks = {0};

        take_arenas(&blocks, 8, SMALL + 8);
        size_t full = blocks.count;
        atomic_store(&made_small, 0);
        give(&blocks, blocks.count / 32, true);
        CU_ASSERT_EQUAL(atomic_load(&made_small), 0);
        thin_out(&blocks, 16, true);
        CU_ASSERT_EQUAL(atomic_load(&made_small), 0);
        tend_to_all();
        CU_ASSERT(atomic_load(&made_small) >= 7);
        size_t before = atomic_load(&mapped);
        while (blocks.count < full)
                CU_ASSERT_FATAL(take(&blocks, 8));
        CU_ASSERT_EQUAL(atomic_load(&mapped), before); /* what was given back serves again */
        end(&blocks);
}

/* -- out of memory -- */

static void
memory_that_the_kernel_did_not_align_is_trimmed(void)
{
        struct blocks blocks = {0};

        for (int by_chance = 0; by_chance < 2; by_chance++) {
                atomic_store(&misaligned, by_chance);
                char *between = by_chance ? NULL : mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                CU_ASSERT(take(&blocks, 3));
                if (between)
                        munmap(between, 4096);
                CU_ASSERT_EQUAL(atomic_load(&mapped), ARENA);
                atomic_store(&misaligned, false);
                end(&blocks);
        }
}

static void
refused_memory_is_reported_and_nothing_stays(void)
{
        struct blocks blocks = {0};

        atomic_store(&maps_left, 0);
        CU_ASSERT_PTR_NULL(weir__slabs_take(3));
        CU_ASSERT_PTR_NULL(weir__alloc(100));
        atomic_store(&maps_left, 1); /* the second one is for the alignment */
        atomic_store(&misaligned, true);
        CU_ASSERT_PTR_NULL(weir__slabs_take(3));
        CU_ASSERT_EQUAL(atomic_load(&mapped), 0);
        atomic_store(&maps_left, -1);
        CU_ASSERT(take(&blocks, 3));
        CU_ASSERT_EQUAL(atomic_load(&mapped), ARENA);
        atomic_store(&maps_left, 0);
        while (take(&blocks, 3)) /* all that there is, then no more */
                continue;
        CU_ASSERT(blocks.count * weir__block_size(3) > ARENA / 4 * 9 / 10); /* the first one has a quarter of the slabs */
        atomic_store(&maps_left, -1);
        atomic_store(&misaligned, false);
        end(&blocks);
}

/* -- a storm that checks the content of the blocks -- */

#define STORM_BLOCKS 3000
#define STORM_STEPS  (WEIR_TEST_SANITIZED ? 60000 : 300000)

struct live {
        void *block; /* NULL: none */
        size_t size;
        unsigned char byte;
};

/* By turns more is taken and more is given, so that slabs and arenas fill and empty. */
static void
storm_step(struct live *live, struct weir_test_random *random, unsigned step)
{
        static const size_t sizes[] = {24, 88, 104, 112, 128, 176, 248, 399, 400, 401};
        struct live *it = &live[weir_test_random_below(random, STORM_BLOCKS)];
        bool takes = weir_test_random_below(random, 8) < (step / 20000 % 2 ? 2 : 6);

        if (it->block && !takes) {
                for (size_t i = 0; i < it->size; i++)
                        if (((unsigned char *)it->block)[i] != it->byte) {
                                CU_FAIL("a block was written by another's owner");
                                break;
                        }
                weir__free(it->block, it->size);
                it->block = NULL;
        } else if (!it->block && takes) {
                it->size = sizes[weir_test_random_below(random, sizeof sizes / sizeof *sizes)];
                it->byte = (unsigned char)weir_test_random(random);
                it->block = weir__alloc(it->size);
                CU_ASSERT_FATAL(it->block != NULL);
                memset(it->block, it->byte, it->size);
        }
}

static void
storm(uint64_t seed)
{
        struct live *live = calloc(STORM_BLOCKS, sizeof *live);
        struct weir_test_random random = {seed};

        for (unsigned step = 0; step < STORM_STEPS; step++) {
                storm_step(live, &random, step);
                if (step % 1000 == 0)
                        slab_check();
        }
        for (size_t i = 0; i < STORM_BLOCKS; i++)
                if (live[i].block)
                        weir__free(live[i].block, live[i].size);
        free(live);
}

static void *
run_storm(void *seed)
{
        storm(*(uint64_t *)seed);
        return NULL;
}

static void
storm_in_callback(weir_task *task, void *seed)
{
        (void)task;
        storm(*(uint64_t *)seed);
}

/* Two threads of the program, and as many workers. */
static void
blocks_of_four_threads_hold_what_was_written_into_them(void)
{
        uint64_t seeds[4];
        pthread_t threads[2];
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 2;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        for (int i = 0; i < 4; i++)
                seeds[i] = weir_test_seed() + (uint64_t)i;
        for (int i = 0; i < 2; i++)
                pthread_create(&threads[i], NULL, run_storm, &seeds[i]);
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        for (int i = 2; i < 4; i++)
                weir_parallel_add(parallel, weir_timer_new(0, storm_in_callback, &seeds[i]));
        CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
        for (int i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
        weir_shutdown();
        slab_check();
        CU_ASSERT_EQUAL(atomic_load(&mapped), 0);
}

/* -- timers -- */

#define TIMERS 250000 /* many: what caches hold of them lies in most slabs, and an arena waits when most of it is unused */

static void
make_timers(struct blocks *ids)
{
        for (size_t i = 0; i < TIMERS; i++) {
                weir_task *timer = weir_timer_new(WEIR_FOREVER, NULL, NULL);

                add(ids, (void *)(uintptr_t)weir_timer_id_of(timer));
                CU_ASSERT_EQUAL(weir_task_start(timer), 0);
        }
}

/* Made by one thread, ended by workers in random order: the blocks go all the ways there are. */
static void
memory_of_many_timers_returns_when_they_have_ended(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        struct blocks ids = {0};

        config.pollers = 2;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        make_timers(&ids);
        size_t most = atomic_load(&mapped);
        CU_ASSERT(most >= TIMERS * (size_t)88);
        unsigned before = atomic_load(&given_back);
        shuffle(&ids);
        for (size_t i = 0; i < TIMERS; i++)
                CU_ASSERT_EQUAL(weir_timer_cancel_id((weir_timer_id)(uintptr_t)ids.at[i]), 1);
        size_t held = SIZE_MAX; /* some chains of 64, each block in another slab */
        WEIR_TEST_EVENTUALLY((held = atomic_load(&mapped) - SLAB * (atomic_load(&given_back) - before)) < most / 2 ||
                             held > most);
        slab_check();
        weir_shutdown();
        slab_check();
        CU_ASSERT_EQUAL(atomic_load(&mapped), 0);
        free(ids.at);
}

/* A block that is still held at the shutdown returns its memory when it is freed. */
static void
block_freed_after_the_shutdown_leaves_nothing(void)
{
        CU_ASSERT_EQUAL_FATAL(weir_init(NULL), 0);
        void *first = weir__alloc(100), *second = weir__alloc(200);
        weir_shutdown();
        CU_ASSERT(atomic_load(&mapped) > 0);
        weir__free(first, 100);
        weir__free(second, 200);
        weir__free(NULL, 100);
        weir__slabs_trim();
        CU_ASSERT_EQUAL(atomic_load(&mapped), 0);
}

/* -- fork -- */

static void *
allocate_until(void *stop)
{
        void *blocks[300];

        while (!atomic_load((_Atomic bool *)stop)) {
                for (size_t i = 0; i < 300; i++)
                        blocks[i] = weir__alloc(88 + i / 2);
                for (size_t i = 0; i < 300; i++)
                        weir__free(blocks[i], 88 + i / 2);
        }
        return NULL;
}

static void
child_of_a_fork_while_another_thread_allocates_finds_all_whole(void)
{
        static _Atomic bool stop;
        pthread_t thread;

        pthread_create(&thread, NULL, allocate_until, (void *)&stop);
        for (int i = 0; i < (WEIR_TEST_SANITIZED ? 30 : 300); i++) {
                pid_t child = fork();

                if (child == 0) {
                        alarm(20); /* for a lock that nobody releases */
                        for (size_t size = 24; size <= 400; size++)
                                weir__free(weir__alloc(size), size);
                        slab_check();
                        _exit(0);
                }
                int status = -1;
                CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
                CU_ASSERT_EQUAL(status, 0);
        }
        atomic_store(&stop, true);
        pthread_join(thread, NULL);
        weir__memory_trim();
        slab_check();
        CU_ASSERT_EQUAL(atomic_load(&mapped), 0);
}

/* -- misuse -- */

static void
block_given_back_twice_aborts(void)
{
        pid_t child = fork();

        if (child == 0) {
                struct blocks blocks = {0};

                if (!freopen("/dev/null", "w", stderr))
                        _exit(1);
                take(&blocks, 8);
                void *block = blocks.at[0];
                give(&blocks, SIZE_MAX, true);
                ((struct weir__block *)block)->next = NULL;
                weir__slabs_give(block, true);
                _exit(0);
        }
        int status = -1;
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        CU_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(block_given_back_twice_aborts),
                WEIR_TEST(sizes_are_rounded_up_to_eight_bytes),
                WEIR_TEST(blocks_of_every_class_are_aligned_to_8_bytes_and_lie_apart),
                WEIR_TEST(all_memory_returns_whatever_the_order_but_for_one_arena),
                WEIR_TEST(load_that_comes_and_goes_within_a_second_maps_nothing),
                WEIR_TEST(any_number_of_arenas_may_wait),
                WEIR_TEST(two_arenas_wait_on_the_virtual_clock),
                WEIR_TEST(arena_is_kept_against_going_to_and_fro),
                WEIR_TEST(few_slabs_keep_their_pages_when_they_are_unused),
                WEIR_TEST(memory_goes_back_when_nobody_has_used_it_for_a_second),
                WEIR_TEST(pages_between_blocks_that_stay_return),
                WEIR_TEST(pages_of_arenas_that_wait_return_with_the_shutdown),
                WEIR_TEST(only_the_first_arena_has_small_pages),
                WEIR_TEST(huge_page_is_split_when_most_of_it_is_unused),
                WEIR_TEST(memory_that_the_kernel_did_not_align_is_trimmed),
                WEIR_TEST(refused_memory_is_reported_and_nothing_stays),
                WEIR_TEST(child_of_a_fork_while_another_thread_allocates_finds_all_whole),
                WEIR_TEST(blocks_of_four_threads_hold_what_was_written_into_them),
                WEIR_TEST(memory_of_many_timers_returns_when_they_have_ended),
                WEIR_TEST(block_freed_after_the_shutdown_leaves_nothing),
        };

        return weir_test_main("blocks", tests, sizeof tests / sizeof *tests);
}
