/* database/redis/message.c: what comes on a connection that listens, as messages. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "database/redis/subscribe.h"

/* A message with its texts in one block. */
static struct weir_redis_message *
make(enum weir_redis_message_kind kind, const struct weir_redis_reply *channel, const struct weir_redis_reply *pattern,
     const struct weir_redis_reply *data)
{
        const struct weir_redis_reply *parts[3] = {channel, pattern, data};
        const char *texts[3] = {NULL, NULL, NULL};
        size_t size = sizeof(struct weir_redis_message);

        for (unsigned i = 0; i < 3; i++)
                size += parts[i] ? parts[i]->size + 1 : 0;
        struct weir_redis_message *message = malloc(size);
        if (!message)
                return NULL;
        char *at = (char *)(message + 1);
        for (unsigned i = 0; i < 3; i++) {
                if (!parts[i])
                        continue;
                memcpy(at, parts[i]->text, parts[i]->size + 1);
                texts[i] = at;
                at += parts[i]->size + 1;
        }
        *message = (struct weir_redis_message){
                .kind = kind, .channel = texts[0], .pattern = texts[1], .data = texts[2], .size = data ? data->size : 0};
        return message;
}

void
weir_redis_message_free(struct weir_redis_message *message)
{
        free(message);
}

void
weir__redis_message_drop(void *message)
{
        free(message);
}

struct weir_redis_message *
weir__redis_message_lost(int status)
{
        struct weir_redis_message *message = make(WEIR_REDIS_LOST, NULL, NULL, NULL);

        if (message)
                message->status = status;
        return message;
}

static bool
is_text(const struct weir_redis_reply *reply)
{
        return reply && reply->type == WEIR_REDIS_STRING;
}

/* Of an array or a push.  Result: as weir__redis_message_read. */
static int
read_items(const struct weir_redis_reply *root, struct weir_redis_message **out)
{
        const struct weir_redis_reply *channel = weir_redis_item(root, 1), *data = weir_redis_item(root, 2),
                                      *matched = weir_redis_item(root, 3);
        const char *kind = weir_redis_text(weir_redis_item(root, 0));

        if (strcmp(kind, "pong") == 0 || strcmp(kind, "invalidate") == 0)
                return 0;
        if (strcmp(kind, "unsubscribe") == 0 || strcmp(kind, "punsubscribe") == 0 || strcmp(kind, "sunsubscribe") == 0) {
                if (!is_text(channel)) /* there was nothing to end */
                        return 0;
                *out = make(WEIR_REDIS_UNSUBSCRIBED, channel, NULL, NULL);
        } else if (!is_text(channel)) {
                return -EPROTO;
        } else if (strcmp(kind, "subscribe") == 0 || strcmp(kind, "psubscribe") == 0 || strcmp(kind, "ssubscribe") == 0) {
                *out = make(WEIR_REDIS_SUBSCRIBED, channel, NULL, NULL);
        } else if ((strcmp(kind, "message") == 0 || strcmp(kind, "smessage") == 0) && is_text(data)) {
                *out = make(WEIR_REDIS_MESSAGE, channel, NULL, data);
        } else if (strcmp(kind, "pmessage") == 0 && is_text(data) && is_text(matched)) {
                *out = make(WEIR_REDIS_MESSAGE, data, channel, matched);
        } else {
                return -EPROTO;
        }
        return *out ? 1 : -ENOMEM;
}

int
weir__redis_message_read(const char *data, size_t size, struct weir_redis_message **out)
{
        struct weir__redis_tree tree;
        int result = weir__redis_build(data, size, NULL, 0, &tree);

        if (result)
                return result;
        if (tree.root->type == WEIR_REDIS_ARRAY || tree.root->type == WEIR_REDIS_PUSH) {
                result = read_items(tree.root, out);
        } else if (tree.root->type == WEIR_REDIS_ERROR) {
                *out = make(WEIR_REDIS_REFUSED, NULL, NULL, tree.root);
                result = *out ? 1 : -ENOMEM;
                if (*out)
                        (*out)->status = weir__redis_status_of(tree.root->text);
        } else {
                result = is_text(tree.root) ? 0 : -EPROTO; /* PONG */
        }
        free(tree.memory);
        return result;
}
