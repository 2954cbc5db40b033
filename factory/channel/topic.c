/* factory/channel/topic.c: topics: publish and subscribe, by name.
 *
 * A topic has the last messages in a ring, numbered, each once.  A subscriber has only the number of its next message.  It has
 * lost what is older than its room.  So publishing costs the same for any number of subscribers, but for waking those that wait,
 * and a subscriber that never receives costs nothing.  A message is counted: the ring has a reference, and each task that was
 * given it.
 *
 *     lost | in the ring, too old for the room of this subscriber | next ... newest
 *
 * Threads: any.
 * Locks:   the topic's (the object's), also for what its subscribers have.
 *
 * The ring has room for what the largest subscriber may have waiting, rounded up to a power of two.  When that one leaves, the
 * messages that nobody else has room for are dropped, and the ring becomes smaller.  Rings are allocated without the lock.
 *
 * The amount of the object is how many messages the ring holds.  The amount of a wait that is linked is the number of the message
 * that comes next, at that time.  So the waits lie in the order of these, and those that a new message concerns are in front.
 * The message of a wait that was fulfilled is the message. */
#include <weir/topic.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "factory/sync/waitable.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"

#define SIZES      17  /* of rooms: 1, 2, 4 and so on up to WEIR_TOPIC_ROOM_MAX */
#define DROP_BATCH 256 /* messages that are dropped under one hold of the lock */

_Static_assert(WEIR_TOPIC_ROOM_MAX == 1 << (SIZES - 1), "each room has its size");

struct message {
        atomic_size_t references;
        size_t size; /* the rest is constant */
        char bytes[];
};

struct topic {
        struct weir__waitable object; /* first */

        /* Guarded by the object's lock. */
        struct weir__list waits;
        struct message **ring; /* message n is at n % room */
        size_t room;           /* of the ring: a power of two; 0: there is none */
        size_t most;           /* of the messages that stay: `room`, or less until the ring is made smaller */
        uint64_t next;         /* the number of the message that comes next */
        size_t subscribers;
        uint32_t of_size[SIZES]; /* subscribers whose room, rounded up, is 2 to the power of the index */
};

struct weir_subscriber {
        /* Constant. */
        struct topic *topic; /* with a reference */
        size_t room;

        atomic_size_t references; /* not at the beginning, where a free block has its link */

        uint64_t next; /* guarded by the topic's lock */
};

struct receive {
        struct weir__wait_task base; /* first */
        weir_subscriber *subscriber; /* constant; with a reference */
        uint64_t lost;               /* as the message of the wait */
};

/* -- messages -- */

static struct message *
message_new(const void *data, size_t size)
{
        struct message *message = size < SIZE_MAX - sizeof *message ? malloc(sizeof *message + size + 1) : NULL;

        if (!message)
                return NULL;
        atomic_init(&message->references, 1);
        message->size = size;
        if (size > 0)
                memcpy(message->bytes, data, size);
        message->bytes[size] = '\0';
        return message;
}

static struct message *
message_ref(struct message *message)
{
        atomic_fetch_add_explicit(&message->references, 1, memory_order_relaxed);
        return message;
}

/* Accepts NULL. */
static void
message_unref(struct message *message)
{
        if (message && atomic_fetch_sub_explicit(&message->references, 1, memory_order_acq_rel) == 1)
                free(message);
}

/* -- the ring; under the lock -- */

static struct message **
slot_of(const struct topic *topic, uint64_t number)
{
        return &topic->ring[number & (topic->room - 1)];
}

static struct message *
pop_oldest(struct topic *topic)
{
        return *slot_of(topic, topic->next - topic->object.amount--);
}

/* Returns the message that has to make room; or NULL. */
static struct message *
append(struct topic *topic, struct message *message)
{
        struct message *oldest = topic->object.amount >= topic->most ? pop_oldest(topic) : NULL;

        *slot_of(topic, topic->next++) = message;
        topic->object.amount++;
        return oldest;
}

/* Moves all messages to another ring that has room for them.  Returns the one before. */
static struct message **
move_to(struct topic *topic, struct message **ring, size_t room)
{
        struct message **before = topic->ring;

        for (uint64_t n = topic->next - topic->object.amount; n < topic->next; n++)
                ring[n & (room - 1)] = *slot_of(topic, n);
        topic->ring = ring;
        topic->room = room;
        return before;
}

/* The index of a room in of_size. */
static unsigned
size_of(size_t room)
{
        return room > 1 ? 64 - (unsigned)__builtin_clzll(room - 1) : 0;
}

/* How many messages are to stay, as the subscribers are now. */
static size_t
most_of(const struct topic *topic)
{
        for (unsigned size = SIZES; size-- > 0;)
                if (topic->of_size[size])
                        return (size_t)1 << size;
        return 0;
}

static bool
is_there_for(const struct topic *topic, const weir_subscriber *subscriber)
{
        return subscriber->next < topic->next;
}

/* The subscriber has one there. */
static void
give(struct topic *topic, struct receive *to)
{
        weir_subscriber *subscriber = to->subscriber;
        uint64_t kept = topic->object.amount < subscriber->room ? topic->object.amount : subscriber->room;
        uint64_t oldest = topic->next - kept;

        to->lost = 0;
        if (subscriber->next < oldest) {
                to->lost = oldest - subscriber->next;
                subscriber->next = oldest;
        }
        to->base.wait.message = message_ref(*slot_of(topic, subscriber->next++));
}

/* -- topics -- */

static int
try(struct weir__wait *wait, struct weir__work_list *claimed)
{
        struct topic *topic = (struct topic *)wait->object;
        struct receive *receive = (struct receive *)wait->task;

        (void)claimed;
        if (is_there_for(topic, receive->subscriber)) {
                give(topic, receive);
                return 0;
        }
        wait->amount = topic->next;
        return -EAGAIN;
}

/* Gives messages to some of the subscribers that wait.  A subscriber may wait several times, and then there may be too few for
 * it: such a wait goes to the end of the queue.  Returns whether there may be more. */
static bool
serve_some(struct weir__waitable *object, struct weir__work_list *claimed)
{
        struct topic *topic = (struct topic *)object;

        for (unsigned i = 0; i < WEIR__WAITS_AT_ONCE; i++) {
                struct weir__wait *wait = weir__wait_oldest(&topic->waits);

                if (!wait || wait->amount >= topic->next)
                        return false;
                struct receive *receive = (struct receive *)wait->task;
                if (!is_there_for(topic, receive->subscriber)) {
                        wait->amount = topic->next;
                        weir__wait_requeue(wait);
                } else if (weir__wait_claim_oldest(&topic->waits, claimed)) {
                        give(topic, receive);
                }
        }
        return true;
}

/* Lets the lock go. */
static void
serve_and_unlock(struct topic *topic)
{
        weir__wait_serve_and_unlock(&topic->object, serve_some);
}

static void
clear(struct weir__waitable *object)
{
        struct topic *topic = (struct topic *)object;

        for (uint64_t n = topic->next - object->amount; n < topic->next; n++)
                message_unref(*slot_of(topic, n));
        free(topic->ring);
}

static void
describe(const struct weir__waitable *object, const struct weir__wait *wait, char *out, size_t room)
{
        const struct topic *topic = (const struct topic *)object;

        if (!wait)
                snprintf(out, room, "%zu subscriber%s, %" PRIu64 " published", topic->subscribers,
                         topic->subscribers == 1 ? "" : "s", topic->next);
}

static const struct weir__waitable_ops topic_ops = {.kind = WEIR__TOPIC,
                                                    .noun = "topic",
                                                    .size = sizeof(struct topic),
                                                    .queues = 1,
                                                    .try = try,
                                                    .clear = clear,
                                                    .describe = describe};

static int64_t
publish(struct topic *topic, struct message *message)
{
        weir__waitable_lock(&topic->object);
        int64_t subscribers = (int64_t)topic->subscribers;
        struct message *oldest = subscribers > 0 ? append(topic, message) : message; /* the last has left just now */
        serve_and_unlock(topic);
        message_unref(oldest);
        return subscribers;
}

int64_t
weir_topic_publish(const char *name, const void *data, size_t size)
{
        struct weir__name_key key;
        int fault = weir__phase_is_forked() ? -ECHILD : weir__name_expect("topic", name, &key);

        if (!fault && !data && size > 0)
                fault = weir__log_refusal("weir_topic_publish: NULL with a size of %zu: expected as many bytes", size);
        struct topic *topic = fault ? NULL : (struct topic *)weir__waitable_find(&topic_ops, &key);

        if (!topic)
                return fault;
        struct message *message = message_new(data, size);
        int64_t subscribers = message ? publish(topic, message) : -ENOMEM;
        weir__waitable_unref(&topic->object);
        return subscribers;
}

/* -- subscribers -- */

/* Takes the lock, and keeps it, with a ring of that size at least.  Returns false when out of memory, without the lock.  Sets
 * *unused to a ring that is to be freed without the lock. */
static bool
lock_with_room(struct topic *topic, size_t room, struct message ***unused)
{
        *unused = NULL;
        weir__waitable_lock(&topic->object);
        if (topic->room >= room)
                return true;
        weir__unlock(&topic->object.lock);
        struct message **ring = malloc(room * sizeof *ring);
        if (!ring)
                return false;
        weir__waitable_lock(&topic->object);
        *unused = topic->room < room ? move_to(topic, ring, room) : ring;
        return true;
}

/* Takes over a reference to the topic.  NULL: out of memory. */
static weir_subscriber *
join(struct topic *topic, size_t room)
{
        weir_subscriber *subscriber = weir__alloc(sizeof *subscriber);
        struct message **unused;

        if (!subscriber || !lock_with_room(topic, (size_t)1 << size_of(room), &unused)) {
                weir__free(subscriber, sizeof *subscriber);
                weir__waitable_unref(&topic->object);
                errno = ENOMEM;
                return NULL;
        }
        atomic_init(&subscriber->references, 1);
        subscriber->topic = topic;
        subscriber->room = room;
        subscriber->next = topic->next;
        topic->subscribers++;
        topic->of_size[size_of(room)]++;
        topic->most = most_of(topic);
        weir__unlock(&topic->object.lock);
        free(unused);
        return subscriber;
}

/* Drops the messages that nobody has room for any more.  Takes the lock, and keeps it. */
static void
drop_and_lock(struct topic *topic)
{
        struct message *dropped[DROP_BATCH];

        for (;;) {
                unsigned count = 0;

                weir__waitable_lock(&topic->object);
                while (count < DROP_BATCH && topic->object.amount > topic->most)
                        dropped[count++] = pop_oldest(topic);
                if (count == 0)
                        return;
                weir__unlock(&topic->object.lock);
                while (count > 0)
                        message_unref(dropped[--count]);
        }
}

/* The ring is larger than what has to stay.  It may keep its size without memory, or when others come or go meanwhile. */
static void
shrink(struct topic *topic)
{
        drop_and_lock(topic);
        size_t most = topic->most;
        bool is_large = most < topic->room;
        weir__unlock(&topic->object.lock);
        struct message **ring = is_large && most > 0 ? malloc(most * sizeof *ring) : NULL;
        if (!ring)
                return;
        weir__waitable_lock(&topic->object);
        if (topic->most == most && topic->room > most && topic->object.amount <= most)
                ring = move_to(topic, ring, most);
        weir__unlock(&topic->object.lock);
        free(ring);
}

static void
leave(struct topic *topic, size_t room)
{
        weir__lock(&topic->object.lock);
        topic->subscribers--;
        topic->of_size[size_of(room)]--;
        topic->most = most_of(topic);
        bool is_large = topic->most < topic->room;
        weir__unlock(&topic->object.lock);
        if (is_large)
                shrink(topic);
}

weir_subscriber *
weir_topic_subscribe(const char *name, size_t room)
{
        if (room == 0 || room > WEIR_TOPIC_ROOM_MAX) {
                errno = -weir__log_refusal("weir_topic_subscribe: room %zu: expected 1 to %d", room, WEIR_TOPIC_ROOM_MAX);
                return NULL;
        }
        struct weir__waitable *topic = weir__waitable_unique(weir__waitable_new_named(&topic_ops, name, 0, 0, NULL));
        return topic ? join((struct topic *)topic, room) : NULL;
}

weir_subscriber *
weir_subscriber_ref(weir_subscriber *subscriber)
{
        if (subscriber)
                atomic_fetch_add_explicit(&subscriber->references, 1, memory_order_relaxed);
        return subscriber;
}

void
weir_subscriber_unref(weir_subscriber *subscriber)
{
        if (!subscriber)
                return;
        weir__references_expect(subscriber, &subscriber->references, "weir_subscriber_unref");
        if (atomic_fetch_sub_explicit(&subscriber->references, 1, memory_order_acq_rel) > 1)
                return;
        struct topic *topic = subscriber->topic;
        if (!weir__phase_is_forked()) /* a thread that held the lock at the fork is not there to let it go */
                leave(topic, subscriber->room);
        weir__free(subscriber, sizeof *subscriber);
        weir__waitable_unref(&topic->object);
}

size_t
weir_topic_subscribers(const char *name)
{
        struct weir__name_key key;
        bool is_refused = weir__phase_is_forked() || weir__name_read(name, &key);
        struct topic *topic = is_refused ? NULL : (struct topic *)weir__waitable_find(&topic_ops, &key);

        if (!topic)
                return 0;
        weir__waitable_lock(&topic->object);
        size_t subscribers = topic->subscribers;
        weir__unlock(&topic->object.lock);
        weir__waitable_unref(&topic->object);
        return subscribers;
}

/* -- tasks -- */

/* The message that the task was given; NULL: none, or it does not run yet. */
static struct message *
message_of(const struct weir_task *task)
{
        bool runs = atomic_load_explicit(&task->word, memory_order_relaxed) == WEIR__RUNNING;

        return !runs || task->status ? NULL : ((const struct receive *)task)->base.wait.message;
}

static void
release(struct weir_task *task, bool discarded)
{
        struct receive *self = (struct receive *)task;

        (void)discarded;
        message_unref(message_of(task));
        weir__waitable_unref(self->base.wait.object);
        weir_subscriber_unref(self->subscriber);
}

static const struct weir__task_ops receive_ops = WEIR__WAIT_TASK_OPS("a message of a topic", weir__wait_run, release);

weir_task *
weir_topic_receive_new(weir_subscriber *subscriber, weir_task_fn *done, void *context)
{
        struct weir__waitable *topic = subscriber ? &subscriber->topic->object : NULL;
        struct receive *self = weir__alloc(sizeof *self);

        if (!self)
                return NULL;
        weir__wait_task_init(&self->base, sizeof *self, &receive_ops, weir__waitable_ref(topic), 0, done, context);
        self->subscriber = weir_subscriber_ref(subscriber);
        self->lost = 0;
        if (!subscriber)
                weir__task_poison(&self->base.task, -ENOMEM);
        return &self->base.task;
}

static const struct receive *
receive_of(const struct weir_task *task)
{
        weir__memory_expect(task);
        return task && weir__task_ops(task) == &receive_ops && message_of(task) ? (const struct receive *)task : NULL;
}

const void *
weir_topic_message(const weir_task *task, size_t *size)
{
        const struct message *message = receive_of(task) ? message_of(task) : NULL;

        if (size)
                *size = message ? message->size : 0;
        return message ? message->bytes : NULL;
}

uint64_t
weir_topic_lost(const weir_task *task)
{
        const struct receive *receive = receive_of(task);

        return receive ? receive->lost : 0;
}
