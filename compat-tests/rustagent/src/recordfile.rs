//! The protocol's record files, read and written as a stream.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};

/// One record, to be produced or consumed.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// -1 in an input: the client chooses.
    pub partition: i32,
    /// Not in an input.
    pub offset: i64,
    /// Milliseconds since 1970; -1: none given.
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// The records of an input file, in the file's order.
pub struct Reader<R: Read>(BufReader<R>);

impl Reader<File> {
    pub fn open(path: &str) -> io::Result<Reader<File>> {
        Ok(Reader::new(File::open(path)?))
    }
}

impl<R: Read> Reader<R> {
    pub fn new(from: R) -> Reader<R> {
        Reader(BufReader::with_capacity(1 << 20, from))
    }

    fn int(&mut self) -> io::Result<i32> {
        let mut b = [0; 4];
        self.0.read_exact(&mut b)?;
        Ok(i32::from_be_bytes(b))
    }

    fn long(&mut self) -> io::Result<i64> {
        let mut b = [0; 8];
        self.0.read_exact(&mut b)?;
        Ok(i64::from_be_bytes(b))
    }

    fn bytes(&mut self) -> io::Result<Option<Vec<u8>>> {
        let length = self.int()?;
        if length < 0 {
            return Ok(None);
        }
        let mut b = Vec::new();
        if (&mut self.0).take(length as u64).read_to_end(&mut b)? < length as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(b))
    }

    fn rest(&mut self, partition: i32) -> io::Result<Record> {
        let timestamp = self.long()?;
        let (key, value) = (self.bytes()?, self.bytes()?);
        let mut headers = Vec::new();
        for _ in 0..self.int()? {
            let name = String::from_utf8(self.bytes()?.unwrap_or_default()).map_err(io::Error::other)?;
            headers.push((name, self.bytes()?));
        }
        Ok(Record { partition, offset: 0, timestamp, key, value, headers })
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<io::Result<Record>> {
        let mut first = [0; 4];
        let begun = match self.0.read(&mut first) {
            Ok(0) => return None, // the end lies between two records
            Ok(n) => self.0.read_exact(&mut first[n..]),
            Err(e) => Err(e),
        };
        Some(begun.and_then(|()| self.rest(i32::from_be_bytes(first))))
    }
}

/// Appends consumed records to a file.
pub struct Writer(BufWriter<File>);

impl Writer {
    pub fn append(path: &str) -> io::Result<Writer> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Writer(BufWriter::with_capacity(1 << 20, file)))
    }

    pub fn write(&mut self, r: &Record) -> io::Result<()> {
        let out = &mut self.0;
        out.write_all(&r.partition.to_be_bytes())?;
        out.write_all(&r.offset.to_be_bytes())?;
        out.write_all(&r.timestamp.to_be_bytes())?;
        bytes(out, r.key.as_deref())?;
        bytes(out, r.value.as_deref())?;
        out.write_all(&(r.headers.len() as i32).to_be_bytes())?;
        for (name, value) in &r.headers {
            bytes(out, Some(name.as_bytes()))?;
            bytes(out, value.as_deref())?;
        }
        Ok(())
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn bytes(out: &mut impl Write, b: Option<&[u8]>) -> io::Result<()> {
    match b {
        None => out.write_all(&(-1i32).to_be_bytes()),
        Some(b) => {
            out.write_all(&(b.len() as i32).to_be_bytes())?;
            out.write_all(b)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let headers = vec![("h".to_string(), None), ("".to_string(), Some(vec![])), ("h".to_string(), Some(vec![255]))];
        Record { partition: 3, offset: 9, timestamp: -1, key: None, value: Some(vec![0, 1]), headers }
    }

    /// What Writer wrote, without the offsets: an input file.
    fn written() -> Vec<u8> {
        let path = std::env::temp_dir().join(format!("recordfile-{}-{:?}", std::process::id(), std::thread::current().id()));
        let mut w = Writer::append(path.to_str().unwrap()).unwrap();
        w.write(&record()).unwrap();
        w.flush().unwrap();
        let mut data = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(data[4..12], 9i64.to_be_bytes());
        data.drain(4..12);
        data
    }

    #[test]
    fn reads_what_it_writes() {
        let mut data = written();
        data.extend_from_slice(&data.clone());
        let got: Vec<Record> = Reader::new(data.as_slice()).map(|r| r.unwrap()).collect();
        let want = Record { offset: 0, ..record() };
        assert_eq!(got, [want.clone(), want]);
    }

    #[test]
    fn a_cut_file_is_an_error() {
        let data = written();
        for n in 1..data.len() {
            let last = Reader::new(&data[..n]).last();
            assert!(matches!(last, Some(Err(_))), "cut to {n}: {last:?}");
        }
    }
}
