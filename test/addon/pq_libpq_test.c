/* test/addon/pq_libpq_test.c: allocations of libpq that fail: no query has another one's answer, or none without a failure, and
 * the pool goes on when there is memory again.
 *
 * libpq calls the allocator of the C library by pointers in its own table of relocations.  Here they lead to functions that
 * refuse what the test has chosen.  The test, the library under test and the C library get all that they ask for. */
#include <errno.h>
#include <link.h>
#include <sys/mman.h>

#include "test/addon/pq_server.h"

/* -- what is refused -- */

static _Atomic int64_t left = -1;      /* allocations until the refused one; below 0: it has been, or none is */
static _Atomic bool for_good;          /* all behind that one are, too */
static _Atomic unsigned rate;          /* one of so many is refused; 0: none */
static _Atomic size_t most = SIZE_MAX; /* blocks above that are */
static _Atomic unsigned refused;

static bool
refuse(size_t size)
{
        static _Atomic uint32_t random = 1;
        int64_t before = atomic_load(&left) >= 0 ? atomic_fetch_sub(&left, 1) : -1;
        bool should = size > most || before == 0;

        if (before == 0 && for_good)
                most = 0;

        if (rate) {
                uint32_t value = atomic_load(&random);

                atomic_store(&random, value = value * 1664525 + 1013904223);
                should |= (value >> 8) % rate == 0;
        }
        if (should) {
                refused++;
                errno = ENOMEM;
        }
        return should;
}

static void *
refusing_malloc(size_t size)
{
        return refuse(size) ? NULL : malloc(size);
}

static void *
refusing_calloc(size_t count, size_t size)
{
        return refuse(count * size) ? NULL : calloc(count, size);
}

static void *
refusing_realloc(void *block, size_t size)
{
        return refuse(size) ? NULL : realloc(block, size);
}

static char *
refusing_strdup(const char *text)
{
        return refuse(strlen(text) + 1) ? NULL : strdup(text);
}

static const struct {
        const char *name;
        void (*function)(void);
} allocators[] = {{"malloc", (void (*)(void))refusing_malloc},
                  {"calloc", (void (*)(void))refusing_calloc},
                  {"realloc", (void (*)(void))refusing_realloc},
                  {"strdup", (void (*)(void))refusing_strdup},
                  {"__strdup", (void (*)(void))refusing_strdup}};

/* -- the table of relocations -- */

struct tables {
        ElfW(Addr) base;
        const ElfW(Sym) * symbols;
        const char *names;
        const ElfW(Rela) * relocations[2];
        size_t sizes[2];
};

static struct tables
tables_of(const struct dl_phdr_info *library)
{
        struct tables tables = {.base = library->dlpi_addr};
        const ElfW(Dyn) *entry = NULL;

        for (int i = 0; i < library->dlpi_phnum; i++)
                if (library->dlpi_phdr[i].p_type == PT_DYNAMIC)
                        entry = (const void *)(library->dlpi_addr + library->dlpi_phdr[i].p_vaddr);
        for (; entry && entry->d_tag != DT_NULL; entry++) {
                const void *at = (const void *)entry->d_un.d_ptr;

                if (entry->d_tag == DT_SYMTAB)
                        tables.symbols = at;
                else if (entry->d_tag == DT_STRTAB)
                        tables.names = at;
                else if (entry->d_tag == DT_JMPREL || entry->d_tag == DT_RELA)
                        tables.relocations[entry->d_tag == DT_RELA] = at;
                else if (entry->d_tag == DT_PLTRELSZ || entry->d_tag == DT_RELASZ)
                        tables.sizes[entry->d_tag == DT_RELASZ] = entry->d_un.d_val / sizeof(ElfW(Rela));
        }
        return tables;
}

/* Returns whether it is one of an allocator. */
static bool
replace(const struct tables *tables, const ElfW(Rela) * relocation)
{
        const char *name = tables->names + tables->symbols[relocation->r_info >> 32].st_name;
        void (**at)(void) = (void (**)(void))(tables->base + relocation->r_offset);
        uintptr_t page = (uintptr_t)at & ~(uintptr_t)(getpagesize() - 1);

        for (size_t i = 0; i < sizeof allocators / sizeof *allocators; i++) {
                if (strcmp(name, allocators[i].name) != 0)
                        continue;
                if (mprotect((void *)page, (size_t)getpagesize(), PROT_READ | PROT_WRITE) != 0)
                        return false;
                *at = allocators[i].function;
                return true;
        }
        return false;
}

static int
visit(struct dl_phdr_info *library, size_t size, void *context)
{
        unsigned *count = context;

        (void)size;
        if (!strstr(library->dlpi_name, "/libpq."))
                return 0;
        const struct tables tables = tables_of(library);
        for (unsigned i = 0; i < 2; i++)
                for (size_t k = 0; tables.relocations[i] && k < tables.sizes[i]; k++)
                        *count += replace(&tables, &tables.relocations[i][k]);
        return 1;
}

/* -- queries -- */

enum { QUERIES = 24, ROWS = 3 };

static struct answer {
        _Atomic int calls;
        int status, number;
        bool is_right; /* or has failed */
        weir_channel *rows;
} answers[QUERIES];

/* Each fifth one is for a table that is not there. */
static bool
is_wrong(int number)
{
        return number % 5 == 4;
}

static void
note_value(weir_task *query, void *context)
{
        struct answer *answer = context;
        int64_t value = -1;

        answer->status = weir_task_status(query);
        if (is_wrong(answer->number))
                answer->is_right = answer->status == -ENOENT || answer->status == -ENOMEM;
        else
                answer->is_right = answer->status == -ENOMEM ||
                                   (answer->status == 0 && weir_pq_rows(query) == 1 && weir_pq_int(query, 0, 0, &value) == 0 &&
                                    value == answer->number);
        answer->calls++;
}

static void
note_rows(weir_task *query, void *context)
{
        struct answer *answer = context;
        size_t count = 0;
        void *row;

        answer->status = weir_task_status(query);
        for (; weir_channel_poll(answer->rows, &row) == 0; count++)
                weir_pq_row_free(row);
        answer->is_right = answer->status == -ENOMEM || (answer->status == 0 && count == ROWS);
        answer->calls++;
}

static weir_task *
value_new(weir_pq *pool, struct answer *answer, bool is_prepared)
{
        weir_task *query = weir_pq_query_new(
                pool, is_wrong(answer->number) ? "SELECT $1::bigint FROM nowhere" : "SELECT $1::bigint", note_value, answer);

        weir_pq_add_int(query, answer->number);
        if (is_prepared)
                weir_pq_set_prepared(query);
        return query;
}

/* COPY, and a query whose rows come one by one. */
static weir_task *
rows_new(weir_pq *pool, struct answer *answer)
{
        static const char *const sql[] = {"SELECT generate_series(1, 3)", "COPY (SELECT generate_series(1, 3)) TO STDOUT"};
        weir_task *query = weir_pq_query_new(pool, sql[answer->number % 2], note_rows, answer);

        answer->rows = weir_pq_rows_new(WEIR_UNBOUNDED);
        weir_pq_set_rows(query, answer->rows);
        return query;
}

enum sort { VALUES, PREPARED, STREAMS };

/* Returns how many have failed that should not. */
static unsigned
run_queries(weir_pq *pool, enum sort sort)
{
        static int number;
        unsigned failed = 0;

        for (int i = 0; i < QUERIES; i++) {
                answers[i] = (struct answer){.number = number++};
                weir_task *query = sort == STREAMS ? rows_new(pool, &answers[i]) : value_new(pool, &answers[i], sort == PREPARED);
                CU_ASSERT_EQUAL(weir_task_start(query), 0);
        }
        for (int i = 0; i < QUERIES; i++) {
                WEIR_TEST_EVENTUALLY(answers[i].calls == 1);
                if (!answers[i].is_right)
                        printf("number %d: status %d\n", answers[i].number, answers[i].status);
                CU_ASSERT(answers[i].is_right);
                failed += answers[i].status == -ENOMEM;
                weir_channel_unref(answers[i].rows);
        }
        return failed;
}

/* The pool makes its connection within that, too. */
static void
each_allocation(unsigned pipeline, enum sort sort, bool and_all_behind)
{
        int number = 0;

        for_good = and_all_behind;

        do {
                weir_pq *pool = server_pool(1, pipeline, false);

                atomic_store(&refused, 0);
                atomic_store(&left, number++);
                unsigned failed = run_queries(pool, sort);
                atomic_store(&left, -1);
                most = SIZE_MAX;
                CU_ASSERT(refused || !failed);
                WEIR_TEST_EVENTUALLY(run_queries(pool, sort) == 0); /* it may connect again after a pause */
                weir_pq_unref(pool);
        } while (refused);
        printf("%d allocations\n", number);
        CU_ASSERT(number > 40);
}

static void
each_allocation_of_libpq_may_fail(void)
{
        weir_test_begin_real(1);
        weir_log_set(NULL, NULL);
        each_allocation(1, VALUES, false);
        each_allocation(1, PREPARED, false);
        each_allocation(1, STREAMS, false);
        weir_test_end();
}

/* libpq leaves out the end of a query then. */
static void
each_allocation_of_libpq_may_fail_in_a_pipeline(void)
{
        weir_test_begin_real(1);
        weir_log_set(NULL, NULL);
        each_allocation(8, VALUES, false);
        each_allocation(8, PREPARED, false);
        weir_test_end();
}

static void
memory_of_libpq_may_end(void)
{
        weir_test_begin_real(1);
        weir_log_set(NULL, NULL);
        each_allocation(1, VALUES, true);
        each_allocation(8, PREPARED, true);
        weir_test_end();
}

static void
many_allocations_of_libpq_may_fail(void)
{
        weir_test_begin_real(2);
        weir_log_set(NULL, NULL);
        for (unsigned pipeline = 1; pipeline <= 8; pipeline += 7) {
                weir_pq *pool = server_pool(3, pipeline, false);

                for (unsigned round = 0; round < 120; round++) {
                        rate = 20 + 7 * round;
                        run_queries(pool, round % 3);
                }
                rate = 0;
                WEIR_TEST_EVENTUALLY(run_queries(pool, PREPARED) == 0);
                weir_pq_unref(pool);
        }
        weir_test_end();
}

/* libpq would try the same row for ever. */
static void
a_row_of_copy_that_finds_no_memory_ends_it(void)
{
        weir_test_begin_real(1);
        weir_log_set(NULL, NULL);
        weir_pq *pool = server_pool(1, 1, false);
        weir_channel *rows = weir_pq_rows_new(WEIR_UNBOUNDED);
        weir_task *query = weir_pq_query_new(pool, "COPY (SELECT repeat('x', 5000)) TO STDOUT", NULL, NULL);

        CU_ASSERT_EQUAL(weir_task_run(weir_pq_query_new(pool, "SELECT 1", NULL, NULL)), 0);
        weir_pq_set_rows(query, rows);
        most = 4000;
        CU_ASSERT_EQUAL(weir_task_run(query), -ENOMEM);
        most = SIZE_MAX;
        CU_ASSERT_EQUAL(weir_task_run(weir_pq_query_new(pool, "SELECT 1", NULL, NULL)), 0);
        weir_channel_unref(rows);
        weir_pq_unref(pool);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(each_allocation_of_libpq_may_fail),
                WEIR_TEST(each_allocation_of_libpq_may_fail_in_a_pipeline),
                WEIR_TEST(memory_of_libpq_may_end),
                WEIR_TEST(many_allocations_of_libpq_may_fail),
                WEIR_TEST(a_row_of_copy_that_finds_no_memory_ends_it),
        };
        unsigned count = 0;

        dl_iterate_phdr(visit, &count);
        if (count == 0) {
                printf("libpq is not shared here: pq_libpq is skipped\n");
                return 77;
        }
        return server_main("pq_libpq", tests, sizeof tests / sizeof *tests);
}
