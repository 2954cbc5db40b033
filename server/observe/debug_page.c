/* server/observe/debug_page.c: the page of /debug/flows: all live flows, in sections, those that have waited longest first.
 *
 * Threads: any, one for each page.
 *
 * The walk shows one flow after another: a root with everything in it.  Each is made a piece of the page, which is kept if the
 * flow is among those that have waited longest.  So the memory is that of the page, however many flows are alive.
 *
 * A flow has waited as long as the oldest thing that it waits for now: the records that nothing deeper follows.  The age of the
 * root tells less, because a series may be old and busy. */
#include "server/observe/debug_page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/resolve.h>

#include "factory/inspect/debug.h"
#include "factory/sync/guard.h"
#include "kernel/base/list.h"
#include "kernel/data/duration.h"
#include "kernel/data/visible.h"
#include "kernel/observe/status.h"

#define INDENTED_MOST 12 /* deeper records are not indented further */

/* A flow that is kept. */
struct flow {
        struct weir__link link;
        weir_nsec waited; /* -1: not known */
        bool is_over;     /* the deadline of something in it has passed */
        size_t rows, size;
        char *html;
};

struct section {
        struct weir__list flows; /* the first has waited longest */
        size_t count;
        size_t rows;           /* of those that are kept */
        uint64_t roots, found; /* all roots, and those with the text that is looked for */
        uint64_t tasks;        /* in the roots */
};

struct page {
        /* Constant. */
        size_t limit;
        const char *find;
        size_t find_size;

        struct section sections[WEIR__DEBUG_SECTIONS];
        bool has_failed; /* out of memory */
        bool is_short;   /* the walk has left something out */

        /* The flow that is being shown. */
        struct section *section; /* NULL: no flow is being shown */
        struct weir__memory_sink sink;
        size_t rows, left_out;
        weir_nsec root_age, waited;
        unsigned last_depth; /* of the last record, */
        weir_nsec last_age;  /* and its age */
        bool is_found;       /* it has the text that is looked for */
        bool is_over;        /* a deadline in it has passed */
        bool is_skipped;     /* it is too young to be kept */
};

/* -- text -- */

static void
put_character(struct weir__sink *sink, const char *text, size_t size)
{
        switch (*text) {
        case '&': weir__sink_text(sink, "&amp;"); break;
        case '<': weir__sink_text(sink, "&lt;"); break;
        case '>': weir__sink_text(sink, "&gt;"); break;
        case '"': weir__sink_text(sink, "&quot;"); break;
        case '\'': weir__sink_text(sink, "&#39;"); break;
        default: weir__sink_write(sink, text, size); break;
        }
}

/* Writes any bytes.  Bytes that cannot be seen, or are no UTF-8, become \x1b and the like. */
static void
put_text(struct weir__sink *sink, const char *text, size_t size)
{
        while (size) {
                unsigned length = weir__visible_character(text, size);

                if (length)
                        put_character(sink, text, length);
                else
                        weir__sink_printf(sink, "\\x%02x", (unsigned char)*text);
                length = length ? length : 1;
                text += length;
                size -= length;
        }
}

#define NUMBER_SIZE 32

/* 1234567 as 1,234,567.  Returns `out`. */
static const char *
number(char out[NUMBER_SIZE], uint64_t number)
{
        char digits[NUMBER_SIZE], *to = out;
        int count = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);

        for (int i = 0; i < count; i++) {
                if (i > 0 && (count - i) % 3 == 0)
                        *to++ = ',';
                *to++ = digits[i];
        }
        *to = '\0';
        return out;
}

/* -- rows -- */

/* The titles of the columns of a section; NULL: it has no such column.  All have the first one, "What". */
static const struct columns {
        const char *state, *age, *deadline, *text, *also, *behind;
} columns[WEIR__DEBUG_SECTIONS] = {
        [WEIR__DEBUG_CALLBACKS] = {.state = "State", .age = "Age", .text = "Runs"},
        [WEIR__DEBUG_SERIES] = {"State", "Age", "Deadline", "Waits for", "Holds", "Behind"},
        [WEIR__DEBUG_TIMERS] = {.state = "State", .age = "Age", .deadline = "Due", .text = "Clock"},
        [WEIR__DEBUG_WAITS] = {.state = "State", .text = "Waiting", .also = "Details"},
        [WEIR__DEBUG_FUNCTIONS] = {.text = "Queued", .also = "Running"},
        [WEIR__DEBUG_HELD] = {.state = "State", .age = "Age", .text = "Request", .also = "References"},
};

/* A short one has one or two words.  Where there is no room for columns the title stands before the text. */
static void
put_cell(struct weir__sink *sink, const char *title, const char *class, const char *before, const char *text)
{
        if (!title)
                return;
        if (!text || !*text) {
                weir__sink_text(sink, "<td>");
                return;
        }
        weir__sink_printf(sink, "<td class=\"%s\" data-is=\"%s\"><bdi>%s", class, title, before);
        put_text(sink, text, strlen(text));
        weir__sink_text(sink, "</bdi>");
}

static void
put_row(struct weir__sink *sink, const struct weir__debug_record *record)
{
        char age[WEIR__DURATION_SIZE] = "", left[WEIR__DURATION_SIZE] = "";
        const struct columns *titles = &columns[record->section];
        bool is_over = record->deadline < 0;

        weir__sink_printf(sink, "<tr class=d%u><td><span class=kind>%s</span>",
                          record->depth < INDENTED_MOST ? record->depth : INDENTED_MOST, record->kind);
        if (record->name) {
                weir__sink_text(sink, " <bdi class=name>");
                put_text(sink, record->name, record->name_size);
                weir__sink_text(sink, "</bdi>");
        }
        if (record->age >= 0)
                weir__duration(age, record->age);
        if (record->deadline != WEIR_FOREVER)
                weir__duration(left, record->deadline);
        put_cell(sink, titles->state, "short state", "", record->state);
        put_cell(sink, titles->age, "short", "", age);
        put_cell(sink, titles->deadline, is_over ? "short over" : "short", is_over ? "over for " : "in ", left);
        put_cell(sink, titles->text, "long", "", record->text);
        put_cell(sink, titles->also, "long", "", record->also);
        put_cell(sink, titles->behind, "short", "", record->behind);
        weir__sink_text(sink, "</tr>\n");
}

/* -- flows -- */

static bool
is_found(const struct page *page, const struct weir__debug_record *record)
{
        return !page->find_size || (record->name && memmem(record->name, record->name_size, page->find, page->find_size)) ||
               strstr(record->text, page->find) || (record->also && strstr(record->also, page->find));
}

static struct flow *
flow_of(struct weir__link *link)
{
        return weir__container_of(link, struct flow, link);
}

/* The flow with the shortest wait.  The section has one. */
static struct flow *
last_of(const struct section *section)
{
        return flow_of(section->flows.head.previous);
}

static void
drop_last(struct section *section)
{
        struct flow *last = last_of(section);

        section->count--;
        section->rows -= last->rows;
        weir__link_remove(&last->link);
        free(last->html);
        free(last);
}

/* Keeps the flow, behind those that have waited as long.  Drops flows at the end that are too many.  Returns false when out of
 * memory. */
static bool
keep(struct section *section, const struct flow *made, size_t limit)
{
        struct flow *flow = malloc(sizeof *flow);

        if (!flow)
                return false;
        *flow = *made;
        weir__list_prepare(&section->flows);
        struct weir__link *head = &section->flows.head, *before = head->previous;
        while (before != head && flow_of(before)->waited < flow->waited)
                before = before->previous;
        weir__link_insert(&flow->link, before, before->next);
        section->count++;
        section->rows += flow->rows;
        while (section->rows - last_of(section)->rows >= limit)
                drop_last(section);
        return true;
}

static bool
can_be_kept(const struct page *page, const struct section *section, weir_nsec waited)
{
        return section->rows < page->limit || last_of(section)->waited < waited;
}

/* The last record has nothing in it, so the flow waits for it. */
static void
note_leaf(struct page *page)
{
        if (page->last_age > page->waited)
                page->waited = page->last_age;
}

static void
end_flow(struct page *page)
{
        struct section *section = page->section;
        char left_out[NUMBER_SIZE];

        page->section = NULL;
        if (!section)
                return;
        note_leaf(page);
        if (page->waited < 0)
                page->waited = page->root_age;
        section->found += page->is_found;
        if (page->left_out)
                weir__sink_printf(&page->sink.sink, "<tr><td colspan=4 class=note>and %s more task%s in it</tr>\n",
                                  number(left_out, page->left_out), page->left_out == 1 ? "" : "s");
        page->has_failed |= weir__sink_flush(&page->sink.sink) != 0;
        struct flow flow = {.waited = page->waited,
                            .is_over = page->is_over,
                            .rows = page->rows,
                            .size = page->sink.size,
                            .html = page->sink.bytes};
        if (page->is_found && !page->is_skipped && !page->has_failed && can_be_kept(page, section, page->waited)) {
                page->sink.bytes = NULL;
                page->has_failed = !keep(section, &flow, page->limit);
                if (page->has_failed)
                        free(flow.html);
        }
        weir__memory_sink_done(&page->sink);
}

static void
begin_flow(struct page *page, const struct weir__debug_record *record)
{
        page->section = &page->sections[record->section];
        page->section->roots++;
        weir__memory_sink_init(&page->sink);
        page->rows = page->left_out = 0;
        page->root_age = record->age;
        page->waited = page->last_age = -1;
        page->last_depth = 0;
        page->is_found = page->is_over = false;
        page->is_skipped = record->age >= 0 && !can_be_kept(page, page->section, record->age);
}

static bool
add_record(const struct weir__debug_record *record, void *context)
{
        struct page *page = context;

        if (record->depth == 0) {
                end_flow(page);
                begin_flow(page, record);
        } else {
                page->section->tasks++;
                if (record->depth <= page->last_depth)
                        note_leaf(page);
        }
        page->last_depth = record->depth;
        page->last_age = record->age;
        page->is_found = page->is_found || is_found(page, record);
        page->is_over = page->is_over || record->deadline < 0;
        if (page->is_skipped)
                return page->has_failed;
        if (page->rows < page->limit) {
                put_row(&page->sink.sink, record);
                page->rows++;
        } else {
                page->left_out++;
        }
        return page->has_failed;
}

/* -- the page -- */

/* Without room for columns each row is a block, and each text has its title before it.  A word is broken only if it is longer
 * than a line. */
static const char style[] =
        ":root{color-scheme:light dark;--depth:0;--line:#8884;--dim:#5f6672;--soft:#8881;--cut:#a35f00;--late:#c62828}"
        "@media(prefers-color-scheme:dark){:root{--dim:#a2a9b4;--cut:#ffb74d;--late:#ff8a80}}"
        "body{font:14px/1.45 system-ui,sans-serif;margin:0 auto;max-width:1280px;padding:1.2em;overflow-wrap:break-word}"
        "*{box-sizing:border-box}[hidden]{display:none!important}"
        "h1{font-size:1.35em;margin:0 0 .2em}h2{font-size:1.05em;margin:1.8em 0 .4em}h2::first-letter{text-transform:uppercase}"
        "h2 small{font-weight:normal;color:var(--dim)}p{margin:.3em 0}a{color:inherit}"
        "form{display:flex;flex-wrap:wrap;gap:.6em 1em;align-items:center;margin:1em 0}"
        "input,button{font:inherit;padding:.25em .5em}input[name=find]{width:18em}input[name=limit]{width:6em}"
        "table{border-collapse:collapse;width:100%;table-layout:fixed}"
        "th{text-align:left;font-weight:600;color:var(--dim);font-size:.9em}th:first-child{width:28%}th.short{width:7em}"
        "td,th{padding:.2em .8em .2em .5em;vertical-align:top}tbody{border-top:1px solid var(--line)}"
        "tbody:hover{background:var(--soft)}td{overflow-wrap:anywhere}"
        "td:first-child{padding-left:calc(.5em + var(--depth)*min(1.4em,1.2vw));border-left:3px solid transparent}"
        ".kind,.note,.sum{color:var(--dim)}.name{font:13px/1.45 ui-monospace,monospace;font-weight:600}"
        ".short{font-variant-numeric:tabular-nums}.over{color:var(--late);font-weight:600}"
        ".late td:first-child{border-color:var(--late)}"
        ".cut{border-left:3px solid var(--cut);padding:.3em .8em;background:var(--soft)}"
        ".deadlock{border-color:var(--late);color:var(--late);font-weight:600}"
        "@media(max-width:959px){thead{display:none}table,tbody{display:block}tbody{border-left:3px solid transparent}"
        ".late{border-left-color:var(--late)}tr{display:flex;flex-wrap:wrap;padding:.15em 0 .15em calc(var(--depth)*.7em)}"
        "td,td:first-child{padding:.05em .5em;border:0}td:empty{display:none}td:first-child,.long{flex:0 0 100%}"
        "td[data-is]:not(.state)::before{content:attr(data-is)': ';color:var(--dim);font-weight:normal}}";

/* Hides flows that do not match while somebody types.  Loads the page again every two seconds if the box is checked. */
static const char script[] = "const find=document.forms[0].find,again=document.getElementById('again');"
                             "function filter(){const text=find.value;for(const flow of document.querySelectorAll('tbody'))"
                             "flow.hidden=!flow.textContent.includes(text)}"
                             "find.addEventListener('input',filter);"
                             "again.checked=sessionStorage.again==='yes';again.parentNode.hidden=false;"
                             "again.addEventListener('change',()=>{sessionStorage.again=again.checked?'yes':'no'});"
                             "setInterval(()=>{if(again.checked&&document.activeElement!==find)location.reload()},2000);";

static void
put_style(struct weir__sink *sink, uint64_t nonce)
{
        weir__sink_printf(sink, "<style nonce=\"%016llx\">%s", (unsigned long long)nonce, style);
        for (unsigned depth = 1; depth <= INDENTED_MOST; depth++)
                weir__sink_printf(sink, ".d%u{--depth:%u}", depth, depth);
        weir__sink_text(sink, "</style>\n");
}

static void
put_summary(struct weir__sink *sink, const struct page *page)
{
        const char *between = "";
        char count[NUMBER_SIZE];

        weir__sink_text(sink, "<p>");
        for (unsigned i = 0; i < WEIR__DEBUG_SECTIONS; i++) {
                const struct section *section = &page->sections[i];

                if (!section->roots && i == WEIR__DEBUG_HELD)
                        continue;
                if (section->roots)
                        weir__sink_printf(sink, "%s<a href=\"#s%u\">%s</a>: ", between, i, weir__debug_title(i));
                else
                        weir__sink_printf(sink, "%s%s: ", between, weir__debug_title(i));
                weir__sink_text(sink, number(count, section->roots));
                if (section->tasks)
                        weir__sink_printf(sink, " with %s task%s", number(count, section->tasks), section->tasks == 1 ? "" : "s");
                between = " · ";
        }
        weir__sink_text(sink, " · <a href=\"../metrics\">metrics</a></p>\n");
}

static void
put_form(struct weir__sink *sink, const struct page *page)
{
        weir__sink_text(sink, "<form><label>Find <input name=find type=search value=\"");
        put_text(sink, page->find, page->find_size);
        weir__sink_printf(sink,
                          "\"></label><label>Rows <input name=limit type=number min=1 max=%d value=%zu></label>"
                          "<button>Show</button><label hidden><input type=checkbox id=again> every 2 s</label></form>\n",
                          WEIR__DEBUG_ROWS_MAX, page->limit);
}

static void
put_head(struct weir__sink *sink, const struct page *page, uint64_t nonce)
{
        weir__sink_text(sink, "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><title>Flows</title>\n"
                              "<meta name=viewport content=\"width=device-width\">\n");
        put_style(sink, nonce);
        weir__sink_text(sink, "</head><body>\n<h1>Flows</h1>\n");
        put_summary(sink, page);
        weir__sink_text(sink, "<p class=sum>");
        weir__debug_print_head(sink);
        weir__sink_text(sink, "</p>\n");
        if (page->is_short)
                weir__sink_text(sink, "<p class=cut>Out of memory: something is left out.</p>\n");
        put_form(sink, page);
}

/* Tells that not all flows are shown. */
static void
put_cut(struct weir__sink *sink, const struct page *page, const struct section *section)
{
        size_t more = 10 * page->limit < WEIR__DEBUG_ROWS_MAX ? 10 * page->limit : WEIR__DEBUG_ROWS_MAX;
        char shown[NUMBER_SIZE], found[NUMBER_SIZE];

        weir__sink_printf(sink, "<p class=cut>Shown: the %s that have waited longest, of %s.", number(shown, section->count),
                          number(found, section->found));
        if (more > page->limit && !page->find_size)
                weir__sink_printf(sink, " More with <a href=\"?limit=%zu\">limit=%zu</a>.", more, more);
        weir__sink_text(sink, "</p>\n");
}

static void
put_deadlock(const char *sentence, void *context)
{
        struct weir__sink *sink = context;

        weir__sink_text(sink, "<p class=\"cut deadlock\"><bdi>");
        put_text(sink, sentence, strlen(sentence));
        weir__sink_text(sink, "</bdi></p>\n");
}

static void
put_titles(struct weir__sink *sink, const struct columns *titles)
{
        const char *const all[] = {titles->state, titles->age, titles->deadline, titles->text, titles->also, titles->behind};

        weir__sink_text(sink, "<table><thead><tr><th>What");
        for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
                if (all[i])
                        weir__sink_printf(sink, "<th%s>%s",
                                          all[i] == titles->text || all[i] == titles->also ? "" : " class=short", all[i]);
        weir__sink_text(sink, "</thead>\n");
}

static void
put_section(struct weir__sink *sink, const struct page *page, unsigned index)
{
        const struct section *section = &page->sections[index];
        char count[NUMBER_SIZE];

        if (!section->roots)
                return;
        weir__sink_printf(sink, "<h2 id=s%u>%s <small>%s", index, weir__debug_title(index), number(count, section->roots));
        if (page->find_size)
                weir__sink_printf(sink, ", found: %s", number(count, section->found));
        weir__sink_text(sink, "</small></h2>\n");
        if (section->count < section->found)
                put_cut(sink, page, section);
        if (!section->count)
                return;
        put_titles(sink, &columns[index]);
        for (struct weir__link *each = weir__list_first(&section->flows); each; each = weir__list_next(&section->flows, each)) {
                weir__sink_text(sink, flow_of(each)->is_over ? "<tbody class=late>" : "<tbody>");
                weir__sink_write(sink, flow_of(each)->html, flow_of(each)->size);
                weir__sink_text(sink, "</tbody>\n");
        }
        weir__sink_text(sink, "</table>\n");
}

/* -- names, and tables of others -- */

static void
put_names(struct weir__sink *sink)
{
        struct weir_resolver_stats stats;
        char texts[6][NUMBER_SIZE];

        weir_resolver_stats(&stats);
        if (stats.misses + stats.hits == 0)
                return;
        weir__sink_printf(sink,
                          "<h2>names</h2>\n<p>%s kept · %s look-ups, of which %s under way and %s failed · "
                          "%s answers from those kept · %s waits for a look-up under way</p>\n",
                          number(texts[0], stats.entries), number(texts[1], stats.misses), number(texts[2], stats.running),
                          number(texts[3], stats.failures), number(texts[4], stats.hits), number(texts[5], stats.joined));
}

struct table {
        const struct page *page;
        const struct weir__status_table *what;
        struct weir__sink *sink;
        size_t rows; /* with the text that is looked for */
};

static void
put_table_head(const struct table *table)
{
        weir__sink_printf(table->sink, "<h2>%s</h2>\n<table><thead><tr>", table->what->title);
        for (unsigned i = 0; i < WEIR__STATUS_COLUMNS && table->what->columns[i]; i++)
                weir__sink_printf(table->sink, "<th%s>%s", i ? " class=short" : "", table->what->columns[i]);
        weir__sink_text(table->sink, "</thead>\n");
}

static bool
put_table_row(const char *const cells[WEIR__STATUS_COLUMNS], void *context)
{
        struct table *table = context;
        const struct page *page = table->page;

        if (page->find_size && !strstr(cells[0], page->find))
                return false;
        if (table->rows++ == 0)
                put_table_head(table);
        if (table->rows > page->limit) {
                weir__sink_printf(table->sink, "<tbody><tr><td colspan=%d class=note>and more</tbody>\n", WEIR__STATUS_COLUMNS);
                return true;
        }
        weir__sink_text(table->sink, "<tbody><tr><td><bdi class=name>");
        put_text(table->sink, cells[0], strlen(cells[0]));
        weir__sink_text(table->sink, "</bdi>");
        for (unsigned i = 1; i < WEIR__STATUS_COLUMNS && table->what->columns[i]; i++)
                put_cell(table->sink, table->what->columns[i], "short", "", cells[i]);
        weir__sink_text(table->sink, "</tbody>\n");
        return false;
}

static void
put_tables(struct weir__sink *sink, const struct page *page)
{
        struct table table = {.page = page, .sink = sink};

        for (unsigned i = 0; (table.what = weir__status_at(i)); i++) {
                table.rows = 0;
                int failed = table.what->walk(put_table_row, &table);
                if (table.rows)
                        weir__sink_text(sink, "</table>\n");
                if (failed)
                        weir__sink_text(sink, "<p class=cut>Out of memory: something is left out.</p>\n");
        }
}

int
weir__debug_page(struct weir__sink *sink, const struct weir__debug_question *question)
{
        struct page page = {.limit = question->limit, .find = question->find, .find_size = strlen(question->find)};
        int failed = weir__debug_walk(add_record, &page);

        end_flow(&page);
        page.is_short = failed == -ENOMEM;
        failed = page.has_failed ? -ENOMEM : page.is_short ? 0 : failed;
        if (!failed) {
                put_head(sink, &page, question->nonce);
                weir__deadlock_find(put_deadlock, sink);
                for (unsigned i = 0; i < WEIR__DEBUG_SECTIONS; i++)
                        put_section(sink, &page, i);
                put_names(sink);
                put_tables(sink, &page);
                weir__sink_printf(sink, "<script nonce=\"%016llx\">%s</script>\n</body></html>\n",
                                  (unsigned long long)question->nonce, script);
        }
        for (unsigned i = 0; i < WEIR__DEBUG_SECTIONS; i++)
                while (page.sections[i].count)
                        drop_last(&page.sections[i]);
        return failed;
}
