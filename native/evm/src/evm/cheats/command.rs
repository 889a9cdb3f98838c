//! Programs that a contract runs: with few variables, limits of memory and output, and an end.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

use crate::evm::limits::{Reached, Watch};

/// Variables that a program inherits.
const KEPT: [&str; 7] = ["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"];
/// Bytes of memory of a program. Addresses are not counted: some reserve far more than they use.
const MEMORY: libc::rlim_t = 4 << 30;
/// Bytes of standard output.
const OUTPUT: usize = 16 << 20;
const LOOK: Duration = Duration::from_millis(2);
/// Time for the output of a program that has ended.
const LATE: Duration = Duration::from_secs(1);

/// Why a program gave no answer.
pub enum Failure {
    Reached(Reached),
    Said(String),
}

/// The output of a program, which ends with all that it started.
pub fn output(words: &[String], watch: &Watch) -> Result<Vec<u8>, Failure> {
    let said = |text: String| Failure::Said(format!("ffi: {text}"));
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| said("no command".into()))?;
    let broken = |error: io::Error| said(format!("{program}: {error}"));
    let mut child = start(program, arguments).map_err(broken)?;
    let printed = listen(&mut child);
    let (data, reached) = until_it_ends(&child, &printed, watch);
    // Until it is waited for, its pid, and so that of its group, belongs to nobody else.
    unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
    let status = child.wait().map_err(broken)?;
    if let Some(reached) = reached {
        return Err(Failure::Reached(reached));
    }
    // What it started may have held its output open until now.
    let data = data.or_else(|| printed.recv_timeout(LATE).ok());
    let data = data.unwrap_or_default();
    if data.len() > OUTPUT {
        let most = OUTPUT >> 20;
        return Err(said(format!("{program} printed more than {most} MiB")));
    }
    if !status.success() {
        return Err(said(format!("{program} ended with {status}")));
    }
    Ok(data)
}

fn start(program: &str, arguments: &[String]) -> io::Result<Child> {
    let kept = KEPT
        .iter()
        .filter_map(|name| Some((name, std::env::var_os(name)?)));
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(kept);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command.stdout(Stdio::piped()).process_group(0);
    // SAFETY: between fork and exec `limit` makes system calls only.
    unsafe { command.pre_exec(limit) };
    command.spawn()
}

/// Sets the limits of a program; those of this process are not made for it.
fn limit() -> io::Result<()> {
    for (resource, most) in [
        (libc::RLIMIT_AS, libc::RLIM_INFINITY),
        (libc::RLIMIT_DATA, MEMORY),
        (libc::RLIMIT_CORE, 0),
    ] {
        let mut limits = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        unsafe {
            libc::getrlimit(resource, &mut limits);
            limits.rlim_cur = most.min(limits.rlim_max);
            libc::setrlimit(resource, &limits);
        }
    }
    Ok(())
}

/// Reads the output in a thread of its own, which sends it when it is whole or too long.
fn listen(child: &mut Child) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    if let Some(stdout) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut data = Vec::new();
            let _ = stdout.take(OUTPUT as u64 + 1).read_to_end(&mut data);
            let _ = sender.send(data);
        });
    }
    receiver
}

/// Waits until a program ends, prints too much, or is called off.
fn until_it_ends(
    child: &Child,
    printed: &Receiver<Vec<u8>>,
    watch: &Watch,
) -> (Option<Vec<u8>>, Option<Reached>) {
    let mut data: Option<Vec<u8>> = None;
    while !has_ended(child) {
        match &data {
            Some(data) if data.len() > OUTPUT => break,
            Some(_) => std::thread::sleep(LOOK),
            None => data = printed.recv_timeout(LOOK).ok(),
        }
        if let Some(reached) = watch.called() {
            return (data, Some(reached));
        }
    }
    (data, None)
}

/// Whether a program has ended, without waiting for it.
fn has_ended(child: &Child) -> bool {
    let mut found: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    let failed = unsafe { libc::waitid(libc::P_PID, child.id(), &mut found, options) } != 0;
    failed || found.si_signo != 0
}
