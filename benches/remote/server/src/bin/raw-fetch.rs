//! A client that only fetches: `raw-fetch PORT RANGES`. What no reader can be faster than, fetching the same.
//!
//! Each line of the file RANGES is `STAGE PATH FIRST LENGTH`: the stages follow each other, their requests do not. A
//! FIRST of `-` means the last LENGTH bytes. Each line `run CONNECTIONS` on standard input fetches all on so many fresh
//! connections, one request on each at a time, and is answered with a line of JSON. Bodies are read and forgotten.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.as_slice() {
        [port, ranges] => serve(port, ranges),
        _ => Err("usage: raw-fetch PORT RANGES".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("raw-fetch: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(port: &str, ranges: &str) -> Result<()> {
    let port: u16 = port.parse()?;
    let stages = load(&std::fs::read_to_string(ranges)?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut answers = io::stdout().lock();
    writeln!(answers, r#"{{"ready": true}}"#)?;
    answers.flush()?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let connections = line.strip_prefix("run ").ok_or("expected run CONNECTIONS")?.parse()?;
        let begin = Instant::now();
        let bytes = runtime.block_on(fetch_all(port, &stages, connections))?;
        let seconds = begin.elapsed().as_secs_f64();
        writeln!(answers, r#"{{"seconds": {seconds:.6}, "bytes": {bytes}}}"#)?;
        answers.flush()?;
    }
    Ok(())
}

/// Give the requests of each stage, as they are sent.
fn load(text: &str) -> Result<Vec<Arc<Vec<String>>>> {
    let mut stages: Vec<Vec<String>> = Vec::new();
    for line in text.lines() {
        let [stage, path, first, length] = line.split(' ').collect::<Vec<_>>()[..] else {
            return Err(format!("got the line {line:?}; expected STAGE PATH FIRST LENGTH").into());
        };
        let length: u64 = length.parse()?;
        let range = match first.parse::<u64>() {
            Ok(first) => format!("{first}-{}", first + length - 1),
            Err(_) => format!("-{length}"),
        };
        let stage: usize = stage.parse()?;
        stages.resize(stages.len().max(stage + 1), Vec::new());
        stages[stage].push(format!("GET /{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nRange: bytes={range}\r\n\r\n"));
    }
    Ok(stages.into_iter().map(Arc::new).collect())
}

async fn fetch_all(port: u16, stages: &[Arc<Vec<String>>], most: usize) -> Result<u64> {
    let mut idle: Vec<Connection> = Vec::new();
    let mut bytes = 0;
    for requests in stages {
        let next = Arc::new(AtomicUsize::new(0));
        let mut working = JoinSet::new();
        for _ in 0..most.min(requests.len()) {
            let (requests, next, kept) = (Arc::clone(requests), Arc::clone(&next), idle.pop());
            working.spawn(async move {
                let mut connection = match kept {
                    Some(connection) => connection,
                    None => Connection::open(port).await?,
                };
                let mut bytes = 0;
                while let Some(request) = requests.get(next.fetch_add(1, Relaxed)) {
                    bytes += connection.fetch(request).await?;
                }
                Result::Ok((connection, bytes))
            });
        }
        while let Some(done) = working.join_next().await {
            let (connection, fetched) = done??;
            idle.push(connection);
            bytes += fetched;
        }
    }
    Ok(bytes)
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: vec![0; 256 * 1024] })
    }

    /// Send a request, and read its answer. Gives the length of the body.
    async fn fetch(&mut self, request: &str) -> Result<u64> {
        self.stream.write_all(request.as_bytes()).await?;
        let mut filled = 0;
        let end = loop {
            filled += match self.stream.read(&mut self.buffer[filled..]).await? {
                0 => return Err("the server closed a connection".into()),
                read => read,
            };
            if let Some(end) = self.buffer[..filled].windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let head = std::str::from_utf8(&self.buffer[..end])?;
        if !head.starts_with("HTTP/1.1 206") {
            return Err(format!("got {:?} for {request:?}", head.lines().next()).into());
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then(|| value.parse::<u64>().ok())?
        });
        let length = length.ok_or("an answer has no length")?;
        let mut rest = (length + end as u64).checked_sub(filled as u64).ok_or("an answer is too long")?;
        while rest > 0 {
            let most = usize::try_from(rest)?.min(self.buffer.len());
            match self.stream.read(&mut self.buffer[..most]).await? {
                0 => return Err("the server closed a connection".into()),
                read => rest -= read as u64,
            }
        }
        Ok(length)
    }
}
