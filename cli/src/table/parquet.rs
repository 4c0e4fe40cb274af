//! Tables in Parquet files: their rows, as the lines of a table with a header.
//!
//! A value goes through its text, so labels, missing values and `--target-column` are what they are in CSV files.

use std::fs::File;

use csv::{Position, StringRecord};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use tributary_protocol::inputs::Inputs;

use super::error::TableError;
use super::rows::{Rows, Table, TableOptions};
use super::schema::{RawTable, SchemaOptions, SchemaRows};
use super::sniff::Sniffed;

/// Reads a whole table into memory.
pub(super) fn read(file: File, options: &TableOptions) -> Result<Table, TableError> {
    let mut rows = Rows::new(options, &Sniffed { delimiter: b',', has_header: true });
    read_rows(file, |record| rows.push(record))?;
    rows.finish()
}

/// Reads a whole table by the columns of a job.
pub(super) fn read_by_schema(file: File, inputs: &Inputs, options: &SchemaOptions) -> Result<RawTable, TableError> {
    let mut rows = SchemaRows::new(inputs, options);
    read_rows(file, |record| rows.push_record(record))?;
    rows.finish()
}

/// Gives the names of the columns to `push`, then each row.
pub(super) fn read_rows(
    file: File,
    mut push: impl FnMut(&StringRecord) -> Result<(), TableError>,
) -> Result<(), TableError> {
    let reader = SerializedFileReader::new(file).map_err(unreadable)?;
    let columns = reader.metadata().file_metadata().schema().get_fields().iter();
    let names: Vec<String> = columns.map(|column| column.name().to_owned()).collect();
    push(&StringRecord::from(names))?;
    let mut record = StringRecord::new();
    for (row, line) in reader.get_row_iter(None).map_err(unreadable)?.zip(1..) {
        record.clear();
        for (name, value) in row.map_err(unreadable)?.get_column_iter() {
            record.push_field(&text(value).ok_or_else(|| TableError::Kind(name.clone()))?);
        }
        record.set_position(Some(Position::new().set_line(line).clone()));
        push(&record)?;
    }
    Ok(())
}

fn unreadable(error: ParquetError) -> TableError {
    TableError::Parquet(error.to_string())
}

/// The text of a number, a truth value (0 or 1) or a label; `None` for dates, lists and groups.
fn text(value: &Field) -> Option<String> {
    Some(match value {
        Field::Null => String::new(),
        Field::Bool(value) => u8::from(*value).to_string(),
        Field::Byte(value) => value.to_string(),
        Field::Short(value) => value.to_string(),
        Field::Int(value) => value.to_string(),
        Field::Long(value) => value.to_string(),
        Field::UByte(value) => value.to_string(),
        Field::UShort(value) => value.to_string(),
        Field::UInt(value) => value.to_string(),
        Field::ULong(value) => value.to_string(),
        Field::Float16(value) => value.to_string(),
        Field::Float(value) => value.to_string(),
        Field::Double(value) => value.to_string(),
        Field::Decimal(_) => value.to_string(),
        Field::Str(value) => value.clone(),
        // Older writers do not mark texts as such.
        Field::Bytes(value) => value.as_utf8().ok()?.to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::basic::Compression;
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use tempfile::NamedTempFile;
    use tributary_client::examples::{Examples, Targets};

    use super::*;

    /// Four rows of a size, of which one is missing, a number of legs, and an animal.
    fn animals(compression: Compression) -> NamedTempFile {
        let schema = "message animals { optional double size; required int32 legs; required binary animal (utf8); }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
        let path = NamedTempFile::new().unwrap();
        let mut file = SerializedFileWriter::new(path.reopen().unwrap(), schema, properties).unwrap();
        let mut group = file.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<DoubleType>().write_batch(&[0.25, 1e-3, 3.0], Some(&[1, 1, 0, 1]), None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int32Type>().write_batch(&[4, 4, 2, 4], None, None).unwrap();
        column.close().unwrap();
        let names = ["dog", "cat", "bird", "dog"].map(ByteArray::from);
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&names, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        file.close().unwrap();
        path
    }

    fn refused(path: &NamedTempFile, options: &TableOptions) -> String {
        read(path.reopen().unwrap(), options).expect_err("must be refused").to_string()
    }

    #[test]
    fn rows_become_examples_with_labels_and_missing_values() {
        let options = TableOptions { missing: Some(crate::table::Missing::Drop), ..TableOptions::default() };
        for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(Default::default())] {
            let table = read(animals(compression).reopen().unwrap(), &options).unwrap();
            let batch = table.examples.batch(&[0, 1, 2]).unwrap();
            assert_eq!(batch.inputs, [0.25, 4.0, 1e-3, 4.0, 3.0, 4.0]);
            assert_eq!(batch.targets, Targets::Classes(vec![1, 0, 1]));
            assert_eq!((table.examples.input_shape(), table.classes), (&[2][..], 2));
            assert_eq!(table.notes, ["left out for missing values: 1 of the lines"]);
        }
    }

    #[test]
    fn a_file_is_parquet_by_its_options_whatever_its_name() {
        let path = animals(Compression::SNAPPY);
        let inputs = serde_json::json!({
            "columns": [{ "name": "legs" }, { "name": "size", "missing": "replace" }],
            "target": { "name": "animal", "classes": ["bird", "cat", "dog"] },
        });
        let inputs: Inputs = serde_json::from_value(inputs).unwrap();
        let read = |is_parquet| {
            let options = SchemaOptions { is_for_training: true, is_parquet, ..SchemaOptions::default() };
            crate::table::read_by_schema(path.path(), &inputs, None, &options)
        };
        assert_eq!(read(true).unwrap().values[..2], [4.0, 0.25]);
        assert!(read(false).is_err(), "its name does not end in .parquet");
    }

    #[test]
    fn mistakes_name_the_row_and_the_column() {
        let path = animals(Compression::UNCOMPRESSED);
        assert_eq!(refused(&path, &TableOptions::default()), "line 3: column size: the value is missing");
        let of = |column: &str| TableOptions { target_column: Some(column.to_owned()), ..TableOptions::default() };
        assert_eq!(refused(&path, &of("legs")), "line 1: column animal: \"dog\" is not a number");
        assert_eq!(refused(&path, &of("wings")), "there is no column \"wings\"; the columns are size, legs, animal");
    }

    #[test]
    fn a_file_that_is_no_parquet_or_ends_early_is_refused() {
        let path = NamedTempFile::new().unwrap();
        std::fs::write(path.path(), "x,y\n1,2\n").unwrap();
        assert!(refused(&path, &TableOptions::default()).starts_with("it is no Parquet file: "));
        let whole = std::fs::read(animals(Compression::SNAPPY).path()).unwrap();
        for length in [0, 4, whole.len() / 2, whole.len() - 1] {
            std::fs::write(path.path(), &whole[..length]).unwrap();
            assert!(refused(&path, &TableOptions::default()).starts_with("it is no Parquet file: "), "{length}");
        }
    }
}
