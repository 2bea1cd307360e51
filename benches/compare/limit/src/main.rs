//! The least time that a read into fresh memory could take on this machine.
//!
//! A plan, written by the benchmark, says which bytes of which files to read, how they are stored, and where their
//! pieces go. Threads take its chunks one by one: each is read and decoded once, with buffers and contexts that are
//! reused, and its pieces are copied to a fresh output on huge pages. Nothing is planned, checked or counted meanwhile.
//!
//! ```text
//! limit serve PLAN THREADS [--read-only]         one run per line on stdin, see `serve`
//! limit time PLAN THREADS RUNS [--read-only]     median and minimum of some runs
//! limit drop PATH...                             put these files, or all files below, out of the page cache
//! ```

mod cache;
mod output;
mod plan;
mod work;

use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::ExitCode;

use plan::Plan;
use work::Workers;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (flags, words): (Vec<&str>, Vec<&str>) =
        arguments.iter().map(String::as_str).partition(|argument| argument.starts_with("--"));
    let done = match (words.as_slice(), flags.as_slice()) {
        (["serve", plan, threads], [] | ["--read-only"]) => serve(plan, threads, !flags.is_empty()),
        (["time", plan, threads, runs], [] | ["--read-only"]) => time(plan, threads, runs, !flags.is_empty()),
        (["drop", paths @ ..], []) => drop_files(paths),
        _ => Err("usage: limit serve PLAN THREADS [--read-only] | time PLAN THREADS RUNS [--read-only] | drop PATH..."
            .into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("limit: {error}");
            ExitCode::FAILURE
        }
    }
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Answer each line of standard input with a line of JSON. `run` does one run, `check PATH` one more whose output is
/// written to PATH, `quit` ends.
fn serve(plan: &str, threads: &str, read_only: bool) -> Result<()> {
    let plan = Plan::load(Path::new(plan))?;
    let (chunks, bytes, length) = (plan.chunk_count(), plan.stored_bytes(), plan.length);
    let mut workers = Workers::start(plan, threads.parse()?, read_only);
    let mut answers = io::stdout().lock();
    writeln!(answers, r#"{{"ready": true, "chunks": {chunks}, "bytes": {bytes}, "length": {length}}}"#)?;
    answers.flush()?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("run", "") => {
                let (seconds, _) = workers.run();
                writeln!(answers, r#"{{"seconds": {seconds:.9}}}"#)?;
            }
            ("check", path) => {
                let (seconds, output) = workers.run();
                std::fs::write(path, output.bytes())?;
                writeln!(answers, r#"{{"seconds": {seconds:.9}}}"#)?;
            }
            ("quit", "") => break,
            _ => return Err(format!("got the line {line:?}; expected run, check PATH or quit").into()),
        }
        answers.flush()?;
    }
    Ok(())
}

fn time(plan: &str, threads: &str, runs: &str, read_only: bool) -> Result<()> {
    let plan = Plan::load(Path::new(plan))?;
    println!(
        "{} chunks, {:.1} MB stored, {:.1} MB decoded, {:.1} MB out",
        plan.chunk_count(),
        plan.stored_bytes() as f64 / 1e6,
        plan.chunks.iter().map(|chunk| chunk.decoded).sum::<u64>() as f64 / 1e6,
        plan.length as f64 / 1e6
    );
    let mut workers = Workers::start(plan, threads.parse()?, read_only);
    workers.run();
    let mut seconds: Vec<f64> = (0..runs.parse::<usize>()?.max(1)).map(|_| workers.run().0).collect();
    seconds.sort_by(f64::total_cmp);
    println!("median {:.4} s, minimum {:.4} s", seconds[seconds.len() / 2], seconds[0]);
    Ok(())
}

fn drop_files(paths: &[&str]) -> Result<()> {
    let (mut total, mut resident) = (0, 0);
    for path in paths {
        let (bytes, left) = cache::drop(Path::new(path))?;
        total += bytes;
        resident += left;
    }
    println!(r#"{{"total": {total}, "resident": {resident}}}"#);
    Ok(())
}
