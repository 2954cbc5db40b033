"""What the public headers leave out.

    python3 scripts/reference/check.py

- Each public function, type, macro and constant has a comment.  So has each field of a struct and each value of an enum.
- Each function that returns a number says what it returns.
- Each -E... that a comment names is an error of the system or a code of the library.
- Each -E... that a function can return, or leave in errno beside NULL, or that a task which it makes can end with, is listed in its
  Result, or in that of a function that its Result refers to.  What it can return, errors.py says.
- Each -E... that the Result of a function lists can be returned, if all that it returns is known.
- Each function is used in a program that people learn from, and that is compiled: of tutorial/, examples/, the guides' tests.
"""
import errno
import glob
import os
import re
import sys

sys.dont_write_bytecode = True

import headers  # noqa: E402
from errors import ERROR, LISTED, Errors, without_comments  # noqa: E402

os.chdir(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

# What a function passes on only elsewhere, and why.
UNNAMED = {"EINVAL": "it has no name", "ENAMETOOLONG": "it has no name"}
ALIKE = {"EEXIST": "all of that kind are alike but for their names"}
INHERITING = {
    "ECANCELED": "only weir_http_serve can be told to give up a successor",
    "EINPROGRESS": "a successor that has not reported yet is waited for",
}
CONNECTING = {
    "EBUSY": "no other task has the stream",
    "ECHILD": "the settings of TLS are made on the executor, which no child has",
    "EINPROGRESS": "it waits then",
}
WAITING = {"EAGAIN": "it waits then"}
OF_AN_AWAIT = {"ETIMEDOUT": "the limit of an await of a fiber ends nothing but what is awaited"}
SELECTING = {
    "EAGAIN": "it waits then",
    "EDOM": "it is a select",
    "ENOENT": "the status is returned then",
    "EPIPE": "it is the status of a case",
}
OF_ANY_TIMER = {"ENOENT": "the timer need not be there"}
OF_A_TRANSACTION = {"ECHILD": "it ends its series on workers, which no child has", "ESTALE": "it ends a series that runs"}
NOT_RETURNED = {
    "weir_clock_advance": {"EAGAIN": "it does not start the runtime", "ENOMEM": "it does not start the runtime"},
    "weir_clock_run_until": {"EAGAIN": "it does not start the runtime", "ENOMEM": "it does not start the runtime"},
    "weir_debug_dump_on": {"EBUSY": "it replaces a handler of the program, and a signal has room for all listeners"},
    "weir_client_default": {"EINVAL": "its config is the default one"},
    "weir_connect_new": CONNECTING,
    "weir_connect_tls_new": CONNECTING,
    "weir_durable_cancel_new": OF_ANY_TIMER,
    "weir_durable_count_new": OF_ANY_TIMER,
    "weir_durable_list_new": OF_ANY_TIMER,
    "weir_durable_set_new": OF_ANY_TIMER,
    "weir_durable_set_after_new": OF_ANY_TIMER,
    "weir_fiber_acquire_tokens": WAITING,
    "weir_fiber_receive": WAITING,
    "weir_fiber_select": SELECTING,
    "weir_fiber_select_within": SELECTING,
    "weir_fiber_send": WAITING,
    "weir_graph_new": OF_AN_AWAIT,
    "weir_guard_open": ALIKE,
    "weir_guard_acquire_new_named": ALIKE,
    "weir_guard_acquire_shared_new_named": ALIKE,
    "weir_http_server_inherit": INHERITING,
    "weir_promise_ref": {"ECANCELED": "it makes no task", "ESHUTDOWN": "it makes no task"},
    "weir_pq_transaction_new": OF_A_TRANSACTION,
    "weir_pq_transaction_new_with": OF_A_TRANSACTION,
    "weir_mariadb_transaction_new": OF_A_TRANSACTION,
    "weir_mariadb_transaction_new_with": OF_A_TRANSACTION,
    "weir_retry_new": {
        "ECHILD": "it makes attempts on workers, which no child has",
        "ENAMETOOLONG": "a timer of its own has no name; of a task that was made wrongly the comment speaks",
        "ESTALE": "it sets the deadline of a series that has not begun",
    },
    "weir_series_run": OF_AN_AWAIT,
    "weir_signal_new": {**ALIKE, "ENAMETOOLONG": "its names are those of signals"},
    "weir_sqlite_cancelled": {
        "ECHILD": "no child runs the function", "EDOM": "its task is a promise", "EINVAL": "its task is there"},
    "weir_stream_read_new": {"EMSGSIZE": "it has no delimiter"},
    "weir_stream_server_inherit": INHERITING,
    "weir_task_run": OF_AN_AWAIT,
    "weir_timer_new": UNNAMED,
    "weir_timer_new_at": UNNAMED,
    "weir_topic_subscribe": ALIKE,
    "weir_pump_new": {"EMSGSIZE": "it reads up to no delimiter"},
    "weir_trace_stop": {"ETIMEDOUT": "only the end of the process does not wait for ever"},
}
# What comes from where errors.py does not look.
FROM_SYSTEM = {"weir_http_reply_file": {"EACCES", "EAGAIN", "EIO", "EMFILE", "ENFILE", "ENOENT"}}
NUMBERS = r"(?:int|int64_t|ssize_t|size_t|pid_t|weir_nsec)"


def refers_to(entry, entries):
    """The functions whose results a comment refers to; "The same ..." is the entry before."""
    result = entry.labels().get("Result", "")
    named = set(re.findall(r"\bweir_\w+", result or entry.comment))
    before = entries[entries.index(entry) - 1]
    if not result and re.match(r"The same\b", entry.comment) or re.search(r"errors that a start reports", result):
        named |= set(before.functions)
    return named


def listed(entry, home, seen):
    """The errors that a comment lists, itself or by reference."""
    if entry in seen:
        return set()
    seen.add(entry)
    found = set(LISTED.findall(entry.comment)) | ({"ENOMEM"} if "out of memory" in entry.comment else set())
    for name in refers_to(entry, home[entry.functions[0]][1]):
        if name in home:
            found |= listed(home[name][0], home, seen)
    return found


def undescribed(entry):
    """What has no comment: the whole entry, or a field of a struct, or a value of an enum."""
    if not entry.comment:
        return entry.names()
    found = []
    for kind, name, body in re.findall(r"^(struct|enum) (\w+) \{\n(.*?)^\};", entry.code, re.M | re.S):
        parts = re.findall(r"^        (?! |/\*)([^;,/]*)[^/\n]*(/\*)?", body, re.M)
        found += [f"{name}: {re.split('[ *]', part.split(' = ')[0].strip())[-1]}" for part, comment in parts if not comment]
    return found


def faults_of(name, entry, home, errors):
    """What the comment of a function lacks or says wrongly."""
    for error in ERROR.findall(entry.comment):
        if not hasattr(errno, error):
            yield f": there is no -{error}"
    is_number = re.search(rf"^WEIR_API (?:const )?{NUMBERS} {name}\(", entry.code, re.M)
    says = r"Result|Units|\b(as|As|same|How|how|Time|When|Which|Whether|instant|number|length|present)\b"
    if is_number and not re.search(says, entry.comment):
        yield " does not say what it returns"
    if re.search(rf"^WEIR_API weir_task \*{name}\(", entry.code, re.M):
        verb, possible = "can make a task that ends with, or whose start reports,", errors.of_task(name)
    elif is_number:
        verb, possible = "can return", errors.returned(name)
    else:
        is_pointer = re.search(rf"^WEIR_API .*\*{name}\(", entry.code, re.M)
        verb, possible = "can set errno to", errors.left_in_errno(name, None, set()) if is_pointer else set()
    lacking = possible - listed(entry, home, set()) - set(NOT_RETURNED.get(name, {}))
    if lacking:
        yield f" {verb} {', '.join('-' + error for error in sorted(lacking))}, which its Result does not list"


def never_returned(entry, errors):
    """What the Result of functions lists, and none of them returns."""
    numbers = re.findall(rf"^WEIR_API (?:const )?{NUMBERS} (\w+)\(", entry.code, re.M)
    if not entry.functions or numbers != entry.functions or not all(errors.is_complete(name) for name in numbers):
        return set()
    possible = set().union(*(errors.returned(name) | FROM_SYSTEM.get(name, set()) for name in entry.functions))
    return set(ERROR.findall(entry.labels().get("Result", ""))) - possible


def main():
    errors, home, failures, functions = Errors(), {}, [], []
    all_headers = headers.read("include/weir")
    for header in all_headers:
        entries = header.entries()
        for entry in entries:
            for name in entry.functions:
                home[name] = (entry, entries, header)
                functions.append(name)
    for header in all_headers:
        for entry in header.entries():
            where = f"include/weir/{header.file}:{entry.line}"
            failures += [f"{where}: {name} has no comment" for name in undescribed(entry)]
            for name in entry.functions if entry.comment else []:
                if name not in errors.functions:
                    failures.append(f"{where}: the definition of {name} is not found")
                failures += [f"{where}: {name}{fault}" for fault in faults_of(name, entry, home, errors)]
            failures += [f"{where}: no function there returns -{error}" for error in sorted(never_returned(entry, errors))]

    text = ""
    patterns = ("tutorial/*.c", "examples/**/*.c*", "test/**/*guide_test.c", "test/change_over/*.c")
    for path in [path for pattern in patterns for path in glob.glob(pattern, recursive=True)]:
        with open(path, encoding="utf-8") as file:
            text += without_comments(file.read())
    used = set(re.findall(r"\bweir_\w+", text))
    for name in functions:
        if name not in used:
            failures.append(f"{name} is in no program of tutorial/ or examples/, and in no test of a guide")
    print("\n".join(failures))
    sys.exit(1 if failures or len(functions) < 200 else 0)


main()
