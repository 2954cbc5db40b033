/* 30-fiber-crawler.c: follows the links of a server, a few pages at a time, and prints each page with its status.
 *
 *     30-fiber-crawler URL             such as http://127.0.0.1:8888/
 *
 *     crawl -- a child in a group for each page --> fetch, fetch, fetch, fetch
 *       '------------------- [ fetched ] <-----------------'
 *
 * One fiber knows which pages were seen, so that needs no lock.  It starts a child for a page, at most AT_ONCE at a time, and
 * receives the pages that have come.  The program ends when nothing is under way and no page is left.
 *
 * Try it:  12-file-server 127.0.0.1:8888 & 30-fiber-crawler http://127.0.0.1:8888/
 * examples/crawler.c is polite, and needs more code for that. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#define AT_ONCE 4
#define MOST    1000 /* pages */

struct page {
        weir_url *url;
        weir_channel *fetched; /* gets the page */
        int status;            /* of HTTP, or a negative errno */
        char *text;            /* NULL: none */
};

/* What is known; `crawl` alone uses it. */
static struct page pages[MOST];
static size_t known;

static int fetch(void *context)
{
        struct page *page = context;
        weir_task *get = weir_http_get_new(weir_url_text(page->url), NULL, NULL);
        int failed = weir_await(get);

        page->status = failed ? failed : weir_http_response_status(get);
        page->text = weir_http_response_take_body(get, NULL); /* with a NUL behind it */
        return weir_fiber_send(page->fetched, page);
}

/* Takes the URL. */
static void note(weir_url *url)
{
        bool is_new = url && known < MOST && (known == 0 || strcmp(weir_url_address(url), weir_url_address(pages[0].url)) == 0);

        for (size_t i = 0; is_new && i < known; i++)
                is_new = !weir_url_equal(url, pages[i].url);
        if (is_new)
                pages[known++].url = url;
        else
                weir_url_free(url);
}

/* A simple look for links: what stands in href="...", without a fragment. */
static void note_links(const struct page *page)
{
        for (const char *at = page->text; at && (at = strstr(at, "href=\""));) {
                char *link = strndup(at + 6, strcspn(at + 6, "\"#"));

                note(link ? weir_url_resolve(page->url, link, NULL) : NULL);
                free(link);
                at += 6;
        }
}

static int crawl(void *context)
{
        weir_group *group = weir_group_open();
        weir_channel *fetched = context;
        size_t next = 0, under_way = 0;
        int err = 0;

        while (!err && (next < known || under_way > 0)) {
                if (next < known && under_way < AT_ONCE) {
                        pages[next].fetched = fetched;
                        err = weir_group_start(group, weir_fiber_new(fetch, NULL, &pages[next++]));
                        under_way++;
                        continue;
                }
                void *message;
                err = weir_fiber_receive(fetched, &message);
                if (!err) {
                        const struct page *page = message;
                        under_way--;
                        printf("%d %s\n", page->status, weir_url_text(page->url));
                        note_links(page);
                }
        }
        weir_group_close(group);
        return err;
}

int main(int argc, char *argv[])
{
        weir_channel *fetched = weir_channel_new(AT_ONCE, NULL);

        note(weir_url_parse(argc > 1 ? argv[1] : "http://127.0.0.1:8888/", NULL));
        int failed = weir_task_run(weir_fiber_new(crawl, NULL, fetched));
        for (size_t i = 0; i < known; i++) {
                weir_url_free(pages[i].url);
                free(pages[i].text);
        }
        weir_channel_unref(fetched);
        weir_shutdown();
        return failed || known == 0;
}
