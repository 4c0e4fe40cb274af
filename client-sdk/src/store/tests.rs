//! What every store promises, tested on each of them.

use super::{Durability, FileStore, MemoryStore, Store};

/// Every store, empty, with what must live as long.
fn stores() -> [(Box<dyn Store>, Option<tempfile::TempDir>); 2] {
    let directory = tempfile::tempdir().unwrap();
    let files = FileStore::new(directory.path().join("state"));
    [(Box::new(files), Some(directory)), (Box::new(MemoryStore::new()), None)]
}

#[test]
fn an_entry_is_what_was_put_and_appended_last() {
    for (store, _directory) in stores() {
        assert_eq!(store.get("a").unwrap(), None);
        for durability in [Durability::Process, Durability::Power] {
            store.put("a", b"first", durability).unwrap();
            store.put("a", b"second", durability).unwrap();
            assert_eq!(store.get("a").unwrap().unwrap(), b"second");
        }
        store.append("a", b" and").unwrap();
        store.append("a", b" third").unwrap();
        assert_eq!(store.get("a").unwrap().unwrap(), b"second and third");
        store.append("b", b"new").unwrap();
        assert_eq!(store.get("b").unwrap().unwrap(), b"new");
    }
}

#[test]
fn a_renamed_entry_replaces_another_one() {
    for (store, _directory) in stores() {
        store.put("old", b"old", Durability::Process).unwrap();
        assert!(!store.rename("next", "old").unwrap());
        assert_eq!(store.get("old").unwrap().unwrap(), b"old");
        store.put("next", b"next", Durability::Process).unwrap();
        assert!(store.rename("next", "old").unwrap());
        assert_eq!(store.get("old").unwrap().unwrap(), b"next");
        assert_eq!(store.get("next").unwrap(), None);
    }
}

#[test]
fn a_removed_entry_is_gone_and_may_be_removed_again() {
    for (store, _directory) in stores() {
        store.put("a", b"x", Durability::Process).unwrap();
        store.remove("a").unwrap();
        assert_eq!(store.get("a").unwrap(), None);
        store.remove("a").unwrap();
    }
}
