//! Status codes, and what the library says about its version.

use super::boundary::or_on_panic;
use std::ffi::{CStr, c_char};

/// Why a call failed. Every function that can fail returns one of these as a plain `int32_t`, and
/// everything below 0 is a failure; later versions may add codes, none is ever renumbered.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum azud_status {
    /// Done.
    AZUD_OK = 0,
    /// A pointer is NULL where it must not be.
    AZUD_ERR_NULL = -1,
    /// `struct_size` is smaller than the first version of the struct, or absurdly large.
    AZUD_ERR_SIZE = -2,
    /// The limit is refused; the error text says where and what was expected.
    AZUD_ERR_LIMIT = -3,
    /// An option is refused: an unknown flag, a reserved field that is not 0, a ceiling on memory that is
    /// too low for one group of keys, or more memory than the system gives.
    AZUD_ERR_OPTION = -4,
    /// The limit is not UTF-8.
    AZUD_ERR_UTF8 = -5,
    /// A bug in the library, stopped before it could reach the caller; the limiter stays usable.
    AZUD_ERR_PANIC = -6,
    /// A length or count beyond what any object can have (`PTRDIFF_MAX` bytes): often a -1 on its way
    /// through `size_t`.
    AZUD_ERR_LENGTH = -7,
}

use azud_status::{
    AZUD_ERR_LENGTH, AZUD_ERR_LIMIT, AZUD_ERR_NULL, AZUD_ERR_OPTION, AZUD_ERR_PANIC, AZUD_ERR_SIZE, AZUD_ERR_UTF8, AZUD_OK,
};

impl azud_status {
    const ALL: [azud_status; 8] =
        [AZUD_OK, AZUD_ERR_NULL, AZUD_ERR_SIZE, AZUD_ERR_LIMIT, AZUD_ERR_OPTION, AZUD_ERR_UTF8, AZUD_ERR_PANIC, AZUD_ERR_LENGTH];

    /// What it means, in a few words.
    pub(super) const fn text(self) -> &'static CStr {
        match self {
            AZUD_OK => c"done",
            AZUD_ERR_NULL => c"a pointer is NULL where it must not be",
            AZUD_ERR_SIZE => c"struct_size is not the size of a known version of the struct",
            AZUD_ERR_LIMIT => c"the limit is refused",
            AZUD_ERR_OPTION => c"an option is refused",
            AZUD_ERR_UTF8 => c"the limit is not UTF-8",
            AZUD_ERR_PANIC => c"a bug in the library was stopped",
            AZUD_ERR_LENGTH => c"a length is beyond what any object can have",
        }
    }
}

/// The version of this header. `azud_version_number` is the one of the library that runs.
pub const AZUD_VERSION_MAJOR: u32 = 0;
/// See `AZUD_VERSION_MAJOR`.
pub const AZUD_VERSION_MINOR: u32 = 1;
/// See `AZUD_VERSION_MAJOR`.
pub const AZUD_VERSION_PATCH: u32 = 0;
/// The version as one number, for comparisons: 1.2.3 is 1002003.
pub const AZUD_VERSION_NUMBER: u32 = AZUD_VERSION_MAJOR * 1_000_000 + AZUD_VERSION_MINOR * 1000 + AZUD_VERSION_PATCH;
/// The binary interface of this header, see `azud_abi_version`.
pub const AZUD_ABI_VERSION: u32 = 1;

// The macros above are literals, because cbindgen cannot evaluate env!; Cargo.toml is the truth.
const _: () = {
    assert!(AZUD_VERSION_MAJOR == decimal(env!("CARGO_PKG_VERSION_MAJOR")));
    assert!(AZUD_VERSION_MINOR == decimal(env!("CARGO_PKG_VERSION_MINOR")));
    assert!(AZUD_VERSION_PATCH == decimal(env!("CARGO_PKG_VERSION_PATCH")));
    assert!(AZUD_VERSION_MINOR < 1000 && AZUD_VERSION_PATCH < 1000);
};

const fn decimal(digits: &str) -> u32 {
    let (digits, mut value, mut i) = (digits.as_bytes(), 0, 0);
    while i < digits.len() {
        value = value * 10 + (digits[i] - b'0') as u32;
        i += 1;
    }
    value
}

/// The meaning of a status, in a few English words.
///
/// @param status  what a function returned: an azud_status, also one that this library does not know
/// @return        a static text, never NULL
///
/// Threads: any. Since: 0.1.0.
#[unsafe(no_mangle)]
pub extern "C" fn azud_status_text(status: i32) -> *const c_char {
    let text = || azud_status::ALL.iter().find(|known| **known as i32 == status).map_or(c"unknown status", |known| known.text());
    or_on_panic(c"unknown status", text).as_ptr()
}

/// The version of the library that runs, such as "0.1.0".
///
/// @return  a static text, never NULL
///
/// Threads: any. Since: 0.1.0.
#[unsafe(no_mangle)]
pub extern "C" fn azud_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The version of the library that runs, as AZUD_VERSION_NUMBER has it. A program that needs what
/// 0.2.0 brought checks `azud_version_number() >= 2000`.
///
/// @return  major * 1000000 + minor * 1000 + patch
///
/// Threads: any. Since: 0.1.0.
#[unsafe(no_mangle)]
pub extern "C" fn azud_version_number() -> u32 {
    AZUD_VERSION_NUMBER
}

/// The binary interface of the library that runs. It is raised only when a program built with an
/// older header could not run; new functions, and new fields in structs that begin with their size,
/// do not raise it. A program that loads the library at run time checks
/// `azud_abi_version() == AZUD_ABI_VERSION` before anything else.
///
/// @return  AZUD_ABI_VERSION of the library
///
/// Threads: any. Since: 0.1.0.
#[unsafe(no_mangle)]
pub extern "C" fn azud_abi_version() -> u32 {
    AZUD_ABI_VERSION
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pointer: *const c_char) -> &'static str {
        // SAFETY: what the functions of this file return is static and ends in a NUL.
        unsafe { CStr::from_ptr(pointer) }.to_str().unwrap()
    }

    #[test]
    fn statuses_have_the_numbers_that_were_released() {
        let numbers = azud_status::ALL.map(|status| status as i32);
        assert_eq!(numbers, [0, -1, -2, -3, -4, -5, -6, -7]);
    }

    #[test]
    fn every_status_has_a_text_of_its_own() {
        let mut texts: Vec<_> = azud_status::ALL.iter().map(|status| text(azud_status_text(*status as i32))).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), azud_status::ALL.len());
        assert!(texts.iter().all(|text| !text.is_empty() && *text != "unknown status"));
        for unknown in [1, -8, i32::MIN, i32::MAX] {
            assert_eq!(text(azud_status_text(unknown)), "unknown status");
        }
    }

    #[test]
    fn the_version_number_is_made_of_the_parts_of_the_version() {
        assert_eq!(text(azud_version()), env!("CARGO_PKG_VERSION"));
        let parts: Vec<u32> = env!("CARGO_PKG_VERSION").split('.').map(|part| part.parse().unwrap()).collect();
        assert_eq!(azud_version_number(), parts[0] * 1_000_000 + parts[1] * 1000 + parts[2]);
        assert_eq!(azud_version_number(), AZUD_VERSION_NUMBER);
        assert_eq!(azud_abi_version(), AZUD_ABI_VERSION);
    }
}
