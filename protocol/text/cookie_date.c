/* protocol/text/cookie_date.c: the dates of cookies, which come in all forms.
 *
 * A text is divided into words.  Each of the four parts of a date is the first word that can be it.
 *
 * Threads: any; pure functions.  No locks. */
#include "protocol/text/cookie_date.h"

#include "kernel/calendar/calendar.h"
#include "protocol/text/bytes.h"

struct found {
        bool has_time, has_day, has_month, has_year;
        unsigned hour, minute, second, day, month, year;
};

/* Letters, digits, ':', and what is not ASCII or cannot be seen belong to words. */
static bool
is_delimiter(char byte)
{
        return byte == '\t' || (byte >= ' ' && byte <= '/') || (byte >= ';' && byte <= '@') || (byte >= '[' && byte <= '`') ||
               (byte >= '{' && byte <= '~');
}

/* Takes a number of `least` to `most` digits off the word.  Result: whether there is one, and no further digit behind it. */
static bool
take_number(const char **word, size_t *size, size_t least, size_t most, unsigned *ret_number)
{
        unsigned number = 0;
        size_t count = 0;

        for (; count < *size && weir__byte_is((*word)[count], WEIR__BYTE_DIGIT); count++) {
                if (count == most)
                        return false;
                number = number * 10 + (unsigned)((*word)[count] - '0');
        }
        if (count < least)
                return false;
        *word += count;
        *size -= count;
        *ret_number = number;
        return true;
}

static bool
take_colon(const char **word, size_t *size)
{
        if (*size == 0 || **word != ':')
                return false;
        (*word)++;
        (*size)--;
        return true;
}

static bool
read_time(const char *word, size_t size, struct found *found)
{
        return take_number(&word, &size, 1, 2, &found->hour) && take_colon(&word, &size) &&
               take_number(&word, &size, 1, 2, &found->minute) && take_colon(&word, &size) &&
               take_number(&word, &size, 1, 2, &found->second);
}

static bool
read_month(const char *word, size_t size, struct found *found)
{
        static const char months[] = "janfebmaraprmayjunjulaugsepoctnovdec";

        for (unsigned i = 0; size >= 3 && i < 12; i++)
                if (weir__bytes_equal(word, months + 3 * i, 3)) {
                        found->month = i + 1;
                        return true;
                }
        return false;
}

static void
read_word(const char *word, size_t size, struct found *found)
{
        if (!found->has_time && read_time(word, size, found))
                found->has_time = true;
        else if (!found->has_day && take_number(&(const char *){word}, &(size_t){size}, 1, 2, &found->day))
                found->has_day = true;
        else if (!found->has_month && read_month(word, size, found))
                found->has_month = true;
        else if (!found->has_year && take_number(&(const char *){word}, &(size_t){size}, 2, 4, &found->year))
                found->has_year = true;
}

static bool
is_valid(const struct found *found)
{
        return found->has_time && found->has_day && found->has_month && found->has_year && found->year >= 1601 &&
               found->day >= 1 && found->day <= weir__days_in_month(found->year, found->month) && found->hour < 24 &&
               found->minute < 60 && found->second < 60;
}

bool
weir__cookie_date_read(const char *text, size_t size, int64_t *ret_seconds)
{
        struct found found = {.has_time = false};

        for (size_t at = 0, end; at < size; at = end) {
                while (at < size && is_delimiter(text[at]))
                        at++;
                for (end = at; end < size && !is_delimiter(text[end]);)
                        end++;
                read_word(text + at, end - at, &found);
        }
        if (found.year < 100)
                found.year += found.year < 70 ? 2000 : 1900;
        if (!is_valid(&found))
                return false;
        *ret_seconds = weir__day_of(found.year, found.month, found.day) * WEIR__SECONDS_A_DAY +
                       (int64_t)(found.hour * 3600 + found.minute * 60 + found.second);
        return true;
}
