//! One line of an access log, in the common or the combined format.
//!
//! ```text
//! HOST IDENT USER [TIME] "METHOD PATH PROTOCOL" STATUS BYTES ["REFERRER" "USER AGENT"] [anything]
//! VIRTUALHOST HOST IDENT USER [TIME] ...                                            (vhost_combined)
//! ```
//!
//! This is what Apache and nginx write unless told otherwise. Lines are bytes: clients send what
//! they like, and logs keep it. Only what a key may need is read; whatever follows BYTES is ignored.
//!
//! | case | what is done |
//! |---|---|
//! | `\"` in the request | does not end it; escapes stay as they are written |
//! | a request that is none (`"-"`, a TLS greeting sent to the plain port) | counts; its method and path are `-` |
//! | spaces in the path | belong to it: the protocol is cut off at the end |
//! | spaces in the user | belong to it |
//! | a field before HOST | is a virtual host if an address or an IDENT of `-` shows that HOST comes second |
//! | a list of addresses (`X-Forwarded-For`) in place of HOST | unreadable, for which of them is the client is a matter of trust |
//! | BYTES of `-` | 0 |

use super::time;
use std::fmt;
use std::net::IpAddr;

/// What is read of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) virtual_host: Option<&'a [u8]>,
    pub(super) host: &'a [u8],
    /// `-` when there is none.
    pub(super) user: &'a [u8],
    pub(super) time_ns: u64,
    pub(super) method: &'a [u8],
    /// Without the query.
    pub(super) path: &'a [u8],
    /// The size of the response.
    pub(super) bytes: u64,
}

/// Why a line cannot be read: where, and what was expected there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The byte of the line, counted from 1.
    pub column: usize,
    /// What was expected there.
    pub expected: &'static str,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: expected {}", self.column, self.expected)
    }
}

impl std::error::Error for Unreadable {}

/// Reads one line, given without its line ending.
pub(super) fn parse(line: &[u8]) -> Result<Line<'_>, Unreadable> {
    let mut cursor = Cursor { line, at: 0 };
    let identity = identity(&mut cursor)?;

    let start = cursor.at;
    let time = cursor.until(b']', "`]` after the time")?;
    // The column of the bracket, which the message shows.
    let time_ns = time::parse(time).ok_or(Unreadable { column: start, expected: time::EXPECTED })?;

    cursor.literal(b" \"", "a space and the request in quotes")?;
    let (method, path) = method_and_path(cursor.quoted("`\"` after the request")?);

    cursor.literal(b" ", "a space and the status")?;
    cursor.field(is_status, "a status of three digits, or `-`")?;
    cursor.literal(b" ", "a space and the size of the response")?;
    let bytes = cursor.field(|text| size(text).is_some(), "the size of the response in bytes, or `-`")?;

    let Identity { virtual_host, host, user } = identity;
    Ok(Line { virtual_host, host, user, time_ns, method, path, bytes: size(bytes).unwrap_or(0) })
}

struct Identity<'a> {
    virtual_host: Option<&'a [u8]>,
    host: &'a [u8],
    user: &'a [u8],
}

/// The fields before the time; leaves the cursor behind the `[`.
fn identity<'a>(cursor: &mut Cursor<'a>) -> Result<Identity<'a>, Unreadable> {
    let fault = |column, expected| Unreadable { column, expected };
    let length = cursor.line.windows(2).position(|pair| pair == b" [");
    let length = length.ok_or(fault(1, "HOST IDENT USER [TIME] and so on, but there is no ` [`"))?;
    let text = &cursor.line[..length];
    cursor.at = length + 2;

    let mut fields = text.splitn(4, |&byte| byte == b' ');
    let mut field = || fields.next().filter(|field| !field.is_empty());
    let too_few = fault(length + 1, "HOST, IDENT and USER, each after one space, before the time");
    let (first, second, third, fourth) = (field().ok_or(too_few)?, field().ok_or(too_few)?, field().ok_or(too_few)?, field());

    if first.ends_with(b",") {
        return Err(fault(1, "the address of one client, not a list"));
    }
    match fourth {
        Some(user) if second != b"-" && (third == b"-" || address(second).is_some()) => {
            Ok(Identity { virtual_host: Some(first), host: second, user })
        }
        // The user is all that is left: names may hold spaces.
        _ => Ok(Identity { virtual_host: None, host: first, user: &text[first.len() + second.len() + 2..] }),
    }
}

/// An IP address as the socket meant it: an IPv4 address in IPv6 clothing is an IPv4 address.
pub(super) fn address(text: &[u8]) -> Option<IpAddr> {
    let address: IpAddr = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(address.to_canonical())
}

/// `GET /a?b HTTP/1.1` as (`GET`, `/a`).
fn method_and_path(request: &[u8]) -> (&[u8], &[u8]) {
    let Some(space) = request.iter().position(|&byte| byte == b' ') else { return (b"-", b"-") };
    let (method, target) = (&request[..space], &request[space + 1..]);
    let target = match target.iter().rposition(|&byte| byte == b' ') {
        Some(space) if target[space + 1..].starts_with(b"HTTP/") => &target[..space],
        _ => target,
    };
    (method, target.split(|&byte| byte == b'?').next().unwrap_or(target))
}

fn is_status(text: &[u8]) -> bool {
    text == b"-" || (text.len() == 3 && text.iter().all(u8::is_ascii_digit))
}

/// Digits that fit, or `-` for 0.
fn size(text: &[u8]) -> Option<u64> {
    match text {
        b"-" => Some(0),
        [first, ..] if first.is_ascii_digit() => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// A place in the line; each step says what it expected there.
struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.line[self.at..]
    }

    fn fault(&self, expected: &'static str) -> Unreadable {
        Unreadable { column: self.at + 1, expected }
    }

    fn literal(&mut self, text: &[u8], expected: &'static str) -> Result<(), Unreadable> {
        if !self.rest().starts_with(text) {
            return Err(self.fault(expected));
        }
        self.at += text.len();
        Ok(())
    }

    /// What comes before `end`, and steps over `end`.
    fn until(&mut self, end: u8, expected: &'static str) -> Result<&'a [u8], Unreadable> {
        let rest = self.rest();
        let length = rest.iter().position(|&byte| byte == end).ok_or_else(|| self.fault(expected))?;
        self.at += length + 1;
        Ok(&rest[..length])
    }

    /// What comes before a quote without a backslash, and steps over the quote.
    fn quoted(&mut self, expected: &'static str) -> Result<&'a [u8], Unreadable> {
        let rest = self.rest();
        let mut length = 0;
        loop {
            match rest.get(length) {
                None => return Err(self.fault(expected)),
                Some(b'"') => break,
                Some(b'\\') => length += 2,
                Some(_) => length += 1,
            }
        }
        self.at += length + 1;
        Ok(&rest[..length])
    }

    /// What comes before the next space or the end of the line.
    fn field(&mut self, is_good: impl Fn(&[u8]) -> bool, expected: &'static str) -> Result<&'a [u8], Unreadable> {
        let rest = self.rest();
        let length = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
        if !is_good(&rest[..length]) {
            return Err(self.fault(expected));
        }
        self.at += length;
        Ok(&rest[..length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON_NS: u64 = 1_431_864_000_000_000_000;

    /// The fields in one line of text, or the message.
    fn shown(line: &[u8]) -> String {
        match parse(line) {
            Err(why) => why.to_string(),
            Ok(line) => {
                assert_eq!(line.time_ns, NOON_NS);
                let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
                let host = line.virtual_host.map_or(String::new(), |host| text(host) + " > ");
                let (user, method, path) = (text(line.user), text(line.method), text(line.path));
                format!("{host}{} {user} {method} {path} {}", text(line.host), line.bytes)
            }
        }
    }

    #[test]
    fn lines_that_are_read() {
        let table: &[(&[u8], &str)] = &[
            // Common, combined, trailing fields.
            (br#"198.18.0.1 - - [17/May/2015:12:00:00 +0000] "GET /a HTTP/1.1" 200 5"#, "198.18.0.1 - GET /a 5"),
            (
                br#"198.18.0.1 - eva [17/May/2015:12:00:00 +0000] "GET /a?b=c&d HTTP/1.1" 200 5 "-" "cu\"rl [1]""#,
                "198.18.0.1 eva GET /a 5",
            ),
            (
                br#"198.18.0.1 - - [17/May/2015:12:00:00 +0000] "POST /a HTTP/2.0" 304 - "-" "-" "203.0.113.7" 0.003"#,
                "198.18.0.1 - POST /a 0",
            ),
            (br#"h - - [17/May/2015:14:00:00.000 +0200] "GET / HTTP/1.1" 000 0"#, "h - GET / 0"),
            (br#"h - - [17/May/2015:08:30:00 -0330] "GET / HTTP/1.1" - 0"#, "h - GET / 0"),
            // Hosts.
            (br#"2001:db8::1 - - [17/May/2015:12:00:00 +0000] "GET / HTTP/1.1" 200 5"#, "2001:db8::1 - GET / 5"),
            (br#"unix: - - [17/May/2015:12:00:00 +0000] "GET / HTTP/1.1" 200 5"#, "unix: - GET / 5"),
            (br#"crawl.example.net - - [17/May/2015:12:00:00 +0000] "GET / HTTP/1.1" 200 5"#, "crawl.example.net - GET / 5"),
            (
                br#"www.example.org:80 198.18.0.1 - eva [17/May/2015:12:00:00 +0000] "GET / HTTP/1.1" 200 5"#,
                "www.example.org:80 > 198.18.0.1 eva GET / 5",
            ),
            (
                br#"www.example.org:80 crawl.example.net - - [17/May/2015:12:00:00 +0000] "GET / HTTP/1.1" 200 5"#,
                "www.example.org:80 > crawl.example.net - GET / 5",
            ),
            (br#"v ::1 x eva [17/May/2015:12:00:00 +0000] "GET / HTTP/1.1" 200 5"#, "v > ::1 eva GET / 5"),
            // Users with spaces.
            (br#"198.18.0.1 - eva lu [17/May/2015:12:00:00 +0000] "GET / HTTP/1.1" 200 5"#, "198.18.0.1 eva lu GET / 5"),
            (
                br#"198.18.0.1 id eva lu ator [17/May/2015:12:00:00 +0000] "GET / HTTP/1.1" 200 5"#,
                "198.18.0.1 eva lu ator GET / 5",
            ),
            // Requests.
            (br#"h - - [17/May/2015:12:00:00 +0000] "GET /\"x\" HTTP/1.1" 200 5"#, r#"h - GET /\\\"x\\\" 5"#),
            (br#"h - - [17/May/2015:12:00:00 +0000] "GET /\\" 200 5"#, r"h - GET /\\\\ 5"),
            (br#"h - - [17/May/2015:12:00:00 +0000] "GET /a b?c d HTTP/1.1" 200 5"#, "h - GET /a b 5"),
            (br#"h - - [17/May/2015:12:00:00 +0000] "GET /" 200 5"#, "h - GET / 5"),
            (br#"h - - [17/May/2015:12:00:00 +0000] "GET ?q HTTP/1.1" 200 5"#, "h - GET  5"),
            (br#"h - - [17/May/2015:12:00:00 +0000] "-" 408 -"#, "h - - - 0"),
            (br#"h - - [17/May/2015:12:00:00 +0000] "" 400 0"#, "h - - - 0"),
            (br#"h - - [17/May/2015:12:00:00 +0000] "\x16\x03\x01" 400 226"#, "h - - - 226"),
            (b"h - - [17/May/2015:12:00:00 +0000] \"GET /\xff\x00 HTTP/1.1\" 400 0", r"h - GET /\xff\x00 0"),
            (
                br#"h - - [17/May/2015:12:00:00 +0000] "GET / HTTP/1.1" 200 18446744073709551615"#,
                "h - GET / 18446744073709551615",
            ),
        ];
        for (line, expected) in table {
            assert_eq!(shown(line), *expected, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn lines_that_are_not() {
        let table: &[(&[u8], usize, &str)] = &[
            (b"", 1, "HOST IDENT USER"),
            (b"x", 1, "HOST IDENT USER"),
            (b"\xff\xfe\x00[\x00", 1, "HOST IDENT USER"),
            (b" [", 1, "HOST, IDENT and USER"),
            (b"h - [17/May/2015:12:00:00 +0000] \"GET / HTTP/1.1\" 200 5", 4, "HOST, IDENT and USER"),
            (b"h  - - [17/May/2015:12:00:00 +0000] \"GET / HTTP/1.1\" 200 5", 7, "HOST, IDENT and USER"),
            (b"198.18.0.1, 198.18.0.2 - - [17/May/2015:12:00:00 +0000] \"GET / HTTP/1.1\" 200 5", 1, "one client"),
            (b"h - - [17/May/2015:12:00:00 +0000", 8, "`]`"),
            (b"h - - [17/May/2015:12:00:00] \"GET / HTTP/1.1\" 200 5", 7, "a time from"),
            (b"h - - [] \"GET / HTTP/1.1\" 200 5", 7, "a time from"),
            (b"h - - [17/May/2015:12:00:00 +0000]", 35, "the request in quotes"),
            (b"h - - [17/May/2015:12:00:00 +0000] GET / 200 5", 35, "the request in quotes"),
            (b"h - - [17/May/2015:12:00:00 +0000] \"GET / HTTP/1.1", 37, "after the request"),
            (b"h - - [17/May/2015:12:00:00 +0000] \"GET /\\\" 200 5", 37, "after the request"),
            (b"h - - [17/May/2015:12:00:00 +0000] \"GET /\\", 37, "after the request"),
            (b"h - - [17/May/2015:12:00:00 +0000] \"GET /\"", 43, "a space and the status"),
            (b"h - - [17/May/2015:12:00:00 +0000] \"GET /\" 20 5", 44, "a status of three digits"),
            (b"h - - [17/May/2015:12:00:00 +0000] \"GET /\" 2xx 5", 44, "a status of three digits"),
            (b"h - - [17/May/2015:12:00:00 +0000] \"GET /\" 200", 47, "size of the response"),
            (b"h - - [17/May/2015:12:00:00 +0000] \"GET /\" 200 ", 48, "size of the response"),
            (b"h - - [17/May/2015:12:00:00 +0000] \"GET /\" 200 -5", 48, "size of the response"),
            (b"h - - [17/May/2015:12:00:00 +0000] \"GET /\" 200 +5", 48, "size of the response"),
            (b"h - - [17/May/2015:12:00:00 +0000] \"GET /\" 200 5k", 48, "size of the response"),
            (b"h - - [17/May/2015:12:00:00 +0000] \"GET /\" 200 18446744073709551616", 48, "size of the response"),
        ];
        for &(line, column, expected) in table {
            let why = parse(line).expect_err(&line.escape_ascii().to_string());
            assert_eq!(why.column, column, "{}: {why}", line.escape_ascii());
            assert!(why.expected.contains(expected), "{}: {why}", line.escape_ascii());
        }
    }

    /// No line, however cut or stained, makes the reader panic.
    #[test]
    fn torn_lines() {
        let line = br#"v:80 198.18.0.1 - eva [17/May/2015:12:00:00.5 +0000] "GET /\"a\\ b?c HTTP/1.1" 200 5 "-" "x""#;
        for end in 0..line.len() {
            for start in 0..end {
                let _ = parse(&line[start..end]);
            }
            for stain in [0, b' ', b'"', b'[', b']', b'\\', b'-', b'9', 0xff] {
                let mut line = line.to_vec();
                line[end] = stain;
                let _ = parse(&line);
            }
        }
    }

    #[test]
    fn addresses() {
        let shown = |text: &str| address(text.as_bytes()).map_or_else(|| "none".into(), |address| address.to_string());
        assert_eq!(shown("198.18.0.1"), "198.18.0.1");
        assert_eq!(shown("::ffff:198.18.0.1"), "198.18.0.1");
        assert_eq!(shown("2001:DB8:0::1"), "2001:db8::1");
        assert_eq!(shown("198.18.0.01"), "none");
        assert_eq!(shown("example.org"), "none");
    }
}
