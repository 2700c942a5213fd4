//! Runs outside programs: the last line they print is shown as progress, all of it goes into a log file.

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// A program that runs longer than this is stopped: longer than any step needs on two slow cores.
const LIMIT: Duration = Duration::from_secs(30 * 60);

pub struct Shell {
    log: RefCell<File>,
    pub log_path: PathBuf,
    bar: ProgressBar,
}

/// What an outside program said and how it ended.
pub struct Finished {
    pub status: ExitStatus,
    /// Standard output and standard error, line by line in the order of arrival.
    pub text: String,
    command: String,
}

impl Shell {
    /// A shell that logs to `log_path`, which is started afresh.
    pub fn new(log_path: PathBuf, bar: ProgressBar) -> Result<Self> {
        if let Some(folder) = log_path.parent() {
            fs::create_dir_all(folder)?;
        }
        let log = File::create(&log_path).with_context(|| log_path.display().to_string())?;
        Ok(Self { log: RefCell::new(log), log_path, bar })
    }

    /// A spinner for the terminal; prints nothing where there is none.
    pub fn spinner() -> ProgressBar {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} [{elapsed}] {wide_msg:.dim}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }

    /// A line for the log, shown as progress too.
    pub fn note(&self, line: &str) {
        // The log is an aid: a full disk shows itself in the programs that run.
        let _ = writeln!(self.log.borrow_mut(), "{line}");
        self.bar.set_message(line.to_owned());
    }

    /// Runs a program to its end, however it ends.
    pub fn run(&self, command: &mut Command) -> Result<Finished> {
        self.run_within(command, LIMIT)
    }

    /// Like [`Shell::run`]; a program still running after `limit` is stopped, which is an error.
    pub fn run_within(&self, command: &mut Command, limit: Duration) -> Result<Finished> {
        let shown = format!("{command:?}");
        self.note(&format!("$ {shown}"));
        let started = Instant::now();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {shown}"))?;
        let (sender, lines) = mpsc::channel();
        let other = sender.clone();
        each_line(child.stdout.take().context("no stdout")?, move |line| {
            line.is_some_and(|line| sender.send(line).is_ok())
        });
        each_line(child.stderr.take().context("no stderr")?, move |line| {
            line.is_some_and(|line| other.send(line).is_ok())
        });
        let mut text = String::new();
        loop {
            match lines.recv_timeout(limit.saturating_sub(started.elapsed())) {
                Ok(line) => {
                    self.note(&line);
                    text.push_str(&line);
                    text.push('\n');
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    child.kill()?;
                    child.wait()?;
                    bail!("stopped after {} s: {shown}\n{}", limit.as_secs(), tail(&text));
                }
            }
        }
        let status = child.wait()?;
        self.note(&format!("({status}, {:.1} s)", started.elapsed().as_secs_f64()));
        Ok(Finished { status, text, command: shown })
    }

    /// Runs a program that has to succeed, and returns what it printed.
    pub fn check(&self, command: &mut Command) -> Result<String> {
        let finished = self.run(command)?;
        if !finished.status.success() {
            bail!("{}", finished.complaint());
        }
        Ok(finished.text)
    }
}

impl Finished {
    /// The command, its end and its last lines.
    pub fn complaint(&self) -> String {
        format!("{} ({})\n{}", self.command, self.status, tail(&self.text))
    }
}

/// The program of this name on `PATH`.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// The lines that tell why something failed; the rest is in the log.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

/// Hands each line of a stream to `take`, on a thread of its own, and `None` at its end, until `take` wants no more.
pub fn each_line(stream: impl Read + Send + 'static, mut take: impl FnMut(Option<String>) -> bool + Send + 'static) {
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            if !take(Some(text)) {
                return;
            }
            line.clear();
        }
        take(None);
    });
}
