//! The border between C and Rust: nothing here knows what a limiter is.
//!
//! | what C hands over | what becomes of it |
//! |---|---|
//! | a body that may panic | [`or_on_panic`], [`call`]: the panic ends here |
//! | `(pointer, length)` | [`slice`], [`bytes`]: a slice; empty for length 0, whatever the pointer |
//! | a text | [`text`]: UTF-8 |
//! | `(errbuf, errlen)` | [`ErrorText`]: always ends in a NUL, never in half a character |
//! | a struct that begins with its size | [`read_sized`], [`write_sized`] |

use super::status::azud_status::{
    self, AZUD_ERR_LENGTH, AZUD_ERR_NULL, AZUD_ERR_OPTION, AZUD_ERR_PANIC, AZUD_ERR_SIZE, AZUD_ERR_UTF8,
};
use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::slice::from_raw_parts;

/// Runs the body of an export; a panic becomes `value`.
///
/// `AssertUnwindSafe`: what a body can leave half done is either its own or a limiter, and every
/// state of a limiter between two steps is one that the next call can go on from.
pub(super) fn or_on_panic<T>(value: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(value)
}

/// Runs the body of an export that answers with a number or a status.
pub(super) fn call(body: impl FnOnce() -> Result<i32, azud_status>) -> i32 {
    or_on_panic(Err(AZUD_ERR_PANIC), body).unwrap_or_else(|status| status as i32)
}

/// `AZUD_ERR_NULL` for a pointer that must not be NULL.
pub(super) fn not_null<T>(pointer: *const T) -> Result<(), azud_status> {
    if pointer.is_null() { Err(AZUD_ERR_NULL) } else { Ok(()) }
}

/// The `len` values at `pointer`, which may be NULL only when there are none.
///
/// # Safety
/// A pointer that is not NULL leads to `len` values that stay as they are for `'a`.
pub(super) unsafe fn slice<'a, T>(pointer: *const T, len: usize) -> Result<&'a [T], azud_status> {
    if len == 0 {
        return Ok(&[]);
    }
    not_null(pointer)?;
    if len > isize::MAX.unsigned_abs() / size_of::<T>() {
        return Err(AZUD_ERR_LENGTH);
    }
    // SAFETY: not NULL, no longer than an object can be, and the caller vouches for the rest.
    Ok(unsafe { from_raw_parts(pointer, len) })
}

/// The `len` bytes of a key.
///
/// # Safety
/// As for [`slice`].
pub(super) unsafe fn bytes<'a>(pointer: *const c_void, len: usize) -> Result<&'a [u8], azud_status> {
    // SAFETY: the caller's promise is the one that `slice` asks for.
    unsafe { slice(pointer.cast(), len) }
}

/// A text that ends in a NUL.
///
/// # Safety
/// A pointer that is not NULL leads to bytes up to a NUL that stay as they are for `'a`.
pub(super) unsafe fn text<'a>(pointer: *const c_char) -> Result<&'a str, azud_status> {
    not_null(pointer)?;
    // SAFETY: not NULL, and the caller vouches for the NUL.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| AZUD_ERR_UTF8)
}

/// Where an error is explained to the caller.
pub(super) struct ErrorText {
    buffer: *mut u8,
    len: usize,
}

impl ErrorText {
    /// The caller's buffer, with the empty text in it.
    ///
    /// # Safety
    /// A `buffer` that is not NULL leads to `len` bytes that are the callee's alone until it returns.
    pub(super) unsafe fn new(buffer: *mut c_char, len: usize) -> Result<ErrorText, azud_status> {
        if len > 0 {
            not_null(buffer)?;
        }
        if len > isize::MAX.unsigned_abs() {
            return Err(AZUD_ERR_LENGTH);
        }
        let mut this = ErrorText { buffer: buffer.cast(), len };
        this.write("");
        Ok(this)
    }

    /// Writes as many whole characters of `text` as fit, and a NUL.
    pub(super) fn write(&mut self, text: &str) {
        let Some(room) = self.len.checked_sub(1) else { return };
        let kept = &text.as_bytes()[..text.floor_char_boundary(room)];
        // SAFETY: at most `room` bytes into a buffer that `new` was promised to be ours for one more;
        // Rust holds no reference into it, so the text cannot overlap it.
        unsafe { ptr::copy_nonoverlapping(kept.as_ptr(), self.buffer, kept.len()) };
        // SAFETY: `kept.len() <= room < self.len`.
        let end = unsafe { self.buffer.add(kept.len()) };
        // SAFETY: as above, inside the buffer.
        unsafe { end.write(0) };
    }
}

/// A struct of integers whose first field, a `u32`, is its size in bytes.
///
/// It only grows, at its end, and zero means the default in every field: so a caller built with
/// another version of the header is understood, field for field.
///
/// # Safety
/// `repr(C)` with integers and arrays of integers alone, without padding, first field `u32`.
pub(super) unsafe trait SizedStruct: Copy {
    /// The size of the first version; nobody has a smaller one.
    const FIRST_SIZE: usize;
}

/// No struct of any version is larger. It keeps a size that was never set from leading us through
/// gigabytes of the caller's memory.
const MAX_STRUCT_SIZE: usize = 4096;

/// The size that the caller states.
///
/// # Safety
/// `pointer` is NULL, or leads to a `u32`.
unsafe fn stated_size<T: SizedStruct>(pointer: *const T) -> Result<usize, azud_status> {
    not_null(pointer)?;
    // SAFETY: not NULL; only the first field is read, since the caller's struct may end before ours.
    let size = unsafe { pointer.cast::<u32>().read() } as usize;
    if (T::FIRST_SIZE..=MAX_STRUCT_SIZE).contains(&size) { Ok(size) } else { Err(AZUD_ERR_SIZE) }
}

/// The caller's struct as this version knows it: what an older caller lacks is zero, and what a newer
/// one has beyond it must be.
///
/// # Safety
/// `pointer` is NULL, or leads to a `u32` and to as many bytes as that says, all initialised.
pub(super) unsafe fn read_sized<T: SizedStruct>(pointer: *const T) -> Result<T, azud_status> {
    // SAFETY: the caller's promise.
    let size = unsafe { stated_size(pointer) }?;
    // SAFETY: the caller vouches for `size` initialised bytes.
    let theirs = unsafe { from_raw_parts(pointer.cast::<u8>(), size) };
    let (known, unknown) = theirs.split_at(size.min(size_of::<T>()));
    if unknown.iter().any(|byte| *byte != 0) {
        return Err(AZUD_ERR_OPTION);
    }
    let mut ours = MaybeUninit::<T>::zeroed();
    // SAFETY: `known` is no longer than `T`, and `ours` was made above.
    unsafe { ptr::copy_nonoverlapping(known.as_ptr(), ours.as_mut_ptr().cast::<u8>(), known.len()) };
    // SAFETY: integers alone (`SizedStruct`): zeros, and the caller's bytes over them, are values.
    Ok(unsafe { ours.assume_init() })
}

/// Fills the caller's struct from `ours`, its stated size kept: an older caller gets the beginning, a
/// newer one zeros after what this version knows.
///
/// # Safety
/// `pointer` is NULL, or leads to a `u32` and to as many bytes as that says, the callee's alone until
/// it returns.
pub(super) unsafe fn write_sized<T: SizedStruct>(pointer: *mut T, ours: &T) -> Result<(), azud_status> {
    // SAFETY: the caller's promise.
    let size = unsafe { stated_size(pointer) }?;
    let head = size_of::<u32>();
    let theirs = pointer.cast::<u8>().wrapping_add(head);
    // SAFETY: the caller vouches for `size` bytes, at least FIRST_SIZE, from the start of its struct.
    unsafe { ptr::write_bytes(theirs, 0, size - head) };
    let known = size.min(size_of::<T>());
    // SAFETY: `ours` has size_of::<T>() initialised bytes, for want of padding (`SizedStruct`).
    let ours = unsafe { from_raw_parts(ptr::from_ref(ours).cast::<u8>(), known) };
    // SAFETY: `known <= size` bytes, after the size that stays the caller's.
    unsafe { ptr::copy_nonoverlapping(ours[head..].as_ptr(), theirs, known - head) };
    Ok(())
}

#[cfg(test)]
#[allow(clippy::multiple_unsafe_ops_per_block, reason = "one reason holds for all calls of a test")]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_at_the_border() {
        assert_eq!(call(|| panic!("on purpose")), AZUD_ERR_PANIC as i32);
        assert_eq!(or_on_panic(7, || panic!("on purpose")), 7);
        assert_eq!(call(|| Ok(1)), 1);
        assert_eq!(call(|| Err(AZUD_ERR_SIZE)), -2);
    }

    #[test]
    fn null_is_a_slice_only_when_nothing_is_asked_of_it() {
        let one = 1_u64;
        // SAFETY: NULL, lengths that are refused before the pointer is used, and one value that lives.
        unsafe {
            assert_eq!(slice::<u64>(ptr::null(), 0), Ok(&[][..]));
            assert_eq!(slice::<u64>(ptr::null(), 1), Err(AZUD_ERR_NULL));
            assert_eq!(slice(&raw const one, 0), Ok(&[][..]));
            assert_eq!(slice(&raw const one, 1), Ok(&[1][..]));
            assert_eq!(slice(&raw const one, usize::MAX), Err(AZUD_ERR_LENGTH));
            assert_eq!(slice(&raw const one, isize::MAX.unsigned_abs() / 8 + 1), Err(AZUD_ERR_LENGTH));
            assert_eq!(bytes((&raw const one).cast(), usize::MAX), Err(AZUD_ERR_LENGTH));
        }
    }

    #[test]
    fn an_error_text_always_ends_and_never_in_half_a_character() {
        let text = "aé€😀"; // 1, 2, 3 and 4 bytes
        for len in 0..16 {
            let mut buffer = [0xFF_u8; 16];
            // SAFETY: the first `len` bytes of a buffer that is ours.
            unsafe { ErrorText::new(buffer.as_mut_ptr().cast(), len) }.unwrap().write(text);
            let (inside, outside) = buffer.split_at(len);
            assert!(outside.iter().all(|byte| *byte == 0xFF), "wrote beyond {len} bytes");
            let Some(room) = len.checked_sub(1) else { continue };
            let written = CStr::from_bytes_until_nul(inside).unwrap().to_str().unwrap();
            let fitting = text.char_indices().map(|(at, c)| at + c.len_utf8()).filter(|end| *end <= room).max();
            assert_eq!(written, &text[..fitting.unwrap_or(0)]);
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(C)]
    struct First {
        struct_size: u32,
        flags: u32,
        early: u64,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(C)]
    struct Second {
        first: First,
        late: u64,
    }

    // SAFETY: integers alone, 4 + 4 + 8 bytes and 8 more, the size in front.
    unsafe impl SizedStruct for First {
        const FIRST_SIZE: usize = 16;
    }
    // SAFETY: as above.
    unsafe impl SizedStruct for Second {
        const FIRST_SIZE: usize = 16;
    }

    const OLD: First = First { struct_size: 16, flags: 3, early: 5 };

    fn new(late: u64) -> Second {
        Second { first: First { struct_size: 24, ..OLD }, late }
    }

    /// EMB-15: a program that was built before `late` existed meets a library that reads it.
    #[test]
    fn an_older_caller_gets_defaults_for_what_it_lacks() {
        let exact: Box<First> = Box::new(OLD);
        // SAFETY: 16 bytes, as the struct says.
        let seen = unsafe { read_sized::<Second>((&raw const *exact).cast()) };
        assert_eq!(seen, Ok(Second { first: OLD, late: 0 }));
    }

    #[test]
    fn a_newer_caller_passes_while_it_asks_for_nothing_new() {
        // SAFETY: 24 bytes each, as the structs say.
        unsafe {
            let read = |from: &Second| read_sized::<First>(ptr::from_ref(from).cast());
            assert_eq!(read(&new(0)), Ok(First { struct_size: 24, ..OLD }));
            assert_eq!(read(&new(1)), Err(AZUD_ERR_OPTION));
            assert_eq!(read(&new(1 << 63)), Err(AZUD_ERR_OPTION));
        }
    }

    #[test]
    fn a_size_that_was_never_set_is_refused_before_anything_is_read() {
        for struct_size in [0, 1, 15, 4097, 0xCCCC_CCCC, u32::MAX] {
            let mut theirs = First { struct_size, ..OLD };
            let before = theirs;
            // SAFETY: the sizes are refused; only the first field is read.
            unsafe {
                assert_eq!(read_sized(&raw const theirs), Err(AZUD_ERR_SIZE));
                assert_eq!(write_sized(&raw mut theirs, &OLD), Err(AZUD_ERR_SIZE));
            }
            assert_eq!(theirs, before);
        }
        // SAFETY: NULL is allowed.
        unsafe {
            assert_eq!(read_sized::<First>(ptr::null()), Err(AZUD_ERR_NULL));
            assert_eq!(write_sized(ptr::null_mut(), &OLD), Err(AZUD_ERR_NULL));
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(C)]
    struct Third {
        second: Second,
        later: u64,
    }

    #[test]
    fn what_is_written_fits_the_caller() {
        let ours = Second { first: First { struct_size: 0, flags: 30, early: 50 }, late: 70 };
        let mut older = new(1);
        older.first.struct_size = 16;
        let mut newer = Third { second: new(1), later: 1 };
        newer.second.first.struct_size = 32;
        // SAFETY: `older` has more bytes than it states, `newer` as many.
        unsafe {
            assert_eq!(write_sized(&raw mut older, &ours), Ok(()));
            assert_eq!(write_sized((&raw mut newer).cast::<Second>(), &ours), Ok(()));
        }
        assert_eq!(older, Second { first: First { struct_size: 16, ..ours.first }, late: 1 });
        assert_eq!(newer, Third { second: Second { first: First { struct_size: 32, ..ours.first }, late: 70 }, later: 0 });
    }
}
