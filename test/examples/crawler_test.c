/* test/examples/crawler_test.c: what is got, in which order and when, on the virtual clock: a pause takes no time. */
#include "test/examples/program.h"

#include "examples/crawler.c"
#undef main

/* -- robots.txt -- */

static bool
allows(const char *text, const char *path)
{
        struct robots robots;

        robots_read(&robots, text, strlen(text));
        bool is_allowed = robots_allow(&robots, path);
        robots_done(&robots);
        return is_allowed;
}

static double
delay(const char *text)
{
        struct robots robots;

        robots_read(&robots, text, strlen(text));
        double seconds = robots_delay(&robots);
        robots_done(&robots);
        return seconds;
}

static void
the_group_of_the_product_counts_and_else_that_of_everybody(void)
{
        static const char text[] = "Disallow: /nobody\n"
                                   "User-agent: *\nDisallow: /all\n"
                                   "User-Agent: other\nUSER-AGENT: Weir-Crawler/2.0 # us\nSitemap: x\nDisallow: /us\n"
                                   "\nUser-agent: other\nDisallow: /other\n"
                                   "User-agent: weir-crawler\nDisallow: /too\n";

        CU_ASSERT_TRUE(allows(text, "/nobody"));
        CU_ASSERT_TRUE(allows(text, "/all"));
        CU_ASSERT_FALSE(allows(text, "/us/a"));
        CU_ASSERT_FALSE(allows(text, "/too")); /* groups of one name are one group */
        CU_ASSERT_TRUE(allows(text, "/other"));
        CU_ASSERT_FALSE(allows("\xef\xbb\xbfUser-agent: *\r\nDisallow: /all\r\n", "/all"));
        CU_ASSERT_TRUE(allows("User-agent: weir-crawlers\nDisallow: /\n", "/"));
        CU_ASSERT_TRUE(allows("User-agent: *\nDisallow: /\n\nUser-agent: weir-crawler\nDisallow:\n", "/all"));
        CU_ASSERT_TRUE(allows("", "/"));
        CU_ASSERT_TRUE(allows("no colon\n:\n::\nUser-agent\n", "/"));
}

static void
the_longest_rule_decides(void)
{
        static const char text[] = "User-agent: *\nAllow: /a/b\nDisallow: /a\nDisallow: /a/b/c\nAllow: /same\nDisallow: /same\n";

        CU_ASSERT_FALSE(allows(text, "/a/x"));
        CU_ASSERT_TRUE(allows(text, "/a/b/x"));
        CU_ASSERT_FALSE(allows(text, "/a/b/c"));
        CU_ASSERT_TRUE(allows(text, "/same"));
        CU_ASSERT_TRUE(allows(text, "/b"));
        CU_ASSERT_TRUE(allows("User-agent: *\nDisallow: /\n", "/robots.txt"));
        CU_ASSERT_FALSE(allows("User-agent: *\nDisallow: /\n", "/"));
}

static void
stars_and_ends_match(void)
{
        CU_ASSERT_FALSE(allows("User-agent: *\nDisallow: /*.gif$\n", "/a/b.gif"));
        CU_ASSERT_TRUE(allows("User-agent: *\nDisallow: /*.gif$\n", "/a/b.gif?c"));
        CU_ASSERT_FALSE(allows("User-agent: *\nDisallow: /*.gif$\n", "/a.gif.gif"));
        CU_ASSERT_FALSE(allows("User-agent: *\nDisallow: /a*b*c\n", "/aXbbYcZ"));
        CU_ASSERT_TRUE(allows("User-agent: *\nDisallow: /a*b*c\n", "/aXcYb"));
        CU_ASSERT_FALSE(allows("User-agent: *\nDisallow: /a$\n", "/a"));
        CU_ASSERT_TRUE(allows("User-agent: *\nDisallow: /a$\n", "/ab"));
        CU_ASSERT_FALSE(allows("User-agent: *\nDisallow: *\n", "/ab"));
        CU_ASSERT_FALSE(allows("User-agent: *\nDisallow: /a*$\n", "/ab"));
        CU_ASSERT_FALSE(allows("User-agent: *\nDisallow: /caf\xc3\xa9/%7ea%2fb\n", "/caf%C3%A9/~a%2Fb"));
        CU_ASSERT_TRUE(allows("User-agent: *\nDisallow: /a%2Fb\n", "/a/b"));
        CU_ASSERT_FALSE(allows("User-agent: *\nDisallow: /a%2\n", "/a%252"));
}

static void
a_delay_is_that_of_the_group(void)
{
        CU_ASSERT_EQUAL(delay("User-agent: *\nCrawl-delay: 2.5\n"), 2.5);
        CU_ASSERT_EQUAL(delay("User-agent: *\nCrawl-delay: 2\nUser-agent: weir-crawler\nCrawl-delay: 7\n"), 7);
        CU_ASSERT_EQUAL(delay("User-agent: *\nCrawl-delay: 2\nUser-agent: weir-crawler\nDisallow: /a\n"), -1);
        CU_ASSERT_EQUAL(delay("User-agent: other\nCrawl-delay: 2\n"), -1);
        CU_ASSERT_FALSE(delay("User-agent: *\nCrawl-delay: nan\n") >= 0);
}

static void
only_the_beginning_of_a_long_file_is_read(void)
{
        static const char rule[] = "User-agent: *\nDisallow: /late\n";
        size_t size = MAX_ROBOTS + 100;
        char *text = malloc(size);

        memset(text, '\n', size);
        memcpy(text + 1000, rule, sizeof rule - 1);
        struct robots robots;
        robots_read(&robots, text, size);
        CU_ASSERT_FALSE(robots_allow(&robots, "/late"));
        robots_done(&robots);
        memset(text, '\n', size);
        memcpy(text + MAX_ROBOTS, rule, sizeof rule - 1);
        robots_read(&robots, text, size);
        CU_ASSERT_TRUE(robots_allow(&robots, "/late"));
        robots_done(&robots);
        free(text);
}

/* -- links -- */

static char links[1024];

static void
note_link(const char *link, size_t size, bool is_base, void *context)
{
        size_t length = strlen(links);

        (void)context;
        snprintf(links + length, sizeof links - length, "%s%.*s|", is_base ? "base " : "", (int)size, link);
}

static const char *
links_of(const char *text)
{
        links[0] = '\0';
        find_links(text, strlen(text), note_link, NULL);
        return links;
}

static void
links_are_found_in_any_text(void)
{
        CU_ASSERT_STRING_EQUAL(links_of("<a href=\"1\"><A class=x HREF = '2'>t</a><area\nhref=3><a title=\"a>b\" href=4>"),
                               "1|2|3|4|");
        CU_ASSERT_STRING_EQUAL(links_of("<base href='/b/'><a href=\"\">"), "base /b/||");
        CU_ASSERT_STRING_EQUAL(links_of("<!-- <a href='1'> --><a href='2'><link href='3'><abbr href='4'>"), "2|");
        CU_ASSERT_STRING_EQUAL(links_of("<a data-href='1' href><a =href='2' href='3'>"), "3|");
        for (const char *const *each = (const char *const[]){"<", "<a", "<a ", "<a href", "<a href=", "<a href='1", "<!--",
                                                             "<a =", "a < b", "", NULL};
             *each; each++)
                CU_ASSERT_STRING_EQUAL(links_of(*each), "");
}

static bool
leads(const char *link, const char *to)
{
        weir_url *base = weir_url_parse("http://Host/a/b", NULL), *url = url_of_link(base, link, strlen(link));
        bool is_so = to ? url && strcmp(weir_url_text(url), to) == 0 : !url;

        weir_url_free(url);
        weir_url_free(base);
        return is_so;
}

static void
links_lead_to_normal_urls(void)
{
        CU_ASSERT(leads("c#d", "http://host/a/c"));
        CU_ASSERT(leads(" ../%7Ec\t", "http://host/~c"));
        CU_ASSERT(leads("?x=1&amp;y=2", "http://host/a/b?x=1&y=2"));
        CU_ASSERT(leads("a b\xc3\xa9", "http://host/a/a%20b%C3%A9"));
        CU_ASSERT(leads("#", "http://host/a/b"));
        CU_ASSERT(leads("http://HOST:80", "http://host/"));
        CU_ASSERT(leads("http://[", NULL));
}

/* -- a site -- */

static struct {
        weir_http_server *server, *other;
        struct crawler crawler;
        char url[2][128];
        unsigned at_once, most;
        char order[512]; /* the paths that were asked for */
        weir_nsec when[32], last;
        unsigned requests;
        const char *robots;
        int robots_status;
} at;

static void
answer(weir_task *exchange, const char *path)
{
        if (strcmp(path, "/text") != 0)
                weir_http_reply_header(exchange, "Content-Type", "text/html; charset=utf-8");
        if (strcmp(path, "/robots.txt") == 0) {
                weir_http_reply_text(exchange, at.robots_status, at.robots);
        } else if (strcmp(path, "/") == 0) {
                weir_http_reply_text(exchange, 200,
                                     "<a href=a><a href='./a#x'><a href=/b><a href=/secret><a href=/old>"
                                     "<a href='http://elsewhere.example/'><a href=mailto:a@b><a href='/text'>");
        } else if (strcmp(path, "/a") == 0) {
                weir_http_reply_text(exchange, 200, "<a href=/deep/1><a href=/>");
        } else if (strncmp(path, "/deep/", 6) == 0) {
                char text[64];

                snprintf(text, sizeof text, "<a href=/deep/%d>", atoi(path + 6) + 1);
                weir_http_reply_text(exchange, 200, text);
        } else if (strcmp(path, "/old") == 0) {
                weir_http_reply_status(exchange, 301);
                weir_http_reply_header(exchange, "Location", "/new");
        } else if (strcmp(path, "/text") == 0) {
                weir_http_reply_text(exchange, 200, "<a href=/no>");
        } else if (strcmp(path, "/busy") == 0) {
                weir_http_reply_status(exchange, 503);
                weir_http_reply_header(exchange, "Retry-After", "30");
        } else {
                weir_http_reply_text(exchange, 404, "gone\n");
        }
}

static void
later(weir_task *timer, void *context)
{
        weir_task *exchange = context;

        (void)timer;
        at.last = weir_now();
        at.at_once--;
        answer(exchange, weir_http_path(exchange));
}

/* Each answer takes a tenth of a second: longer than a crawler needs that asks for all at once. */
static void
handle(weir_task *exchange, void *context)
{
        size_t length = strlen(at.order);

        (void)context;
        at.when[at.requests++ % 32] = weir_now();
        snprintf(at.order + length, sizeof at.order - length, "%s ", weir_http_path(exchange));
        at.most = ++at.at_once > at.most ? at.at_once : at.most;
        weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_MSEC(100), later, exchange));
}

static void
begin_site(unsigned depth, unsigned pages, const char *robots, int robots_status)
{
        memset(&at, 0, sizeof at);
        at.robots = robots;
        at.robots_status = robots_status;
        at.crawler = (struct crawler){.depth = depth, .pages = pages, .pause = WEIR_SEC(1)};
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        config.clock = WEIR_CLOCK_VIRTUAL;
        config.pollers = 1; /* the server's counts need no lock */
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        at.server = http_server(NULL, handle, NULL);
        CU_ASSERT_EQUAL(crawler_init(&at.crawler, 4), 0);
        program_catch();
}

static void
start_at(const char *path)
{
        char url[128];

        snprintf(url, sizeof url, "http://127.0.0.1:%d%s", weir_http_server_port(at.server), path);
        CU_ASSERT_EQUAL(add_start(&at.crawler, url), 0);
}

static void
end_site(void)
{
        CU_ASSERT_EQUAL(weir_task_run(crawl_new(&at.crawler)), 0);
        program_release();
        crawler_done(&at.crawler);
        CU_ASSERT_EQUAL(weir_http_server_stop(at.server, WEIR_SEC(10)), 0);
        weir_http_server_free(at.server);
        weir_test_end();
}

static void
a_site_is_walked_through_once(void)
{
        begin_site(2, 100, "User-agent: *\nDisallow: /secret\n", 200);
        start_at("/");
        end_site();
        CU_ASSERT_STRING_EQUAL(at.order, "/robots.txt / /a /b /old /text /deep/1 /new ");
        CU_ASSERT_EQUAL(at.most, 1);
        CU_ASSERT_PTR_NOT_NULL(strstr(program_output.text, "404        5 http://127.0.0.1:"));
        CU_ASSERT_PTR_NOT_NULL(strstr(program_output.text, "301        0 http://127.0.0.1:"));
        CU_ASSERT_PTR_NULL(strstr(program_output.text, "secret"));
}

static void
there_is_a_pause_after_each_request(void)
{
        begin_site(0, 100, "", 200);
        start_at("/");
        start_at("/a");
        start_at("/a#again");
        end_site();
        CU_ASSERT_EQUAL(at.requests, 3);
        CU_ASSERT_EQUAL(at.when[1] - at.when[0], WEIR_MSEC(1100));
        CU_ASSERT_EQUAL(at.when[2] - at.when[1], WEIR_MSEC(1100));
}

static void
the_host_may_ask_for_longer_pauses(void)
{
        begin_site(0, 100, "User-agent: *\nCrawl-delay: 5\n", 200);
        start_at("/busy");
        start_at("/a");
        end_site();
        CU_ASSERT_EQUAL(at.when[1] - at.when[0], WEIR_MSEC(5100));
        CU_ASSERT_EQUAL(at.when[2] - at.when[1], WEIR_MSEC(30100)); /* Retry-After */
        CU_ASSERT_PTR_NOT_NULL(strstr(program_output.text, "503"));

        begin_site(0, 100, "User-agent: *\nCrawl-delay: 1e300\n", 200);
        start_at("/a");
        end_site();
        CU_ASSERT_EQUAL(at.when[1] - at.when[0], WEIR_MSEC(60100));
}

static void
the_number_of_pages_is_bounded(void)
{
        begin_site(1000, 5, "", 200);
        start_at("/deep/1");
        end_site();
        CU_ASSERT_STRING_EQUAL(at.order, "/robots.txt /deep/1 /deep/2 /deep/3 /deep/4 /deep/5 ");
}

static void
without_a_robots_txt_all_is_allowed_and_with_a_broken_server_nothing(void)
{
        begin_site(0, 100, "User-agent: *\nDisallow: /\n", 404);
        start_at("/a");
        end_site();
        CU_ASSERT_STRING_EQUAL(at.order, "/robots.txt /a ");

        begin_site(0, 100, "", 500);
        start_at("/a");
        end_site();
        CU_ASSERT_STRING_EQUAL(at.order, "/robots.txt ");
        CU_ASSERT_STRING_EQUAL(program_output.text, "");
}

/* One that is gone does not hold up the other. */
static void
hosts_are_asked_side_by_side(void)
{
        begin_site(1, 100, "", 200);
        start_at("/a");
        CU_ASSERT_EQUAL(add_start(&at.crawler, "http://127.0.0.1:1/"), 0);
        end_site();
        CU_ASSERT_STRING_EQUAL(at.order, "/robots.txt /a /deep/1 / ");
}

static void
cut(weir_task *timer, void *context)
{
        (void)timer;
        weir_series_cancel(context);
}

static void
a_cancel_ends_it(void)
{
        begin_site(1000, 1000, "", 200);
        start_at("/deep/1");
        weir_series *all = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(all, crawl_new(&at.crawler));
        weir_task_start(weir_timer_new(WEIR_SEC(5), cut, all));
        CU_ASSERT_EQUAL(weir_series_run(all), -ECANCELED);
        weir_series_unref(all);
        CU_ASSERT_STRING_EQUAL(at.order, "/robots.txt /deep/1 /deep/2 /deep/3 /deep/4 ");
        program_release();
        crawler_done(&at.crawler);
        weir_http_server_stop(at.server, WEIR_SEC(10));
        weir_http_server_free(at.server);
        weir_test_end();
}

static int
run(char *first, char *second, char *third)
{
        char *argv[] = {"crawler", first, second, third, NULL};

        optind = 1;
        CU_ASSERT_EQUAL_FATAL(weir_init(NULL), 0);
        return program_main(1 + !!first + !!second + !!third, argv);
}

static void
the_arguments_are_looked_at(void)
{
        CU_ASSERT_EQUAL(run(NULL, NULL, NULL), 1);
        CU_ASSERT_EQUAL(run("-d", "-1", "http://127.0.0.1:1/"), 1);
        CU_ASSERT_EQUAL(run("-x", "http://127.0.0.1:1/", NULL), 1);
        CU_ASSERT_EQUAL(run("mailto:a@b", NULL, NULL), 1);
        CU_ASSERT_EQUAL(run("http://127.0.0.1:1/", "no url", NULL), 1);
        CU_ASSERT_EQUAL(run("-p0", "http://127.0.0.1:1/", NULL), 0); /* nobody is there: that is the page's failure */
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(the_group_of_the_product_counts_and_else_that_of_everybody),
                WEIR_TEST(the_longest_rule_decides),
                WEIR_TEST(stars_and_ends_match),
                WEIR_TEST(a_delay_is_that_of_the_group),
                WEIR_TEST(only_the_beginning_of_a_long_file_is_read),
                WEIR_TEST(links_are_found_in_any_text),
                WEIR_TEST(links_lead_to_normal_urls),
                WEIR_TEST(a_site_is_walked_through_once),
                WEIR_TEST(there_is_a_pause_after_each_request),
                WEIR_TEST(the_host_may_ask_for_longer_pauses),
                WEIR_TEST(the_number_of_pages_is_bounded),
                WEIR_TEST(without_a_robots_txt_all_is_allowed_and_with_a_broken_server_nothing),
                WEIR_TEST(hosts_are_asked_side_by_side),
                WEIR_TEST(a_cancel_ends_it),
                WEIR_TEST(the_arguments_are_looked_at),
        };

        return weir_test_main("example_crawler", tests, sizeof tests / sizeof *tests);
}
