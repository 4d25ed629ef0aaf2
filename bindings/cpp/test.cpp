// Every function of azud.hpp, and through it of azud.h, from C++17. run_tests.sh in bindings/c builds
// and runs it with several compilers and checkers.

#include "azud.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

// What the header promises by its types.
static_assert(!std::is_copy_constructible_v<azud::limiter> && !std::is_copy_assignable_v<azud::limiter>);
static_assert(std::is_nothrow_move_constructible_v<azud::limiter> && std::is_nothrow_move_assignable_v<azud::limiter>);
static_assert(!std::is_default_constructible_v<azud::limiter>);
static_assert(!std::is_convertible_v<const char *, azud::limiter>);
static_assert(!std::is_convertible_v<azud::decision, int>);
static_assert(sizeof(azud::limiter) == sizeof(void *));
static_assert(noexcept(std::declval<const azud::limiter &>().check("a")));
static_assert(noexcept(azud::limiter::create("")));
static_assert(sizeof(azud_options) == 64 && sizeof(azud_stats) == 128 && sizeof(azud_decision) == 64);

static std::atomic<int> failures{0};

static void check(bool holds, const char *what, int line) {
    if (!holds) {
        std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, line, what);
        ++failures;
    }
}

#define CHECK(...) check(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__, __LINE__)

static const char limit[] = "token-bucket 100/1m burst=20"; // a token each 600 ms
static const std::uint64_t t0 = 1000000000000000000;        // in 2001

static void exact_answers() {
    const azud::limiter limiter(limit);
    const azud::decision first = limiter.check_at("a", 1, t0);
    CHECK(first && first.allowed() && first.status() == AZUD_OK);
    CHECK(first.reason() == azud::reason::allowed);
    CHECK(first.limit() == 20 && first.remaining() == 19);
    CHECK(first.retry_after() == 0ns && first.retry_after_seconds() == 0s);
    CHECK(first.reset_after() == 600ms && first.delay() == 0ns);
    CHECK(first.raw().allowed == 1 && first.raw().remaining == 19);

    CHECK(limiter.allow_at("a", 19, t0));
    const azud::decision refused = limiter.check_at("a", 1, t0);
    CHECK(!refused && !refused.allowed() && refused.status() == AZUD_OK);
    CHECK(refused.reason() == azud::reason::limited);
    CHECK(refused.retry_after() == 600ms && refused.retry_after_seconds() == 1s);
    CHECK(refused.reset_after() == 12s);
    CHECK(!limiter.allow_at("a", 1, t0 + 599999999));
    CHECK(limiter.peek_at("a", 1, t0 + 600000000));
    CHECK(limiter.allow_at("a", 1, t0 + 600000000));
    CHECK(!limiter.peek_at("a", 1, t0 + 600000000));

    const azud::decision never = limiter.check_at("a", 21, t0);
    CHECK(never.reason() == azud::reason::cost_above_limit);
    CHECK(!never.retry_after() && !never.retry_after_seconds());

    const azud::limiter queue("leaky-bucket 10/s burst=2 queue");
    CHECK(queue.check_at("a", 1, t0).delay() == 0ns);
    CHECK(queue.check_at("a", 1, t0).delay() == 100ms);
}

static void durations() {
    CHECK(azud::wait(0) == 0ns);
    CHECK(azud::wait(1500) == 1500ns);
    CHECK(azud::wait(INT64_MAX) == std::chrono::nanoseconds::max());
    CHECK(azud::wait(UINT64_MAX - 1) == std::chrono::nanoseconds::max());
    CHECK(azud::wait(AZUD_NEVER) == std::nullopt);

    azud_decision raw = {};
    raw.retry_after_ns = UINT64_MAX - 1;
    CHECK(azud::decision(raw).retry_after_seconds() == std::chrono::seconds(18446744074));
    raw.retry_after_ns = 1000000000;
    CHECK(azud::decision(raw).retry_after_seconds() == 1s);
    raw.retry_after_ns = 1000000001;
    CHECK(azud::decision(raw).retry_after_seconds() == 2s);

    CHECK(azud::since_epoch(std::chrono::system_clock::time_point(1s)) == 1000000000);
    CHECK(azud::since_epoch(std::chrono::system_clock::time_point(-1s)) == 0);
}

static void the_system_s_clock() {
    const azud::limiter limiter("token-bucket 1/1h burst=3");
    const std::uint64_t wall = azud::since_epoch(std::chrono::system_clock::now());
    const std::uint64_t now = limiter.now();
    CHECK(now + 60000000000 > wall && wall + 60000000000 > now);
    CHECK(limiter.allow("a"));
    CHECK(limiter.peek("a", 2).remaining() == 0);
    CHECK(limiter.check("a", 2));
    CHECK(!limiter.allow("a"));
    const auto retry = limiter.check("a").retry_after();
    CHECK(retry && *retry > 0s && *retry <= 1h);
}

static void keys() {
    const azud::limiter limiter("fixed-window 1/1s");
    const std::string binary("a\0b", 3), another("a\0c", 3);
    for (const std::string_view key : {std::string_view(), std::string_view(binary), std::string_view(another)}) {
        CHECK(limiter.allow_at(key, 1, t0));
        CHECK(!limiter.allow_at(key, 1, t0));
    }
    CHECK(!limiter.allow_at("", 1, t0));
}

static void failures_are_explained() {
    try {
        azud::limiter limiter("token-bucket 100/1x");
        check(false, "a limit that means nothing was refused", __LINE__);
    } catch (const azud::error &e) {
        CHECK(e.status() == AZUD_ERR_LIMIT);
        CHECK(std::strstr(e.what(), "\"1x\" (column 18): ") == e.what());
    }
    try {
        azud::limiter limiter(std::string("fixed-window 0/1s"));
        check(false, "a limit that means nothing was refused", __LINE__);
    } catch (const std::runtime_error &e) {
        CHECK(std::strstr(e.what(), "(column 14)") != nullptr);
    }

    azud::failure why;
    CHECK(!azud::limiter::create("token-bucket 100/1x", nullptr, &why));
    CHECK(why.status == AZUD_ERR_LIMIT && std::strstr(why.message, "column 18") != nullptr);
    CHECK(!azud::limiter::create("token-bucket 100/1x"));
    CHECK(!azud::limiter::create(nullptr, nullptr, &why));
    CHECK(why.status == AZUD_ERR_NULL && std::strcmp(why.message, azud::status_text(AZUD_ERR_NULL)) == 0);

    azud_options options = AZUD_OPTIONS_INIT;
    options.flags = 1;
    CHECK(!azud::limiter::create(limit, &options, &why) && why.status == AZUD_ERR_OPTION);
    options.flags = 0;
    options.max_memory_bytes = 1 << 20;
    const std::optional<azud::limiter> made = azud::limiter::create(limit, &options, &why);
    CHECK(made && *made && why.status == AZUD_OK && why.message[0] == '\0');
    CHECK(made->allow("a"));
}

static void one_owner() {
    azud::limiter first(limit);
    CHECK(first.allow_at("a", 20, t0));
    azud::limiter second(std::move(first));
    CHECK(second && !second.allow_at("a", 1, t0)); // the same limiter
    first = azud::limiter(limit);
    CHECK(first && first.allow_at("a", 1, t0)); // another
    first = std::move(second);
    CHECK(first.get() != nullptr && !first.allow_at("a", 1, t0));

    // Moved from: refused everywhere, with a status where there is room for one.
    CHECK(!second && second.get() == nullptr);
    CHECK(!second.allow("a") && !second.allow_at("a", 1, t0));
    const azud::decision none = second.check("a");
    CHECK(!none && none.status() == AZUD_ERR_NULL && none.limit() == 0);
    CHECK(second.check_at("a", 1, t0).status() == AZUD_ERR_NULL);
    CHECK(second.peek("a").status() == AZUD_ERR_NULL && second.peek_at("a", 1, t0).status() == AZUD_ERR_NULL);
    CHECK(second.check_batch(nullptr, 0, nullptr) == AZUD_ERR_NULL);
    CHECK(second.check_batch_at(nullptr, 0, t0, nullptr) == AZUD_ERR_NULL);
    CHECK(second.maintain() == AZUD_ERR_NULL && second.now() == 0 && second.stats().capacity == 0);
}

static void batches_are_singles() {
    const azud::limiter batched(limit), single(limit);
    std::vector<std::string> names;
    for (int i = 0; i < 500; ++i) names.push_back("client " + std::to_string(i % 17));
    std::vector<azud_call> calls;
    for (const std::string &name : names) calls.push_back(azud::call(name, name.size() % 3));
    std::vector<azud_decision> answers(calls.size());
    CHECK(batched.check_batch_at(calls.data(), calls.size(), t0, answers.data()) == AZUD_OK);
    for (std::size_t i = 0; i < names.size(); ++i) {
        const azud::decision alone = single.check_at(names[i], calls[i].cost, t0), together(answers[i]);
        CHECK(std::memcmp(&alone.raw(), &together.raw(), sizeof(azud_decision)) == 0);
    }

    const azud::limiter now("fixed-window 3/1h");
    const std::array<azud_call, 2> two = {azud::call("a"), azud::call("b", 4)};
    CHECK(now.check_batch(two.data(), two.size(), answers.data()) == AZUD_OK);
    CHECK(azud::decision(answers[0]).allowed() && !azud::decision(answers[1]).allowed());
}

static void counters() {
    const azud::limiter limiter(limit);
    CHECK(limiter.stats().keys == 0 && limiter.stats().struct_size == sizeof(azud_stats));
    CHECK(limiter.allow("a") && limiter.allow("b"));
    CHECK(limiter.stats().keys == 2);
    CHECK(limiter.maintain() == AZUD_OK);
}

static void threads_share_one_limit() {
    const azud::limiter limiter("token-bucket 100/1m burst=3000");
    std::atomic<int> allowed{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            for (int call = 0; call < 2000; ++call) allowed += limiter.allow_at("everybody", 1, t0);
        });
    for (std::thread &thread : threads) thread.join();
    CHECK(allowed == 3000);
}

static void versions() {
    CHECK(std::string(azud::version()).rfind(std::to_string(AZUD_VERSION_MAJOR) + ".", 0) == 0);
    CHECK(azud_version_number() == AZUD_VERSION_NUMBER && azud_abi_version() == AZUD_ABI_VERSION);
    CHECK(std::strlen(azud::status_text(AZUD_ERR_LIMIT)) > 0);
}

int main() {
    exact_answers();
    durations();
    the_system_s_clock();
    keys();
    failures_are_explained();
    one_owner();
    batches_are_singles();
    counters();
    threads_share_one_limit();
    versions();
    if (failures > 0) return 1;
    std::puts("C++: 10 tests passed");
    return 0;
}
