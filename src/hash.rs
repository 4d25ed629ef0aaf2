//! Keys to hashes: keyed per limiter with random seeds, so that nobody outside can choose keys that
//! meet in one group (hash flooding). Keys are hashed over their full length and never cut.

use ahash::RandomState;

/// The keyed hash of one limiter.
#[derive(Debug)]
pub(crate) struct KeyHash(RandomState);

impl KeyHash {
    /// With seeds from the operating system.
    pub(crate) fn random() -> KeyHash {
        KeyHash(RandomState::new())
    }

    /// The hash of a key of any bytes, the empty one too.
    #[inline(always)]
    pub(crate) fn of(&self, key: &[u8]) -> u64 {
        self.0.hash_one(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_the_length_count() {
        let hash = KeyHash::random();
        let long = vec![7u8; 5000];
        let mut other = long.clone();
        other[4999] = 8;
        assert_eq!(hash.of(&long), hash.of(&long.clone()));
        assert_ne!(hash.of(&long), hash.of(&other));
        assert_ne!(hash.of(b""), hash.of(b"\0"));
        assert_ne!(hash.of(b"a\0"), hash.of(b"a"));
    }

    #[test]
    fn limiters_hash_differently() {
        assert_ne!(KeyHash::random().of(b"key"), KeyHash::random().of(b"key"));
    }
}
