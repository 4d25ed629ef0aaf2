//! The handle: make, free, count, maintain.
//!
//! A handle ends while nobody uses it: that is the caller's duty, stated in the header. A debug build
//! of the library traps the breach (a second free, a call beside or after the free) by ending the
//! process with a message. For that it keeps the shell of a freed handle, and counts calls in a lock
//! that is only ever tried, so that nobody waits. A release build has none of it.

use super::boundary::{ErrorText, call, or_on_panic, text, write_sized};
use super::options::{azud_options, azud_stats};
use super::status::azud_status::{self, AZUD_ERR_LIMIT, AZUD_ERR_NULL, AZUD_ERR_OPTION, AZUD_OK};
use crate::{Limit, Limiter};
use std::ffi::c_char;
use std::ops::Deref;
use std::ptr;
#[cfg(debug_assertions)]
use std::sync::{RwLock, RwLockReadGuard};

/// A limiter: one limit over any number of keys. Opaque; made by azud_limiter_new, ended by
/// azud_limiter_free.
pub struct azud_limiter {
    engine: Engine,
}

#[cfg(not(debug_assertions))]
type Engine = Limiter;
/// `None` once the handle is freed.
#[cfg(debug_assertions)]
type Engine = RwLock<Option<Limiter>>;

/// A limiter while a call uses it.
pub(super) struct InUse<'a> {
    #[cfg(not(debug_assertions))]
    engine: &'a Limiter,
    #[cfg(debug_assertions)]
    engine: RwLockReadGuard<'a, Option<Limiter>>,
}

// What a `const` handle promises to C: any thread, and many at once.
const _: fn() = || {
    fn any_thread<T: Send + Sync>() {}
    any_thread::<azud_limiter>();
};

impl<'a> InUse<'a> {
    /// # Safety
    /// `handle` is NULL, or was made by `azud_limiter_new` and lives for `'a`.
    pub(super) unsafe fn new(handle: *const azud_limiter) -> Result<InUse<'a>, azud_status> {
        // SAFETY: NULL, or a handle that the caller vouches for; nobody has it mutably.
        let handle: &'a azud_limiter = unsafe { handle.as_ref() }.ok_or(AZUD_ERR_NULL)?;
        #[cfg(not(debug_assertions))]
        let engine = &handle.engine;
        #[cfg(debug_assertions)]
        let engine = match handle.engine.try_read() {
            Ok(engine) if engine.is_some() => engine,
            _ => trap("a limiter was used after azud_limiter_free, or beside it"),
        };
        Ok(InUse { engine })
    }
}

impl Deref for InUse<'_> {
    type Target = Limiter;

    #[cfg(not(debug_assertions))]
    fn deref(&self) -> &Limiter {
        self.engine
    }

    #[cfg(debug_assertions)]
    fn deref(&self) -> &Limiter {
        self.engine.as_ref().expect("only a free makes it None, and none runs beside a reader")
    }
}

impl azud_limiter {
    fn new(engine: Limiter) -> azud_limiter {
        #[cfg(debug_assertions)]
        let engine = RwLock::new(Some(engine));
        azud_limiter { engine }
    }

    /// # Safety
    /// `handle` was made by `azud_limiter_new`, nobody uses it, and it is not used again.
    #[cfg(not(debug_assertions))]
    unsafe fn end(handle: *mut azud_limiter) {
        // SAFETY: the handle was made from a Box, and the caller gives up the only use of it.
        drop(unsafe { Box::from_raw(handle) });
    }

    /// # Safety
    /// `handle` was made by `azud_limiter_new`.
    #[cfg(debug_assertions)]
    unsafe fn end(handle: *mut azud_limiter) {
        // SAFETY: the shell of a handle lives for ever in this build, and is never had mutably.
        let handle = unsafe { &*handle };
        match handle.engine.try_write().map(|mut engine| engine.take()) {
            Ok(Some(engine)) => drop(engine),
            Ok(None) => trap("azud_limiter_free was called twice on one limiter"),
            Err(_) => trap("azud_limiter_free was called while another call used the limiter"),
        }
    }
}

#[cfg(debug_assertions)]
fn trap(breach: &str) -> ! {
    eprintln!("azud: {breach}");
    std::process::abort()
}

/// Makes a limiter.
///
/// @param limit    the limit, a text of the language at the head of this file
/// @param options  settings, or NULL for the defaults
/// @param out      receives the limiter, or NULL on failure; end it with azud_limiter_free
/// @param errbuf   receives why the call failed (the empty text when it did not), in English with the
///                 position in `limit`: at most `errlen` bytes, always ended by a NUL, cut between
///                 characters if need be; 160 bytes hold most messages. May be NULL with `errlen` 0
/// @param errlen   the size of `errbuf` in bytes
/// @return         AZUD_OK; AZUD_ERR_NULL (`limit`, `out`, or `errbuf` with an `errlen`);
///                 AZUD_ERR_UTF8, AZUD_ERR_LIMIT (`limit`); AZUD_ERR_SIZE, AZUD_ERR_OPTION (`options`);
///                 AZUD_ERR_LENGTH (`errlen`); AZUD_ERR_PANIC
///
/// Nothing exists after a failure. `limit` and `options` are copied and may go.
///
/// Threads: any. Since: 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn azud_limiter_new(
    limit: *const c_char,
    options: *const azud_options,
    out: *mut *mut azud_limiter,
    errbuf: *mut c_char,
    errlen: usize,
) -> i32 {
    call(|| {
        if !out.is_null() {
            // SAFETY: not NULL; the caller hands over a place for a handle.
            unsafe { out.write(ptr::null_mut()) };
        }
        // SAFETY: the header asks for `errlen` bytes at `errbuf`, which are ours during the call.
        let mut why = unsafe { ErrorText::new(errbuf, errlen) }?;
        // SAFETY: the header asks for a text that ends in a NUL, and for options of their stated size.
        let made = unsafe { make(limit, options) };
        let made = made.and_then(|engine| if out.is_null() { Err(AZUD_ERR_NULL.into()) } else { Ok(engine) });
        match made {
            Ok(engine) => {
                let handle = Box::into_raw(Box::new(azud_limiter::new(engine)));
                // SAFETY: `out` is not NULL, as seen above.
                unsafe { out.write(handle) };
                Ok(AZUD_OK as i32)
            }
            Err(failure) => {
                why.write(&failure.why);
                Err(failure.status)
            }
        }
    })
}

/// A status, and the words for the caller's buffer.
struct Failure {
    status: azud_status,
    why: String,
}

impl From<azud_status> for Failure {
    fn from(status: azud_status) -> Failure {
        Failure { status, why: status.text().to_string_lossy().into_owned() }
    }
}

/// # Safety
/// As `azud_limiter_new` asks of both.
unsafe fn make(limit: *const c_char, options: *const azud_options) -> Result<Limiter, Failure> {
    // SAFETY: NULL, or ends in a NUL.
    let limit = unsafe { text(limit) }?;
    let limit = limit.parse::<Limit>().map_err(|error| Failure { status: AZUD_ERR_LIMIT, why: error.to_string() })?;
    // SAFETY: NULL, or as many bytes as stated.
    let options = unsafe { azud_options::read(options) }?;
    let builder = options.apply(Limiter::builder(limit));
    builder.build().map_err(|error| Failure { status: AZUD_ERR_OPTION, why: error.to_string() })
}

/// Ends a limiter and gives its memory back.
///
/// @param limiter  the limiter, or NULL (nothing happens)
///
/// Threads: one, once; no other call on the same limiter may run at the same time or come later.
/// A debug build of the library ends the process with a message when this is broken.
/// Since: 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn azud_limiter_free(limiter: *mut azud_limiter) {
    if limiter.is_null() {
        return;
    }
    // SAFETY: not NULL, and the header asks for a handle that nobody uses.
    or_on_panic((), || unsafe { azud_limiter::end(limiter) });
}

/// Reads the counters of a limiter. It takes no lock and stops nobody.
///
/// @param limiter  the limiter
/// @param stats    AZUD_STATS_INIT; receives the counters, as many as its `struct_size` has room for,
///                 and zeros in what this library does not know
/// @return         AZUD_OK; AZUD_ERR_NULL; AZUD_ERR_SIZE; AZUD_ERR_PANIC
///
/// Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn azud_limiter_stats(limiter: *const azud_limiter, stats: *mut azud_stats) -> i32 {
    call(|| {
        // SAFETY: the header asks for a limiter that lives.
        let limiter = unsafe { InUse::new(limiter) }?;
        let counters = azud_stats::from(limiter.statistics());
        // SAFETY: the header asks for a struct of its stated size, ours during the call.
        unsafe { write_sized(stats, &counters) }?;
        Ok(AZUD_OK as i32)
    })
}

/// Gives memory of idle keys back. Calls that decide do this as they go: only a process whose traffic
/// stops needs it, say once a minute.
///
/// @param limiter  the limiter
/// @return         AZUD_OK; AZUD_ERR_NULL; AZUD_ERR_PANIC
///
/// Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn azud_limiter_maintain(limiter: *const azud_limiter) -> i32 {
    call(|| {
        // SAFETY: the header asks for a limiter that lives.
        let limiter = unsafe { InUse::new(limiter) }?;
        limiter.maintain();
        Ok(AZUD_OK as i32)
    })
}

/// Reads the clock that the calls without `_at` use.
///
/// @param limiter  the limiter
/// @return         nanoseconds since the Unix epoch; 0 for NULL
///
/// Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn azud_limiter_now(limiter: *const azud_limiter) -> u64 {
    or_on_panic(0, || {
        // SAFETY: the header asks for a limiter that lives.
        unsafe { InUse::new(limiter) }.map_or(0, |limiter| limiter.now())
    })
}

/// EMB-13: what the header forbids is trapped in this build, before anything is touched.
#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;
    use std::process::Command;

    fn made() -> *mut azud_limiter {
        let mut handle = ptr::null_mut();
        // SAFETY: a text, a place for a handle, and no buffer.
        let status = unsafe { azud_limiter_new(c"fixed-window 1/1s".as_ptr(), ptr::null(), &raw mut handle, ptr::null_mut(), 0) };
        assert_eq!(status, 0);
        handle
    }

    /// What the process says that runs `breach`, which is the test `name` again.
    fn last_words(name: &str, breach: fn()) -> String {
        if std::env::var_os("AZUD_TEST_BREACH").is_some() {
            breach();
            std::process::exit(0);
        }
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "--nocapture", &format!("ffi::limiter::tests::{name}")]).env("AZUD_TEST_BREACH", "1");
        let run = again.output().unwrap();
        assert!(!run.status.success(), "the breach went unnoticed");
        String::from_utf8_lossy(&run.stderr).into_owned()
    }

    #[test]
    fn a_second_free_is_trapped() {
        let said = last_words("a_second_free_is_trapped", || {
            let handle = made();
            // SAFETY: a handle, whose shell stays in this build.
            unsafe { azud_limiter_free(handle) };
            // SAFETY: as above; the trap ends the process.
            unsafe { azud_limiter_free(handle) };
        });
        assert!(said.contains("azud_limiter_free was called twice"), "{said}");
    }

    #[test]
    fn a_call_after_the_free_is_trapped() {
        let said = last_words("a_call_after_the_free_is_trapped", || {
            let handle = made();
            // SAFETY: a handle, whose shell stays in this build.
            unsafe { azud_limiter_free(handle) };
            // SAFETY: as above; the trap ends the process.
            unsafe { azud_limiter_now(handle) };
        });
        assert!(said.contains("used after azud_limiter_free"), "{said}");
    }

    #[test]
    fn a_free_beside_a_call_is_trapped() {
        let said = last_words("a_free_beside_a_call_is_trapped", || {
            let handle = made();
            // SAFETY: a handle that lives.
            let call = unsafe { InUse::new(handle) };
            // SAFETY: a handle that lives; the trap ends the process.
            unsafe { azud_limiter_free(handle) };
            drop(call);
        });
        assert!(said.contains("while another call used the limiter"), "{said}");
    }

    #[test]
    fn what_is_allowed_is_not_trapped() {
        let handle = made();
        std::thread::scope(|scope| {
            let shared = handle as usize;
            for _ in 0..4 {
                // SAFETY: the handle lives until all threads have ended.
                scope.spawn(move || (0..1000).for_each(|_| assert!(unsafe { azud_limiter_now(shared as *const _) } > 0)));
            }
        });
        // SAFETY: a handle that nobody uses any more, and NULL.
        unsafe { azud_limiter_free(handle) };
        // SAFETY: NULL is allowed.
        unsafe { azud_limiter_free(ptr::null_mut()) };
    }
}
