// azud for C++17: the C interface of azud.h with an owner, strings and durations. Header only.
//
//     azud::limiter limiter("token-bucket 100/1m burst=20");
//     if (azud::decision answer = limiter.check(client_address)) {
//         serve();
//     } else {
//         refuse(429, answer.retry_after_seconds());
//     }
//
// azud.h is the manual: what a limit says, how time is judged, which numbers mean what. Here is only
// what C++ adds:
//
//   Owner      azud::limiter is move-only and ends its limiter. A moved-from one may be assigned or
//              destroyed; its other calls answer AZUD_ERR_NULL or, where there is no status, refuse.
//   Threads    const calls run from any number of threads at once. Moving, assigning and destroying
//              need the object alone.
//   Exceptions only the constructors throw. `create` does the same without, and the calls that decide
//              are noexcept.

#ifndef AZUD_HPP
#define AZUD_HPP

#include "azud.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace azud {

// Why a call was answered as it was.
enum class reason : std::int32_t {
    allowed = AZUD_ALLOWED,
    limited = AZUD_LIMITED,
    cost_above_limit = AZUD_COST_ABOVE_LIMIT,
    never_refills = AZUD_NEVER_REFILLS,
};

// The meaning of an azud_status.
inline const char *status_text(std::int32_t status) noexcept { return azud_status_text(status); }

// The version of the library that runs, such as "0.1.0".
inline const char *version() noexcept { return azud_version(); }

// A wait of azud.h as a duration; nothing for AZUD_NEVER. The longest waits, beyond what the duration
// can say (292 years), are its maximum.
inline std::optional<std::chrono::nanoseconds> wait(std::uint64_t ns) noexcept {
    constexpr auto most = std::chrono::nanoseconds::max();
    if (ns == AZUD_NEVER) return std::nullopt;
    if (ns > static_cast<std::uint64_t>(most.count())) return most;
    return std::chrono::nanoseconds(static_cast<std::chrono::nanoseconds::rep>(ns));
}

// A time of the system's clock as the `now_ns` of the calls in _at; what lies before 1970 is 0.
inline std::uint64_t since_epoch(std::chrono::system_clock::time_point time) noexcept {
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
    return ns < 0 ? 0 : static_cast<std::uint64_t>(ns);
}

// The answer to one call.
class decision {
public:
    // From an answer of the C interface; `status` below 0 says that there is none, and reads as refused.
    explicit decision(const azud_decision &raw, std::int32_t status = AZUD_OK) noexcept : raw_(raw), status_(status) {}

    bool allowed() const noexcept { return status_ >= 0 && raw_.allowed == 1; }
    explicit operator bool() const noexcept { return allowed(); }

    // AZUD_OK; below 0, the call failed, was refused for that, and the rest is zeros.
    std::int32_t status() const noexcept { return status_ < 0 ? status_ : static_cast<std::int32_t>(AZUD_OK); }

    azud::reason reason() const noexcept { return static_cast<azud::reason>(raw_.reason); }

    // The largest cost that the limit can ever hold.
    std::uint64_t limit() const noexcept { return raw_.limit; }

    // The largest cost that would pass now, after this call.
    std::uint64_t remaining() const noexcept { return raw_.remaining; }

    // The least wait after which the same call is allowed; nothing when no wait helps.
    std::optional<std::chrono::nanoseconds> retry_after() const noexcept { return wait(raw_.retry_after_ns); }

    // The same in whole seconds, rounded up: what the header field Retry-After wants.
    std::optional<std::chrono::seconds> retry_after_seconds() const noexcept {
        constexpr std::uint64_t second = 1000000000;
        if (raw_.retry_after_ns == AZUD_NEVER) return std::nullopt;
        const std::uint64_t seconds = raw_.retry_after_ns / second + (raw_.retry_after_ns % second != 0);
        return std::chrono::seconds(static_cast<std::chrono::seconds::rep>(seconds));
    }

    // The time until the key is as good as never used; nothing for never.
    std::optional<std::chrono::nanoseconds> reset_after() const noexcept { return wait(raw_.reset_after_ns); }

    // How long the caller must hold an allowed call back.
    std::chrono::nanoseconds delay() const noexcept {
        return wait(raw_.delay_ns).value_or(std::chrono::nanoseconds::max());
    }

    const azud_decision &raw() const noexcept { return raw_; }

private:
    azud_decision raw_;
    std::int32_t status_;
};

// One call of a batch. The key is not copied: it has to live until the batch is done.
inline azud_call call(std::string_view key, std::uint64_t cost = 1) noexcept {
    return azud_call{key.data(), key.size(), cost};
}

// Why a limiter could not be made: an azud_status, and in English with the position in the limit.
struct failure {
    std::int32_t status = AZUD_OK;
    char message[256] = "";
};

// The same as an exception.
class error : public std::runtime_error {
public:
    explicit error(const failure &why) : std::runtime_error(why.message), status_(why.status) {}

    std::int32_t status() const noexcept { return status_; }

private:
    std::int32_t status_;
};

// One limit over any number of keys.
class limiter {
public:
    // Throws azud::error. `options` begin as AZUD_OPTIONS_INIT; without them, the defaults.
    explicit limiter(const char *limit, const azud_options *options = nullptr) {
        failure why;
        if (!make(limit, options, why)) throw error(why);
    }

    explicit limiter(const std::string &limit, const azud_options *options = nullptr)
        : limiter(limit.c_str(), options) {}

    // The same without an exception: nothing, and the reason in `why`, on failure.
    static std::optional<limiter> create(const char *limit, const azud_options *options = nullptr,
                                         failure *why = nullptr) noexcept {
        failure unread;
        limiter made;
        if (!made.make(limit, options, why == nullptr ? unread : *why)) return std::nullopt;
        return std::optional<limiter>(std::move(made));
    }

    // Whether it has a limiter: false when moved from.
    explicit operator bool() const noexcept { return handle_ != nullptr; }

    // For the calls of azud.h; still owned.
    const azud_limiter *get() const noexcept { return handle_.get(); }

    // Charges `cost` to `key`: true when allowed. An error refuses; `check` tells it from a refusal.
    [[nodiscard]] bool allow(std::string_view key, std::uint64_t cost = 1) const noexcept {
        return azud_allow(get(), key.data(), key.size(), cost) == 1;
    }

    [[nodiscard]] bool allow_at(std::string_view key, std::uint64_t cost, std::uint64_t now_ns) const noexcept {
        return azud_allow_at(get(), key.data(), key.size(), cost, now_ns) == 1;
    }

    // Charges `cost` to `key`, and tells all about it.
    [[nodiscard]] decision check(std::string_view key, std::uint64_t cost = 1) const noexcept {
        azud_decision raw = {};
        const std::int32_t status = azud_check(get(), key.data(), key.size(), cost, &raw);
        return decision(raw, status);
    }

    [[nodiscard]] decision check_at(std::string_view key, std::uint64_t cost, std::uint64_t now_ns) const noexcept {
        azud_decision raw = {};
        const std::int32_t status = azud_check_at(get(), key.data(), key.size(), cost, now_ns, &raw);
        return decision(raw, status);
    }

    // What `check` would answer, without charging.
    [[nodiscard]] decision peek(std::string_view key, std::uint64_t cost = 1) const noexcept {
        azud_decision raw = {};
        const std::int32_t status = azud_peek(get(), key.data(), key.size(), cost, &raw);
        return decision(raw, status);
    }

    [[nodiscard]] decision peek_at(std::string_view key, std::uint64_t cost, std::uint64_t now_ns) const noexcept {
        azud_decision raw = {};
        const std::int32_t status = azud_peek_at(get(), key.data(), key.size(), cost, now_ns, &raw);
        return decision(raw, status);
    }

    // Many calls with one reading of the clock: `count` answers to `out`, for azud::decision to read.
    // AZUD_OK, or an azud_status and `out` untouched.
    [[nodiscard]] std::int32_t check_batch(const azud_call *calls, std::size_t count, azud_decision *out) const noexcept {
        return azud_check_batch(get(), calls, count, out);
    }

    [[nodiscard]] std::int32_t check_batch_at(const azud_call *calls, std::size_t count, std::uint64_t now_ns,
                                              azud_decision *out) const noexcept {
        return azud_check_batch_at(get(), calls, count, now_ns, out);
    }

    // The counters; zeros when moved from.
    azud_stats stats() const noexcept {
        azud_stats stats = AZUD_STATS_INIT;
        (void)azud_limiter_stats(get(), &stats);
        return stats;
    }

    // Gives memory of idle keys back, for a process whose traffic stops.
    std::int32_t maintain() const noexcept { return azud_limiter_maintain(get()); }

    // The clock of the calls without _at, in nanoseconds since the Unix epoch.
    std::uint64_t now() const noexcept { return azud_limiter_now(get()); }

private:
    struct freed {
        void operator()(azud_limiter *handle) const noexcept { azud_limiter_free(handle); }
    };

    limiter() noexcept = default;

    bool make(const char *limit, const azud_options *options, failure &why) noexcept {
        azud_limiter *made = nullptr;
        why.status = azud_limiter_new(limit, options, &made, why.message, sizeof why.message);
        handle_.reset(made);
        return made != nullptr;
    }

    std::unique_ptr<azud_limiter, freed> handle_;
};

}  // namespace azud

#endif  // AZUD_HPP
