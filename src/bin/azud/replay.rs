//! `azud replay`: what a limit would have done to the traffic of an access log.

use crate::{Failure, report};
use azud::Limit;
use azud::replay::{Cost, Key, Replay, Source};
use std::ffi::OsString;
use std::io::Write;
use std::time::Duration;

const ABOUT: &str = "Say what a limit would have done to the traffic of access logs";

const LONG_ABOUT: &str = "\
Say what a limit would have done to the traffic of access logs.

Reads logs in the common and combined formats of nginx and Apache, also with a virtual host in
front and with more fields behind, plain or gzip. Several files are merged by time, so rotated
logs and the logs of several servers can be given in any order. Lines that cannot be read are
counted and the first ones shown; empty lines are skipped.

Examples:

  azud replay /var/log/nginx/access.log* --limit 'token-bucket 30/1m burst=60'
  zcat old.gz | azud replay - --limit 'quota 5000/day tz=Europe/Madrid' --key user";

/// What `azud replay` is told.
#[derive(clap::Args)]
#[command(about = ABOUT, long_about = LONG_ABOUT)]
pub(crate) struct Arguments {
    /// Access logs; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<OsString>,

    /// The limit, such as 'token-bucket 100/1m burst=20' (see azud --help)
    #[arg(long, value_name = "LIMIT", allow_hyphen_values = true)]
    limit: Limit,

    /// Who is limited: ip, ip/24 (a network), ip/24,64 (also of IPv6), path, user, method, host (the
    /// virtual host), or several with + between, as in ip+path. Requests without a user share one limit
    #[arg(long, value_name = "KEY", default_value = "ip")]
    key: Key,

    /// What a request costs: request (1) or bytes (the size of its response)
    #[arg(long, value_name = "COST", default_value_t = Cost::Request)]
    cost: Cost,

    /// How many of the worst keys to show
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    top: usize,

    /// How many seconds a line may be behind an earlier one of its file and still be put into order
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    reorder: u64,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let sources = open(&arguments.files)?;
    let replay = Replay::new(arguments.limit)
        .key(arguments.key)
        .cost(arguments.cost)
        .top(arguments.top)
        .reorder_window(Duration::from_secs(arguments.reorder));
    // No report about half the traffic: it would pass for one about all of it.
    let report = replay.run(sources).map_err(Failure::input)?;
    std::io::stdout().lock().write_all(report::text(&report).as_bytes()).map_err(Failure::Output)?;
    if report.requests.all == 0 && report.unreadable.count > 0 {
        return Err(Failure::input("not one line could be read; expected the common or combined format of nginx and Apache"));
    }
    Ok(())
}

/// Opens every file before any is read.
fn open(files: &[OsString]) -> Result<Vec<Source>, Failure> {
    if files.iter().filter(|name| *name == "-").count() > 1 {
        return Err(Failure::input("\"-\" is given twice: expected standard input once"));
    }
    let open = |name: &OsString| if name == "-" { Source::stdin() } else { Source::open(name) };
    files.iter().map(|name| open(name).map_err(Failure::input)).collect()
}
