/* test/queue_check.h: panics, with what was expected, when a structure of kernel/queue is not as it should be.  O(n). */
#ifndef WEIR_TEST_QUEUE_CHECK_H
#define WEIR_TEST_QUEUE_CHECK_H

#include "kernel/queue/timerq.h"

/* Returns the number of nodes. */
size_t rbtree_check(const struct weir__rbtree *tree);

void timerq_check(const struct weir__timerq *queue);

#endif
