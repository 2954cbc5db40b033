/* durable/engine/pq_sql.c: the tables and functions of durable timers in PostgreSQL.
 *
 * Each function is an operation, or many of a kind, and one call of it is one transaction, in one round trip.  Names are bytea,
 * because the server would refuse texts that are not in its encoding, and because bytes have the order of strcmp.
 *
 * - A function that locks rows of several names does so in the order of the names, which is that of its arrays.  So calls do not
 *   wait for each other in a circle.  A claim waits for nobody.
 * - Numbers of the sequence are drawn when the row is locked: a later claim has a higher token, although the transactions
 *   overlap.
 * - Each statement of a function sees what was committed before it.  So what was locked by the statement before is the newest.
 * - A row is looked for by an index, whatever the server believes to know about the size of the table.  A plan that was made
 *   when the table was empty would else read all of it for as long as the connection lives.
 * - The first row of the answer that has no name says what the time is (ready), and what else there is.
 *
 * A function that is changed gets another name: nodes of the former library go on with the one that they know. */
#include "durable/engine/pq_op.h"

/* SQL has its own lines. */
/* clang-format off */
#define FOREVER "9223372036854775807"

/* Sums that saturate. */
#define SUM(a, b)                                                                                                  \
                "CASE WHEN " a " > 0 AND " b " > " FOREVER " - " a " THEN " FOREVER " WHEN " a " < 0 AND"          \
                " " b " < -" FOREVER " - " a                                                                       \
                " THEN -" FOREVER " ELSE " a " + " b " END"

#define FUNCTION(name, arguments, result, variables, body)                                                         \
                " CREATE FUNCTION weir_durable_" name "_1(as_if_now bigint, " arguments ") RETURNS"                \
                " " result " LANGUAGE plpgsql"                                                                     \
                "  SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET"             \
                " enable_mergejoin = off"                                                                          \
                "  SET plan_cache_mode = force_generic_plan SET jit = off AS $f$"                                  \
                " #variable_conflict use_column\n"                                                                 \
                " DECLARE"                                                                                         \
                "  t_now bigint := CASE WHEN as_if_now <> 0 THEN as_if_now"                                        \
                "   ELSE (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint END;"                        \
                "  header weir_durable; " variables " BEGIN " body " END $f$;"

/* What functions answer that return no whole rows. */
#define SHORT "TABLE(name bytea, generation bigint, ready bigint)"

/* The answer ends with the header. */
#define END_SHORT(number) " RETURN QUERY SELECT NULL::bytea, (" number ")::bigint, t_now;"
#define END_ROWS          " header.ready := t_now; RETURN NEXT header;"

/* The first row of a topic that is ready behind `margin` from now.  The look that sooner ones lead to may be over before this
 * transaction is, and does not see its rows then. */
#define FIRST_BEHIND(topic, margin)                                                                                \
                "SELECT f.ready FROM weir_durable f WHERE f.topic = " topic " AND f.state < 2 AND f.ready"         \
                " > t_now + " margin                                                                               \
                " ORDER BY f.ready LIMIT 1"
#define MARGIN "100000000"

/* -- operations -- */

#define SET_FUNCTION                                                                                               \
                FUNCTION(                                                                                          \
                "set",                                                                                             \
                "sender text, superseded bigint, names bytea[], topics bytea[], payloads bytea[], ats bigint[],"   \
                " flags bigint[], crons bytea[], zones bytea[]",                                                   \
                SHORT, "should_ring bigint;",                                                                      \
                "IF superseded > 0 THEN RETURN QUERY SELECT ''::bytea, nextval('weir_durable_sequence'),"          \
                " 0::bigint"                                                                                       \
                "  FROM generate_series(1, superseded); END IF;"                                                   \
                " RETURN QUERY INSERT INTO weir_durable AS t (name, topic, payload, generation, state,"            \
                " attempt, token,"                                                                                 \
                "   due, ready, node, problem, cron, zone, policy)"                                                \
                "  SELECT k.name, k.topic, k.payload, nextval('weir_durable_sequence'), 0, 0, 0, k.at,"            \
                " k.at, '', '',"                                                                                   \
                "   coalesce(k.cron, ''), coalesce(k.zone, ''), k.flags >> 1"                                      \
                "  FROM (SELECT u.*, CASE WHEN u.flags & 1 = 0 THEN u.moment ELSE " SUM(                           \
                "t_now",                                                                                           \
                "u.moment") " END AS at"                                                                           \
                "   FROM unnest(names, topics, payloads, ats, flags, crons, zones)"                                \
                "    AS u(name, topic, payload, moment, flags, cron, zone)) k"                                     \
                "  ON CONFLICT ON CONSTRAINT weir_durable_pkey DO UPDATE SET topic = excluded.topic,"              \
                "   payload = excluded.payload, generation = nextval('weir_durable_sequence'), state = 0,"         \
                " attempt = 0,"                                                                                    \
                "   token = 0, due = excluded.due, ready = excluded.ready, node = '', problem = '', cron"          \
                " = excluded.cron,"                                                                                \
                "   zone = excluded.zone, policy = excluded.policy"                                                \
                "  WHERE NOT (excluded.cron <> '' AND t.state < 2 AND t.cron = excluded.cron AND t.zone ="         \
                " excluded.zone"                                                                                   \
                "   AND t.policy = excluded.policy AND t.topic = excluded.topic AND t.payload ="                   \
                " excluded.payload)"                                                                               \
                "  RETURNING t.name, t.generation, t.ready;"                                                       \
                " IF cardinality(crons) > 0 THEN RETURN QUERY SELECT t.name, t.generation, t.ready"                \
                "  FROM unnest(names, crons) AS u(name, cron), LATERAL (SELECT * FROM weir_durable w"              \
                " WHERE w.name = u.name"                                                                           \
                "   OFFSET 0) t WHERE u.cron <> ''; END IF;"                                                       \
                " SELECT count(*) INTO should_ring FROM (SELECT u.topic, min(CASE WHEN u.flags & 1 = 0"            \
                " THEN u.moment"                                                                                   \
                "   ELSE " SUM(                                                                                    \
                "t_now",                                                                                           \
                "u.moment") " END) AS ready FROM unnest(topics, ats, flags) AS u(topic, moment, flags)"            \
                "   GROUP BY u.topic) k LEFT JOIN LATERAL (" FIRST_BEHIND(                                         \
                "k.topic",                                                                                         \
                MARGIN) ") f ON true"                                                                              \
                "  WHERE f.ready IS NULL OR k.ready <= f.ready;"                                                   \
                " IF should_ring > 0 THEN PERFORM pg_notify('weir_durable', sender); END IF;" END_SHORT(           \
                "should_ring"))

/* Kinds: 0 cancel, 1 forget, 2 acknowledge. */
#define REMOVE_FUNCTION                                                                                            \
                FUNCTION("remove", "kinds bigint[], names bytea[], tokens bigint[]", SHORT, "k record;",           \
                "FOR k IN SELECT * FROM unnest(kinds, names, tokens) AS u(kind, name, token) LOOP"                 \
                "  DELETE FROM weir_durable t WHERE t.name = k.name AND CASE k.kind WHEN 0 THEN t.state = 0 AND"   \
                "    t.attempt = 0 WHEN 1 THEN t.state = 2 ELSE t.state = 1 AND t.token = k.token END"             \
                "   RETURNING t.name, t.generation, t.ready INTO name, generation, ready;"                         \
                "  IF FOUND THEN RETURN NEXT; END IF;"                                                             \
                " END LOOP;" END_SHORT("0"))

/* Kinds: 0 extend, 1 reset, 2 put back, and of ends 3 move on, 4 retry, 5 mark dead, 6 give back. */
#define CHANGE_FUNCTION                                                                                            \
                FUNCTION(                                                                                          \
                "change", "sender text, kinds bigint[], names bytea[], tokens bigint[], ats bigint[],"             \
                " problems bytea[]",                                                                               \
                "SETOF weir_durable", "k record; t weir_durable; should_ring boolean := false;",                   \
                "FOR k IN SELECT * FROM unnest(kinds, names, tokens, ats, problems) AS u(kind, name,"              \
                " token, at, problem) LOOP"                                                                        \
                "  UPDATE weir_durable w SET"                                                                      \
                "    generation = CASE WHEN k.kind IN (2, 3) THEN nextval('weir_durable_sequence') ELSE"           \
                " w.generation END,"                                                                               \
                "    state = CASE k.kind WHEN 5 THEN 2 ELSE 0 END,"                                                \
                "    attempt = CASE WHEN k.kind IN (2, 3) THEN 0 WHEN k.kind = 6 THEN w.attempt - 1 ELSE"          \
                " w.attempt END,"                                                                                  \
                "    token = CASE WHEN k.kind IN (2, 3) THEN 0 ELSE w.token END,"                                  \
                "    due = CASE k.kind WHEN 0 THEN " SUM("w.due", "k.at") " WHEN 1 THEN " SUM(                     \
                "t_now",                                                                                           \
                "k.at") "     WHEN 3 THEN k.at ELSE w.due END,"                                                    \
                "    ready = CASE k.kind WHEN 0 THEN " SUM("w.due", "k.at") " WHEN 1 THEN"                         \
                " " SUM("t_now", "k.at") "     WHEN 3 THEN k.at WHEN 4 THEN " SUM(                                 \
                "t_now",                                                                                           \
                "k.at") " ELSE t_now END,"                                                                         \
                "    problem = CASE WHEN k.kind IN (3, 4, 5) THEN k.problem ELSE w.problem END"                    \
                "   WHERE w.name = k.name AND CASE WHEN k.kind < 2 THEN w.state = 0 AND w.attempt = 0"             \
                "    WHEN k.kind = 2 THEN w.state = 2 ELSE w.state = 1 AND w.token = k.token END"                  \
                "   RETURNING w.* INTO t;"                                                                         \
                "  IF FOUND THEN"                                                                                  \
                "   RETURN NEXT t;"                                                                                \
                "   should_ring := should_ring OR (t.state = 0 AND t.ready <= coalesce((" FIRST_BEHIND(            \
                "t.topic",                                                                                         \
                MARGIN) "), " FOREVER "));"                                                                        \
                "  END IF;"                                                                                        \
                " END LOOP;"                                                                                       \
                " IF should_ring THEN PERFORM pg_notify('weir_durable', sender); END IF;"                          \
                " header.generation := should_ring::integer;" END_ROWS)

/* Rows that another transaction has locked are left out.  If such ones are due, the answer says that the next one is ready
 * soon: they may be unlocked as they were. */
#define CLAIM_FUNCTION                                                                                             \
                FUNCTION(                                                                                          \
                "claim", "topics bytea[], most bigint, lease bigint, whose bytea", "SETOF"                         \
                " weir_durable", "ids tid[];",                                                                     \
                "SELECT array_agg(d.id) INTO ids FROM (SELECT d.id FROM unnest(topics) AS u(topic), LATERAL"       \
                "   (SELECT w.ctid AS id FROM weir_durable w WHERE w.topic = u.topic AND w.state < 2 AND"          \
                " w.ready <= t_now"                                                                                \
                "    ORDER BY w.ready, w.name LIMIT most FOR UPDATE SKIP LOCKED) d LIMIT most) d;"                 \
                " IF ids IS NOT NULL THEN RETURN QUERY UPDATE weir_durable t SET state = 1, attempt ="             \
                " t.attempt + 1,"                                                                                  \
                "   token = nextval('weir_durable_sequence'), ready = " SUM(                                       \
                "t_now",                                                                                           \
                "lease") ", node = whose"                                                                          \
                "  FROM unnest(ids) AS u(id) WHERE t.ctid = u.id RETURNING t.*; END IF;"                           \
                " SELECT min(f.ready) INTO header.due FROM unnest(topics) AS u(topic),"                            \
                "   LATERAL (SELECT w.ready FROM weir_durable w WHERE w.topic = u.topic AND w.state < 2"           \
                "    ORDER BY w.ready LIMIT 1) f;"                                                                 \
                " IF header.due <= t_now AND coalesce(cardinality(ids), 0) < most THEN"                            \
                "  SELECT least(min(f.ready), t_now + 20000000) INTO header.due FROM unnest(topics) AS"            \
                " u(topic),"                                                                                       \
                "   LATERAL (" FIRST_BEHIND("u.topic", "0") ") f;"                                                 \
                " END IF;"                                                                                         \
                " header.due := coalesce(header.due, " FOREVER                                                     \
                ");" END_ROWS)

#define RENEW_FUNCTION                                                                                             \
                FUNCTION("renew", "names bytea[], tokens bigint[], lease bigint", SHORT, "k record;",              \
                "FOR k IN SELECT * FROM unnest(names, tokens) AS u(name, token) LOOP"                              \
                "  UPDATE weir_durable t SET ready = " SUM(                                                        \
                "t_now", "lease") "   WHERE t.name = k.name AND t.token = k.token AND t.state = 1"                 \
                "   RETURNING t.name, t.token, t.ready INTO name, generation, ready;"                              \
                "  IF FOUND THEN RETURN NEXT; END IF;"                                                             \
                " END LOOP;" END_SHORT("0"))

#define GET_FUNCTION                                                                                               \
                FUNCTION("get", "names bytea[]", "SETOF weir_durable", "",                                         \
                "RETURN QUERY SELECT t.* FROM unnest(names) AS u(name),"                                           \
                "  LATERAL (SELECT * FROM weir_durable w WHERE w.name = u.name OFFSET 0) t;" END_ROWS)

#define LIST_FUNCTION                                                                                              \
                FUNCTION("list", "prefix bytea, behind bytea, below bytea, only_dead bigint, most"                 \
                " bigint", "SETOF weir_durable", "",                                                               \
                "RETURN QUERY SELECT * FROM weir_durable t WHERE t.name >= prefix AND t.name > behind AND"         \
                " t.name < below"                                                                                  \
                "  AND (only_dead = 0 OR t.state = 2) ORDER BY t.name LIMIT most;" END_ROWS)

#define COUNT_FUNCTION                                                                                             \
                FUNCTION("count", "prefix bytea, below bytea", "SETOF weir_durable", "",                           \
                "SELECT count(*) FILTER (WHERE t.state = 0), count(*) FILTER (WHERE t.state = 1),"                 \
                "   count(*) FILTER (WHERE t.state = 2) INTO header.generation, header.token, header.due"          \
                "  FROM weir_durable t WHERE t.name >= prefix AND t.name < below;" END_ROWS)

/* clang-format on */

/* The lock is the first number of this library: "weir" in ASCII.  Vacuum is due early, because each timer leaves three dead
 * rows, and a claim reads over those of its topic. */
const char weir__durable_pq_tables[] =
        "DO $do$ BEGIN"
        " PERFORM pg_advisory_xact_lock(2003134834, 1);"
        " IF to_regclass('weir_durable_version') IS NOT NULL THEN"
        "  IF NOT EXISTS (SELECT FROM weir_durable_version WHERE version = 1) THEN"
        "   RAISE EXCEPTION 'the table weir_durable is that of another version of libweir-durable'"
        "    USING ERRCODE = 'feature_not_supported';"
        "  END IF;"
        "  RETURN;"
        " END IF;"
        " IF to_regclass('weir_durable') IS NOT NULL THEN"
        "  RAISE EXCEPTION 'there is a table weir_durable that is not one of libweir-durable' USING ERRCODE = 'duplicate_table';"
        " END IF;"
        " CREATE SEQUENCE weir_durable_sequence;"
        " CREATE TABLE weir_durable("
        "  generation bigint NOT NULL,"
        "  token bigint NOT NULL,"
        "  due bigint NOT NULL,"
        "  ready bigint NOT NULL,"
        "  state integer NOT NULL,"
        "  attempt integer NOT NULL,"
        "  policy integer NOT NULL,"
        "  name bytea NOT NULL CONSTRAINT weir_durable_pkey PRIMARY KEY,"
        "  topic bytea NOT NULL,"
        "  payload bytea NOT NULL,"
        "  node bytea NOT NULL,"
        "  problem bytea NOT NULL,"
        "  cron bytea NOT NULL,"
        "  zone bytea NOT NULL)"
        "  WITH (autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0.05);"
        " CREATE INDEX weir_durable_ready ON weir_durable(topic, ready, name) WHERE state < 2;" //
        SET_FUNCTION REMOVE_FUNCTION CHANGE_FUNCTION CLAIM_FUNCTION RENEW_FUNCTION GET_FUNCTION LIST_FUNCTION COUNT_FUNCTION
        " CREATE TABLE weir_durable_version(version integer PRIMARY KEY);"
        " INSERT INTO weir_durable_version VALUES (1);"
        "END $do$";
