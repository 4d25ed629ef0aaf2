/*
 * Every function of azud.h from C11: exact answers at times of our own, every argument wrong in turn,
 * threads, fork. run_tests.sh builds and runs it with several compilers and checkers.
 */

#define _POSIX_C_SOURCE 200809L

#include "azud.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- the binary interface, as src/ffi asserts it from the other side ---- */

#define AT(type, field, offset) \
    _Static_assert(offsetof(type, field) == (offset), #type "." #field " moved")

_Static_assert(sizeof(azud_options) == 64, "azud_options changed its size");
AT(azud_options, struct_size, 0);
AT(azud_options, flags, 4);
AT(azud_options, max_memory_bytes, 8);
AT(azud_options, expected_keys, 16);
AT(azud_options, time_grain_ns, 24);
AT(azud_options, reserved, 32);

_Static_assert(sizeof(azud_stats) == 128, "azud_stats changed its size");
AT(azud_stats, struct_size, 0);
AT(azud_stats, reserved_head, 4);
AT(azud_stats, keys, 8);
AT(azud_stats, capacity, 16);
AT(azud_stats, memory_bytes, 24);
AT(azud_stats, generations, 32);
AT(azud_stats, growths, 40);
AT(azud_stats, shrinks, 48);
AT(azud_stats, takeovers_idle, 56);
AT(azud_stats, takeovers_indebted, 64);
AT(azud_stats, reserved, 72);

_Static_assert(sizeof(azud_decision) == 64, "azud_decision changed its size");
AT(azud_decision, allowed, 0);
AT(azud_decision, reason, 4);
AT(azud_decision, limit, 8);
AT(azud_decision, remaining, 16);
AT(azud_decision, retry_after_ns, 24);
AT(azud_decision, reset_after_ns, 32);
AT(azud_decision, delay_ns, 40);
AT(azud_decision, reserved, 48);

#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(azud_call) == 24, "azud_call changed its size");
AT(azud_call, key, 0);
AT(azud_call, key_len, 8);
AT(azud_call, cost, 16);
#endif

_Static_assert(AZUD_OK == 0 && AZUD_ERR_NULL == -1 && AZUD_ERR_SIZE == -2 && AZUD_ERR_LIMIT == -3, "renumbered");
_Static_assert(AZUD_ERR_OPTION == -4 && AZUD_ERR_UTF8 == -5 && AZUD_ERR_PANIC == -6 && AZUD_ERR_LENGTH == -7, "renumbered");
_Static_assert(AZUD_ALLOWED == 0 && AZUD_LIMITED == 1 && AZUD_COST_ABOVE_LIMIT == 2 && AZUD_NEVER_REFILLS == 3, "renumbered");
_Static_assert(AZUD_NEVER == UINT64_MAX && AZUD_TIME_GRAIN_EXACT == UINT64_MAX, "renumbered");

/* ---- checking ---- */

static atomic_int failures;

static void check(int holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, line, what);
        failures++;
    }
}

static void check_equal(int64_t is, int64_t expected, const char *what, int line) {
    if (is != expected) {
        fprintf(stderr, "%s:%d: %s is %" PRId64 ", expected %" PRId64 "\n", __FILE__, line, what, is, expected);
        failures++;
    }
}

#define CHECK(holds) check((holds) != 0, #holds, __LINE__)
#define EQUAL(is, expected) check_equal((int64_t)(is), (int64_t)(expected), #is, __LINE__)
#define KEY(text) text, sizeof(text) - 1

/* A second, the time at which most tests begin (in 2001), and the limit that they use: a token each 600 ms. */
#define S UINT64_C(1000000000)
#define T0 (1000000000 * S)
#define LIMIT "token-bucket 100/1m burst=20"
#define TOKEN (600 * S / 1000)

static azud_limiter *limiter_with(const char *limit, const azud_options *options) {
    azud_limiter *limiter = NULL;
    char why[200] = "?";
    int32_t status = azud_limiter_new(limit, options, &limiter, why, sizeof why);
    if (status != AZUD_OK || limiter == NULL) {
        fprintf(stderr, "%s: %s: %s\n", limit, azud_status_text(status), why);
        exit(1);
    }
    EQUAL(strlen(why), 0);
    return limiter;
}

static azud_limiter *limiter_of(const char *limit) { return limiter_with(limit, NULL); }

static int is_decision(const azud_decision *d, int32_t reason, uint64_t limit, uint64_t remaining, uint64_t retry,
                       uint64_t reset, uint64_t delay) {
    int same = d->allowed == (reason == AZUD_ALLOWED) && d->reason == reason && d->limit == limit &&
               d->remaining == remaining && d->retry_after_ns == retry && d->reset_after_ns == reset &&
               d->delay_ns == delay && d->reserved[0] == 0 && d->reserved[1] == 0;
    if (!same)
        fprintf(stderr,
                "allowed %" PRId32 " reason %" PRId32 " limit %" PRIu64 " remaining %" PRIu64 " retry %" PRIu64
                " reset %" PRIu64 " delay %" PRIu64 "\n",
                d->allowed, d->reason, d->limit, d->remaining, d->retry_after_ns, d->reset_after_ns, d->delay_ns);
    return same;
}

static azud_decision garbage(void) {
    azud_decision decision;
    memset(&decision, 0xA5, sizeof decision);
    return decision;
}

static int is_garbage(const azud_decision *decision) {
    azud_decision untouched = garbage();
    return memcmp(decision, &untouched, sizeof untouched) == 0;
}

/* ---- the tests ---- */

static void versions_and_texts(void) {
    char version[40];
    snprintf(version, sizeof version, "%d.%d.%d", AZUD_VERSION_MAJOR, AZUD_VERSION_MINOR, AZUD_VERSION_PATCH);
    CHECK(strcmp(azud_version(), version) == 0);
    EQUAL(azud_version_number(), AZUD_VERSION_NUMBER);
    EQUAL(AZUD_VERSION_NUMBER, AZUD_VERSION_MAJOR * 1000000 + AZUD_VERSION_MINOR * 1000 + AZUD_VERSION_PATCH);
    EQUAL(azud_abi_version(), AZUD_ABI_VERSION);

    for (int32_t status = AZUD_ERR_LENGTH; status <= AZUD_OK; status++) {
        CHECK(strlen(azud_status_text(status)) > 0);
        CHECK(strcmp(azud_status_text(status), "unknown status") != 0);
    }
    CHECK(strcmp(azud_status_text(1), "unknown status") == 0);
    CHECK(strcmp(azud_status_text(INT32_MIN), "unknown status") == 0);
}

static void exact_answers(void) {
    azud_limiter *limiter = limiter_of(LIMIT);
    azud_decision d = garbage();

    EQUAL(azud_check_at(limiter, KEY("a"), 1, T0, &d), 1);
    CHECK(is_decision(&d, AZUD_ALLOWED, 20, 19, 0, TOKEN, 0));
    EQUAL(azud_check_at(limiter, KEY("a"), 19, T0, &d), 1);
    CHECK(is_decision(&d, AZUD_ALLOWED, 20, 0, 0, 20 * TOKEN, 0));
    EQUAL(azud_check_at(limiter, KEY("a"), 1, T0, &d), 0);
    CHECK(is_decision(&d, AZUD_LIMITED, 20, 0, TOKEN, 20 * TOKEN, 0));
    EQUAL(azud_check_at(limiter, KEY("a"), 2, T0 + S, &d), 0);
    CHECK(is_decision(&d, AZUD_LIMITED, 20, 1, 2 * TOKEN - S, 20 * TOKEN - S, 0));

    /* Allowed at now + retry_after, refused a nanosecond earlier, on another key. */
    EQUAL(azud_allow_at(limiter, KEY("b"), 20, T0 + S), 1);
    EQUAL(azud_allow_at(limiter, KEY("b"), 1, T0 + S + TOKEN - 1), 0);
    EQUAL(azud_allow_at(limiter, KEY("b"), 1, T0 + S + TOKEN), 1);
    EQUAL(azud_allow_at(limiter, KEY("b"), 1, T0 + S + TOKEN), 0);
    azud_limiter_free(limiter);

    /* A shaper says how long to hold a call back. */
    limiter = limiter_of("leaky-bucket 10/s burst=3 queue");
    for (uint64_t i = 0; i < 3; i++) {
        EQUAL(azud_check_at(limiter, KEY("a"), 1, T0, &d), 1);
        EQUAL(d.delay_ns, i * S / 10);
    }
    EQUAL(azud_check_at(limiter, KEY("a"), 1, T0, &d), 0);
    EQUAL(d.delay_ns, 0);
    azud_limiter_free(limiter);

    /* Every algorithm, and the calendar, are there. */
    const char *const limits[] = {"fixed-window 2/1m", "sliding-window 2/1m strict", "sliding-log 2/1m",
                                  "quota 2/month tz=Europe/Madrid anchor=2026-01-31"};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        azud_options options = AZUD_OPTIONS_INIT;
        options.max_memory_bytes = 1 << 20;
        limiter = limiter_with(limits[i], &options);
        EQUAL(azud_allow_at(limiter, KEY("a"), 1, T0), 1);
        EQUAL(azud_allow_at(limiter, KEY("a"), 1, T0), 1);
        EQUAL(azud_allow_at(limiter, KEY("a"), 1, T0), 0);
        EQUAL(azud_allow_at(limiter, KEY("a"), 1, T0 + 40 * 86400 * S), 1);
        azud_limiter_free(limiter);
    }
}

static void peeks(void) {
    azud_limiter *limiter = limiter_of(LIMIT);
    azud_decision peeked = garbage(), checked = garbage();
    for (int i = 0; i < 25; i++) {
        EQUAL(azud_peek_at(limiter, KEY("a"), 0, T0, &peeked), 1);
        EQUAL(peeked.remaining, i < 20 ? 20 - i : 0);
        /* The answer is the one that a check gets after any number of peeks. */
        for (int again = 0; again < 3; again++) EQUAL(azud_peek_at(limiter, KEY("a"), 1, T0, &peeked), i < 20);
        EQUAL(azud_check_at(limiter, KEY("a"), 1, T0, &checked), i < 20);
        CHECK(memcmp(&peeked, &checked, sizeof peeked) == 0);
    }
    azud_limiter_free(limiter);
}

static void the_system_s_clock(void) {
    azud_limiter *limiter = limiter_of("token-bucket 1/1h burst=3");
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    uint64_t expected = (uint64_t)wall.tv_sec * S + (uint64_t)wall.tv_nsec;
    uint64_t now = azud_limiter_now(limiter);
    CHECK(now + 60 * S > expected && now < expected + 60 * S);
    CHECK(azud_limiter_now(limiter) >= now);

    azud_decision d = garbage();
    EQUAL(azud_allow(limiter, KEY("a"), 1), 1);
    EQUAL(azud_peek(limiter, KEY("a"), 2, &d), 1);
    EQUAL(d.remaining, 0);
    EQUAL(azud_check(limiter, KEY("a"), 2, &d), 1);
    EQUAL(d.remaining, 0);
    EQUAL(azud_allow(limiter, KEY("a"), 1), 0);
    EQUAL(azud_check(limiter, KEY("a"), 1, &d), 0);
    CHECK(d.retry_after_ns > 0 && d.retry_after_ns <= 3600 * S);
    EQUAL(azud_peek(limiter, KEY("a"), 1, &d), 0);

    azud_call call = {"b", 1, 3};
    EQUAL(azud_check_batch(limiter, &call, 1, &d), AZUD_OK);
    CHECK(d.allowed == 1 && d.remaining == 0);
    azud_limiter_free(limiter);
}

static void costs(void) {
    azud_limiter *limiter = limiter_of(LIMIT);
    azud_decision d = garbage();
    /* 0 charges nothing, more than the limit can hold is an answer, all of it at once fits. */
    EQUAL(azud_check_at(limiter, KEY("a"), 0, T0, &d), 1);
    CHECK(is_decision(&d, AZUD_ALLOWED, 20, 20, 0, 0, 0));
    EQUAL(azud_check_at(limiter, KEY("a"), 21, T0, &d), 0);
    CHECK(is_decision(&d, AZUD_COST_ABOVE_LIMIT, 20, 20, AZUD_NEVER, 0, 0));
    EQUAL(azud_check_at(limiter, KEY("a"), UINT64_MAX, T0, &d), 0);
    CHECK(is_decision(&d, AZUD_COST_ABOVE_LIMIT, 20, 20, AZUD_NEVER, 0, 0));
    EQUAL(azud_check_at(limiter, KEY("a"), 20, T0, &d), 1);
    EQUAL(azud_check_at(limiter, KEY("a"), 0, T0, &d), 1);
    EQUAL(d.remaining, 0);
    azud_limiter_free(limiter);
}

static void times(void) {
    /* No time is an error, and none grants more than the limit. */
    azud_limiter *limiter = limiter_of(LIMIT);
    const uint64_t at[] = {0, 1, T0, UINT64_MAX, UINT64_C(1) << 62, 0, UINT64_MAX - 1, T0};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        azud_decision d = garbage();
        int32_t verdict = azud_check_at(limiter, KEY("a"), 20, at[i], &d);
        CHECK(verdict == 0 || verdict == 1);
        EQUAL(azud_allow_at(limiter, KEY("a"), 1, at[i]), 0);
    }
    azud_limiter_free(limiter);

    /* A late thread is judged at the latest time, and told to wait from its own. */
    limiter = limiter_of(LIMIT);
    azud_decision d = garbage();
    EQUAL(azud_allow_at(limiter, KEY("a"), 20, T0), 1);
    EQUAL(azud_check_at(limiter, KEY("a"), 1, T0 - 10 * S, &d), 0);
    EQUAL(d.retry_after_ns, TOKEN + 10 * S);
    azud_limiter_free(limiter);
}

static void keys(void) {
    azud_limiter *limiter = limiter_of("fixed-window 1/1s");
    static char large[1 << 20];
    memset(large, 'x', sizeof large);
    const struct {
        const void *key;
        size_t len;
    } different[] = {{"", 0},       {"\0", 1},          {"\0\0", 2},      {"a", 1},
                     {"a\0", 2},    {"a\0b", 3},        {"a\0c", 3},      {"\xff\xfe", 2},
                     {large, 4096}, {large, sizeof large}, {large, sizeof large - 1}};
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof different / sizeof *different; i++)
            EQUAL(azud_allow_at(limiter, different[i].key, different[i].len, 1, T0), round == 0);
    /* The empty key is one key, whatever the pointer. */
    EQUAL(azud_allow_at(limiter, NULL, 0, 1, T0), 0);
    azud_limiter_free(limiter);
}

/* EMB-11. */
static void null_pointers(void) {
    azud_limiter *limiter = limiter_of(LIMIT), *out = (azud_limiter *)(uintptr_t)8;
    char why[100];
    azud_decision d = garbage();
    azud_call call = {"a", 1, 1}, keyless = {NULL, 1, 1}, empty = {NULL, 0, 1};

    azud_limiter_free(NULL);

    EQUAL(azud_limiter_new(NULL, NULL, &out, why, sizeof why), AZUD_ERR_NULL);
    CHECK(out == NULL);
    CHECK(strcmp(why, azud_status_text(AZUD_ERR_NULL)) == 0);
    EQUAL(azud_limiter_new(LIMIT, NULL, NULL, why, sizeof why), AZUD_ERR_NULL);
    CHECK(strcmp(why, azud_status_text(AZUD_ERR_NULL)) == 0);
    out = (azud_limiter *)(uintptr_t)8;
    EQUAL(azud_limiter_new(LIMIT, NULL, &out, NULL, 1), AZUD_ERR_NULL);
    CHECK(out == NULL);

    EQUAL(azud_allow(NULL, KEY("a"), 1), AZUD_ERR_NULL);
    EQUAL(azud_allow(limiter, NULL, 1, 1), AZUD_ERR_NULL);
    EQUAL(azud_allow_at(NULL, KEY("a"), 1, T0), AZUD_ERR_NULL);
    EQUAL(azud_allow_at(limiter, NULL, 1, 1, T0), AZUD_ERR_NULL);

    EQUAL(azud_check(NULL, KEY("a"), 1, &d), AZUD_ERR_NULL);
    EQUAL(azud_check(limiter, NULL, 1, 1, &d), AZUD_ERR_NULL);
    EQUAL(azud_check(limiter, KEY("a"), 1, NULL), AZUD_ERR_NULL);
    EQUAL(azud_check_at(NULL, KEY("a"), 1, T0, &d), AZUD_ERR_NULL);
    EQUAL(azud_check_at(limiter, NULL, 1, 1, T0, &d), AZUD_ERR_NULL);
    EQUAL(azud_check_at(limiter, KEY("a"), 1, T0, NULL), AZUD_ERR_NULL);

    EQUAL(azud_peek(NULL, KEY("a"), 1, &d), AZUD_ERR_NULL);
    EQUAL(azud_peek(limiter, NULL, 1, 1, &d), AZUD_ERR_NULL);
    EQUAL(azud_peek(limiter, KEY("a"), 1, NULL), AZUD_ERR_NULL);
    EQUAL(azud_peek_at(NULL, KEY("a"), 1, T0, &d), AZUD_ERR_NULL);
    EQUAL(azud_peek_at(limiter, NULL, 1, 1, T0, &d), AZUD_ERR_NULL);
    EQUAL(azud_peek_at(limiter, KEY("a"), 1, T0, NULL), AZUD_ERR_NULL);

    EQUAL(azud_check_batch(NULL, &call, 1, &d), AZUD_ERR_NULL);
    EQUAL(azud_check_batch(limiter, NULL, 1, &d), AZUD_ERR_NULL);
    EQUAL(azud_check_batch(limiter, &call, 1, NULL), AZUD_ERR_NULL);
    EQUAL(azud_check_batch(limiter, &keyless, 1, &d), AZUD_ERR_NULL);
    EQUAL(azud_check_batch_at(NULL, &call, 1, T0, &d), AZUD_ERR_NULL);
    EQUAL(azud_check_batch_at(limiter, NULL, 1, T0, &d), AZUD_ERR_NULL);
    EQUAL(azud_check_batch_at(limiter, &call, 1, T0, NULL), AZUD_ERR_NULL);
    EQUAL(azud_check_batch_at(limiter, &keyless, 1, T0, &d), AZUD_ERR_NULL);
    CHECK(is_garbage(&d));

    azud_stats stats = AZUD_STATS_INIT;
    EQUAL(azud_limiter_stats(NULL, &stats), AZUD_ERR_NULL);
    EQUAL(azud_limiter_stats(limiter, NULL), AZUD_ERR_NULL);
    EQUAL(azud_limiter_maintain(NULL), AZUD_ERR_NULL);
    EQUAL(azud_limiter_now(NULL), 0);

    /* Lengths that no object has. */
    EQUAL(azud_allow(limiter, "a", SIZE_MAX, 1), AZUD_ERR_LENGTH);
    EQUAL(azud_check(limiter, "a", SIZE_MAX, 1, &d), AZUD_ERR_LENGTH);
    EQUAL(azud_peek(limiter, "a", (size_t)PTRDIFF_MAX + 1, 1, &d), AZUD_ERR_LENGTH);
    EQUAL(azud_check_batch(limiter, &call, SIZE_MAX, &d), AZUD_ERR_LENGTH);
    EQUAL(azud_check_batch(limiter, &call, (size_t)PTRDIFF_MAX / sizeof call, &d), AZUD_ERR_LENGTH);
    EQUAL(azud_limiter_new(LIMIT, NULL, &out, why, SIZE_MAX), AZUD_ERR_LENGTH);
    CHECK(is_garbage(&d));

    /* And what may be NULL; nothing above was charged. */
    EQUAL(azud_check_batch(limiter, NULL, 0, NULL), AZUD_OK);
    EQUAL(azud_check_batch_at(limiter, NULL, 0, T0, NULL), AZUD_OK);
    EQUAL(azud_check_batch_at(limiter, &empty, 1, T0, &d), AZUD_OK);
    EQUAL(d.remaining, 19);
    EQUAL(azud_peek_at(limiter, KEY("a"), 0, T0, &d), 1);
    EQUAL(d.remaining, 20);
    azud_limiter_free(limiter);
    EQUAL(azud_limiter_new(LIMIT, NULL, &limiter, NULL, 0), AZUD_OK);
    azud_limiter_free(limiter);
}

static int32_t new_with(const azud_options *options, char *why, size_t len) {
    azud_limiter *limiter = (azud_limiter *)(uintptr_t)8;
    int32_t status = azud_limiter_new(LIMIT, options, &limiter, why, len);
    CHECK((status == AZUD_OK) == (limiter != NULL));
    azud_limiter_free(limiter);
    return status;
}

/* EMB-15; src/ffi/boundary.rs has the older program and the newer library. */
static void options_and_their_size(void) {
    char why[200];
    azud_options options = AZUD_OPTIONS_INIT;
    EQUAL(options.struct_size, sizeof options);
    EQUAL(new_with(&options, why, sizeof why), AZUD_OK);
    options.max_memory_bytes = 1 << 20;
    options.expected_keys = 1000;
    options.time_grain_ns = 1000;
    EQUAL(new_with(&options, why, sizeof why), AZUD_OK);

    /* Sizes that no version has are refused before anything beyond them is read: the memory ends here. */
    const uint32_t wrong[] = {0, 1, 4, 8, sizeof options - 1, 4097, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint32_t *small = malloc(sizeof *small);
        *small = wrong[i];
        EQUAL(new_with((const azud_options *)(const void *)small, why, sizeof why), AZUD_ERR_SIZE);
        CHECK(strcmp(why, azud_status_text(AZUD_ERR_SIZE)) == 0);
        free(small);
    }

    /* A newer program passes while it asks for nothing new. */
    struct {
        azud_options known;
        uint64_t unknown[4];
    } newer = {AZUD_OPTIONS_INIT, {0}};
    newer.known.struct_size = sizeof newer;
    EQUAL(new_with(&newer.known, why, sizeof why), AZUD_OK);
    newer.unknown[3] = 1;
    EQUAL(new_with(&newer.known, why, sizeof why), AZUD_ERR_OPTION);

    /* What is not defined yet, and what cannot be. */
    azud_options bad = AZUD_OPTIONS_INIT;
    bad.flags = 1;
    EQUAL(new_with(&bad, why, sizeof why), AZUD_ERR_OPTION);
    CHECK(strlen(why) > 0);
    bad = options;
    bad.reserved[3] = 1;
    EQUAL(new_with(&bad, why, sizeof why), AZUD_ERR_OPTION);
    bad = options;
    bad.max_memory_bytes = 1;
    EQUAL(new_with(&bad, why, sizeof why), AZUD_ERR_OPTION);
    CHECK(strstr(why, "memory") != NULL);

    /* An exact grain: a call is judged at the latest time even a nanosecond behind it. */
    azud_options exact = AZUD_OPTIONS_INIT;
    exact.time_grain_ns = AZUD_TIME_GRAIN_EXACT;
    azud_limiter *limiter = limiter_with("fixed-window 1/1s", &exact);
    azud_decision d = garbage();
    EQUAL(azud_check_at(limiter, KEY("a"), 1, T0, &d), 1);
    EQUAL(azud_check_at(limiter, KEY("b"), 1, T0 - 1, &d), 1);
    EQUAL(d.reset_after_ns, S + 1);
    azud_limiter_free(limiter);
}

static void refused_limits(void) {
    char why[200];
    azud_limiter *limiter;
    const struct {
        const char *limit, *position;
    } refused[] = {{"", "column 1:"},
                   {"token-bucket", "column 13:"},
                   {"token-bucket 100/1x", "\"1x\" (column 18):"},
                   {"token-bucket 100/1m burst=0", "\"0\" (column 27):"},
                   {"token-bucket 0/1m", "(column 14):"},
                   {"token-bucket nan/1m", "\"nan\" (column 14):"},
                   {"fixed-window 99999999999999999999999/1s", "(column 14):"},
                   {"quota 1/month tz=Mars/Olympus", "\"Mars/Olympus\" (column 18):"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        limiter = (azud_limiter *)(uintptr_t)8;
        EQUAL(azud_limiter_new(refused[i].limit, NULL, &limiter, why, sizeof why), AZUD_ERR_LIMIT);
        CHECK(limiter == NULL);
        if (strstr(why, refused[i].position) == NULL || strstr(why, "; expected ") == NULL) {
            fprintf(stderr, "\"%s\" gave: %s\n", refused[i].limit, why);
            failures++;
        }
    }
    EQUAL(azud_limiter_new("token-bucket 100/1\xff", NULL, &limiter, why, sizeof why), AZUD_ERR_UTF8);
    CHECK(strcmp(why, azud_status_text(AZUD_ERR_UTF8)) == 0);

    /* EMB-09: a thousand times over, the host lives on. */
    for (int i = 0; i < 1000; i++)
        EQUAL(azud_limiter_new("token-bucket 0/1m burst=0", NULL, &limiter, why, sizeof why), AZUD_ERR_LIMIT);
}

static void error_texts_fit(void) {
    /* The message begins with: "gcr\xe2\x82\xac" (the euro sign, 3 bytes). */
    const char *limit = "gcr\xe2\x82\xac 10/1s";
    char whole[400], part[400];
    azud_limiter *limiter;
    EQUAL(azud_limiter_new(limit, NULL, &limiter, whole, sizeof whole), AZUD_ERR_LIMIT);
    CHECK(strncmp(whole, "\"gcr\xe2\x82\xac\" (column 1): ", 21) == 0);
    for (size_t len = 0; len <= strlen(whole) + 2; len++) {
        memset(part, '#', sizeof part);
        EQUAL(azud_limiter_new(limit, NULL, &limiter, len == 0 ? NULL : part, len), AZUD_ERR_LIMIT);
        size_t room = len == 0 ? 0 : len - 1;
        size_t kept = room > strlen(whole) ? strlen(whole) : room;
        if (kept == 5 || kept == 6) kept = 4; /* not in the middle of the sign */
        if (len > 0) CHECK(strlen(part) == kept && memcmp(part, whole, kept) == 0);
        for (size_t i = len; i < sizeof part; i++) CHECK(part[i] == '#');
    }
}

static void batches_are_singles(void) {
    enum { COUNT = 1000, KEYS = 37 };
    static azud_call calls[COUNT];
    static azud_decision together[COUNT];
    static char names[KEYS][16];
    for (size_t i = 0; i < COUNT; i++) {
        char *name = names[i % KEYS];
        snprintf(name, sizeof names[0], "client %zu", i % KEYS);
        calls[i] = (azud_call){name, strlen(name), i % 5 == 4 ? 25 : i % 5};
    }
    azud_limiter *batched = limiter_of(LIMIT), *single = limiter_of(LIMIT);
    for (uint64_t round = 0; round < 3; round++) {
        uint64_t now = T0 + round * 7 * S;
        size_t counts[] = {COUNT, 0, 1, 15, 16, 17};
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            for (size_t i = 0; i < COUNT; i++) together[i] = garbage();
            EQUAL(azud_check_batch_at(batched, calls, counts[c], now, together), AZUD_OK);
            for (size_t i = 0; i < COUNT; i++) {
                if (i >= counts[c]) {
                    CHECK(is_garbage(&together[i]));
                    continue;
                }
                azud_decision alone = garbage();
                EQUAL(azud_check_at(single, calls[i].key, calls[i].key_len, calls[i].cost, now, &alone), together[i].allowed);
                CHECK(memcmp(&alone, &together[i], sizeof alone) == 0);
            }
        }
    }

    /* One bad call at the end of many: nothing is charged, nothing is written. */
    const azud_call bad[] = {{NULL, 1, 1}, {"a", SIZE_MAX, 1}};
    for (size_t b = 0; b < 2; b++) {
        azud_call last = calls[COUNT - 1];
        calls[COUNT - 1] = bad[b];
        for (size_t i = 0; i < COUNT; i++) together[i] = garbage();
        EQUAL(azud_check_batch_at(batched, calls, COUNT, T0 + 60 * S, together), b == 0 ? AZUD_ERR_NULL : AZUD_ERR_LENGTH);
        for (size_t i = 0; i < COUNT; i++) CHECK(is_garbage(&together[i]));
        calls[COUNT - 1] = last;
    }
    for (size_t k = 0; k < KEYS; k++) {
        azud_decision d = garbage();
        EQUAL(azud_peek_at(batched, names[k], strlen(names[k]), 0, T0 + 60 * S, &d), 1);
        EQUAL(d.remaining, 20);
    }
    azud_limiter_free(batched);
    azud_limiter_free(single);
}

static void counters(void) {
    azud_limiter *limiter = limiter_of(LIMIT);
    azud_stats stats = AZUD_STATS_INIT;
    EQUAL(azud_limiter_stats(limiter, &stats), AZUD_OK);
    EQUAL(stats.struct_size, sizeof stats);
    EQUAL(stats.keys, 0);
    EQUAL(stats.generations, 1);
    CHECK(stats.capacity > 0 && stats.memory_bytes >= stats.capacity * 16);

    uint64_t an_hour_ago = azud_limiter_now(limiter) - 3600 * S;
    for (uint32_t key = 0; key < 20000; key++) EQUAL(azud_allow_at(limiter, &key, sizeof key, 1, an_hour_ago), 1);
    memset(&stats, 0xA5, sizeof stats);
    stats.struct_size = sizeof stats;
    EQUAL(azud_limiter_stats(limiter, &stats), AZUD_OK);
    EQUAL(stats.reserved_head, 0);
    CHECK(stats.keys > 10000 && stats.keys <= 20000 && stats.keys <= stats.capacity);
    CHECK(stats.growths > 0);
    EQUAL(stats.generations, 1 + stats.growths + stats.shrinks);
    EQUAL(stats.takeovers_indebted, 0);
    for (size_t i = 0; i < sizeof stats.reserved / sizeof *stats.reserved; i++) EQUAL(stats.reserved[i], 0);

    /* Now, by the clock that maintain reads, all of those keys are idle. */
    EQUAL(azud_limiter_maintain(limiter), AZUD_OK);
    azud_stats after = AZUD_STATS_INIT;
    EQUAL(azud_limiter_stats(limiter, &after), AZUD_OK);
    EQUAL(after.keys, 0);
    CHECK(after.shrinks > stats.shrinks);
    CHECK(after.memory_bytes < stats.memory_bytes);

    /* Sizes: refused and untouched, or filled as far as both sides know. */
    const uint32_t wrong[] = {0, 4, sizeof stats - 8, 4097, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        azud_stats before = stats;
        before.struct_size = stats.struct_size = wrong[i];
        EQUAL(azud_limiter_stats(limiter, &stats), AZUD_ERR_SIZE);
        CHECK(memcmp(&before, &stats, sizeof stats) == 0);
    }
    struct {
        azud_stats known;
        uint64_t unknown[2];
    } newer = {AZUD_STATS_INIT, {1, 1}};
    newer.known.struct_size = sizeof newer;
    EQUAL(azud_limiter_stats(limiter, &newer.known), AZUD_OK);
    EQUAL(newer.known.struct_size, sizeof newer);
    EQUAL(newer.known.growths, after.growths);
    CHECK(newer.unknown[0] == 0 && newer.unknown[1] == 0);
    azud_limiter_free(limiter);
}

enum { THREADS = 4, CALLS = 2000, BURST = 3000 };

struct hammer {
    const azud_limiter *limiter;
    atomic_int *allowed;
    atomic_bool *stop; /* NULL: CALLS calls */
    unsigned self;
};

static void *hammer(void *argument) {
    struct hammer *my = argument;
    for (unsigned i = 0; my->stop == NULL ? i < CALLS : !atomic_load(my->stop); i++) {
        int32_t verdict = azud_allow_at(my->limiter, KEY("everybody"), 1, T0);
        CHECK(verdict == 0 || verdict == 1);
        if (verdict == 1) atomic_fetch_add(my->allowed, 1);
        /* Keys of its own, so that the table grows meanwhile. */
        unsigned key[2] = {my->self, i % 4000};
        CHECK(azud_allow_at(my->limiter, key, sizeof key, 1, T0) >= 0);
    }
    return NULL;
}

static void start(pthread_t threads[THREADS], struct hammer work[THREADS], struct hammer like) {
    for (unsigned i = 0; i < THREADS; i++) {
        work[i] = like;
        work[i].self = i;
        EQUAL(pthread_create(&threads[i], NULL, hammer, &work[i]), 0);
    }
}

static void join(pthread_t threads[THREADS]) {
    for (unsigned i = 0; i < THREADS; i++) EQUAL(pthread_join(threads[i], NULL), 0);
}

static void threads_share_one_limit(void) {
    azud_limiter *limiter = limiter_of("token-bucket 100/1m burst=3000");
    atomic_int allowed = 0;
    pthread_t threads[THREADS];
    struct hammer work[THREADS];
    start(threads, work, (struct hammer){limiter, &allowed, NULL, 0});
    join(threads);
    EQUAL(allowed, BURST);
    azud_limiter_free(limiter);
}

/* EMB-07. A child of a process whose threads are in the middle of calls, perhaps of a growth: nothing that one
 * of them held is held for ever. */
static void a_child_goes_on(void) {
    azud_limiter *limiter = limiter_of("token-bucket 100/1m burst=3000");
    atomic_int allowed = 0;
    atomic_bool stop = 0;
    pthread_t threads[THREADS];
    struct hammer work[THREADS];
    start(threads, work, (struct hammer){limiter, &allowed, &stop, 0});
    for (int i = 0; i < 5; i++) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            alarm(60); /* ends a child that hangs */
            int wrong = 0;
            for (int call = 0; call < 1000; call++) {
                wrong += azud_allow_at(limiter, &call, sizeof call, 1, T0) < 0;
                wrong += azud_allow(limiter, KEY("everybody"), 0) != 1;
            }
            wrong += azud_limiter_maintain(limiter) != AZUD_OK;
            azud_limiter *own = NULL;
            wrong += azud_limiter_new(LIMIT, NULL, &own, NULL, 0) != AZUD_OK;
            wrong += azud_allow(own, KEY("a"), 1) != 1;
            azud_limiter_free(own);
            _exit(wrong == 0 ? 0 : 1);
        }
        int status = -1;
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    atomic_store(&stop, 1);
    join(threads);
    CHECK(allowed <= BURST);
    azud_limiter_free(limiter);
}

static void many_limiters(void) {
    for (int i = 0; i < 1000; i++) {
        azud_limiter *limiter = limiter_of(i % 2 == 0 ? LIMIT : "fixed-window 3/1s");
        for (int call = 0; call < 4; call++) EQUAL(azud_allow_at(limiter, KEY("a"), 1, T0), i % 2 == 0 || call < 3);
        azud_limiter_free(limiter);
    }
}

int main(void) {
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {
        {"versions and texts", versions_and_texts},
        {"exact answers", exact_answers},
        {"peeks", peeks},
        {"the system's clock", the_system_s_clock},
        {"costs", costs},
        {"times", times},
        {"keys", keys},
        {"NULL pointers", null_pointers},
        {"options and their size", options_and_their_size},
        {"refused limits", refused_limits},
        {"error texts fit", error_texts_fit},
        {"batches are singles", batches_are_singles},
        {"counters", counters},
        {"threads share one limit", threads_share_one_limit},
        {"a child goes on", a_child_goes_on},
        {"many limiters", many_limiters},
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        int before = failures;
        tests[i].run();
        if (failures > before) fprintf(stderr, "FAILED: %s\n", tests[i].name);
    }
    if (failures > 0) return 1;
    printf("C: %zu tests passed\n", sizeof tests / sizeof *tests);
    return 0;
}
