/* test/slab_check.h: the structure of the slabs, looked at from inside. */
#ifndef WEIR_TEST_SLAB_CHECK_H
#define WEIR_TEST_SLAB_CHECK_H

/* Panics when the structure is not as kernel/memory/slab.c says. */
void slab_check(void);

#endif
