/* database/redis/names.c: what is known of commands: which wait at the server, which only read, which change their connection,
 * where their keys are; and the slots of keys in a cluster. */
#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "database/redis/redis.h"

#define COMMAND_NAME_MAX 20 /* bytes */

#define R WEIR__REDIS_READS
#define W WEIR__REDIS_WAITS
#define C WEIR__REDIS_CHANGES
#define M WEIR__REDIS_MAY_WAIT
#define S (WEIR__REDIS_CHANGES | WEIR__REDIS_IN_SESSIONS)

static const struct weir__redis_name names[] = {
        {"APPEND", 0, 1},
        {"ASKING", S, 0},
        {"AUTH", S, 0},
        {"BGREWRITEAOF", 0, 0},
        {"BGSAVE", 0, 0},
        {"BITCOUNT", R, 1},
        {"BITFIELD_RO", R, 1},
        {"BITOP", 0, 2},
        {"BITPOS", R, 1},
        {"BLMOVE", W, 1},
        {"BLMPOP", W, WEIR__REDIS_KEY_COUNTED},
        {"BLPOP", W, 1},
        {"BRPOP", W, 1},
        {"BRPOPLPUSH", W, 1},
        {"BZMPOP", W, WEIR__REDIS_KEY_COUNTED},
        {"BZPOPMAX", W, 1},
        {"BZPOPMIN", W, 1},
        {"CLIENT", WEIR__REDIS_BY_WORD, 0},
        {"CLUSTER", 0, 0},
        {"COMMAND", R, 0},
        {"CONFIG", 0, 0},
        {"DBSIZE", R, 0},
        {"DISCARD", S, 0},
        {"DUMP", R, 1},
        {"ECHO", R, 0},
        {"EVAL", 0, WEIR__REDIS_KEY_COUNTED},
        {"EVALSHA", 0, WEIR__REDIS_KEY_COUNTED},
        {"EVALSHA_RO", R, WEIR__REDIS_KEY_COUNTED},
        {"EVAL_RO", R, WEIR__REDIS_KEY_COUNTED},
        {"EXEC", S, 0},
        {"EXISTS", R, 1},
        {"EXPIRETIME", R, 1},
        {"FAILOVER", 0, 0},
        {"FCALL", 0, WEIR__REDIS_KEY_COUNTED},
        {"FCALL_RO", R, WEIR__REDIS_KEY_COUNTED},
        {"FLUSHALL", 0, 0},
        {"FLUSHDB", 0, 0},
        {"FUNCTION", 0, 0},
        {"GEODIST", R, 1},
        {"GEOHASH", R, 1},
        {"GEOPOS", R, 1},
        {"GEOSEARCH", R, 1},
        {"GET", R, 1},
        {"GETBIT", R, 1},
        {"GETRANGE", R, 1},
        {"HELLO", C, 0},
        {"HEXISTS", R, 1},
        {"HGET", R, 1},
        {"HGETALL", R, 1},
        {"HKEYS", R, 1},
        {"HLEN", R, 1},
        {"HMGET", R, 1},
        {"HRANDFIELD", R, 1},
        {"HSCAN", R, 1},
        {"HSTRLEN", R, 1},
        {"HVALS", R, 1},
        {"INFO", R, 0},
        {"KEYS", R, 0},
        {"LASTSAVE", R, 0},
        {"LCS", R, 1},
        {"LINDEX", R, 1},
        {"LLEN", R, 1},
        {"LMPOP", 0, WEIR__REDIS_KEY_FIRST},
        {"LPOS", R, 1},
        {"LRANGE", R, 1},
        {"MEMORY", R, 2},
        {"MGET", R, 1},
        {"MONITOR", C, 0},
        {"MULTI", S, 0},
        {"OBJECT", R, 2},
        {"PEXPIRETIME", R, 1},
        {"PFCOUNT", R, 1},
        {"PING", R, 0},
        {"PSUBSCRIBE", C, 0},
        {"PSYNC", C, 0},
        {"PTTL", R, 1},
        {"PUBLISH", 0, 0},
        {"PUBSUB", R, 0},
        {"PUNSUBSCRIBE", C, 0},
        {"QUIT", C, 0},
        {"RANDOMKEY", R, 0},
        {"READONLY", S, 0},
        {"READWRITE", S, 0},
        {"RESET", C, 0},
        {"ROLE", R, 0},
        {"SAVE", 0, 0},
        {"SCAN", R, 0},
        {"SCARD", R, 1},
        {"SCRIPT", WEIR__REDIS_BY_WORD, 0},
        {"SDIFF", R, 1},
        {"SELECT", S, 0},
        {"SHUTDOWN", 0, 0},
        {"SINTER", R, 1},
        {"SINTERCARD", R, WEIR__REDIS_KEY_FIRST},
        {"SISMEMBER", R, 1},
        {"SLOWLOG", 0, 0},
        {"SMEMBERS", R, 1},
        {"SMISMEMBER", R, 1},
        {"SORT_RO", R, 1},
        {"SPUBLISH", 0, 1},
        {"SRANDMEMBER", R, 1},
        {"SSCAN", R, 1},
        {"SSUBSCRIBE", C, 1},
        {"STRLEN", R, 1},
        {"SUBSCRIBE", C, 0},
        {"SUBSTR", R, 1},
        {"SUNION", R, 1},
        {"SUNSUBSCRIBE", C, 1},
        {"SWAPDB", 0, 0},
        {"SYNC", C, 0},
        {"TIME", R, 0},
        {"TTL", R, 1},
        {"TYPE", R, 1},
        {"UNSUBSCRIBE", C, 0},
        {"UNWATCH", S, 0},
        {"WAIT", W | S, 0},
        {"WAITAOF", W | S, 0},
        {"WATCH", S, 1},
        {"XGROUP", 0, 2},
        {"XINFO", R, 2},
        {"XLEN", R, 1},
        {"XPENDING", R, 1},
        {"XRANGE", R, 1},
        {"XREAD", M, WEIR__REDIS_KEY_STREAMS},
        {"XREADGROUP", M, WEIR__REDIS_KEY_STREAMS},
        {"XREVRANGE", R, 1},
        {"ZCARD", R, 1},
        {"ZCOUNT", R, 1},
        {"ZDIFF", R, WEIR__REDIS_KEY_FIRST},
        {"ZINTER", R, WEIR__REDIS_KEY_FIRST},
        {"ZINTERCARD", R, WEIR__REDIS_KEY_FIRST},
        {"ZLEXCOUNT", R, 1},
        {"ZMPOP", 0, WEIR__REDIS_KEY_FIRST},
        {"ZMSCORE", R, 1},
        {"ZRANDMEMBER", R, 1},
        {"ZRANGE", R, 1},
        {"ZRANGEBYLEX", R, 1},
        {"ZRANGEBYSCORE", R, 1},
        {"ZRANK", R, 1},
        {"ZREVRANGE", R, 1},
        {"ZREVRANGEBYLEX", R, 1},
        {"ZREVRANGEBYSCORE", R, 1},
        {"ZREVRANK", R, 1},
        {"ZSCAN", R, 1},
        {"ZSCORE", R, 1},
        {"ZUNION", R, WEIR__REDIS_KEY_FIRST},
};

static const struct weir__redis_name unknown = {"", 0, 1};

/* A table of the names, open, at most half full. */
#define SLOTS 512
static uint8_t slots[SLOTS]; /* the index of the name, and 1; 0: none */
static atomic_bool is_filled;

/* Without the case of letters. */
static inline unsigned
hash(const char *text, size_t size)
{
        unsigned first = (unsigned char)text[0] & 0xdf, last = (unsigned char)text[size - 1] & 0xdf,
                 middle = (unsigned char)text[size / 2] & 0xdf;

        return (first * 31 + middle * 7 + last * 57 + (unsigned)size * 101) % SLOTS;
}

/* Whether the text is that name, in whatever case. */
static inline bool
is_name(const char *name, const char *text, size_t size)
{
        for (size_t i = 0; i < size; i++) {
                unsigned char letter = (unsigned char)text[i];

                if ((unsigned char)name[i] != letter && ((unsigned char)(letter - 'a') > 25 || name[i] != letter - 32))
                        return false;
        }
        return !name[size];
}

static void
fill_slots(void)
{
        _Static_assert(sizeof names / sizeof *names < UINT8_MAX, "too many names");
        for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
                unsigned slot = hash(names[i].name, strlen(names[i].name));

                while (slots[slot])
                        slot = (slot + 1) % SLOTS;
                slots[slot] = (uint8_t)(i + 1);
        }
        atomic_store_explicit(&is_filled, true, memory_order_release);
}

/* The table of slots is filled. */
static inline __attribute__((__always_inline__)) const struct weir__redis_name *
look_up(const char *text, size_t size)
{
        for (unsigned slot = hash(text, size); slots[slot]; slot = (slot + 1) % SLOTS) {
                const struct weir__redis_name *name = &names[slots[slot] - 1];

                if (is_name(name->name, text, size))
                        return name;
        }
        return &unknown;
}

/* Rare calls are kept out of line, so the others save no registers for them. */
#define RARE static __attribute__((noinline))

RARE const struct weir__redis_name *
fill_and_look_up(const char *text, size_t size)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        pthread_once(&once, fill_slots);
        return look_up(text, size);
}

/* Never NULL: a command that is not known has no traits, and its key is the first argument.  Each command comes here. */
static inline __attribute__((__always_inline__)) const struct weir__redis_name *
find(const char *text, size_t size)
{
        if (!size || size > COMMAND_NAME_MAX)
                return &unknown;
        if (!atomic_load_explicit(&is_filled, memory_order_acquire))
                return fill_and_look_up(text, size);
        return look_up(text, size);
}

static bool
has_word(const char *word, size_t count, const char *const *arguments, const size_t *sizes)
{
        size_t size = strlen(word);

        for (size_t i = 1; i < count; i++)
                if ((sizes ? sizes[i] : strlen(arguments[i])) == size && strncasecmp(arguments[i], word, size) == 0)
                        return true;
        return false;
}

static bool
is_word(const char *word, const char *text, size_t size)
{
        return strlen(word) == size && strncasecmp(text, word, size) == 0;
}

/* Some words of CLIENT and SCRIPT change the connection's replies, or stop them.  Other commands could not use it then. */
static unsigned
traits_of_word(const char *text, size_t size)
{
        static const char *const in_sessions[] = {"TRACKING", "CACHING", "NO-EVICT", "NO-TOUCH", "SETNAME", "SETINFO"};

        if (is_word("REPLY", text, size) || is_word("DEBUG", text, size))
                return C;
        for (size_t i = 0; i < sizeof in_sessions / sizeof *in_sessions; i++)
                if (is_word(in_sessions[i], text, size))
                        return S;
        return 0;
}

/* Those that depend on words behind the name. */
RARE unsigned
traits_by_words(unsigned traits, size_t count, const char *const *arguments, const size_t *sizes)
{
        if (traits & WEIR__REDIS_BY_WORD)
                return count > 1 ? traits_of_word(arguments[1], sizes ? sizes[1] : strlen(arguments[1])) : 0;
        return has_word("BLOCK", count, arguments, sizes) ? traits | WEIR__REDIS_WAITS : traits;
}

unsigned
weir__redis_traits(size_t count, const char *const *arguments, const size_t *sizes)
{
        unsigned traits = find(arguments[0], sizes ? sizes[0] : strlen(arguments[0]))->traits;

        return traits & (WEIR__REDIS_BY_WORD | WEIR__REDIS_MAY_WAIT) ? traits_by_words(traits, count, arguments, sizes) : traits;
}

/* -- slots -- */

/* CRC-16/XMODEM. */
static unsigned
checksum(const char *data, size_t size)
{
        unsigned value = 0;

        for (size_t i = 0; i < size; i++) {
                value ^= (unsigned)(unsigned char)data[i] << 8;
                for (unsigned bit = 0; bit < 8; bit++)
                        value = value & 0x8000 ? (value << 1 ^ 0x1021) & 0xffff : value << 1;
        }
        return value;
}

/* Of "a{b}c" only "b" counts. */
int
weir__redis_slot_of(const char *key, size_t size)
{
        const char *open = memchr(key, '{', size);
        const char *close = open ? memchr(open, '}', size - (size_t)(open - key)) : NULL;

        if (close && close > open + 1)
                return (int)(checksum(open + 1, (size_t)(close - open) - 1) % WEIR__REDIS_SLOTS);
        return (int)(checksum(key, size) % WEIR__REDIS_SLOTS);
}

static size_t
size_of(const char *const *arguments, const size_t *sizes, size_t index)
{
        return sizes ? sizes[index] : strlen(arguments[index]);
}

static bool
is_zero(const char *text, size_t size)
{
        return size == 1 && *text == '0';
}

/* Which argument is the first key; 0: none. */
static size_t
first_key(int key, size_t count, const char *const *arguments, const size_t *sizes)
{
        size_t counter = key == WEIR__REDIS_KEY_COUNTED ? 2 : 1;

        if (key >= 0)
                return (size_t)key;
        if (key == WEIR__REDIS_KEY_STREAMS) {
                for (size_t i = 1; i < count; i++)
                        if (size_of(arguments, sizes, i) == 7 && strncasecmp(arguments[i], "STREAMS", 7) == 0)
                                return i + 1;
                return 0;
        }
        if (count <= counter || is_zero(arguments[counter], size_of(arguments, sizes, counter)))
                return 0;
        return counter + 1;
}

int
weir__redis_slot(size_t count, const char *const *arguments, const size_t *sizes)
{
        const struct weir__redis_name *name = find(arguments[0], size_of(arguments, sizes, 0));
        size_t index = first_key(name->key, count, arguments, sizes);

        return index && index < count ? weir__redis_slot_of(arguments[index], size_of(arguments, sizes, index)) : -1;
}
