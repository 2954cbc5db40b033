/* test/piece_test.c: memory for pieces of bodies: kernel/memory/piece.h. */
#include "kernel/memory/piece.h"

#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "kernel/memory/watched.h"
#include "test/support.h"

static void
a_piece_has_room_around_it(void)
{
        static const size_t sizes[] = {0, 1, 1000, WEIR__PIECE_LARGE / 2 + 1, WEIR__PIECE_LARGE, 3 * WEIR__PIECE_LARGE};

        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                char *piece = weir__piece_new(sizes[i]);

                CU_ASSERT_PTR_NOT_NULL_FATAL(piece);
                memset(piece - WEIR__PIECE_FRONT, 'x', WEIR__PIECE_FRONT + sizes[i] + WEIR__PIECE_BEHIND);
                weir__piece_free(piece);
        }
        char *copy = weir__piece_copy("abc", 3);
        CU_ASSERT_STRING_EQUAL(copy, "abc");
        weir__piece_free(copy);
        weir__piece_free(NULL);
        CU_ASSERT_PTR_NULL(weir__piece_new(SIZE_MAX - 8));
}

static void
a_large_piece_serves_again(void)
{
        if (weir__memory_is_watched)
                return;
        char *large = weir__piece_new(WEIR__PIECE_LARGE);
        weir__piece_free(large);
        char *next = weir__piece_new(WEIR__PIECE_LARGE / 2 + 1), *other = weir__piece_new(WEIR__PIECE_LARGE);
        CU_ASSERT_PTR_EQUAL(next, large);
        CU_ASSERT_PTR_NOT_EQUAL(other, large);
        weir__piece_free(next);
        weir__piece_free(other);
        weir__piece_release();
}

#define MANY 100

static void *
leave_some(void *unused)
{
        char *pieces[MANY];

        (void)unused;
        for (int i = 0; i < MANY; i++)
                pieces[i] = weir__piece_new(WEIR__PIECE_LARGE);
        for (int i = 0; i < MANY; i++)
                weir__piece_free(pieces[i]);
        return NULL;
}

/* Of a hundred some are kept, and none when the thread has ended. */
static void
a_thread_leaves_none(void)
{
        pthread_t thread;
        size_t before = mallinfo2().uordblks;

        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, leave_some, NULL), 0);
        pthread_join(thread, NULL);
        CU_ASSERT_TRUE(mallinfo2().uordblks < before + WEIR__PIECE_LARGE);
        leave_some(NULL);
        CU_ASSERT_TRUE(mallinfo2().uordblks < before + 20 * WEIR__PIECE_LARGE);
        weir__piece_release();
        CU_ASSERT_TRUE(mallinfo2().uordblks < before + WEIR__PIECE_LARGE);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_piece_has_room_around_it),
                WEIR_TEST(a_large_piece_serves_again),
                WEIR_TEST(a_thread_leaves_none),
        };

        return weir_test_main("piece", tests, sizeof tests / sizeof *tests);
}
