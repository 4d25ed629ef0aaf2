/*
 * azud in a C program: who would have been refused, had this web server limited its clients?
 *
 *     demo LOGFILE [LIMIT]
 *
 * LOGFILE is an access log in the common or the combined format. Four threads share one limiter; each
 * takes the next request and asks whether its client may have it.
 *
 * What a server needs of this are four lines: azud_limiter_new when it starts, azud_check (without _at:
 * the clock is the limiter's business) for each request, on whatever thread, azud_limiter_free at the
 * end. The rest is about reading a log and showing what came out.
 */

#define _DEFAULT_SOURCE /* timegm */

#include "azud.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND UINT64_C(1000000000) /* in nanoseconds, as all times of azud */
#define THREADS 4

/* One line of the log, and what azud said to it. */
struct request {
    const char *client; /* not ended by a NUL: a key is bytes and a length */
    size_t client_len;
    uint64_t time_ns;
    azud_decision decision;
};

static struct request *requests;
static size_t request_count, unread_lines;

/* ---- the part that embeds azud ---- */

static azud_limiter *limiter;

/*
 * In a log, hours pass in no time. A thread that is still in one hour while the others are in the next
 * would look like a clock that was set back, so the threads finish each minute of the log together.
 * In a server they all live in the same minute anyway.
 */
static atomic_size_t next_request;
static size_t minute_end; /* the first request after this minute */
static pthread_barrier_t minute_done;

static void find_minute_end(size_t begin) {
    minute_end = begin;
    while (minute_end < request_count && requests[minute_end].time_ns / (60 * SECOND) == requests[begin].time_ns / (60 * SECOND))
        minute_end++;
}

static void *serve(void *unused) {
    (void)unused;
    size_t end;
    while ((end = minute_end), end > 0) {
        size_t i;
        while ((i = atomic_fetch_add(&next_request, 1)) < end) {
            struct request *r = &requests[i];
            int32_t verdict = azud_check_at(limiter, r->client, r->client_len, 1, r->time_ns, &r->decision);
            if (verdict < 0) { /* cannot be, with these arguments */
                fprintf(stderr, "demo: %s\n", azud_status_text(verdict));
                exit(1);
            }
        }
        if (pthread_barrier_wait(&minute_done) == PTHREAD_BARRIER_SERIAL_THREAD) {
            find_minute_end(end);
            if (minute_end == end) minute_end = 0; /* no more */
            atomic_store(&next_request, end);
        }
        pthread_barrier_wait(&minute_done);
    }
    return NULL;
}

/* Makes all decisions; returns the seconds that took. */
static double run_threads(void) {
    pthread_t threads[THREADS];
    struct timespec begin, end;
    find_minute_end(0);
    pthread_barrier_init(&minute_done, NULL, THREADS);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, serve, NULL) != 0) {
            perror("demo: pthread_create");
            exit(1);
        }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    pthread_barrier_destroy(&minute_done);
    return (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
}

/* ---- reading the log: CLIENT ... [17/May/2015:10:05:03 +0000] ... ---- */

static int read_line(const char *line, struct request *r) {
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct tm t = {0};
    char month[4], sign;
    int zone_hours, zone_minutes;
    const char *stamp = strchr(line, '[');
    r->client = line;
    r->client_len = strcspn(line, " ");
    if (stamp == NULL || r->client_len == 0) return 0;
    if (sscanf(stamp, "[%2d/%3[A-Za-z]/%4d:%2d:%2d:%2d %c%2d%2d]", &t.tm_mday, month, &t.tm_year, &t.tm_hour, &t.tm_min, &t.tm_sec,
               &sign, &zone_hours, &zone_minutes) != 9)
        return 0;
    const char *found = strstr(months, month);
    if (found == NULL || t.tm_year < 1970) return 0;
    t.tm_mon = (int)(found - months) / 3;
    t.tm_year -= 1900;
    int64_t zone = (zone_hours * 60 + zone_minutes) * 60;
    int64_t seconds = (int64_t)timegm(&t) - (sign == '-' ? -zone : zone);
    if (seconds < 0) return 0;
    r->time_ns = (uint64_t)seconds * SECOND;
    return 1;
}

static int by_time(const void *a, const void *b) {
    const struct request *x = a, *y = b;
    if (x->time_ns != y->time_ns) return x->time_ns < y->time_ns ? -1 : 1;
    return x->client < y->client ? -1 : x->client > y->client; /* as they stand in the file */
}

/* Fills `requests`, whose clients point into the text that is read here and kept. */
static void read_log(const char *path) {
    FILE *file = fopen(path, "rb");
    size_t size = 0, room = 1 << 20, got;
    char *text = malloc(room + 1);
    if (file == NULL || text == NULL) {
        perror(path);
        exit(1);
    }
    while ((got = fread(text + size, 1, room - size, file)) > 0) {
        size += got;
        if (size == room && (text = realloc(text, (room *= 2) + 1)) == NULL) abort();
    }
    fclose(file);
    text[size] = '\0';
    size_t lines = 1;
    for (size_t i = 0; i < size; i++) lines += text[i] == '\n';
    if ((requests = calloc(lines, sizeof *requests)) == NULL) abort();
    for (char *line = text, *end; line < text + size; line = end + 1) {
        end = line + strcspn(line, "\n");
        *end = '\0';
        if (read_line(line, &requests[request_count]))
            request_count++;
        else if (line < end)
            unread_lines++;
    }
    /* A server writes a request when it ends, so a log is not quite in the order of time. */
    qsort(requests, request_count, sizeof *requests, by_time);
}

/* ---- showing what came out ---- */

struct client {
    const struct request *name;
    size_t requests, refused;
    uint64_t longest_wait_ns;
};

static int by_client(const void *a, const void *b) {
    const struct request *x = a, *y = b;
    size_t shorter = x->client_len < y->client_len ? x->client_len : y->client_len;
    int order = memcmp(x->client, y->client, shorter);
    return order != 0 ? order : (x->client_len > y->client_len) - (x->client_len < y->client_len);
}

static int by_refused(const void *a, const void *b) {
    const struct client *x = a, *y = b;
    if (x->refused != y->refused) return x->refused > y->refused ? -1 : 1;
    return by_client(x->name, y->name);
}

static void show(double seconds) {
    size_t clients = 0, refused = 0, ever_refused = 0;
    struct client *list = calloc(request_count + 1, sizeof *list);
    if (list == NULL) abort();
    qsort(requests, request_count, sizeof *requests, by_client);
    for (size_t i = 0; i < request_count; i++) {
        const struct request *r = &requests[i];
        if (i == 0 || by_client(&requests[i - 1], r) != 0) list[clients++].name = r;
        struct client *c = &list[clients - 1];
        c->requests++;
        if (r->decision.allowed) continue;
        refused++;
        if (c->refused++ == 0) ever_refused++;
        if (r->decision.retry_after_ns > c->longest_wait_ns) c->longest_wait_ns = r->decision.retry_after_ns;
    }
    qsort(list, clients, sizeof *list, by_refused);

    double percent = request_count == 0 ? 0 : 100.0 / (double)request_count;
    printf("  %-20s %8zu   (%zu lines could not be read)\n", "requests", request_count, unread_lines);
    printf("  %-20s %8zu   %5.1f %%\n", "allowed", request_count - refused, percent * (double)(request_count - refused));
    printf("  %-20s %8zu   %5.1f %%\n", "refused", refused, percent * (double)refused);
    printf("  %-20s %8zu   %zu of them were never refused\n", "distinct clients", clients, clients - ever_refused);

    printf("\nThe most refused clients:\n");
    if (ever_refused == 0) printf("  none\n");
    else printf("  %-20s %8s %8s   %s\n", "", "requests", "refused", "longest wait it was told");
    for (size_t i = 0; i < ever_refused && i < 5; i++) {
        int width = (int)list[i].name->client_len;
        printf("  %-20.*s %8zu %8zu", width, list[i].name->client, list[i].requests, list[i].refused);
        if (list[i].longest_wait_ns == AZUD_NEVER)
            printf("   for ever\n");
        else
            printf("   %.1f s\n", (double)list[i].longest_wait_ns / 1e9);
    }
    free(list);

    azud_stats stats = AZUD_STATS_INIT;
    azud_limiter_stats(limiter, &stats);
    printf("\nThe limiter:\n");
    printf("  %-20s %8" PRIu64 "   of %" PRIu64 " slots, in %" PRIu64 " KiB\n", "keys", stats.keys, stats.capacity,
           stats.memory_bytes / 1024);
    printf("  %-20s %8" PRIu64 "   (it shrank %" PRIu64 " times)\n", "times it grew", stats.growths, stats.shrinks);
    printf("  %-20s %8" PRIu64 "   idle, at no loss; %" PRIu64 " with their debt\n", "keys replaced", stats.takeovers_idle,
           stats.takeovers_indebted);

    printf("\n%d threads made %zu decisions in %.1f ms: %.0f a second.\n", THREADS, request_count, seconds * 1e3,
           seconds > 0 ? (double)request_count / seconds : 0);
    printf("(A demo, not a benchmark: most of that is starting threads and waiting for each other at every minute.)\n");
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: demo LOGFILE [LIMIT]\n");
        return 2;
    }
    const char *limit = argc > 2 ? argv[2] : "token-bucket 30/1m burst=30";
    char why[200];
    if (azud_limiter_new(limit, NULL, &limiter, why, sizeof why) != AZUD_OK) {
        fprintf(stderr, "demo: the limit \"%s\" is refused: %s\n", limit, why);
        return 2;
    }
    read_log(argv[1]);
    printf("azud %s over %s\nEach client may have: %s\n\n", azud_version(), argv[1], limit);
    show(run_threads());
    azud_limiter_free(limiter);
    return 0;
}
