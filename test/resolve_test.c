/* test/resolve_test.c: look-ups of names, against a server of names of the suite. */
#include "test/fixture.h"

#include <errno.h>

#include "net/resolve/files.h"
#include "test/dns_server.h"

/* -- the resolver of a test -- */

static struct weir_resolver_config config;

static void
configure(void)
{
        CU_ASSERT_EQUAL(weir_resolver_configure(&config), 0);
}

static void
begin_with(weir_nsec timeout, int tries, bool is_virtual)
{
        dns_start();
        config = (struct weir_resolver_config)WEIR_RESOLVER_CONFIG_DEFAULT;
        config.mode = WEIR_RESOLVER_DNS;
        config.servers = dns.servers;
        config.timeout = timeout;
        config.tries = tries;
        configure();
        if (is_virtual)
                weir_test_begin_virtual();
        else
                weir_test_begin_real(2);
}

/* The clock is virtual, and stands while a name is looked up. */
static void
begin(void)
{
        begin_with(WEIR_SEC(20), 2, true);
}

static void
end(void)
{
        weir_test_end();
        CU_ASSERT_EQUAL(weir_resolver_configure(NULL), 0);
        dns_stop();
}

static struct weir_resolver_stats
stats(void)
{
        struct weir_resolver_stats now;

        weir_resolver_stats(&now);
        return now;
}

/* -- look-ups that record what they saw -- */

struct seen {
        struct weir_test_record record;
        unsigned count;
        char text[70][WEIR_RESOLVE_TEXT];
        char problem[600];
};

static void
see(weir_task *resolve, void *context)
{
        struct seen *seen = context;

        seen->count = weir_resolve_count(resolve);
        for (unsigned i = 0; i < seen->count && i < 70; i++) {
                socklen_t size;
                const struct sockaddr *address = weir_resolve_address(resolve, i, &size);

                CU_ASSERT(weir_resolve_write(resolve, i, seen->text[i], sizeof seen->text[i]) > 0);
                CU_ASSERT(size == (address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)));
        }
        CU_ASSERT_PTR_NULL(weir_resolve_address(resolve, seen->count, NULL));
        CU_ASSERT_EQUAL(weir_resolve_write(resolve, seen->count, seen->text[69], WEIR_RESOLVE_TEXT), 0);
        const char *problem = weir_resolve_problem(resolve);
        CU_ASSERT_EQUAL(problem != NULL, weir_task_status(resolve) != 0);
        snprintf(seen->problem, sizeof seen->problem, "%s", problem ? problem : "");
        weir_test_note(&seen->record, weir_task_status(resolve));
}

static weir_task *
resolve(const char *name, int family, struct seen *seen)
{
        memset(seen, 0, sizeof *seen);
        return weir_test_recorded(weir_resolve_new(name, family, see, seen));
}

static struct seen *
look_up(const char *name, int family)
{
        static struct seen seen;

        weir_task_run(resolve(name, family, &seen));
        CU_ASSERT_EQUAL(seen.record.calls, 1);
        return &seen;
}

#define FOUND(name, family, count_, first)                     \
        do {                                                   \
                const struct seen *it = look_up(name, family); \
                                                               \
                CU_ASSERT_EQUAL(it->record.status, 0);         \
                CU_ASSERT_EQUAL(it->count, (count_));          \
                CU_ASSERT_STRING_EQUAL(it->text[0], (first));  \
        } while (0)

static bool
is_problem(const struct seen *seen, int status, const char *words)
{
        char expected[600];

        snprintf(expected, sizeof expected, words, dns.servers);
        if (seen->record.status == status && strcmp(seen->problem, expected) == 0)
                return true;
        fprintf(stderr, "got %d: %s\n", seen->record.status, seen->problem);
        return false;
}

#define FAILED(name, status, words) CU_ASSERT(is_problem(look_up(name, 0), status, words))

/* -- answers -- */

static void
the_addresses_of_both_families_come_ipv6_first(void)
{
        begin();
        const struct seen *seen = look_up("both.test", 0);
        CU_ASSERT_EQUAL(seen->count, 2);
        CU_ASSERT_STRING_EQUAL(seen->text[0], "2001:db8::1");
        CU_ASSERT_STRING_EQUAL(seen->text[1], "192.0.2.1");
        FOUND("both.test", AF_INET, 1, "192.0.2.1");
        FOUND("both.test", AF_INET6, 1, "2001:db8::1");
        FOUND("v4.test", 0, 1, "192.0.2.1");
        FOUND("v6.test", 0, 1, "2001:db8::1");
        FOUND("V4.Test.", 0, 1, "192.0.2.1");
        end();
}

static void
literals_and_names_of_this_host_ask_nobody(void)
{
        begin();
        FOUND("192.0.2.9", 0, 1, "192.0.2.9");
        FOUND("2001:DB8::9", AF_INET6, 1, "2001:db8::9");
        FOUND("x.localhost", 0, 2, "::1");
        FOUND("x.localhost", AF_INET, 1, "127.0.0.1");
        CU_ASSERT(is_problem(look_up("192.0.2.9", AF_INET6), -ENOENT, "192.0.2.9 is an address of the other family"));
        CU_ASSERT_EQUAL(atomic_load(&dns.queries), 0);
        end();
}

static void
each_failure_has_a_code_and_words_of_its_own(void)
{
        begin();
        FAILED("nx.test", -ENOENT, "no such name \"nx.test\": NXDOMAIN from %s");
        FAILED("fail.test", -EIO, "no addresses of \"fail.test\": SERVFAIL from %s");
        FAILED("refused.test", -EIO, "no addresses of \"refused.test\": REFUSED from %s");
        FAILED("garbage.test", -EIO, "no addresses of \"garbage.test\": a malformed answer from %s");
        CU_ASSERT(
                is_problem(look_up("v4.test", AF_INET6), -ENOENT, "\"v4.test\" has no IPv6 addresses: an empty answer from %s"));
        end();
}

static void
silence_is_no_failure_of_the_name(void)
{
        begin_with(WEIR_MSEC(20), 2, true);
        FAILED("silent.test", -EAGAIN, "no answer for \"silent.test\" from %s");
        WEIR_TEST_EVENTUALLY(atomic_load(&dns.queries) == 4); /* two tries for each family; the server may count the last later */
        end();
}

static void
what_is_no_name_is_refused(void)
{
        char label[80], name[300] = "";

        begin();
        FAILED("", -EINVAL, "\"\" is no name of a host");
        FAILED("a..b", -EINVAL, "\"a..b\" is no name of a host");
        FAILED(".a", -EINVAL, "\".a\" is no name of a host");
        FAILED("a b", -EINVAL, "\"a b\" is no name of a host: the name of a host has no spaces and no control characters");
        FAILED("b\xc3\xbc"
               "cher.test",
               -EINVAL,
               "\"b\xc3\xbc"
               "cher.test\" is no name of a host");
        memset(label, 'a', 64);
        strcpy(label + 64, ".test");
        CU_ASSERT_EQUAL(look_up(label, 0)->record.status, -EINVAL);
        CU_ASSERT_EQUAL(look_up(label + 1, 0)->record.status, 0);
        for (unsigned i = 0; i < 127; i++)
                strcat(name, i ? ".a" : "a");
        CU_ASSERT_EQUAL(strlen(name), 253);
        CU_ASSERT_EQUAL(look_up(name, 0)->record.status, 0);
        strcat(name, "a");
        CU_ASSERT_EQUAL(look_up(name, 0)->record.status, -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_resolve_new(NULL, 0, NULL, NULL)), -EINVAL);
        CU_ASSERT_EQUAL(weir_task_start(weir_resolve_new("a", AF_UNIX, NULL, NULL)), -EINVAL);
        end();
}

static void
many_addresses_come_whole_also_over_tcp(void)
{
        begin();
        FOUND("many.test", 0, 20, "192.0.2.1");
        CU_ASSERT_EQUAL(atomic_load(&dns.over_tcp), 0);
        FOUND("big.test", 0, 60, "192.0.2.1");
        CU_ASSERT(atomic_load(&dns.over_tcp) > 0);
        end();
}

static void
odd_datagrams_are_passed_over(void)
{
        begin();
        FOUND("tiny.test", 0, 1, "192.0.2.1");
        FOUND("nothing.test", 0, 1, "192.0.2.1");
        CU_ASSERT_EQUAL(atomic_load(&dns.queries), 4);
        end();
}

/* -- the cache -- */

/* How many queries a look-up of IPv4 addresses makes. */
static unsigned
cost(const char *name)
{
        unsigned before = atomic_load(&dns.queries);

        look_up(name, AF_INET);
        return atomic_load(&dns.queries) - before;
}

static void
an_answer_is_kept_as_long_as_it_holds(void)
{
        struct weir_resolver_stats before = stats();

        begin();
        CU_ASSERT_EQUAL(cost("short.test"), 1);
        CU_ASSERT_EQUAL(cost("SHORT.test"), 0);
        weir_test_pass(WEIR_SEC(2) - 1);
        CU_ASSERT_EQUAL(cost("short.test"), 0);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(cost("short.test"), 1);
        CU_ASSERT_EQUAL(cost("zero.test"), 1);
        CU_ASSERT_EQUAL(cost("zero.test"), 1);
        CU_ASSERT_EQUAL(cost("cname.test"), 1);
        weir_test_pass(WEIR_SEC(30) - 1);
        CU_ASSERT_EQUAL(cost("cname.test"), 0);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(cost("cname.test"), 1);
        CU_ASSERT_EQUAL(stats().hits - before.hits, 3);
        CU_ASSERT_EQUAL(stats().misses - before.misses, 6);
        end();
}

static void
a_name_that_is_not_there_is_kept_as_well(void)
{
        begin();
        CU_ASSERT_EQUAL(cost("nx.test"), 1);
        weir_test_pass(WEIR_SEC(20) - 1);
        CU_ASSERT_EQUAL(cost("nx.test"), 0);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(cost("nx.test"), 1);
        CU_ASSERT_EQUAL(cost("nxbare.test"), 1);
        weir_test_pass(WEIR_SEC(5) - 1);
        CU_ASSERT_EQUAL(cost("nxbare.test"), 0);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(cost("nxbare.test"), 1);
        CU_ASSERT_EQUAL(cost("v6.test"), 1); /* it has no IPv4 address */
        weir_test_pass(WEIR_SEC(7) - 1);
        CU_ASSERT_EQUAL(cost("v6.test"), 0);
        weir_test_pass(1);
        CU_ASSERT_EQUAL(cost("v6.test"), 1);
        CU_ASSERT(cost("fail.test") > 0);
        CU_ASSERT(cost("fail.test") > 0);
        end();
}

static void
half_an_answer_is_kept_for_seconds(void)
{
        begin();
        FOUND("failing6.test", 0, 1, "192.0.2.4");
        unsigned before = atomic_load(&dns.queries);
        weir_test_pass(WEIR_SEC(5) - 1);
        FOUND("failing6.test", 0, 1, "192.0.2.4");
        CU_ASSERT_EQUAL(atomic_load(&dns.queries), before);
        weir_test_pass(1);
        FOUND("failing6.test", 0, 1, "192.0.2.4");
        CU_ASSERT(atomic_load(&dns.queries) > before);
        end();
}

static void
the_config_bounds_what_is_kept(void)
{
        begin();
        config.names = 2;
        config.max_keep = WEIR_SEC(10);
        config.max_negative = WEIR_SEC(3);
        configure();
        CU_ASSERT_EQUAL(cost("a.test"), 1);
        CU_ASSERT_EQUAL(cost("b.test"), 1);
        CU_ASSERT_EQUAL(cost("a.test"), 0);
        CU_ASSERT_EQUAL(cost("c.test"), 1); /* in place of b */
        CU_ASSERT_EQUAL(cost("a.test"), 0);
        CU_ASSERT_EQUAL(cost("b.test"), 1);
        CU_ASSERT_EQUAL(stats().entries, 2);
        weir_test_pass(WEIR_SEC(10));
        CU_ASSERT_EQUAL(cost("a.test"), 1);
        CU_ASSERT_EQUAL(cost("nx.test"), 1);
        weir_test_pass(WEIR_SEC(3));
        CU_ASSERT_EQUAL(cost("nx.test"), 1);
        weir_resolver_flush();
        CU_ASSERT_EQUAL(stats().entries, 0);
        CU_ASSERT_EQUAL(cost("a.test"), 1);
        config.names = -1;
        configure();
        CU_ASSERT_EQUAL(cost("a.test"), 1);
        CU_ASSERT_EQUAL(cost("a.test"), 1);
        CU_ASSERT_EQUAL(stats().entries, 0);
        end();
}

static void
a_config_must_make_sense(void)
{
        const char *const servers[] = {"",  "x",          "127.0.0.1:99999", "127.0.0.1:x", "1.2.3",
                                       ",", "127.0.0.1,", "127.0.0.1:0",     "a.test:53",   "unix:x"};
        struct weir_resolver_config fine = WEIR_RESOLVER_CONFIG_DEFAULT, wrong;

#define REFUSED(field, value)                                              \
        do {                                                               \
                wrong = fine;                                              \
                wrong.field = (value);                                     \
                CU_ASSERT_EQUAL(weir_resolver_configure(&wrong), -EINVAL); \
        } while (0)
        REFUSED(size, 0);
        REFUSED(size, sizeof fine + 1);
        REFUSED(mode, -1);
        REFUSED(mode, 3);
        REFUSED(tries, -1);
        REFUSED(tries, 101);
        REFUSED(timeout, -1);
        REFUSED(names, -2);
        REFUSED(names, 1000001);
        REFUSED(max_keep, -1);
        REFUSED(max_negative, -1);
        for (unsigned i = 0; i < sizeof servers / sizeof *servers; i++) {
                wrong = fine;
                wrong.servers = servers[i];
                if (weir_resolver_configure(&wrong) != -EINVAL) {
                        fprintf(stderr, "\"%s\" was taken\n", servers[i]);
                        CU_FAIL("servers");
                }
        }
        fine.servers = "127.0.0.1,[::1]:53,192.0.2.1:5353";
        CU_ASSERT_EQUAL(weir_resolver_configure(&fine), 0);
        CU_ASSERT_EQUAL(weir_resolver_configure(NULL), 0);
}

/* -- one look-up for all who wait -- */

static void
all_who_want_a_name_wait_for_one_look_up(void)
{
        enum { WAITS = 50 };
        static struct seen seen[WAITS];
        struct weir_resolver_stats before = stats();

        begin_with(WEIR_SEC(20), 2, false);
        for (unsigned i = 0; i < WAITS; i++)
                CU_ASSERT_EQUAL(weir_task_start(resolve("held.test", 0, &seen[i])), 0);
        WEIR_TEST_EVENTUALLY(stats().joined - before.joined == WAITS - 1 && atomic_load(&dns.holds) == 2);
        CU_ASSERT_EQUAL(stats().running, 1);
        dns_release();
        for (unsigned i = 0; i < WAITS; i++) {
                weir_test_wait_freed(&seen[i].record);
                WEIR_TEST_CALLED(&seen[i].record, 0);
                CU_ASSERT_EQUAL(seen[i].count, 2);
        }
        CU_ASSERT_EQUAL(atomic_load(&dns.queries), 2);
        CU_ASSERT_EQUAL(stats().running, 0);
        end();
}

static void
each_can_leave_alone_and_the_answer_is_kept(void)
{
        enum { WAITS = 20 };
        static struct seen seen[WAITS];
        weir_series *series[WAITS];
        struct weir_resolver_stats before = stats();

        begin_with(WEIR_SEC(20), 2, false);
        for (unsigned i = 0; i < WAITS; i++) {
                series[i] = weir_series_new(NULL, NULL);
                weir_series_push(series[i], resolve("held.test", 0, &seen[i]));
                weir_series_ref(series[i]);
                CU_ASSERT_EQUAL(weir_series_start(series[i]), 0);
        }
        WEIR_TEST_EVENTUALLY(stats().joined - before.joined == WAITS - 1 && atomic_load(&dns.holds) == 2);
        for (unsigned i = 0; i < WAITS; i++) /* the first one, too */
                if (i != 7)
                        weir_series_cancel(series[i]);
        for (unsigned i = 0; i < WAITS; i++) {
                if (i == 7)
                        continue;
                weir_test_wait_freed(&seen[i].record);
                WEIR_TEST_CALLED(&seen[i].record, -ECANCELED);
                CU_ASSERT_EQUAL(seen[i].count, 0);
        }
        CU_ASSERT_EQUAL(seen[7].record.calls, 0);
        weir_series_cancel(series[7]); /* nobody waits any more */
        weir_test_wait_freed(&seen[7].record);
        dns_release();
        WEIR_TEST_EVENTUALLY(stats().running == 0);
        CU_ASSERT_EQUAL(stats().entries, 1);
        FOUND("held.test", 0, 2, "2001:db8::1");
        CU_ASSERT_EQUAL(atomic_load(&dns.queries), 2);
        for (unsigned i = 0; i < WAITS; i++)
                weir_series_unref(series[i]);
        end();
}

static void
a_flush_makes_a_look_up_that_is_under_way_void(void)
{
        static struct seen one, other;

        begin_with(WEIR_SEC(20), 2, false);
        CU_ASSERT_EQUAL(weir_task_start(resolve("held.test", 0, &one)), 0);
        WEIR_TEST_EVENTUALLY(atomic_load(&dns.holds) == 2);
        weir_resolver_flush();
        CU_ASSERT_EQUAL(weir_task_start(resolve("held.test", 0, &other)), 0);
        WEIR_TEST_EVENTUALLY(atomic_load(&dns.holds) == 4); /* it has not joined */
        CU_ASSERT_EQUAL(stats().running, 2);
        dns_release();
        weir_test_wait_freed(&one.record);
        weir_test_wait_freed(&other.record);
        WEIR_TEST_CALLED(&one.record, 0);
        WEIR_TEST_CALLED(&other.record, 0);
        end();
}

static void
a_thousand_names_at_once(void)
{
        enum { NAMES = 1000 };
        static struct seen seen[NAMES];

        begin_with(WEIR_SEC(2), 10, false);
        for (unsigned i = 0; i < NAMES; i++) {
                char name[32];

                snprintf(name, sizeof name, "n%u.test", i);
                CU_ASSERT_EQUAL(weir_task_start(resolve(name, i % 2 ? AF_INET : 0, &seen[i])), 0);
        }
        for (unsigned i = 0; i < NAMES; i++) {
                weir_test_wait_freed(&seen[i].record);
                WEIR_TEST_CALLED(&seen[i].record, 0);
        }
        CU_ASSERT_EQUAL(stats().entries, NAMES);
        CU_ASSERT_EQUAL(stats().running, 0);
        end();
}

static void
a_shutdown_ends_what_waits(void)
{
        static struct seen held[3], line[300];

        begin_with(WEIR_SEC(20), 2, false);
        for (unsigned i = 0; i < 3; i++)
                CU_ASSERT_EQUAL(weir_task_start(resolve(i ? "held.test" : "silent.test", 0, &held[i])), 0);
        for (unsigned i = 0; i < 300; i++) {
                char name[40];

                snprintf(name, sizeof name, "silent.n%u", i);
                CU_ASSERT_EQUAL(weir_task_start(resolve(name, AF_INET, &line[i])), 0);
        }
        WEIR_TEST_EVENTUALLY(atomic_load(&dns.holds) == 2);
        weir_test_end();
        for (unsigned i = 0; i < 3; i++)
                WEIR_TEST_CALLED(&held[i].record, -ESHUTDOWN);
        for (unsigned i = 0; i < 300; i++)
                WEIR_TEST_CALLED(&line[i].record, -ESHUTDOWN);
        CU_ASSERT_EQUAL(stats().running, 0);
        CU_ASSERT_EQUAL(stats().entries, 0);
        weir_test_begin_real(2); /* and again */
        FOUND("both.test", 0, 2, "2001:db8::1");
        end();
}

static void
descriptors_come_back(void)
{
        begin_with(WEIR_SEC(20), 2, false);
        look_up("both.test", 0);
        weir_test_end();
        unsigned before = weir_test_entries_of("/proc/self/fd");
        for (unsigned i = 0; i < 3; i++) {
                weir_test_begin_real(2);
                config.tries = (int)i + 1;
                configure(); /* a new channel */
                look_up("both.test", 0);
                look_up("big.test", 0);
                config.tries = (int)i + 2;
                configure();
                look_up("v4.test", 0);
                weir_test_end();
                CU_ASSERT_EQUAL(weir_test_entries_of("/proc/self/fd"), before);
        }
        weir_test_begin_real(1);
        end();
}

/* -- the program's own function -- */

static _Atomic unsigned asked, released;

static int
answer(const char *host, int family, weir_resolver_reply *reply, void *context)
{
        CU_ASSERT_PTR_EQUAL(context, &asked);
        CU_ASSERT(family == 0 || family == AF_INET);
        atomic_fetch_add(&asked, 1);
        if (strcmp(host, "own.test") == 0) {
                CU_ASSERT_EQUAL(weir_resolver_reply_add(reply, "192.0.2.77"), 0);
                CU_ASSERT_EQUAL(weir_resolver_reply_add(reply, "2001:db8::77"), 0);
                CU_ASSERT_EQUAL(weir_resolver_reply_add(reply, "x.test"), -EINVAL);
                CU_ASSERT_EQUAL(weir_resolver_reply_add(reply, NULL), -EINVAL);
                weir_resolver_reply_keep(reply, WEIR_SEC(3));
                return 0;
        }
        return strcmp(host, "none.test") == 0 ? 0 : strcmp(host, "busy.test") == 0 ? -EBUSY : WEIR_RESOLVER_PASS;
}

static void
release(void *context)
{
        CU_ASSERT_PTR_EQUAL(context, &asked);
        atomic_fetch_add(&released, 1);
}

static void
a_function_of_the_program_answers_or_passes(void)
{
        begin();
        asked = released = 0;
        config.answer = answer;
        config.context = &asked;
        config.on_free = release;
        configure();
        FOUND("Own.Test", 0, 2, "192.0.2.77");
        FOUND("own.test", 0, 2, "192.0.2.77");
        CU_ASSERT_EQUAL(asked, 1);
        weir_test_pass(WEIR_SEC(3));
        FOUND("own.test", 0, 2, "192.0.2.77");
        CU_ASSERT_EQUAL(asked, 2);
        FOUND("own.test", AF_INET, 1, "192.0.2.77");
        FOUND("v4.test", 0, 1, "192.0.2.1");
        CU_ASSERT_EQUAL(look_up("none.test", 0)->record.status, -ENOENT);
        CU_ASSERT_EQUAL(look_up("busy.test", 0)->record.status, -EBUSY);
        CU_ASSERT_EQUAL(released, 0);
        config.answer = NULL;
        config.on_free = NULL;
        configure();
        WEIR_TEST_EVENTUALLY(atomic_load(&released) == 1); /* behind the last look-up that uses it */
        end();
}

static void
a_config_is_freed_behind_its_last_look_up(void)
{
        static struct seen seen;

        begin_with(WEIR_SEC(20), 2, false);
        released = 0;
        config.context = &asked;
        config.on_free = release;
        configure();
        CU_ASSERT_EQUAL(weir_task_start(resolve("held.test", 0, &seen)), 0);
        WEIR_TEST_EVENTUALLY(atomic_load(&dns.holds) == 2);
        config.on_free = NULL;
        configure();
        CU_ASSERT_EQUAL(released, 0);
        dns_release();
        weir_test_wait_freed(&seen.record);
        WEIR_TEST_EVENTUALLY(atomic_load(&released) == 1);
        end();
}

/* -- the files of the system -- */

static char directory[64], hosts[80], nsswitch[80], resolv[80];

static void
write_file(const char *path, const char *text)
{
        FILE *file = fopen(path, "w");

        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        fputs(text, file);
        fclose(file);
}

static void
begin_files(const char *order)
{
        char text[200];

        strcpy(directory, "/tmp/weir-resolve-XXXXXX");
        CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(directory));
        snprintf(hosts, sizeof hosts, "%s/hosts", directory);
        snprintf(nsswitch, sizeof nsswitch, "%s/nsswitch.conf", directory);
        snprintf(resolv, sizeof resolv, "%s/resolv.conf", directory);
        weir__name_paths = (struct weir__name_paths){hosts, nsswitch, resolv};
        write_file(hosts, "192.0.2.50 Host.Test alias # one\n\n2001:db8::50\thost.test\nx y\n192.0.2.51 v4.test\n");
        snprintf(text, sizeof text, "passwd: files\n hosts:\t%s # x\n", order);
        write_file(nsswitch, text);
        write_file(resolv, "search test other.test\noptions ndots:1\n");
        weir_resolver_flush();
        begin();
        config.mode = WEIR_RESOLVER_AUTO;
        configure();
}

static void
end_files(void)
{
        end();
        weir__name_paths = (struct weir__name_paths){"/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf"};
        weir_resolver_flush();
        unlink(hosts);
        unlink(nsswitch);
        unlink(resolv);
        rmdir(directory);
}

static void
the_file_of_hosts_comes_first(void)
{
        begin_files("files dns");
        FOUND("host.test", 0, 2, "192.0.2.50");
        FOUND("HOST.test.", AF_INET6, 1, "2001:db8::50");
        FOUND("alias", 0, 1, "192.0.2.50");
        FOUND("v4.test", 0, 1, "192.0.2.51");
        CU_ASSERT_EQUAL(atomic_load(&dns.queries), 0);
        FOUND("both.test", 0, 2, "2001:db8::1");
        write_file(hosts, "192.0.2.60 host.test\n");
        weir_resolver_flush(); /* else it is looked at after five seconds */
        FOUND("host.test", 0, 1, "192.0.2.60");
        end_files();
}

static void
the_order_of_nsswitch_holds(void)
{
        begin_files("dns files");
        FOUND("v4.test", 0, 1, "192.0.2.1");
        FOUND("host.test", 0, 1, "192.0.2.1"); /* the server knows each name but some */
        write_file(hosts, "192.0.2.60 nx.test\n");
        weir_resolver_flush();
        FOUND("nx.test", 0, 1, "192.0.2.60");
        end_files();
        begin_files("files");
        FOUND("v4.test", 0, 1, "192.0.2.51");
        CU_ASSERT_EQUAL(look_up("v6.test", 0)->record.status, -ENOENT);
        CU_ASSERT_EQUAL(atomic_load(&dns.queries), 0);
        end_files();
        begin_files("files mdns4_minimal [NOTFOUND=return] dns"); /* the C library has its own files */
        CU_ASSERT_EQUAL(look_up("localhost", AF_INET)->record.status, 0);
        CU_ASSERT_EQUAL(atomic_load(&dns.queries), 0);
        end_files();
}

static void
the_search_list_is_gone_through(void)
{
        begin_files("files dns");
        FOUND("v4", AF_INET, 1, "192.0.2.1"); /* v4.test */
        CU_ASSERT_EQUAL(atomic_load(&dns.queries), 1);
        FAILED("nx", -ENOENT, "no such name \"nx\": NXDOMAIN from %s");
        CU_ASSERT_EQUAL(atomic_load(&dns.queries), 7); /* nx.test, nx.other.test, nx; two families */
        FAILED("nx.", -ENOENT, "no such name \"nx.\": NXDOMAIN from %s");
        CU_ASSERT_EQUAL(atomic_load(&dns.queries), 9);
        FAILED("nx.a", -ENOENT, "no such name \"nx.a\": NXDOMAIN from %s"); /* as it is first */
        CU_ASSERT_EQUAL(atomic_load(&dns.queries), 15);
        end_files();
}

static void
orders_are_read(void)
{
        static const struct {
                const char *text;
                enum weir__name_order order;
        } cases[] = {
                {"", WEIR__ORDER_FILES_DNS},
                {"passwd: files\n", WEIR__ORDER_FILES_DNS},
                {"hosts: files dns", WEIR__ORDER_FILES_DNS},
                {"hosts:files dns\n", WEIR__ORDER_FILES_DNS},
                {"# hosts: x\nhosts: dns files\n", WEIR__ORDER_DNS_FILES},
                {"hosts: dns\n", WEIR__ORDER_DNS},
                {"hosts: files # dns\n", WEIR__ORDER_FILES},
                {"hosts: files resolve dns\n", WEIR__ORDER_SYSTEM},
                {"hosts: files [NOTFOUND=return] dns\n", WEIR__ORDER_SYSTEM},
                {"hosts: files dns[!UNAVAIL=return]\n", WEIR__ORDER_SYSTEM},
                {"hosts: files myhostname\n", WEIR__ORDER_SYSTEM},
        };

        for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
                CU_ASSERT_EQUAL(weir__name_order_read(cases[i].text), cases[i].order);
}

/* The fork comes before the thread of the server: a sanitizer wants only one then. */
static void
a_child_of_a_fork_may_look_up_if_nothing_was_started(void)
{
        int ends[2], status = -1;

        CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
        pid_t child = fork();
        if (child == 0) {
                config = (struct weir_resolver_config)WEIR_RESOLVER_CONFIG_DEFAULT;
                config.mode = WEIR_RESOLVER_DNS;
                config.servers = dns.servers;
                bool is_read = read(ends[0], dns.servers, sizeof dns.servers) == sizeof dns.servers;
                is_read = is_read && weir_resolver_configure(&config) == 0;
                _exit(is_read && weir_task_run(weir_resolve_new("both.test", 0, NULL, NULL)) == 0 && weir_shutdown() == 0 ? 0
                                                                                                                          : 1);
        }
        dns_start();
        CU_ASSERT_EQUAL(write(ends[1], dns.servers, sizeof dns.servers), (ssize_t)sizeof dns.servers);
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        CU_ASSERT_EQUAL(status, 0);
        close(ends[0]);
        close(ends[1]);
        dns_stop();
}

/* A child of a process whose runtime is up may not use the library, and is told so. */
static void
a_child_of_a_fork_under_way_is_refused(void)
{
        int status = -1;

        begin();
        look_up("both.test", 0);
        pid_t child = fork();
        if (child == 0)
                _exit(weir_resolver_configure(NULL) == -ECHILD && stats().entries == 0 ? 0 : 1);
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        CU_ASSERT_EQUAL(status, 0);
        FOUND("both.test", 0, 2, "2001:db8::1");
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_child_of_a_fork_may_look_up_if_nothing_was_started),
                WEIR_TEST(a_child_of_a_fork_under_way_is_refused),
                WEIR_TEST(the_addresses_of_both_families_come_ipv6_first),
                WEIR_TEST(literals_and_names_of_this_host_ask_nobody),
                WEIR_TEST(each_failure_has_a_code_and_words_of_its_own),
                WEIR_TEST(silence_is_no_failure_of_the_name),
                WEIR_TEST(what_is_no_name_is_refused),
                WEIR_TEST(many_addresses_come_whole_also_over_tcp),
                WEIR_TEST(odd_datagrams_are_passed_over),
                WEIR_TEST(an_answer_is_kept_as_long_as_it_holds),
                WEIR_TEST(a_name_that_is_not_there_is_kept_as_well),
                WEIR_TEST(half_an_answer_is_kept_for_seconds),
                WEIR_TEST(the_config_bounds_what_is_kept),
                WEIR_TEST(a_config_must_make_sense),
                WEIR_TEST(all_who_want_a_name_wait_for_one_look_up),
                WEIR_TEST(each_can_leave_alone_and_the_answer_is_kept),
                WEIR_TEST(a_flush_makes_a_look_up_that_is_under_way_void),
                WEIR_TEST(a_thousand_names_at_once),
                WEIR_TEST(a_shutdown_ends_what_waits),
                WEIR_TEST(descriptors_come_back),
                WEIR_TEST(a_function_of_the_program_answers_or_passes),
                WEIR_TEST(a_config_is_freed_behind_its_last_look_up),
                WEIR_TEST(the_file_of_hosts_comes_first),
                WEIR_TEST(the_order_of_nsswitch_holds),
                WEIR_TEST(the_search_list_is_gone_through),
                WEIR_TEST(orders_are_read),
        };

        return weir_test_main("resolve", tests, sizeof tests / sizeof *tests);
}
