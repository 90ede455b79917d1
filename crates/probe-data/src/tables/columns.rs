//! Columns of numbers in Parquet files: the subset of Parquet that the tables need.
//!
//! All tables are flat and contain numbers only, so that a column of a row group is a list of
//! integers, and of flags that mark the rows with a value.

use super::meta::{KEY, Metadata, VERSION};
use crate::error::Error;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Encoding of a column.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// For few different numbers.
    Dictionary,
    /// For numbers that grow evenly.
    Delta,
    /// For numbers with similar high bytes and varying low bytes.
    Split,
}

/// Name and number type of a column.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Column {
    /// Name of the column.
    pub name: String,
    /// Number of bits: 8, 16, 32 or 64. Up to 32 are stored as 32.
    pub bits: i8,
    /// Whether numbers are signed.
    pub signed: bool,
    /// Whether a row may have no number.
    pub optional: bool,
    /// Encoding.
    pub form: Form,
}

/// Numbers of one column of one row group.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Numbers {
    /// Up to 32 bits; unsigned numbers are stored with the same bits.
    Short(Vec<i32>),
    /// 64 bits.
    Long(Vec<i64>),
}

/// Numbers of a column, without the rows that have none, and flags of the rows that have one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Values {
    /// Existing numbers.
    pub numbers: Numbers,
    /// For optional columns, 1 for each row with a number and 0 for each without.
    pub present: Option<Vec<i16>>,
}

impl Values {
    /// Numbers row by row, `None` where a row has none. Those of up to 32 bits are interpreted as
    /// signed or unsigned.
    pub fn by_row(self, signed: bool) -> Vec<Option<i64>> {
        let numbers: Vec<i64> = match self.numbers {
            Numbers::Long(numbers) => numbers,
            Numbers::Short(numbers) if signed => numbers.into_iter().map(i64::from).collect(),
            Numbers::Short(numbers) => {
                numbers.into_iter().map(|number| number.cast_unsigned().into()).collect()
            }
        };
        let Some(present) = self.present else { return numbers.into_iter().map(Some).collect() };
        let mut numbers = numbers.into_iter();
        present.iter().map(|level| (*level != 0).then(|| numbers.next()).flatten()).collect()
    }
}

fn schema(columns: &[Column]) -> parquet::errors::Result<Arc<Type>> {
    let fields = columns.iter().map(|column| {
        let physical = if column.bits == 64 { Physical::INT64 } else { Physical::INT32 };
        let repetition = if column.optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let logical = LogicalType::integer(column.bits, column.signed);
        let field = Type::primitive_type_builder(&column.name, physical)
            .with_repetition(repetition)
            .with_logical_type(Some(logical));
        field.build().map(Arc::new)
    });
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder("row").with_fields(fields).build().map(Arc::new)
}

fn properties(columns: &[Column], metadata: &Metadata) -> Result<WriterProperties, String> {
    let text = serde_json::to_string(metadata).map_err(|error| error.to_string())?;
    let level = ZstdLevel::try_new(1).map_err(|error| error.to_string())?;
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::ZSTD(level))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_data_page_size_limit(1 << 20)
        .set_data_page_row_count_limit(1 << 17)
        .set_write_batch_size(1 << 14)
        .set_created_by(format!("claret {}", metadata.build))
        .set_key_value_metadata(Some(vec![KeyValue::new(KEY.into(), text)]));
    for column in columns {
        let path = ColumnPath::from(column.name.as_str());
        let encoding = match column.form {
            Form::Dictionary => None,
            Form::Delta => Some(Encoding::DELTA_BINARY_PACKED),
            Form::Split => Some(Encoding::BYTE_STREAM_SPLIT),
        };
        properties = properties.set_column_dictionary_enabled(path.clone(), encoding.is_none());
        if let Some(encoding) = encoding {
            properties = properties.set_column_encoding(path, encoding);
        }
    }
    Ok(properties.build())
}

/// Creates a file of a table.
pub fn writer<W: Write + Send>(
    to: W,
    path: &Path,
    columns: &[Column],
    metadata: &Metadata,
) -> Result<SerializedFileWriter<W>, Error> {
    let schema = schema(columns).map_err(Error::parquet(path))?;
    let properties = properties(columns, metadata).map_err(|what| Error::content(path, what))?;
    SerializedFileWriter::new(to, schema, Arc::new(properties)).map_err(Error::parquet(path))
}

/// Writes one row group.
pub fn write_group<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    values: &[Values],
) -> parquet::errors::Result<()> {
    let mut group = writer.next_row_group()?;
    let mut values = values.iter();
    while let Some(mut column) = group.next_column()? {
        let Some(found) = values.next() else { break };
        let present = found.present.as_deref();
        match (column.untyped(), &found.numbers) {
            (ColumnWriter::Int32ColumnWriter(to), Numbers::Short(numbers)) => {
                to.write_batch(numbers, present, None)?;
            }
            (ColumnWriter::Int64ColumnWriter(to), Numbers::Long(numbers)) => {
                to.write_batch(numbers, present, None)?;
            }
            _ => {
                return Err(parquet::errors::ParquetError::General(
                    "column of another type".into(),
                ));
            }
        }
        column.close()?;
    }
    group.close()?;
    Ok(())
}

/// An open file, and its metadata.
pub struct Opened {
    reader: SerializedFileReader<File>,
    /// Metadata of the file.
    pub metadata: Metadata,
    /// Number of rows of all row groups.
    pub rows: u64,
    path: std::path::PathBuf,
}

/// Opens a file: reads its footer, and checks its version.
pub fn open(path: &Path) -> Result<Opened, Error> {
    #[derive(serde::Deserialize)]
    struct Version {
        version: u32,
    }
    let file = File::open(path).map_err(Error::io(path))?;
    let reader = SerializedFileReader::new(file).map_err(Error::parquet(path))?;
    let found = reader.metadata().file_metadata();
    let rows = u64::try_from(found.num_rows()).unwrap_or(0);
    let pairs = found.key_value_metadata().into_iter().flatten();
    let text = pairs.filter(|pair| pair.key == KEY).find_map(|pair| pair.value.clone());
    let text = text.ok_or_else(|| Error::content(path, format!("has no metadata {KEY}")))?;
    let wrong = |error: serde_json::Error| Error::content(path, format!("metadata: {error}"));
    let Version { version: said } = serde_json::from_str(&text).map_err(wrong)?;
    if said != VERSION {
        return Err(Error::OtherVersion { path: path.to_owned(), found: said, known: VERSION });
    }
    let metadata = serde_json::from_str(&text).map_err(wrong)?;
    Ok(Opened { reader, metadata, rows, path: path.to_owned() })
}

impl Opened {
    /// Number of row groups.
    pub fn groups(&self) -> usize {
        self.reader.num_row_groups()
    }

    /// Names of all columns, in the order of the file.
    pub fn names(&self) -> Vec<String> {
        let columns = self.reader.metadata().file_metadata().schema_descr().columns();
        columns.iter().map(|column| column.name().to_owned()).collect()
    }

    /// Whether a column may have a number in some row: the statistics can exclude it only if all of
    /// its row groups have them.
    pub fn has_numbers(&self, name: &str) -> bool {
        let groups = self.reader.metadata().row_groups();
        let numberless = |group: &parquet::file::metadata::RowGroupMetaData| {
            let mut columns = group.columns().iter();
            let column = columns.find(|column| column.column_descr().name() == name);
            let nulls = column.and_then(|column| column.statistics()?.null_count_opt());
            nulls.is_some_and(|nulls| u64::try_from(group.num_rows()) == Ok(nulls))
        };
        !groups.iter().all(numberless)
    }

    /// Reads some columns of one row group, in the order in which they are named.
    pub fn read(&self, group: usize, names: &[&str]) -> Result<Vec<Values>, Error> {
        let reader = self.reader.get_row_group(group).map_err(Error::parquet(&self.path))?;
        let all = self.names();
        let read = names.iter().map(|name| {
            let at = all.iter().position(|found| found == name);
            let at =
                at.ok_or_else(|| Error::content(&self.path, format!("has no column {name}")))?;
            self.column(reader.as_ref(), at, name)
        });
        read.collect()
    }

    fn column(&self, reader: &dyn RowGroupReader, at: usize, name: &str) -> Result<Values, Error> {
        let wrong = Error::parquet(&self.path);
        let rows = usize::try_from(reader.metadata().num_rows()).unwrap_or(0);
        let optional = reader.metadata().column(at).column_descr().max_def_level() > 0;
        match reader.get_column_reader(at).map_err(&wrong)? {
            ColumnReader::Int32ColumnReader(mut column) => {
                let (numbers, present) =
                    read_all::<Int32Type>(&mut column, rows, optional).map_err(&wrong)?;
                Ok(Values { numbers: Numbers::Short(numbers), present })
            }
            ColumnReader::Int64ColumnReader(mut column) => {
                let (numbers, present) =
                    read_all::<Int64Type>(&mut column, rows, optional).map_err(&wrong)?;
                Ok(Values { numbers: Numbers::Long(numbers), present })
            }
            _ => Err(Error::content(&self.path, format!("column {name} is not of integers"))),
        }
    }
}

type Read<T> = (Vec<T>, Option<Vec<i16>>);

fn read_all<T: DataType>(
    column: &mut ColumnReaderImpl<T>,
    rows: usize,
    optional: bool,
) -> parquet::errors::Result<Read<T::T>>
where
    ColumnReaderImpl<T>: Sized,
{
    let mut numbers = Vec::with_capacity(rows);
    let mut present = Vec::with_capacity(if optional { rows } else { 0 });
    let mut read = 0;
    while read < rows {
        let levels = if optional { Some(&mut present) } else { None };
        let (records, _, _) = column.read_records(rows - read, levels, None, &mut numbers)?;
        if records == 0 {
            return Err(parquet::errors::ParquetError::EOF("a column ends early".into()));
        }
        read += records;
    }
    Ok((numbers, optional.then_some(present)))
}
