/* test/addon/mariadb_memory_test.c: allocations that fail. */
#include "test/memory_faults.h"

#include "test/addon/mariadb_server.h"
#include "test/addon/sql_memory.h"

static void
push_more(weir_mariadb *transaction, weir_series *series)
{
        (void)transaction, (void)series;
}

int
main(void)
{
        return memory_main("mariadb_memory");
}
