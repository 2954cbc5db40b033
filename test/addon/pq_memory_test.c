/* test/addon/pq_memory_test.c: allocations that fail. */
#include "test/memory_faults.h"

#include "test/addon/pq_server.h"
#include "test/addon/sql_memory.h"

static void
push_part(weir_pq *transaction, weir_series *series, void *context)
{
        (void)context;
        weir_series_push(series, weir_pq_query_new(transaction, "SELECT 1/0", NULL, NULL));
}

static void
push_more(weir_pq *transaction, weir_series *series)
{
        weir_series_push(series, weir_pq_query_new(transaction, SQL_COUNT_TO(3), NULL, NULL));
        weir_series_push(series, weir_pq_savepoint_new(transaction, push_part, NULL, NULL));
}

int
main(void)
{
        return memory_main("pq_memory");
}
