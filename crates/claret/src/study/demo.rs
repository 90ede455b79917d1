//! `claret demo`: shows in half a minute what transactions that wait in line gain beside Redis, and
//! why operations that commute need not wait for each other.

use bench::demo::{self, DemoArgs};
use bench::stop;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

/// Runs the command.
pub fn main(args: &DemoArgs) -> ExitCode {
    match tell(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("claret: {error}");
            ExitCode::FAILURE
        }
    }
}

fn tell(args: &DemoArgs) -> io::Result<()> {
    let mut out = io::stdout();
    let program = std::env::current_exe()?;
    let server = demo::run(args, &program, &mut out)?;
    if args.stay {
        out.write_all(look_around(server.address()).as_bytes())?;
        out.flush()?;
        // Until there is a signal.
        while stop::sleep(Duration::from_secs(3600)).is_ok() {}
    }
    Ok(())
}

fn look_around(address: SocketAddr) -> String {
    let port = address.port();
    format!(
        "\nThe second server keeps running. Look around, in another terminal:\n\n    \
         redis-cli -p {port} TOPK.BEST best:1 3 WITHSCORES\n    \
         redis-cli -p {port} COUNTER.GET bids:1\n    \
         redis-cli -p {port} INFO transactions\n    \
         redis-cli -p {port}\n\n\
         Ctrl-C ends it and removes its data.\n"
    )
}
