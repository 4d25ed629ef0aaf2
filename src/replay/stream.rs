//! Many logs as one stream of requests, in the order of their times.
//!
//! Always the source that is furthest behind is read next, so that the sources move along together:
//! rotated logs come out one after the other in whatever order they were named, and the logs of two
//! servers are merged. What was read waits in the reorder buffer until every source is a window
//! further on.
//!
//! Keys are numbered as they are met, so that a request in the buffer is a few words however long
//! its path is. The numbers and the texts of all keys stay in memory.

use super::line::{self, Unreadable};
use super::reorder::Reorder;
use super::source::{Next, Source};
use super::{Cost, Key, SourceError};
use std::collections::HashMap;
use std::sync::Arc;

/// The most requests that wait to be put into order: about 100 MB.
const WAITING_MAX: usize = 1 << 21;

const TOO_LONG: Unreadable = Unreadable { column: super::source::LINE_BYTES_MAX as usize + 1, expected: "the end of the line" };

/// One request, as the limiter sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The number of its key.
    pub(super) key: usize,
    pub(super) cost: u64,
    pub(super) place: Place,
}

/// A line of a source, both by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) source: u32,
    pub(super) line: u64,
}

pub(super) struct Stream {
    sources: Vec<Progress>,
    names: Vec<String>,
    waiting: Reorder<Request>,
    window_ns: u64,
    key: Key,
    cost: Cost,
    keys: Keys,
    line: Vec<u8>,
    key_bytes: Vec<u8>,
    unreadable: Vec<(Place, Unreadable)>,
    unreadable_shown_max: usize,
    unreadable_count: u64,
    is_whole_seconds: bool,
}

/// A source that has not ended, and the latest time that was read from it.
struct Progress {
    source: Source,
    number: u32,
    latest_ns: u64,
}

/// The keys that were met.
#[derive(Default)]
struct Keys {
    numbers: HashMap<Arc<[u8]>, usize>,
    texts: Vec<Arc<[u8]>>,
}

impl Keys {
    fn number(&mut self, text: &[u8]) -> usize {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let text: Arc<[u8]> = text.into();
        let number = self.texts.len();
        self.texts.push(text.clone());
        self.numbers.insert(text, number);
        number
    }
}

impl Stream {
    pub(super) fn new(sources: Vec<Source>, key: Key, cost: Cost, window_ns: u64, unreadable_shown_max: usize) -> Stream {
        Stream {
            names: sources.iter().map(|source| source.name().to_owned()).collect(),
            sources: (0..).zip(sources).map(|(number, source)| Progress { source, number, latest_ns: 0 }).collect(),
            waiting: Reorder::new(WAITING_MAX),
            window_ns,
            key,
            cost,
            keys: Keys::default(),
            line: Vec::new(),
            key_bytes: Vec::new(),
            unreadable: Vec::new(),
            unreadable_shown_max,
            unreadable_count: 0,
            is_whole_seconds: true,
        }
    }

    /// The next request with its time. Times run forward but for requests that were written more
    /// than a window late.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Request)>, SourceError> {
        loop {
            let furthest_behind = (0..self.sources.len()).min_by_key(|&index| self.sources[index].latest_ns);
            let Some(index) = furthest_behind else { return Ok(self.waiting.pop(u64::MAX)) };
            // Before time has gone on by a window nothing may leave: `checked_sub` fails.
            if let Some(until_ns) = self.sources[index].latest_ns.checked_sub(self.window_ns)
                && let Some(next) = self.waiting.pop(until_ns)
            {
                return Ok(Some(next));
            }
            self.read(index)?;
        }
    }

    /// The text of a key.
    pub(super) fn key(&self, number: usize) -> &[u8] {
        &self.keys.texts[number]
    }

    /// A place with the name of its source.
    pub(super) fn name(&self, place: Place) -> &str {
        &self.names[place.source as usize]
    }

    /// How many lines could not be read, and the first of them.
    pub(super) fn unreadable(&self) -> (u64, &[(Place, Unreadable)]) {
        (self.unreadable_count, &self.unreadable)
    }

    /// Whether no time read so far has a fraction of a second.
    pub(super) fn is_whole_seconds(&self) -> bool {
        self.is_whole_seconds
    }

    /// Reads one line of this source.
    fn read(&mut self, index: usize) -> Result<(), SourceError> {
        let Progress { source, number, latest_ns } = &mut self.sources[index];
        let next = source.next_line(&mut self.line)?;
        let place = Place { source: *number, line: source.line_number() };
        if next == Next::Line && self.line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let request = match next {
            Next::End => {
                self.sources.remove(index);
                return Ok(());
            }
            Next::TooLong => Err(TOO_LONG),
            Next::Line => line::parse(&self.line).and_then(|line| self.key.of(&line, &mut self.key_bytes).map(|()| line)),
        };
        match request {
            Ok(line) => {
                *latest_ns = line.time_ns.max(*latest_ns);
                self.is_whole_seconds &= line.time_ns.is_multiple_of(1_000_000_000);
                let key = self.keys.number(&self.key_bytes);
                self.waiting.push(line.time_ns, Request { key, cost: self.cost.of(&line), place });
            }
            Err(why) => {
                self.unreadable_count += 1;
                if self.unreadable.len() < self.unreadable_shown_max {
                    self.unreadable.push((place, why));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_NS: u64 = 60_000_000_000;

    fn log(times: &[&str]) -> Source {
        let lines: Vec<String> =
            times.iter().map(|time| format!("h - - [17/May/2015:{time} +0000] \"GET / HTTP/1.1\" 200 5\n")).collect();
        Source::new("log", std::io::Cursor::new(lines.concat())).unwrap()
    }

    /// (source, line) of each request, in the order of the stream.
    fn order(sources: Vec<Source>) -> Vec<(u32, u64)> {
        let mut stream = Stream::new(sources, Key::ip(), Cost::Request, WINDOW_NS, 5);
        let mut places = Vec::new();
        while let Some((_, request)) = stream.next().unwrap() {
            places.push((request.place.source, request.place.line));
        }
        assert_eq!(stream.unreadable().0, 0);
        places
    }

    #[test]
    fn steps_back_are_put_into_order() {
        assert_eq!(order(vec![log(&["10:00:30", "10:00:10", "10:00:10", "10:00:59"])]), [(0, 2), (0, 3), (0, 1), (0, 4)]);
    }

    #[test]
    fn too_late_is_too_late() {
        assert_eq!(order(vec![log(&["10:00:00", "10:05:00", "10:01:00"])]), [(0, 1), (0, 3), (0, 2)]);
        assert_eq!(order(vec![log(&["10:00:00", "10:05:00", "10:09:00", "10:01:00"])]), [(0, 1), (0, 2), (0, 4), (0, 3)]);
    }

    #[test]
    fn sources_are_merged_by_time() {
        // Rotated logs, the newest named first.
        assert_eq!(order(vec![log(&["12:00:00", "13:00:00"]), log(&["10:00:00", "11:00:00"])]), [(1, 1), (1, 2), (0, 1), (0, 2)]);
        // Two servers.
        let both = order(vec![log(&["10:00:00", "10:02:00", "10:04:00"]), log(&["10:01:00", "10:03:00"]), log(&[])]);
        assert_eq!(both, [(0, 1), (1, 1), (0, 2), (1, 2), (0, 3)]);
    }

    #[test]
    fn empty_lines_are_nothing_and_bad_ones_are_counted() {
        let text = b"\n  \n\r\nnonsense\nh - - [17/May/2015:10:00:00.5 +0000] \"GET / HTTP/1.1\" 200 5\nx".as_slice();
        let mut stream = Stream::new(vec![Source::new("log", text).unwrap()], Key::ip(), Cost::Request, WINDOW_NS, 1);
        let (time_ns, request) = stream.next().unwrap().unwrap();
        assert_eq!((time_ns % 1_000_000_000, request.place.line), (500_000_000, 5));
        assert_eq!(stream.next().unwrap(), None);
        let (count, shown) = stream.unreadable();
        assert_eq!((count, shown.len(), shown[0].0.line), (2, 1, 4));
        assert!(!stream.is_whole_seconds());
    }
}
