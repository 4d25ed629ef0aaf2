//! Where log lines come from: files and standard input, plain or gzip.
//!
//! Whether a source is compressed is seen from its first bytes, never from its name, so that a
//! renamed file and a pipe work too; gzip members that follow each other are one text. Lines are
//! bytes and bounded: one that is longer than [`LINE_BYTES_MAX`] is stepped over and reported.

use flate2::read::MultiGzDecoder;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

/// The longest line that is read; servers refuse requests far below that.
pub(super) const LINE_BYTES_MAX: u64 = 64 * 1024;

const BUFFER_BYTES: usize = 64 * 1024;

/// One log: a file, standard input or anything that can be read.
///
/// ```
/// use azud::replay::Source;
/// let log = Source::new("memory", &b"198.18.0.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5\n"[..])?;
/// assert_eq!(log.name(), "memory");
/// # Ok::<(), azud::replay::SourceError>(())
/// ```
pub struct Source {
    name: String,
    reader: Box<dyn BufRead + Send>,
    line_number: u64,
}

/// What [`Source::next_line`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Line,
    TooLong,
    End,
}

impl Source {
    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be opened or read, or is compressed with anything but gzip.
    pub fn open(path: impl AsRef<Path>) -> Result<Source, SourceError> {
        let name = path.as_ref().display().to_string();
        match File::open(path) {
            Ok(file) => Source::new(name, file),
            Err(error) => Err(SourceError { source: name, line: None, error }),
        }
    }

    /// Reads standard input.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn stdin() -> Result<Source, SourceError> {
        Source::new("standard input", io::stdin())
    }

    /// Reads anything; `name` is what messages call it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn new(name: impl Into<String>, reader: impl Read + Send + 'static) -> Result<Source, SourceError> {
        let name = name.into();
        match unpacked(reader) {
            Ok(reader) => Ok(Source { name, reader, line_number: 0 }),
            Err(error) => Err(SourceError { source: name, line: None, error }),
        }
    }

    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of the line that was read last, counted from 1.
    pub(super) fn line_number(&self) -> u64 {
        self.line_number
    }

    /// Puts the next line, without its ending, into `line`.
    pub(super) fn next_line(&mut self, line: &mut Vec<u8>) -> Result<Next, SourceError> {
        self.line_number += 1;
        read_line(&mut self.reader, line).map_err(|error| SourceError {
            source: self.name.clone(),
            line: Some(self.line_number),
            error,
        })
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("name", &self.name).field("line_number", &self.line_number).finish_non_exhaustive()
    }
}

fn read_line(reader: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<Next> {
    line.clear();
    // One byte more for the line feed.
    reader.take(LINE_BYTES_MAX + 1).read_until(b'\n', line)?;
    if line.pop_if(|last| *last == b'\n').is_some() {
        line.pop_if(|last| *last == b'\r');
        return Ok(Next::Line);
    }
    if line.len() as u64 <= LINE_BYTES_MAX {
        return Ok(if line.is_empty() { Next::End } else { Next::Line });
    }
    reader.skip_until(b'\n')?;
    Ok(Next::TooLong)
}

/// The reader, through a decoder if its first bytes ask for one.
fn unpacked(mut reader: impl Read + Send + 'static) -> io::Result<Box<dyn BufRead + Send>> {
    let mut magic = Vec::with_capacity(6);
    reader.by_ref().take(6).read_to_end(&mut magic)?;
    let packer = match magic[..] {
        [0x1f, 0x8b, ..] => Some("gzip"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("zstd"),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => Some("xz"),
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41] => Some("bzip2"),
        _ => None,
    };
    let whole = Cursor::new(magic).chain(reader);
    match packer {
        None => Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, whole))),
        Some("gzip") => Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(whole)))),
        Some(other) => Err(io::Error::new(io::ErrorKind::Unsupported, format!("compressed with {other}; expected text or gzip"))),
    }
}

/// A log that cannot be opened or read: which, where and why.
#[derive(Debug)]
pub struct SourceError {
    source: String,
    line: Option<u64>,
    error: io::Error,
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}: line {line}: {}", self.source, self.error),
            None => write!(f, "{}: {}", self.source, self.error),
        }
    }
}

impl std::error::Error for SourceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// The lines, or `too long`, or the message that ended them.
    fn lines(bytes: Vec<u8>) -> Vec<String> {
        let mut found = Vec::new();
        let mut source = match Source::new("x", Cursor::new(bytes)) {
            Ok(source) => source,
            Err(why) => return vec![why.to_string()],
        };
        let mut line = Vec::new();
        loop {
            match source.next_line(&mut line) {
                Ok(Next::Line) => found.push(line.escape_ascii().to_string()),
                Ok(Next::TooLong) => found.push("too long".into()),
                Ok(Next::End) => return found,
                Err(why) => {
                    found.push(why.to_string());
                    return found;
                }
            }
        }
    }

    #[test]
    fn line_endings() {
        assert_eq!(lines(b"".to_vec()), [""; 0]);
        assert_eq!(lines(b"a".to_vec()), ["a"]);
        assert_eq!(lines(b"\n".to_vec()), [""]);
        assert_eq!(lines(b"a\nbb\r\n\nc\rd\xff\n\r\ne".to_vec()), ["a", "bb", "", r"c\rd\xff", "", "e"]);
    }

    #[test]
    fn compressed() {
        let members = [gzip(b"one\ntw"), gzip(b""), gzip(b"o\nthree")].concat();
        assert_eq!(lines(members.clone()), ["one", "two", "three"]);
        let torn = lines(members[..members.len() - 9].to_vec());
        assert!(torn.last().unwrap().starts_with("x: line 3: "), "{torn:?}");
        assert_eq!(lines(vec![0x1f]), [r"\x1f"]);
        assert_eq!(lines(b"\x28\xb5\x2f\xfd\0\0\0".to_vec()), ["x: compressed with zstd; expected text or gzip"]);
        assert_eq!(lines(b"BZh91AY&SY".to_vec()), ["x: compressed with bzip2; expected text or gzip"]);
        assert_eq!(lines(b"BZh is a user".to_vec()), ["BZh is a user"]);
    }

    #[test]
    fn long_lines() {
        let most = LINE_BYTES_MAX as usize;
        let text = ["x".repeat(most), "y".repeat(most + 1), "z".into(), "y".repeat(3 * most), "end".into()].join("\n");
        assert_eq!(lines(text.into_bytes()), ["x".repeat(most), "too long".into(), "z".into(), "too long".into(), "end".into()]);
        assert_eq!(lines(vec![b'y'; most + 1]), ["too long"]);
    }

    #[test]
    fn what_cannot_be_opened() {
        let why = Source::open("no/such/file").unwrap_err().to_string();
        assert!(why.starts_with("no/such/file: "), "{why}");
        // A directory opens, and cannot be read.
        assert!(Source::open(".").is_err());
    }
}
