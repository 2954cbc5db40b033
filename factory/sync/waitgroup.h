/* factory/sync/waitgroup.h: a waitgroup for those who wait without a thread. */
#ifndef WEIR_FACTORY_WAITGROUP_H
#define WEIR_FACTORY_WAITGROUP_H

#include <weir/waitgroup.h>

/* Makes a task that ends when the count comes to zero for the next time, or is zero now.  The task does not use the group: it may
 * be freed as soon as the status is 0.  NULL when out of memory. */
struct weir_task *weir__waitgroup_wait_new(weir_waitgroup *group);

#endif
