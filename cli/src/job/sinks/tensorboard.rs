//! An event file for TensorBoard: records of TensorFlow's TFRecord framing with protobuf `Event` messages of scalars.
//!
//! Formats: `tensorflow/core/lib/io/record_writer.h` (framing and masked checksums), `tensorflow/core/util/event.proto`
//! and
//! `tensorflow/core/framework/summary.proto` (field numbers, below). The same rounds give the same bytes.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use tributary_protocol::operator::Job;

use super::curve::{Point, points};
use crate::error::CliError;
use crate::files::temporary_beside;
use crate::job::watch::News;

/// The content of the first event of a file.
const FILE_VERSION: &str = "brain.Event:2";
/// TensorFlow masks checksums, because the CRC of data that itself contains CRCs is problematic.
const MASK_DELTA: u32 = 0xa282_ead8;

#[derive(Debug)]
pub(super) struct EventFile {
    path: PathBuf,
    file: File,
}

impl EventFile {
    /// An empty event file for a job, in a separate folder below `folder`: TensorBoard shows folders as runs. The
    /// file of an earlier export is replaced.
    pub(super) fn create(folder: &Path, job: &Job) -> Result<Self, CliError> {
        let run = folder.join(format!("{}-{}", job.file.name, job.head.id));
        std::fs::create_dir_all(&run).map_err(CliError::file("make the folder", &run))?;
        // TensorBoard reads files whose names contain "tfevents".
        let path = run.join("events.out.tfevents.tributary");
        let mut file = temporary_beside(&path).map_err(CliError::file("write", &path))?;
        let first = record(&version_event(job.head.created_at_ms));
        file.write_all(&first).map_err(CliError::file("write", &path))?;
        let file = file.persist(&path).map_err(|error| CliError::file("write", &path)(error.error))?;
        Ok(Self { path, file })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn take(&mut self, news: &News) -> Result<(), CliError> {
        let records: Vec<u8> =
            news.ended.iter().flat_map(points).flat_map(|point| record(&scalar_event(&point))).collect();
        self.file.write_all(&records).map_err(CliError::file("write", &self.path))
    }
}

/// `Event { wall_time = 1, file_version = 3 }`
fn version_event(at_ms: i64) -> Vec<u8> {
    let mut event = Vec::new();
    double_field(&mut event, 1, at_ms as f64 / 1000.0);
    bytes_field(&mut event, 3, FILE_VERSION.as_bytes());
    event
}

/// `Event { wall_time = 1, step = 2, summary = 5 { value = 1 { tag = 1, simple_value = 2 } } }`
fn scalar_event(point: &Point) -> Vec<u8> {
    let mut value = Vec::new();
    bytes_field(&mut value, 1, point.name.as_bytes());
    key(&mut value, 2, WIRE_32_BITS);
    // TensorBoard's scalars are f32.
    value.extend_from_slice(&(point.value as f32).to_le_bytes());
    let mut summary = Vec::new();
    bytes_field(&mut summary, 1, &value);
    let mut event = Vec::new();
    double_field(&mut event, 1, point.at_ms as f64 / 1000.0);
    key(&mut event, 2, WIRE_VARINT);
    varint(&mut event, point.step.into());
    bytes_field(&mut event, 5, &summary);
    event
}

const WIRE_VARINT: u64 = 0;
const WIRE_64_BITS: u64 = 1;
const WIRE_BYTES: u64 = 2;
const WIRE_32_BITS: u64 = 5;

fn key(message: &mut Vec<u8>, field: u64, wire: u64) {
    varint(message, field << 3 | wire);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

fn double_field(message: &mut Vec<u8>, field: u64, value: f64) {
    key(message, field, WIRE_64_BITS);
    message.extend_from_slice(&value.to_le_bytes());
}

fn bytes_field(message: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    key(message, field, WIRE_BYTES);
    varint(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

/// A record: its length, the length's checksum, the data, the data's checksum, all little-endian.
fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked_crc32c(&length).to_le_bytes(), data, &masked_crc32c(data).to_le_bytes()].concat()
}

fn masked_crc32c(data: &[u8]) -> u32 {
    crc32c(data).rotate_right(15).wrapping_add(MASK_DELTA)
}

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4), bit by bit: event files are small.
fn crc32c(data: &[u8]) -> u32 {
    /// The polynomial 0x1EDC6F41, bits reversed.
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
    !data.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{job, round};
    use tributary_protocol::state::{Phase, Task};

    #[test]
    fn checksums_are_those_of_the_rfc() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&ascending), 0x46dd_794e);
    }

    #[test]
    fn an_event_has_the_bytes_that_tensorboard_reads() {
        let point = Point { name: "training/loss".into(), step: 300, at_ms: 1_500, value: 0.5 };
        let event = b"\x09\0\0\0\0\0\0\xf8\x3f\x10\xac\x02\x2a\x16\x0a\x14\x0a\x0dtraining/loss\x15\0\0\0\x3f";
        assert_eq!(scalar_event(&point), event);
        let record = record(event);
        // TensorBoard 2.21 reads these bytes, and computes these checksums.
        let (length, checksum) = (36u64.to_le_bytes(), 0x4d80_2b42_u32.to_le_bytes());
        assert_eq!(record, [&length[..], &checksum, event, &0x4798_4cb3_u32.to_le_bytes()].concat());
    }

    #[test]
    fn a_repeated_export_replaces_the_file_and_news_are_appended() {
        let folder = tempfile::tempdir().unwrap();
        let job = job(1, "demo", "digits");
        let news = |number| News {
            job: job.clone(),
            ended: vec![round(Task::Train, number, Phase::Committed)],
            open: None,
            waits: None,
        };
        let mut file = EventFile::create(folder.path(), &job).unwrap();
        file.take(&news(1)).unwrap();
        file.take(&news(2)).unwrap();
        let both = std::fs::read(file.path()).unwrap();
        let mut again = EventFile::create(folder.path(), &job).unwrap();
        let together = News { ended: [news(1).ended, news(2).ended].concat(), ..news(1) };
        again.take(&together).unwrap();
        assert_eq!(std::fs::read(again.path()).unwrap(), both);
        assert_eq!(std::fs::read_dir(again.path().parent().unwrap()).unwrap().count(), 1);
    }
}
