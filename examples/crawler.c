/* crawler.c: a polite crawler: what can be reached from some pages, on their hosts.
 *
 *     crawler [-d DEPTH] [-n PAGES] [-p SECONDS] URL...
 *
 * It follows links at most DEPTH times (3), asks for at most PAGES pages (100), and never leaves the hosts of the URLs.  For each
 * page it prints the status, the size and the URL.  Ctrl-C ends it.
 *
 *                        a page to get, one at a time
 *     the frontier  ------------------------------------->  a fiber for each host:
 *     (one fiber)   <-------------------------------------  robots.txt; then pause, request, links, by turns
 *                        the page, with its links
 *
 * The frontier alone knows which URLs were seen, and which wait, so all that needs no lock.  A page goes to the fiber of its host
 * and comes back through channels, and belongs to the side that has it.
 *
 * A host is a scheme, a name and a port, as robots.txt sees it.  It gets one request at a time, and a pause after each: its own
 * Crawl-delay, or that of -p (1 s).
 *
 * Source: RFC 9309, robots.txt. */
#include <errno.h>
#include <search.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <weir/weir.h>

#define PRODUCT    "weir-crawler"
#define MAX_BODY   ((size_t)4 << 20)   /* bytes of a page */
#define MAX_ROBOTS ((size_t)500 << 10) /* bytes of a robots.txt that are read */
#define MAX_KNOWN  100000              /* URLs */
#define MAX_PAUSE  60.0                /* seconds; a host that wants more gets no more */

/* -- robots.txt -- */

struct rule {
        struct rule *next;
        bool allows;
        size_t size;
        char pattern[];
};

/* The rules of one product.  A group for everybody counts only if no group names the product. */
struct robots {
        bool forbids_all, has_own;
        struct {
                struct rule *rules;
                double delay; /* seconds; below 0: none */
        } everybody, own;
};

static bool is_unreserved(int byte)
{
        return byte && strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~", byte);
}

/* Writes a path as normal URLs have it: no escape that is not needed, and upper case in others.  `out` has room for three times
 * the size. */
static size_t normalize(char *out, const char *text, size_t size)
{
        size_t length = 0;

        for (size_t i = 0; i < size; i++) {
                unsigned byte = (unsigned char)text[i];
                char digits[3] = {i + 2 < size ? text[i + 1] : '\0', i + 2 < size ? text[i + 2] : '\0'}, *end;
                bool is_escape = byte == '%' && strspn(digits, "0123456789abcdefABCDEF") == 2;

                if (is_escape) {
                        byte = (unsigned)strtoul(digits, &end, 16);
                        i += 2;
                }
                if (is_escape ? is_unreserved((int)byte) : byte > ' ' && byte < 127)
                        out[length++] = (char)byte;
                else
                        length += (size_t)sprintf(out + length, "%%%02X", byte);
        }
        return length;
}

static void add_rule(struct rule **rules, bool allows, const char *path, size_t size)
{
        struct rule *rule = size ? malloc(sizeof *rule + 3 * size + 1) : NULL;

        if (!rule) /* an empty path says nothing */
                return;
        rule->allows = allows;
        rule->size = normalize(rule->pattern, path, size);
        rule->next = *rules;
        *rules = rule;
}

static bool is_word(const char *text, size_t size, const char *word)
{
        return size == strlen(word) && strncasecmp(text, word, size) == 0;
}

static void trim(const char **text, size_t *size)
{
        for (; *size && strchr(" \t\r", **text); ++*text)
                --*size;
        while (*size && strchr(" \t\r", (*text)[*size - 1]))
                --*size;
}

/* What the lines before have said. */
struct group {
        bool is_own, is_everybody;
        bool has_rules; /* so the next User-agent begins another */
};

static void read_agent(struct robots *robots, struct group *group, const char *value, size_t size)
{
        size_t name = 0;

        if (group->has_rules)
                *group = (struct group){.is_own = false};
        while (name < size && (is_unreserved(value[name]) && value[name] != '.')) /* "name/1.0" is the name */
                name++;
        group->is_everybody |= size && *value == '*';
        group->is_own |= is_word(value, name, PRODUCT);
        robots->has_own |= group->is_own;
}

static void read_rule(struct robots *robots, struct group *group, const char *key, size_t key_size, const char *value,
                      size_t size)
{
        bool allows = is_word(key, key_size, "allow"), is_delay = is_word(key, key_size, "crawl-delay");
        char number[16];

        if (!allows && !is_delay && !is_word(key, key_size, "disallow"))
                return; /* Sitemap and others */
        group->has_rules = true;
        snprintf(number, sizeof number, "%.*s", (int)(size < sizeof number ? size : 0), value);
        if (is_delay && group->is_own)
                robots->own.delay = strtod(number, NULL);
        else if (is_delay && group->is_everybody)
                robots->everybody.delay = strtod(number, NULL);
        if (!is_delay && group->is_own)
                add_rule(&robots->own.rules, allows, value, size);
        if (!is_delay && group->is_everybody)
                add_rule(&robots->everybody.rules, allows, value, size);
}

static void robots_read(struct robots *robots, const char *text, size_t size)
{
        const char *end = text + (size < MAX_ROBOTS ? size : MAX_ROBOTS), *next;
        struct group group = {.has_rules = true}; /* rules before the first group are nobody's */

        *robots = (struct robots){.everybody.delay = -1, .own.delay = -1};
        if (end - text >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
                text += 3;
        for (; text < end; text = next) {
                const char *line = memchr(text, '\n', (size_t)(end - text));
                size_t length = (size_t)((line ? line : end) - text);

                next = text + length + 1;
                const char *comment = memchr(text, '#', length);
                length = comment ? (size_t)(comment - text) : length;
                const char *colon = memchr(text, ':', length), *key = text, *value = colon + 1;
                if (!colon)
                        continue;
                size_t key_size = (size_t)(colon - text), value_size = length - key_size - 1;
                trim(&key, &key_size);
                trim(&value, &value_size);
                if (is_word(key, key_size, "user-agent"))
                        read_agent(robots, &group, value, value_size);
                else
                        read_rule(robots, &group, key, key_size, value, value_size);
        }
}

/* '*' is any text, and '$' at the end is the end of the path.  Goes back to the last '*' only, so it takes at most the product of
 * both lengths. */
static bool matches(const char *pattern, size_t size, const char *path)
{
        bool is_whole = size && pattern[size - 1] == '$';
        size_t at = 0, star = SIZE_MAX;
        const char *retry = NULL;

        size -= is_whole;
        while (at < size || (is_whole && *path)) {
                if (at < size && pattern[at] == '*') {
                        star = at++;
                        retry = path;
                } else if (at < size && *path && pattern[at] == *path) {
                        at++;
                        path++;
                } else if (star != SIZE_MAX && *retry) {
                        path = ++retry;
                        at = star + 1;
                } else {
                        return false;
                }
        }
        return true;
}

/* The longest rule that matches decides; of two as long ones that which allows. */
static bool robots_allow(const struct robots *robots, const char *path)
{
        const struct rule *best = NULL, *rule = robots->has_own ? robots->own.rules : robots->everybody.rules;

        if (strcmp(path, "/robots.txt") == 0)
                return true;
        for (; rule; rule = rule->next)
                if ((!best || rule->size > best->size || (rule->size == best->size && rule->allows)) &&
                    matches(rule->pattern, rule->size, path))
                        best = rule;
        return best ? best->allows : !robots->forbids_all;
}

static double robots_delay(const struct robots *robots)
{
        return robots->has_own ? robots->own.delay : robots->everybody.delay;
}

static void robots_done(struct robots *robots)
{
        for (struct rule *rule; (rule = robots->own.rules); free(rule))
                robots->own.rules = rule->next;
        for (struct rule *rule; (rule = robots->everybody.rules); free(rule))
                robots->everybody.rules = rule->next;
}

/* -- links -- */

typedef void link_fn(const char *link, size_t size, bool is_base, void *context);

static const char *skip_spaces(const char *at, const char *end)
{
        while (at < end && strchr(" \t\r\n\f", *at))
                at++;
        return at;
}

/* Reads the attributes of a tag, and returns its end. */
static const char *read_tag(const char *at, const char *end, bool is_base, link_fn *found, void *context)
{
        while (at < end && *at != '>') {
                const char *name = at = skip_spaces(at, end);

                while (at < end && !strchr(" \t\r\n\f=>", *at))
                        at++;
                size_t size = (size_t)(at - name);
                at = skip_spaces(at, end);
                if (at == end || *at != '=')
                        continue;
                at = skip_spaces(at + 1, end);
                char quote = at < end && (*at == '"' || *at == '\'') ? *at++ : '\0';
                const char *value = at;
                while (at < end && (quote ? *at != quote : !strchr(" \t\r\n\f>", *at)))
                        at++;
                if (is_word(name, size, "href") && at < end)
                        found(value, (size_t)(at - value), is_base, context);
                at += quote && at < end;
        }
        return at;
}

/* Finds the href of each <a>, <area> and <base>.  Any text is taken, with a NUL behind it; comments are left out. */
static void find_links(const char *text, size_t size, link_fn *found, void *context)
{
        const char *at = text, *end = text + size;

        while ((at = memchr(at, '<', (size_t)(end - at)))) {
                const char *name = ++at;

                if (end - at >= 3 && memcmp(at, "!--", 3) == 0) {
                        at = strstr(at, "-->");
                        if (!at)
                                return;
                        continue;
                }
                while (at < end && !strchr(" \t\r\n\f>/<", *at))
                        at++;
                size_t length = (size_t)(at - name);
                bool is_base = is_word(name, length, "base");
                if (is_base || is_word(name, length, "a") || is_word(name, length, "area"))
                        at = read_tag(at, end, is_base, found, context);
        }
}

/* The URL of a link, in normal form and without its fragment; NULL: it has none.  A page may have spaces and any letters in it,
 * and "&amp;". */
static weir_url *url_of_link(const weir_url *base, const char *link, size_t size)
{
        char *text = malloc(3 * size + 1);
        size_t length = 0;

        trim(&link, &size);
        for (size_t i = 0; text && i < size && link[i] != '#'; i++) {
                unsigned byte = (unsigned char)link[i];

                if (byte > ' ' && byte < 127)
                        text[length++] = (char)byte;
                else if (byte != '\n' && byte != '\r' && byte != '\t')
                        length += (size_t)sprintf(text + length, "%%%02X", byte);
                if (size - i >= 5 && memcmp(link + i, "&amp;", 5) == 0)
                        i += 4;
        }
        if (text)
                text[length] = '\0';
        weir_url *url = text ? base ? weir_url_resolve(base, text, NULL) : weir_url_parse(text, NULL) : NULL;
        weir_url *normal = weir_url_parse(weir_url_normal(url), NULL);
        weir_url_free(url);
        free(text);
        return normal;
}

/* -- pages and hosts -- */

struct crawler;
struct host;

struct page {
        struct page *next; /* in a queue, or among the links of a page */
        struct page *older;
        struct host *host;
        weir_url *url;
        unsigned depth;

        /* What came of it. */
        bool is_forbidden; /* by robots.txt */
        int response;      /* 0: none */
        size_t size;
        char *problem;
        struct page *links;
};

struct host {
        struct crawler *crawler;
        weir_url *root;
        weir_channel *pages; /* that are to be got; room for one */

        /* The frontier's. */
        struct page *first, **last;
        bool is_busy;

        /* Its fiber's. */
        struct robots robots;
        weir_nsec pause, free_at; /* no request before that */
        struct page *page;        /* that is being got */
        weir_url *base;           /* of its links, if a <base> says so */
};

struct crawler {
        /* Constant. */
        unsigned depth, pages;
        weir_nsec pause;
        weir_client *client;
        weir_channel *found; /* pages that come back */
        struct host *hosts;
        size_t host_count;

        /* The frontier's. */
        void *known; /* a tree of pages by URL: tsearch(3) */
        size_t known_count;
        struct page *newest; /* all of them */
        unsigned asked, busy;
};

static struct host *host_of(const struct crawler *crawler, const weir_url *url)
{
        for (size_t i = 0; i < crawler->host_count; i++) {
                const weir_url *root = crawler->hosts[i].root;

                if (weir_url_host(url) && strcmp(weir_url_host(root), weir_url_host(url)) == 0 &&
                    strcmp(weir_url_scheme(root), weir_url_scheme(url)) == 0 && weir_url_port(root) == weir_url_port(url))
                        return &crawler->hosts[i];
        }
        return NULL;
}

static void page_free(struct page *page)
{
        for (struct page *link; (link = page->links); page_free(link))
                page->links = link->next;
        weir_url_free(page->url);
        free(page->problem);
        free(page);
}

static struct page *page_new(weir_url *url, struct host *host, unsigned depth)
{
        struct page *page = url && host ? calloc(1, sizeof *page) : NULL;

        if (!page) {
                weir_url_free(url);
                return NULL;
        }
        page->url = url;
        page->host = host;
        page->depth = depth;
        return page;
}

/* -- a host: robots.txt, then page after page -- */

/* A host that says "not now" is not asked before it wants to be. */
static void note_end(struct host *host, const weir_task *get)
{
        weir_nsec later = weir_http_response_retry_after(get), most = (weir_nsec)(MAX_PAUSE * 1e9);

        later = later < most ? later : most;
        host->free_at = weir_now() + (later > host->pause ? later : host->pause);
}

/* Awaits a request, when the pause is over.  The caller has the task until its next await. */
static weir_task *ask(struct host *host, const char *url, unsigned redirects)
{
        weir_nsec wait = host->free_at - weir_now();
        weir_task *get = weir_client_request_new(host->crawler->client, "GET", url, NULL, NULL);

        weir_http_request_set_redirects(get, redirects);
        if (wait > 0)
                weir_fiber_sleep(wait);
        weir_await(get);
        return get;
}

static void ask_for_robots(struct host *host)
{
        weir_url *url = weir_url_resolve(host->root, "/robots.txt", NULL);
        weir_task *get = ask(host, weir_url_text(url), 5);
        int response = weir_http_response_status(get);
        size_t size = 0;
        const char *text = weir_http_response_body(get, &size);

        if (weir_task_status(get) == 0 && response / 100 == 2)
                robots_read(&host->robots, text, size);
        else /* where there is no such file all is allowed; a server in trouble is left alone */
                host->robots.forbids_all = response / 100 != 4 && weir_task_status(get) != -ELOOP;
        double delay = robots_delay(&host->robots);
        if (delay >= 0)
                host->pause = (weir_nsec)((delay < MAX_PAUSE ? delay : MAX_PAUSE) * 1e9);
        note_end(host, get);
        weir_url_free(url);
}

static void add_link(const char *link, size_t size, bool is_base, void *context)
{
        struct host *host = context;
        struct page *page = host->page;
        weir_url *url = url_of_link(host->base ? host->base : page->url, link, size);

        if (is_base) {
                weir_url_free(host->base);
                host->base = url;
                return;
        }
        struct page *made = page_new(url, url ? host_of(host->crawler, url) : NULL, page->depth + 1);
        if (made) {
                made->next = page->links;
                page->links = made;
        }
}

static void take_links(struct host *host, const weir_task *get)
{
        const char *type = weir_http_response_header(get, "Content-Type"), *location = weir_http_response_header(get, "Location");
        const char *body = weir_http_response_body(get, &host->page->size);

        if (host->page->response / 100 == 3 && location)
                add_link(location, strlen(location), false, host);
        else if (host->page->response / 100 == 2 && type && is_word(type, strcspn(type, "; \t"), "text/html"))
                find_links(body, host->page->size, add_link, host);
        weir_url_free(host->base);
        host->base = NULL;
}

static void ask_for_page(struct host *host, struct page *page)
{
        weir_task *get = ask(host, weir_url_text(page->url), 0);
        int status = weir_task_status(get);

        page->response = weir_http_response_status(get);
        if (status)
                page->problem = strdup(weir_http_problem(get) ? weir_http_problem(get) : weir_strerror(status));
        else
                take_links(host, get);
        note_end(host, get);
}

static int visit(void *context)
{
        struct host *host = context;
        void *page;
        int err;

        ask_for_robots(host);
        while (!(err = weir_fiber_receive(host->pages, &page))) {
                host->page = page;
                host->page->is_forbidden = !robots_allow(&host->robots, weir_url_target(host->page->url));
                if (!host->page->is_forbidden)
                        ask_for_page(host, host->page);
                err = weir_fiber_send(host->crawler->found, page);
                if (err)
                        return err;
        }
        return err == -EPIPE ? 0 : err; /* there are no more */
}

/* -- the frontier -- */

static int compare(const void *one, const void *other)
{
        return strcmp(weir_url_text(((const struct page *)one)->url), weir_url_text(((const struct page *)other)->url));
}

/* It is got when its turn comes, unless it is known. */
static void add_page(struct crawler *crawler, struct page *page)
{
        bool is_wanted = page && page->depth <= crawler->depth && crawler->known_count < MAX_KNOWN;
        struct page **place = is_wanted ? tsearch(page, &crawler->known, compare) : NULL;

        if (!place || *place != page) {
                if (page)
                        page_free(page);
                return;
        }
        crawler->known_count++;
        page->older = crawler->newest;
        crawler->newest = page;
        page->next = NULL;
        *page->host->last = page;
        page->host->last = &page->next;
}

static void hand_out(struct crawler *crawler)
{
        for (size_t i = 0; i < crawler->host_count; i++) {
                struct host *host = &crawler->hosts[i];
                struct page *page = host->first;

                if (host->is_busy || !page || crawler->asked == crawler->pages || weir_channel_post(host->pages, page))
                        continue;
                host->first = page->next;
                if (!host->first)
                        host->last = &host->first;
                host->is_busy = true;
                crawler->busy++;
                crawler->asked++;
        }
}

static void print(const struct page *page)
{
        if (page->problem)
                fprintf(stderr, "crawler: %s\n", page->problem);
        else if (page->is_forbidden)
                fprintf(stderr, "crawler: %s: %s\n", weir_url_redacted(page->url),
                        page->host->robots.forbids_all ? "there is no answer about robots.txt" : "robots.txt forbids it");
        else
                printf("%d %8zu %s\n", page->response, page->size, weir_url_redacted(page->url));
        fflush(stdout);
}

static void take_found(struct crawler *crawler, struct page *page)
{
        struct page *links = NULL;

        print(page);
        page->host->is_busy = false;
        crawler->busy--;
        crawler->asked -= page->is_forbidden;
        for (struct page *link; (link = page->links); links = link) { /* they are in reverse order */
                page->links = link->next;
                link->next = links;
        }
        for (struct page *link; (link = links); add_page(crawler, link))
                links = link->next;
}

static int explore(void *context)
{
        struct crawler *crawler = context;
        int err = 0;

        hand_out(crawler);
        while (crawler->busy && !err) {
                void *page;

                err = weir_fiber_receive(crawler->found, &page);
                if (!err) {
                        take_found(crawler, page);
                        hand_out(crawler);
                }
        }
        for (size_t i = 0; i < crawler->host_count; i++)
                weir_channel_close(crawler->hosts[i].pages);
        return err;
}

/* -- all of it -- */

/* Result: 0; -EINVAL: it is no URL of a web page; -ENOMEM. */
static int add_start(struct crawler *crawler, const char *text)
{
        weir_url *url = url_of_link(NULL, text, strlen(text));
        struct host *host = url ? host_of(crawler, url) : NULL;

        if (!url || !weir_url_target(url) || strncmp(weir_url_scheme(url), "http", 4) != 0) {
                weir_url_free(url);
                return -EINVAL;
        }
        if (!host) {
                host = &crawler->hosts[crawler->host_count];
                *host = (struct host){.crawler = crawler, .last = &host->first, .pause = crawler->pause};
                host->robots = (struct robots){.everybody.delay = -1, .own.delay = -1};
                host->root = weir_url_resolve(url, "/", NULL);
                host->pages = weir_channel_new(1, NULL);
                crawler->host_count += host->root && host->pages;
                if (!host->root || !host->pages) {
                        weir_url_free(host->root);
                        weir_channel_unref(host->pages);
                        weir_url_free(url);
                        return -ENOMEM;
                }
        }
        add_page(crawler, page_new(url, host, 0));
        return 0;
}

/* Room for that many starts. */
static int crawler_init(struct crawler *crawler, size_t starts)
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;

        config.user_agent = PRODUCT "/1.0";
        config.connections = 1;
        config.max_body = MAX_BODY;
        config.limit = WEIR_SEC(60);
        crawler->client = weir_client_new(&config);
        crawler->hosts = calloc(starts + 1, sizeof *crawler->hosts);
        crawler->found = weir_channel_new(starts + 1, NULL);
        return crawler->client && crawler->hosts && crawler->found ? 0 : -ENOMEM;
}

/* The whole crawl as a task. */
static weir_task *crawl_new(struct crawler *crawler)
{
        weir_task *all = weir_parallel_new(NULL, NULL);

        weir_parallel_add(all, weir_fiber_new(explore, NULL, crawler));
        for (size_t i = 0; i < crawler->host_count; i++)
                weir_parallel_add(all, weir_fiber_new(visit, NULL, &crawler->hosts[i]));
        return all;
}

static void crawler_done(struct crawler *crawler)
{
        for (struct page *page; (page = crawler->newest);) {
                crawler->newest = page->older;
                tdelete(page, &crawler->known, compare);
                page_free(page);
        }
        for (size_t i = 0; i < crawler->host_count; i++) {
                struct host *host = &crawler->hosts[i];

                robots_done(&host->robots);
                weir_channel_unref(host->pages);
                weir_url_free(host->root);
        }
        free(crawler->hosts);
        weir_channel_unref(crawler->found);
        weir_client_unref(crawler->client);
}

static void stop(weir_task *signal, void *all)
{
        if (weir_task_status(signal) == 0)
                weir_series_cancel(all);
}

static int read_options(struct crawler *crawler, int argc, char *argv[])
{
        for (int option; (option = getopt(argc, argv, "d:n:p:")) != -1;) {
                double number = option == '?' ? -1 : strtod(optarg, NULL);

                if (!(number >= 0 && number <= 1e6))
                        return -EINVAL;
                if (option == 'd')
                        crawler->depth = (unsigned)number;
                else if (option == 'n')
                        crawler->pages = (unsigned)number;
                else
                        crawler->pause = (weir_nsec)(number * 1e9);
        }
        return optind < argc ? 0 : -EINVAL;
}

int main(int argc, char *argv[])
{
        struct crawler crawler = {.depth = 3, .pages = 100, .pause = WEIR_SEC(1)};
        weir_series *all = weir_series_ref(weir_series_new(NULL, NULL));
        int failed = read_options(&crawler, argc, argv);

        if (failed)
                fprintf(stderr, "wanted: crawler [-d DEPTH] [-n PAGES] [-p SECONDS] URL...\n");
        else
                failed = crawler_init(&crawler, (size_t)(argc - optind));
        for (int i = optind; i < argc && !failed; i++) {
                failed = add_start(&crawler, argv[i]);
                if (failed)
                        fprintf(stderr, "crawler: %s: %s\n", argv[i], failed == -EINVAL ? "no URL of a page" : "out of memory");
        }
        if (failed) {
                weir_series_dismiss(all);
        } else {
                weir_series_push(all, crawl_new(&crawler));
                weir_task_start(weir_signal_new(SIGINT, stop, all));
                failed = weir_series_run(all);
        }
        weir_shutdown();
        weir_series_unref(all);
        crawler_done(&crawler);
        return failed != 0;
}
