//! The C ABI. `include/azud.h` is made from these files by cbindgen and is what a C programmer
//! reads; the comments on the exported items are written for that reader.
//!
//! The conventions, each kept by every function:
//!
//! | matter | rule |
//! |---|---|
//! | names | functions and types `azud_*`, constants and macros `AZUD_*`; nothing else is exported |
//! | handles | opaque; made by `_new`, ended by `_free`; freeing NULL does nothing |
//! | threads | a `const` handle: any number of threads at once; a plain one: this call alone |
//! | answers | hot calls: 1 allowed, 0 refused; others: 0 done; below 0 always an `azud_status` |
//! | outputs | written on success only, except the handle (NULL on failure) and the error text |
//! | NULL | refused with a status, never followed; `(pointer, length)` may be `(NULL, 0)` |
//! | structs | what the caller fills begins with its size, ends in reserved zeros, and only grows |
//! | integers | fixed width, `size_t` for lengths; no `bool`, no enum in a signature, no struct by value |
//! | panics | none crosses: each is caught and becomes `AZUD_ERR_PANIC` |
//! | numbers | a status, a reason and an offset, once released, keep their value |
//!
//! | file | what it holds |
//! |---|---|
//! | `boundary` | what makes the conventions true: the fence against panics, pointers, texts, sized structs |
//! | `limiter` | the handle: make, free, count, maintain |
//! | `decision` | the calls that decide |
//! | `options` | the structs that begin with their size |
//! | `status` | status codes and versions |
//!
//! Only public items of the crate are used, so that whatever C can do Rust can do too. `unsafe` is
//! allowed in these files alone among those above the table.

#![allow(clippy::doc_markdown, reason = "the comments are doxygen, where a bare name is a link")]
#![allow(non_camel_case_types, reason = "a type has one name, in C and in Rust")]
#![allow(unreachable_pub, reason = "what is exported is reached from C; cbindgen reads `pub`")]

mod boundary;
mod decision;
mod limiter;
mod options;
mod status;
