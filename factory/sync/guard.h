/* factory/sync/guard.h: what a series holds. */
#ifndef WEIR_FACTORY_GUARD_H
#define WEIR_FACTORY_GUARD_H

#include <stddef.h>

#include <weir/guard.h>

/* "holds guard "db" for 4.2 s" or the like, for the first of those that it holds; nothing for none.  Under the series' lock. */
void weir__guard_describe_held(const struct weir_series *series, char *out, size_t room);

#endif
