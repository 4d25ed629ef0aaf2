//! Keys of a replay: what of a request says who is limited.
//!
//! ```text
//! KEY  = PART[+PART]...        each part once
//! PART = ip[/BITS4[,BITS6]]    the client's address, or its first bits: ip, ip/24, ip/24,64
//!      | path                  the path of the request, without the query
//!      | user | method         `-` is a value like any other: all requests without a user share it
//!      | host                  the virtual host, in logs that begin with one (vhost_combined)
//! ```
//!
//! `BITS4` are of IPv4 addresses, `BITS6` of IPv6 ones; what is left out is the whole address. A
//! client that the log names by its host name is a key of its own, as text.
//!
//! The bytes of a key of one part are its text. In a key of several parts each is preceded by its
//! length, so that `/a` + `bc` and `/ab` + `c` stay apart whatever clients put into a path.

use super::line::{Line, Unreadable, address};
use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::str::FromStr;

/// What of a request says who is limited: an address, a path, a user, or several of them together.
///
/// ```
/// use azud::replay::Key;
/// let key: Key = "ip/24+path".parse()?;
/// assert_eq!(key.to_string(), "ip/24+path");
///
/// let error = "ip/33".parse::<Key>().unwrap_err();
/// assert_eq!(error.to_string(), "\"33\" (column 4): expected 0 to 32 bits of an IPv4 address (those of IPv6 come second: ip/32,64)");
/// # Ok::<(), azud::replay::KeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Ip { bits4: u8, bits6: u8 },
    Path,
    User,
    Method,
    Host,
}

const ALL_BITS: Part = Part::Ip { bits4: 32, bits6: 128 };

/// The length before each part of several.
type Length = u32;

impl Key {
    /// The client's address: one key for each.
    #[must_use]
    pub fn ip() -> Key {
        Key { parts: vec![ALL_BITS] }
    }

    /// What one of these keys is called.
    #[must_use]
    pub fn noun(&self) -> &'static str {
        match self.parts[..] {
            [ALL_BITS] => "client",
            [Part::Ip { .. }] => "network",
            [Part::Path] => "path",
            [Part::User] => "user",
            [Part::Method] => "method",
            [Part::Host] => "host",
            _ => "key",
        }
    }

    /// Puts the key of one request into `out`.
    pub(super) fn of(&self, line: &Line<'_>, out: &mut Vec<u8>) -> Result<(), Unreadable> {
        out.clear();
        if let [part] = self.parts[..] {
            return part.of(line, out);
        }
        for part in &self.parts {
            let start = out.len();
            out.extend([0; size_of::<Length>()]);
            let text = out.len();
            part.of(line, out)?;
            let length = (out.len() - text) as Length;
            out[start..text].copy_from_slice(&length.to_le_bytes());
        }
        Ok(())
    }

    /// A key as people read it: the parts with a space between them. Bytes that are no text, and
    /// characters that would move the cursor of a terminal, are shown escaped.
    pub(super) fn show(&self, key: &[u8]) -> String {
        if self.parts.len() == 1 {
            return printable(key);
        }
        let mut rest = key;
        let mut shown = Vec::new();
        while let Some((length, text)) = rest.split_first_chunk() {
            let (part, next) = text.split_at(text.len().min(Length::from_le_bytes(*length) as usize));
            shown.push(printable(part));
            rest = next;
        }
        shown.join(" ")
    }
}

impl Part {
    fn of(self, line: &Line<'_>, out: &mut Vec<u8>) -> Result<(), Unreadable> {
        let text = match self {
            Part::Ip { bits4, bits6 } => match address(line.host) {
                Some(address) => {
                    push_network(address, bits4, bits6, out);
                    return Ok(());
                }
                None => line.host,
            },
            Part::Path => line.path,
            Part::User => line.user,
            Part::Method => line.method,
            Part::Host => line.virtual_host.ok_or(Unreadable { column: 1, expected: "a virtual host, which the key needs" })?,
        };
        out.extend_from_slice(text);
        Ok(())
    }
}

/// `198.18.7.9` and 24 bits as `198.18.7.0/24`; a whole address without the slash.
fn push_network(address: IpAddr, bits4: u8, bits6: u8, out: &mut Vec<u8>) {
    // A shift by all bits is none: everything is masked away.
    let (network, bits, all) = match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits4)).unwrap_or(0);
            (IpAddr::from((ip.to_bits() & mask).to_be_bytes()), bits4, 32)
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits6)).unwrap_or(0);
            (IpAddr::from((ip.to_bits() & mask).to_be_bytes()), bits6, 128)
        }
    };
    let mut text = String::with_capacity(48);
    // Writing to a String cannot fail.
    let _ = if bits == all { write!(text, "{network}") } else { write!(text, "{network}/{bits}") };
    out.extend_from_slice(text.as_bytes());
}

fn printable(text: &[u8]) -> String {
    if text.is_empty() {
        return "\"\"".into();
    }
    let mut shown = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        for char in chunk.valid().chars() {
            if char.is_control() { shown.extend(char.escape_default()) } else { shown.push(char) }
        }
        for byte in chunk.invalid() {
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown
}

/// Why a key is refused: where, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyError {
    column: usize,
    part: String,
    expected: &'static str,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} (column {}): expected {}", self.part, self.column, self.expected)
    }
}

impl std::error::Error for KeyError {}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Key, KeyError> {
        let mut parts: Vec<Part> = Vec::new();
        let mut column = 1;
        for name in text.split('+') {
            let part = parse_part(name, column)?;
            if parts.iter().any(|other| std::mem::discriminant(other) == std::mem::discriminant(&part)) {
                return Err(KeyError { column, part: name.into(), expected: "each part once" });
            }
            parts.push(part);
            column += name.len() + 1;
        }
        Ok(Key { parts })
    }
}

fn parse_part(name: &str, column: usize) -> Result<Part, KeyError> {
    match name {
        "ip" => Ok(ALL_BITS),
        "path" => Ok(Part::Path),
        "user" => Ok(Part::User),
        "method" => Ok(Part::Method),
        "host" => Ok(Part::Host),
        _ => match name.strip_prefix("ip/") {
            Some(bits) => parse_bits(bits, column + 3),
            None => Err(KeyError {
                column,
                part: name.into(),
                expected: "ip, ip/BITS, path, user, method or host, or several of them with + between",
            }),
        },
    }
}

/// `24` or `24,64`.
fn parse_bits(text: &str, column: usize) -> Result<Part, KeyError> {
    let (text4, text6) = text.split_once(',').map_or((text, None), |(four, six)| (four, Some(six)));
    let expected = "0 to 32 bits of an IPv4 address (those of IPv6 come second: ip/32,64)";
    let bits4 = bits(text4, 32).ok_or_else(|| KeyError { column, part: text4.into(), expected })?;
    let Some(text6) = text6 else { return Ok(Part::Ip { bits4, bits6: 128 }) };
    let (column, expected) = (column + text4.len() + 1, "0 to 128 bits of an IPv6 address");
    let bits6 = bits(text6, 128).ok_or_else(|| KeyError { column, part: text6.into(), expected })?;
    Ok(Part::Ip { bits4, bits6 })
}

fn bits(text: &str, most: u8) -> Option<u8> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&bits| is_number && bits <= most)
}

/// The canonical text, which parses to an equal key.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                f.write_char('+')?;
            }
            match *part {
                Part::Ip { bits4: 32, bits6: 128 } => f.write_str("ip")?,
                Part::Ip { bits4, bits6: 128 } => write!(f, "ip/{bits4}")?,
                Part::Ip { bits4, bits6 } => write!(f, "ip/{bits4},{bits6}")?,
                Part::Path => f.write_str("path")?,
                Part::User => f.write_str("user")?,
                Part::Method => f.write_str("method")?,
                Part::Host => f.write_str("host")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line<'a>(host: &'a str, user: &'a str, path: &'a [u8]) -> Line<'a> {
        Line { virtual_host: None, host: host.as_bytes(), user: user.as_bytes(), time_ns: 0, method: b"GET", path, bytes: 0 }
    }

    fn shown(key: &str, line: &Line<'_>) -> String {
        let key: Key = key.parse().unwrap();
        let mut bytes = Vec::new();
        match key.of(line, &mut bytes) {
            Ok(()) => key.show(&bytes),
            Err(why) => why.to_string(),
        }
    }

    #[test]
    fn keys_of_requests() {
        for (key, host, expected) in [
            ("ip", "198.18.7.9", "198.18.7.9"),
            ("ip", "::ffff:198.18.7.9", "198.18.7.9"),
            ("ip", "2001:DB8:0:0::9", "2001:db8::9"),
            ("ip", "crawl.example.net", "crawl.example.net"),
            ("ip", "unix:", "unix:"),
            ("ip/24", "198.18.7.9", "198.18.7.0/24"),
            ("ip/24", "::ffff:198.18.7.9", "198.18.7.0/24"),
            ("ip/24", "2001:db8::9", "2001:db8::9"),
            ("ip/24", "crawl.example.net", "crawl.example.net"),
            ("ip/23,64", "198.18.7.9", "198.18.6.0/23"),
            ("ip/24,64", "2001:db8:1:2:3::9", "2001:db8:1:2::/64"),
            ("ip/32,48", "198.18.7.9", "198.18.7.9"),
            ("ip/32,48", "2001:db8:1:2:3::9", "2001:db8:1::/48"),
            ("ip/0,0", "198.18.7.9", "0.0.0.0/0"),
            ("ip/0,0", "2001:db8::9", "::/0"),
            ("user", "h", "eva"),
            ("method", "h", "GET"),
            ("path", "h", "/a"),
            ("ip/16+path+user", "198.18.7.9", "198.18.0.0/16 /a eva"),
            ("host", "h", "column 1: expected a virtual host, which the key needs"),
        ] {
            assert_eq!(shown(key, &line(host, "eva", b"/a")), expected, "{key} {host}");
        }
        let with_host = Line { virtual_host: Some(b"www.example.org:80"), ..line("h", "-", b"/") };
        assert_eq!(shown("host+ip", &with_host), "www.example.org:80 h");
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(shown("path", &line("h", "-", b"/\x1b[2J\xff\xc3\xa9\n")), r"/\u{1b}[2J\xff".to_owned() + "é\\n");
        assert_eq!(shown("path", &line("h", "-", b"")), "\"\"");
        assert_eq!(shown("path+user", &line("h", "-", b"")), "\"\" -");
    }

    /// Two requests share a key of several parts only if they share each part.
    #[test]
    fn parts_do_not_run_into_each_other() {
        let key: Key = "path+user".parse().unwrap();
        let texts: [&[u8]; 8] = [b"", b"\0", b"\0\0\0\0", b"a", b"aa", b"\x01\0\0\0a", b"a\x01\0\0\0", b"\x01\0\0\0"];
        let mut seen = std::collections::HashMap::new();
        for path in texts {
            for user in texts {
                let mut bytes = Vec::new();
                key.of(&Line { user, ..line("h", "", path) }, &mut bytes).unwrap();
                assert_eq!(seen.insert(bytes, (path, user)), None);
            }
        }
    }

    #[test]
    fn texts() {
        for text in ["ip", "ip/24", "ip/0", "ip/24,64", "ip/32,0", "path", "user+ip/8+path+method+host"] {
            assert_eq!(text.parse::<Key>().unwrap().to_string(), text);
        }
        assert_eq!("ip/32,128".parse(), Ok(Key::ip()));
        assert_eq!("ip/024".parse::<Key>().unwrap().to_string(), "ip/24");
        for (text, expected) in [
            ("", r#""" (column 1): expected ip, "#),
            ("ip+", r#""" (column 4): expected ip, "#),
            ("IP", r#""IP" (column 1): expected ip, "#),
            ("path+cookie", r#""cookie" (column 6): expected ip, "#),
            ("ip/", r#""" (column 4): expected 0 to 32"#),
            ("ip/33", r#""33" (column 4): expected 0 to 32"#),
            ("ip/+1", r#""" (column 4): expected 0 to 32"#),
            ("ip/-1", r#""-1" (column 4): expected 0 to 32"#),
            ("ip/256", r#""256" (column 4): expected 0 to 32"#),
            ("user+ip/24,129", r#""129" (column 12): expected 0 to 128"#),
            ("ip/24,", r#""" (column 7): expected 0 to 128"#),
            ("ip+path+ip/24", r#""ip/24" (column 9): expected each part once"#),
        ] {
            let why = text.parse::<Key>().unwrap_err().to_string();
            assert!(why.starts_with(expected), "{text}: {why}");
        }
    }

    #[test]
    fn nouns() {
        for (key, noun) in [("ip", "client"), ("ip/24", "network"), ("path", "path"), ("ip+path", "key")] {
            assert_eq!(key.parse::<Key>().unwrap().noun(), noun);
        }
    }
}
