//! One single-threaded RPC loop: any number of connections, one request at a time, in order of arrival.
//!
//! Reference §3.5: "The daemon is two processes … each is a single-threaded RPC loop." The simulator runs the two
//! loops in one process, each with a worker of its own, so that they do not wait for one another either; a
//! request that hangs stops everything behind it on the same socket, as it does there.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::rpc::{Answer, Call, VERSION, read_record, write_record};

/// A program behind a socket.
pub(crate) trait Program: Send + 'static {
    /// Its ONC RPC number.
    const NUMBER: u32;

    /// Runs a procedure other than 0; `None` closes the connection without an answer.
    fn run(&mut self, procedure: u32, arguments: &[u8]) -> Option<Answer>;
}

struct Job {
    message: Vec<u8>,
    answer: Sender<Option<Vec<u8>>>,
}

/// Serves the local socket; returns only if the listener fails.
pub(crate) fn serve_unix<P: Program>(listener: &UnixListener, program: P) -> std::io::Error {
    let jobs = start_worker(program);
    loop {
        match listener.accept() {
            Ok((stream, _)) => start_connection(stream, jobs.clone()),
            Err(error) => return error,
        }
    }
}

/// Serves the port between hosts; returns only if the listener fails.
pub(crate) fn serve_tcp<P: Program>(listener: &TcpListener, program: P) -> std::io::Error {
    let jobs = start_worker(program);
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                let _best_effort = stream.set_nodelay(true);
                start_connection(stream, jobs.clone());
            }
            Err(error) => return error,
        }
    }
}

fn start_worker<P: Program>(mut program: P) -> Sender<Job> {
    let (sender, jobs): (Sender<Job>, Receiver<Job>) = channel();
    thread::spawn(move || {
        for job in jobs {
            let reply = answer(&mut program, &job.message);
            // The caller may have given up; the work is done all the same (reference §0.6).
            let _caller_left = job.answer.send(reply);
        }
    });
    sender
}

fn start_connection<S: Read + Write + Send + 'static>(mut stream: S, jobs: Sender<Job>) {
    thread::spawn(move || {
        while let Ok(Some(message)) = read_record(&mut stream) {
            let (answer, reply) = channel();
            if jobs.send(Job { message, answer }).is_err() {
                return;
            }
            let Ok(Some(reply)) = reply.recv() else {
                return;
            };
            if write_record(&mut stream, &reply).is_err() {
                return;
            }
        }
    });
}

fn answer<P: Program>(program: &mut P, message: &[u8]) -> Option<Vec<u8>> {
    let (call, arguments) = Call::decode(message).ok()?;
    let answer = if call.rpc_version != 2 {
        Answer::RpcMismatch
    } else if call.program != P::NUMBER {
        Answer::ProgramUnavailable
    } else if call.version != VERSION {
        Answer::VersionMismatch
    } else if call.procedure == 0 {
        Answer::Success(Vec::new())
    } else {
        program.run(call.procedure, arguments)?
    };
    Some(answer.encode(call.xid))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Echo;

    impl Program for Echo {
        const NUMBER: u32 = 77;

        fn run(&mut self, procedure: u32, arguments: &[u8]) -> Option<Answer> {
            match procedure {
                1 => Some(Answer::Success(arguments.to_vec())),
                2 => None,
                _ => Some(Answer::ProcedureUnavailable),
            }
        }
    }

    fn status(program: u32, version: u32, procedure: u32) -> Option<Vec<u8>> {
        let call = Call {
            xid: 1,
            rpc_version: 2,
            program,
            version,
            procedure,
        };
        answer(&mut Echo, &call.encode(b"data"))
    }

    #[test]
    fn calls_outside_the_program_are_refused_by_kind() {
        assert_eq!(
            status(77, 1, 0),
            Some(Answer::Success(Vec::new()).encode(1))
        );
        assert_eq!(
            status(77, 1, 1),
            Some(Answer::Success(b"data".to_vec()).encode(1))
        );
        assert_eq!(status(77, 2, 1), Some(Answer::VersionMismatch.encode(1)));
        assert_eq!(status(78, 1, 1), Some(Answer::ProgramUnavailable.encode(1)));
        assert_eq!(
            status(77, 1, 9),
            Some(Answer::ProcedureUnavailable.encode(1))
        );
        assert_eq!(status(77, 1, 2), None);
    }
}
