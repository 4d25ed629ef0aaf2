/*
 * azud: an exact, lock-free, bounded rate limiter. The C interface, from top to bottom:
 *
 *     an example, the limit language, time, conventions      this comment
 *     constants and versions, statuses, reasons              what numbers mean
 *     azud_limiter, azud_options, azud_stats,
 *     azud_decision, azud_call                               what calls take and give
 *     making, deciding, counting, versions                   the calls
 *
 * EXAMPLE
 *
 *     azud_limiter *limiter;
 *     char why[160];
 *     if (azud_limiter_new("token-bucket 100/1m burst=20", NULL, &limiter, why, sizeof why) != AZUD_OK) {
 *         fprintf(stderr, "%s\n", why);
 *         return 1;
 *     }
 *     for (int i = 0; i < 21; i++) {
 *         if (azud_allow(limiter, "198.51.100.7", 12, 1) == 1)
 *             puts("served");
 *         else
 *             puts("429 Too Many Requests");
 *     }
 *     azud_limiter_free(limiter);
 *
 * Link with -lazud; for the static library add -lgcc_s -lutil -lrt -lpthread -lm -ldl.
 *
 * THE LIMIT LANGUAGE
 *
 *     token-bucket   100/1m burst=20      at most 20 at once, refilled at 100 a minute, evenly
 *     leaky-bucket   10/s burst=20        the same verdicts; with `queue` also a delay for each call
 *     fixed-window   100/1m               at most 100 in each minute of the clock
 *     sliding-window 100/1m               two windows, weighted; `strict`: in exact fractions
 *     sliding-log    100/1m               at most 100 in any minute, exactly; 16 bytes a unit and key
 *     quota          100000/month         calendar hour, day, week, month, year; tz=Europe/Madrid,
 *                                         anchor=2026-01-31
 *
 * A period is [k]ns, us, ms, s, m, h or d. Without `burst`, a bucket holds the count of its rate. What
 * cannot be kept exactly is refused when the limiter is made, never approximated.
 *
 * TIME
 *
 * A call reads the clock once (azud_limiter_now), a batch once for all its calls; again only where the
 * reading is behind that of another thread. Each has a twin in
 * _at that takes `now_ns`, nanoseconds since the Unix epoch: an event loop has the time already, and
 * tests and replays own it. Times above 2^62 are taken as 2^62. Time never goes back: a `now_ns` up to
 * 60 s behind the latest one that the limiter has seen is judged at that latest one; further behind,
 * the clock was set back, and time goes on from where it was. So give one limiter one clock, and give a
 * time soon: a thread that is held up for over 60 s before it does moves time forward for all keys.
 *
 * CONVENTIONS
 *
 * Answers   azud_allow, azud_check and azud_peek return 1 for allowed, 0 for refused. The other calls
 *           return 0 (AZUD_OK) when done. Below 0 is always an azud_status, and nothing was decided or
 *           charged (after AZUD_ERR_PANIC this is not known). Only a mistake in the arguments or a bug
 *           in the library leads there, never load: there is no error for contention or for a full
 *           table. Comparing with `== 1` refuses in that case, with `!= 0` it allows.
 * Threads   `const azud_limiter *` means: any number of threads at once. Only azud_limiter_free takes
 *           the limiter without const: nothing may run beside it or after it. No thread is ever started.
 * fork      A limiter made before fork works on in the child, as a copy of its own from then on. No lock
 *           can be left held. What other threads had yet to free at the fork stays with the child.
 * NULL      is refused with AZUD_ERR_NULL, except where a parameter says otherwise, and for a pointer
 *           whose length is 0.
 * Outputs   are written on success, and left as they were on failure; the exceptions are the new
 *           limiter, which is NULL on failure, and the error text.
 * Memory    Whoever makes a limiter ends it. No argument is kept after the call, nothing returned is to
 *           be freed, and there is no hidden state such as a last error.
 * Structs   that the caller fills begin with their size, which the *_INIT macro sets. They grow at their
 *           end only, and what they do not say is 0, the default: a program works with an older and with
 *           a newer library than its header.
 * Panics    A bug in the library does not unwind into the caller: the call returns AZUD_ERR_PANIC.
 * Numbers   of statuses and reasons, and the places of fields, are never changed.
 */


#ifndef AZUD_H
#define AZUD_H

/* Made by cbindgen from src/ffi and cbindgen.toml; edit those. */

#include <stddef.h>
#include <stdint.h>

/* How the functions are declared; define it before this header to change it. */
#ifndef AZUD_API
#if defined(__GNUC__) || defined(__clang__)
#define AZUD_API __attribute__((visibility("default")))
#else
#define AZUD_API
#endif
#endif

/* The beginning of every azud_options: `azud_options options = AZUD_OPTIONS_INIT;` */
#define AZUD_OPTIONS_INIT { sizeof(azud_options), 0, 0, 0, 0, { 0 } }

/* The beginning of every azud_stats: `azud_stats stats = AZUD_STATS_INIT;` */
#define AZUD_STATS_INIT { sizeof(azud_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, { 0 } }

/**
 * A `time_grain_ns` that publishes every reading of the clock.
 */
#define AZUD_TIME_GRAIN_EXACT UINT64_MAX

/**
 * A wait that no time ends.
 */
#define AZUD_NEVER UINT64_MAX

/**
 * The version of this header. `azud_version_number` is the one of the library that runs.
 */
#define AZUD_VERSION_MAJOR 0

/**
 * See `AZUD_VERSION_MAJOR`.
 */
#define AZUD_VERSION_MINOR 1

/**
 * See `AZUD_VERSION_MAJOR`.
 */
#define AZUD_VERSION_PATCH 0

/**
 * The version as one number, for comparisons: 1.2.3 is 1002003.
 */
#define AZUD_VERSION_NUMBER (((AZUD_VERSION_MAJOR * 1000000) + (AZUD_VERSION_MINOR * 1000)) + AZUD_VERSION_PATCH)

/**
 * The binary interface of this header, see `azud_abi_version`.
 */
#define AZUD_ABI_VERSION 1

/**
 * Why a call failed. Every function that can fail returns one of these as a plain `int32_t`, and
 * everything below 0 is a failure; later versions may add codes, none is ever renumbered.
 */
enum azud_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * Done.
     */
    AZUD_OK = 0,
    /**
     * A pointer is NULL where it must not be.
     */
    AZUD_ERR_NULL = -1,
    /**
     * `struct_size` is smaller than the first version of the struct, or absurdly large.
     */
    AZUD_ERR_SIZE = -2,
    /**
     * The limit is refused; the error text says where and what was expected.
     */
    AZUD_ERR_LIMIT = -3,
    /**
     * An option is refused: an unknown flag, a reserved field that is not 0, a ceiling on memory that is
     * too low for one group of keys, or more memory than the system gives.
     */
    AZUD_ERR_OPTION = -4,
    /**
     * The limit is not UTF-8.
     */
    AZUD_ERR_UTF8 = -5,
    /**
     * A bug in the library, stopped before it could reach the caller; the limiter stays usable.
     */
    AZUD_ERR_PANIC = -6,
    /**
     * A length or count beyond what any object can have (`PTRDIFF_MAX` bytes): often a -1 on its way
     * through `size_t`.
     */
    AZUD_ERR_LENGTH = -7,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum azud_status azud_status;
#else
typedef int32_t azud_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Why a call was answered as it was: the `reason` of an azud_decision. Later versions may add
 * reasons; `allowed` is always the verdict.
 */
enum azud_reason
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * Inside the limit.
     */
    AZUD_ALLOWED = 0,
    /**
     * Over the limit; the same call is allowed after `retry_after_ns`.
     */
    AZUD_LIMITED = 1,
    /**
     * The cost is more than the limit can ever hold; waiting does not help.
     */
    AZUD_COST_ABOVE_LIMIT = 2,
    /**
     * The bucket does not refill and holds too little; waiting does not help.
     */
    AZUD_NEVER_REFILLS = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum azud_reason azud_reason;
#else
typedef int32_t azud_reason;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * A limiter: one limit over any number of keys. Opaque; made by azud_limiter_new, ended by
 * azud_limiter_free.
 */
typedef struct azud_limiter azud_limiter;

/**
 * Settings of a limiter. Start from AZUD_OPTIONS_INIT and set what is to differ; 0 is the default
 * everywhere. A program built with an older or a newer header is understood: what it lacks takes
 * the default, and what this library does not know must be 0.
 */
typedef struct azud_options {
    /**
     * sizeof(azud_options), set by AZUD_OPTIONS_INIT.
     */
    uint32_t struct_size;
    /**
     * Must be 0; none is defined yet.
     */
    uint32_t flags;
    /**
     * The ceiling on the memory of the table, in bytes; 0 is the default of 516 MiB. A slot takes 16.125
     * bytes, and the table doubles for as long as twice the next size is under the ceiling, so that
     * the sizes before it fit beside it while they are moved. At the ceiling a new key takes the slot of
     * the least indebted key near it, with its debt: nobody gains by being forgotten. A host that
     * computes this treats a result of 0 as an error of its own: here 0 is the default.
     */
    uint64_t max_memory_bytes;
    /**
     * How many keys to make room for at the start; more come in by growth, up to the ceiling.
     */
    uint64_t expected_keys;
    /**
     * How far one thread's clock may run ahead of what the other threads know, in nanoseconds; 0 is
     * the default of 1000000 (1 ms), 1000000000 (1 s) is the most. A call is judged at the latest time
     * known, so a smaller grain orders the threads more finely and writes a shared word more often.
     * AZUD_TIME_GRAIN_EXACT: no slack at all, every later time is known to all at once.
     */
    uint64_t time_grain_ns;
    /**
     * Must be 0.
     */
    uint64_t reserved[4];
} azud_options;

/**
 * What a limiter counts about itself. Every event is counted once; together the numbers are not one
 * instant. Start from AZUD_STATS_INIT.
 */
typedef struct azud_stats {
    /**
     * sizeof(azud_stats), set by AZUD_STATS_INIT and left as it is.
     */
    uint32_t struct_size;
    /**
     * Written as 0.
     */
    uint32_t reserved_head;
    /**
     * Slots that hold a key, idle keys included; while a table is moving, those of the fuller of the two.
     */
    uint64_t keys;
    /**
     * Slots in all; while a table is moving, those of the larger of the two.
     */
    uint64_t capacity;
    /**
     * Bytes of the table, of one that is being drained into it, and of those that are drained and not
     * freed yet.
     */
    uint64_t memory_bytes;
    /**
     * Tables made so far: 1, and one more for each growth and shrinkage.
     */
    uint64_t generations;
    /**
     * How often the table grew.
     */
    uint64_t growths;
    /**
     * How often the table shrank.
     */
    uint64_t shrinks;
    /**
     * Idle keys whose slot a new key took, at no loss.
     */
    uint64_t takeovers_idle;
    /**
     * Indebted keys whose slot, with its debt, a new key took: the table was full. If it rises, give
     * the limiter more memory.
     */
    uint64_t takeovers_indebted;
    /**
     * Written as 0.
     */
    uint64_t reserved[7];
} azud_stats;

/**
 * The answer to one call. All of it comes from one look at the key and one reading of the clock, and
 * counts from the call's own time. Waits are in nanoseconds and round up; `remaining` rounds down.
 * The struct has this size for good: 64 bytes.
 */
typedef struct azud_decision {
    /**
     * 1: allowed; 0: refused.
     */
    int32_t allowed;
    /**
     * Why: an azud_reason.
     */
    int32_t reason;
    /**
     * The largest cost that the limit can ever hold: the burst of a bucket, else the count.
     */
    uint64_t limit;
    /**
     * The largest cost that would pass now, after this call.
     */
    uint64_t remaining;
    /**
     * The least wait after which the same call, alone, is allowed; 0 when it was, AZUD_NEVER when no
     * wait helps.
     */
    uint64_t retry_after_ns;
    /**
     * The time until the key is as good as never used (0: it is); for a window or a quota in use,
     * until its end. AZUD_NEVER for a bucket that does not refill.
     */
    uint64_t reset_after_ns;
    /**
     * How long the caller must hold an allowed call back: its place in a leaky bucket with `queue`. 0
     * for every other limit.
     */
    uint64_t delay_ns;
    /**
     * Written as 0.
     */
    uint64_t reserved[2];
} azud_decision;

/**
 * One call of a batch.
 */
typedef struct azud_call {
    /**
     * The key: `key_len` bytes. May be NULL when `key_len` is 0.
     */
    const void *key;
    /**
     * The length of the key in bytes.
     */
    size_t key_len;
    /**
     * What the call costs.
     */
    uint64_t cost;
} azud_call;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Makes a limiter.
 *
 * @param limit    the limit, a text of the language at the head of this file
 * @param options  settings, or NULL for the defaults
 * @param out      receives the limiter, or NULL on failure; end it with azud_limiter_free
 * @param errbuf   receives why the call failed (the empty text when it did not), in English with the
 *                 position in `limit`: at most `errlen` bytes, always ended by a NUL, cut between
 *                 characters if need be; 160 bytes hold most messages. May be NULL with `errlen` 0
 * @param errlen   the size of `errbuf` in bytes
 * @return         AZUD_OK; AZUD_ERR_NULL (`limit`, `out`, or `errbuf` with an `errlen`);
 *                 AZUD_ERR_UTF8, AZUD_ERR_LIMIT (`limit`); AZUD_ERR_SIZE, AZUD_ERR_OPTION (`options`);
 *                 AZUD_ERR_LENGTH (`errlen`); AZUD_ERR_PANIC
 *
 * Nothing exists after a failure. `limit` and `options` are copied and may go.
 *
 * Threads: any. Since: 0.1.0.
 */
AZUD_API
int32_t azud_limiter_new(const char *limit,
                         const struct azud_options *options,
                         struct azud_limiter **out,
                         char *errbuf,
                         size_t errlen);

/**
 * Ends a limiter and gives its memory back.
 *
 * @param limiter  the limiter, or NULL (nothing happens)
 *
 * Threads: one, once; no other call on the same limiter may run at the same time or come later.
 * A debug build of the library ends the process with a message when this is broken.
 * Since: 0.1.0.
 */
AZUD_API
void azud_limiter_free(struct azud_limiter *limiter);

/**
 * Reads the counters of a limiter. It takes no lock and stops nobody.
 *
 * @param limiter  the limiter
 * @param stats    AZUD_STATS_INIT; receives the counters, as many as its `struct_size` has room for,
 *                 and zeros in what this library does not know
 * @return         AZUD_OK; AZUD_ERR_NULL; AZUD_ERR_SIZE; AZUD_ERR_PANIC
 *
 * Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
 */
AZUD_API
int32_t azud_limiter_stats(const struct azud_limiter *limiter,
                           struct azud_stats *stats);

/**
 * Gives memory of idle keys back. Calls that decide do this as they go: only a process whose traffic
 * stops needs it, say once a minute.
 *
 * @param limiter  the limiter
 * @return         AZUD_OK; AZUD_ERR_NULL; AZUD_ERR_PANIC
 *
 * Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
 */
AZUD_API
int32_t azud_limiter_maintain(const struct azud_limiter *limiter);

/**
 * Reads the clock that the calls without `_at` use.
 *
 * @param limiter  the limiter
 * @return         nanoseconds since the Unix epoch; 0 for NULL
 *
 * Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
 */
AZUD_API
uint64_t azud_limiter_now(const struct azud_limiter *limiter);

/**
 * Charges `cost` to `key` and says whether the call is allowed. A refused call is not charged.
 *
 * @param limiter  the limiter
 * @param key      who is limited: `key_len` bytes of any value, not kept. May be NULL when `key_len` is
 *                 0: the empty key is a key like any other
 * @param key_len  the length of the key in bytes
 * @param cost     what the call costs, commonly 1. 0 charges nothing; more than the limit can hold is
 *                 refused, not an error
 * @return         1 allowed; 0 refused; AZUD_ERR_NULL, AZUD_ERR_LENGTH, AZUD_ERR_PANIC
 *
 * It takes no lock, and for a known key allocates nothing.
 *
 * Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
 */
AZUD_API
int32_t azud_allow(const struct azud_limiter *limiter,
                   const void *key,
                   size_t key_len,
                   uint64_t cost);

/**
 * azud_allow at a time of the caller's, for an event loop that has it already, and for tests.
 *
 * @param limiter  the limiter
 * @param key      who is limited: `key_len` bytes; may be NULL when `key_len` is 0
 * @param key_len  the length of the key in bytes
 * @param cost     what the call costs
 * @param now_ns   nanoseconds since the Unix epoch, see TIME at the head of this file
 * @return         1 allowed; 0 refused; AZUD_ERR_NULL, AZUD_ERR_LENGTH, AZUD_ERR_PANIC
 *
 * Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
 */
AZUD_API
int32_t azud_allow_at(const struct azud_limiter *limiter,
                      const void *key,
                      size_t key_len,
                      uint64_t cost,
                      uint64_t now_ns);

/**
 * Charges `cost` to `key` as azud_allow does, and tells all about it.
 *
 * @param limiter  the limiter
 * @param key      who is limited: `key_len` bytes; may be NULL when `key_len` is 0
 * @param key_len  the length of the key in bytes
 * @param cost     what the call costs
 * @param out      receives the answer; left as it is, and nothing charged, on an error
 * @return         1 allowed; 0 refused; AZUD_ERR_NULL, AZUD_ERR_LENGTH, AZUD_ERR_PANIC
 *
 * Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
 */
AZUD_API
int32_t azud_check(const struct azud_limiter *limiter,
                   const void *key,
                   size_t key_len,
                   uint64_t cost,
                   struct azud_decision *out);

/**
 * azud_check at a time of the caller's.
 *
 * @param limiter  the limiter
 * @param key      who is limited: `key_len` bytes; may be NULL when `key_len` is 0
 * @param key_len  the length of the key in bytes
 * @param cost     what the call costs
 * @param now_ns   nanoseconds since the Unix epoch, see TIME at the head of this file
 * @param out      receives the answer; left as it is, and nothing charged, on an error
 * @return         1 allowed; 0 refused; AZUD_ERR_NULL, AZUD_ERR_LENGTH, AZUD_ERR_PANIC
 *
 * Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
 */
AZUD_API
int32_t azud_check_at(const struct azud_limiter *limiter,
                      const void *key,
                      size_t key_len,
                      uint64_t cost,
                      uint64_t now_ns,
                      struct azud_decision *out);

/**
 * Tells what azud_check would answer, and charges nothing.
 *
 * @param limiter  the limiter
 * @param key      who is limited: `key_len` bytes; may be NULL when `key_len` is 0
 * @param key_len  the length of the key in bytes
 * @param cost     what the call would cost
 * @param out      receives the answer; left as it is on an error
 * @return         1 it would be allowed; 0 it would be refused; AZUD_ERR_NULL, AZUD_ERR_LENGTH,
 *                 AZUD_ERR_PANIC
 *
 * The answer is the one that azud_check would give, `remaining` included; to see what is left now, give
 * cost 0. Another thread may charge the key before the caller does: to be sure, call azud_check.
 *
 * Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
 */
AZUD_API
int32_t azud_peek(const struct azud_limiter *limiter,
                  const void *key,
                  size_t key_len,
                  uint64_t cost,
                  struct azud_decision *out);

/**
 * azud_peek at a time of the caller's.
 *
 * @param limiter  the limiter
 * @param key      who is limited: `key_len` bytes; may be NULL when `key_len` is 0
 * @param key_len  the length of the key in bytes
 * @param cost     what the call would cost
 * @param now_ns   nanoseconds since the Unix epoch, see TIME at the head of this file
 * @param out      receives the answer; left as it is on an error
 * @return         1 it would be allowed; 0 it would be refused; AZUD_ERR_NULL, AZUD_ERR_LENGTH,
 *                 AZUD_ERR_PANIC
 *
 * Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
 */
AZUD_API
int32_t azud_peek_at(const struct azud_limiter *limiter,
                     const void *key,
                     size_t key_len,
                     uint64_t cost,
                     uint64_t now_ns,
                     struct azud_decision *out);

/**
 * Makes many calls of azud_check with one reading of the clock. Each is charged or refused by itself,
 * in order, as single calls would be; it is faster because the memory of later keys is fetched while
 * earlier ones are decided.
 *
 * @param limiter  the limiter
 * @param calls    `count` calls. May be NULL when `count` is 0
 * @param count    the number of calls
 * @param out      receives `count` answers, in the order of the calls. May be NULL when `count` is 0
 * @return         AZUD_OK, and the verdicts are in `out`; AZUD_ERR_NULL, AZUD_ERR_LENGTH (of an argument
 *                 or of a call), AZUD_ERR_PANIC
 *
 * The arguments are all looked at first: on AZUD_ERR_NULL and AZUD_ERR_LENGTH nothing was charged and
 * `out` is as it was. `out` may not overlap `calls` or the keys.
 *
 * Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
 */
AZUD_API
int32_t azud_check_batch(const struct azud_limiter *limiter,
                         const struct azud_call *calls,
                         size_t count,
                         struct azud_decision *out);

/**
 * azud_check_batch at a time of the caller's.
 *
 * @param limiter  the limiter
 * @param calls    `count` calls. May be NULL when `count` is 0
 * @param count    the number of calls
 * @param now_ns   nanoseconds since the Unix epoch, see TIME at the head of this file
 * @param out      receives `count` answers, in the order of the calls. May be NULL when `count` is 0
 * @return         AZUD_OK, and the verdicts are in `out`; AZUD_ERR_NULL, AZUD_ERR_LENGTH (of an argument
 *                 or of a call), AZUD_ERR_PANIC
 *
 * Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
 */
AZUD_API
int32_t azud_check_batch_at(const struct azud_limiter *limiter,
                            const struct azud_call *calls,
                            size_t count,
                            uint64_t now_ns,
                            struct azud_decision *out);

/**
 * The meaning of a status, in a few English words.
 *
 * @param status  what a function returned: an azud_status, also one that this library does not know
 * @return        a static text, never NULL
 *
 * Threads: any. Since: 0.1.0.
 */
AZUD_API
const char *azud_status_text(int32_t status);

/**
 * The version of the library that runs, such as "0.1.0".
 *
 * @return  a static text, never NULL
 *
 * Threads: any. Since: 0.1.0.
 */
AZUD_API
const char *azud_version(void);

/**
 * The version of the library that runs, as AZUD_VERSION_NUMBER has it. A program that needs what
 * 0.2.0 brought checks `azud_version_number() >= 2000`.
 *
 * @return  major * 1000000 + minor * 1000 + patch
 *
 * Threads: any. Since: 0.1.0.
 */
AZUD_API
uint32_t azud_version_number(void);

/**
 * The binary interface of the library that runs. It is raised only when a program built with an
 * older header could not run; new functions, and new fields in structs that begin with their size,
 * do not raise it. A program that loads the library at run time checks
 * `azud_abi_version() == AZUD_ABI_VERSION` before anything else.
 *
 * @return  AZUD_ABI_VERSION of the library
 *
 * Threads: any. Since: 0.1.0.
 */
AZUD_API
uint32_t azud_abi_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* AZUD_H */
