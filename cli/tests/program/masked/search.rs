//! A search for the values of an update in the memory of a process and in files.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::BufRead;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of the shortest run that is searched for: eight numbers of two bytes.
const RUN_BYTES_MIN: usize = 16;
/// Bytes of the longest run: eight numbers of eight bytes.
const RUN_BYTES_MAX: usize = 64;
/// Places of a form of the update at which runs are taken.
const PLACES: usize = 1_000;
/// At each place a run begins at so many bytes, so that it is enough to compare every so-many-th byte of memory.
const STRIDE: usize = 16;
/// Bytes that decide where a run is compared.
const KEY_BYTES: usize = 8;
/// Bytes that are read at once.
const PIECE_BYTES: usize = 1 << 20;
/// Memory comes in pages of this size. Most of them are zeros.
const PAGE_BYTES: usize = 4_096;

/// Runs of numbers, in the forms in which a coordinator might have them.
#[derive(Default)]
pub(super) struct Runs {
    forms: Vec<Form>,
    /// Form and place of the runs that begin with these bytes.
    by_key: HashMap<[u8; KEY_BYTES], Vec<(usize, usize)>>,
}

struct Form {
    name: &'static str,
    encoded: Vec<u8>,
    run_bytes: usize,
}

impl Runs {
    /// Searches for a form of the update, too. A run has `run_bytes` bytes.
    pub(super) fn add(&mut self, name: &'static str, encoded: Vec<u8>, run_bytes: usize) {
        assert!((RUN_BYTES_MIN..=RUN_BYTES_MAX).contains(&run_bytes));
        let last = encoded.len() - run_bytes - STRIDE;
        for place in (0..last).step_by(last.div_ceil(PLACES)) {
            for first in place..place + STRIDE {
                let key = encoded[first..first + KEY_BYTES].try_into().unwrap();
                self.by_key.entry(key).or_default().push((self.forms.len(), first));
            }
        }
        self.forms.push(Form { name, encoded, run_bytes });
    }

    /// The forms of which some run is in these bytes.
    fn find(&self, bytes: &[u8], found: &mut BTreeSet<&'static str>) {
        for (page, from) in bytes.chunks(PAGE_BYTES).zip((0..).step_by(PAGE_BYTES)) {
            if page == &[0; PAGE_BYTES][..page.len()] {
                continue;
            }
            for (key, at) in page.chunks_exact(KEY_BYTES).step_by(STRIDE / KEY_BYTES).zip((from..).step_by(STRIDE)) {
                for (form, first) in self.by_key.get(key).into_iter().flatten() {
                    let Form { name, encoded, run_bytes } = &self.forms[*form];
                    if bytes[at..].starts_with(&encoded[*first..first + run_bytes]) {
                        found.insert(name);
                    }
                }
            }
        }
    }

    /// The same for a part of a file or of memory. What cannot be read, such as memory that was given back meanwhile,
    /// is left out.
    fn find_in(&self, file: &File, from: u64, to: u64, found: &mut BTreeSet<&'static str>) {
        let mut piece = vec![0; PIECE_BYTES + RUN_BYTES_MAX];
        for at in (from..to).step_by(PIECE_BYTES) {
            // A run may lie across two pieces.
            let wanted = (to - at).min(piece.len() as u64) as usize;
            if let Ok(read) = file.read_at(&mut piece[..wanted], at) {
                self.find(&piece[..read], found);
            }
        }
    }

    /// The forms in the writable memory of a process: heap, stacks and what is mapped.
    pub(super) fn in_memory(&self, process: u32) -> BTreeSet<&'static str> {
        let memory = File::open(format!("/proc/{process}/mem")).unwrap();
        let maps = File::open(format!("/proc/{process}/maps")).unwrap();
        let (mut found, mut read) = (BTreeSet::new(), 0);
        for line in std::io::BufReader::new(maps).lines() {
            let line = line.unwrap();
            let mut words = line.split(' ');
            let (range, rights) = (words.next().unwrap(), words.next().unwrap());
            if !rights.starts_with("rw") {
                continue;
            }
            let (from, to) = range.split_once('-').unwrap();
            let [from, to] = [from, to].map(|address| u64::from_str_radix(address, 16).unwrap());
            self.find_in(&memory, from, to, &mut found);
            read += to - from;
        }
        assert!(read > 1 << 20, "memory that a coordinator needs");
        found
    }

    /// The forms in the files of a folder, with the names of the files.
    pub(super) fn in_files(&self, folder: &Path) -> BTreeSet<(String, &'static str)> {
        let mut found = BTreeSet::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(self.in_files(&path));
                continue;
            }
            // A body may be deleted meanwhile.
            let Ok(file) = File::open(&path) else { continue };
            let mut forms = BTreeSet::new();
            self.find_in(&file, 0, file.metadata().unwrap().len(), &mut forms);
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            found.extend(forms.into_iter().map(|form| (name.clone(), form)));
        }
        found
    }
}
