/* test/fuzz/names_fuzz.c: the cache of names, beside a model that is an array.
 *
 * The first byte of an input is the room of the cache.  Each further three bytes are an act: a look-up, an answer that is put in,
 * time that passes, or a flush; for one of a few names, whose hashes collide.  What must hold then:
 *
 * - The cache finds what the model has, with that answer, and nothing else.
 * - It holds no more than it may, and what leaves it is what was not used for longest.
 * - All references come back. */
#include <stdbool.h>

#include "net/resolve/cache.h"
#include "test/fuzz/fuzz.h"

#define NAMES 32

struct entry {
        struct weir__answer *answer; /* NULL: there is none */
        weir_nsec expires_at;
        unsigned used; /* the number of the act that has used it last */
};

static struct entry model[NAMES];
static unsigned acts, count, most;

static struct weir__host_key
key_of(unsigned name)
{
        static const char text[] = "abcdefgh";

        return (struct weir__host_key){text, (uint8_t)(1 + name % 8), (uint8_t)(name / 8 % 2), name / 16 * 16};
}

static void
drop(struct entry *entry)
{
        weir__answer_unref(entry->answer);
        entry->answer = NULL;
        count--;
}

static void
find(struct weir__name_cache *cache, unsigned name, weir_nsec now, struct weir__list *left)
{
        struct entry *entry = &model[name];
        struct weir__host_key key = key_of(name);
        struct weir__answer *answer = weir__name_cache_find(cache, &key, now, left);

        if (entry->answer && now >= entry->expires_at) {
                drop(entry);
        }
        entry->used = acts;
        FUZZ_CHECK(answer == entry->answer);
        weir__answer_unref(answer);
}

static void
evict_oldest(void)
{
        struct entry *oldest = NULL;

        for (struct entry *each = model; each < model + NAMES; each++) {
                if (each->answer && (!oldest || each->used < oldest->used)) {
                        oldest = each;
                }
        }
        drop(oldest);
}

static void
put(struct weir__name_cache *cache, unsigned name, weir_nsec expires_at, struct weir__list *left)
{
        struct entry *entry = &model[name];
        struct weir__host_key key = key_of(name);
        struct weir__answer *answer = name % 2 ? weir__answer_new(1) : weir__answer_problem(-2, "%u", name);

        if (entry->answer) {
                drop(entry);
        } else if (count == most) {
                evict_oldest();
        }
        weir__name_cache_put(cache, weir__cached_new(&key, answer, expires_at), left);
        *entry = (struct entry){answer, expires_at, acts};
        count++;
}

static void
flush(struct weir__name_cache *cache, struct weir__list *left)
{
        weir__name_cache_flush(cache, left);
        for (unsigned i = 0; i < NAMES; i++) {
                if (model[i].answer) {
                        drop(&model[i]);
                }
        }
}

/* The model's reference is the only one. */
static void
check_all(struct weir__name_cache *cache)
{
        unsigned kept = 0;

        for (unsigned i = 0; i < NAMES; i++) {
                kept += model[i].answer != NULL;
                FUZZ_CHECK(!model[i].answer || model[i].answer->references == 2);
        }
        FUZZ_CHECK(kept == count && cache->count == count && count <= most);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct weir__list left = {0};
        weir_nsec now = 0;

        if (size == 0) {
                return 0;
        }
        most = 1 + data[0] % 24;
        struct weir__name_cache *cache = weir__name_cache_new(most);
        for (size_t at = 1; at + 3 <= size; at += 3) {
                unsigned name = data[at + 1] % NAMES;

                acts++;
                if (data[at] == 255) {
                        flush(cache, &left);
                } else if (data[at] % 4 == 0) {
                        now += data[at + 2];
                } else if (data[at] % 4 == 1) {
                        put(cache, name, now + data[at + 2], &left);
                } else {
                        find(cache, name, now, &left);
                }
                weir__cached_free_all(&left);
                check_all(cache);
        }
        flush(cache, &left);
        weir__cached_free_all(&left);
        check_all(cache);
        weir__name_cache_free(cache);
        return 0;
}
