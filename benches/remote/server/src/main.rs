//! An object store that holds a folder in memory and answers as one far away would: `object-server ROOT THREADS`.
//!
//! It serves objects by HTTP (`/KEY`) and by S3, path-style, without signatures (`/bench/KEY`, lists included). Every
//! request waits for the latency, then its body is sent no faster than the bandwidth allows: both hold for each request
//! on its own, however many there are. The first line on standard output names the port. Then each line on standard
//! input is a command, answered with a line of JSON:
//!
//! ```text
//! set MILLISECONDS BYTES_PER_SECOND     of requests from now on; 0 bytes per second do not limit
//! reset                                 begin counting anew
//! counts                                see `counters.rs`
//! ```

mod body;
mod counters;
mod listing;
mod objects;
mod range;
mod service;

use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;

use objects::Objects;
use service::Service;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 4096;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.as_slice() {
        [root, threads] => serve(Path::new(root), threads),
        _ => Err("usage: object-server ROOT THREADS".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("object-server: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serve until standard input ends.
fn serve(root: &Path, threads: &str) -> Result<()> {
    let service = Arc::new(Service::new(Objects::load(root)?));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads.parse()?).enable_all().build()?;
    let port = listen(&runtime, &service)?;
    let mut answers = io::stdout().lock();
    let (count, bytes) = service.objects.size();
    writeln!(answers, r#"{{"port": {port}, "objects": {count}, "bytes": {bytes}}}"#)?;
    answers.flush()?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let answer = match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["set", milliseconds, rate] => {
                service.settings.set(milliseconds.parse()?, rate.parse()?);
                "{}".to_owned()
            }
            ["reset"] => {
                service.counters.reset();
                "{}".to_owned()
            }
            ["counts"] => service.counters.json(),
            _ => return Err(format!("got the line {line:?}; expected set, reset or counts").into()),
        };
        writeln!(answers, "{answer}")?;
        answers.flush()?;
    }
    Ok(())
}

/// Accept connections on a free port of 127.0.0.1, which is given.
fn listen(runtime: &Runtime, service: &Arc<Service>) -> Result<u16> {
    let _inside = runtime.enter();
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    let listener = socket.listen(BACKLOG)?;
    let port = listener.local_addr()?.port();
    let service = Arc::clone(service);
    runtime.spawn(async move {
        loop {
            let Ok((connection, _)) = listener.accept().await else { continue };
            let _ = connection.set_nodelay(true);
            let service = Arc::clone(&service);
            tokio::spawn(async move {
                let _open = service.counters.connected();
                let answer = service_fn(|request| service.answer(request));
                // An error here is a client that left.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(connection), answer).await;
            });
        }
    });
    Ok(port)
}
