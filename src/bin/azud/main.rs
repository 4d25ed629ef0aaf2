//! The program `azud`: tries limits without writing a program.
//!
//! A thin face of the library. Each command is one file: its arguments, and `run`, which answers
//! with how it ended.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done; also when the reader of our output went away |
//! | 1 | the output could not be written |
//! | 2 | usage or input; the reason is on standard error |

mod decide;
mod replay;
mod report;

use clap::{Parser, Subcommand};
use std::fmt;
use std::io;
use std::process::ExitCode;

const ABOUT: &str = "\
An exact rate limiter, at your prompt.

Tries limits by hand (decide) and on access logs (replay). Limits are written as everywhere else:

  token-bucket   100/1m burst=20
  leaky-bucket   10/s burst=20 queue
  fixed-window   100/1m
  sliding-window 100/1m strict
  sliding-log    100/1m
  quota          100000/month tz=Europe/Madrid anchor=2026-01-31

A rate is N/PERIOD, with PERIOD = [k]ns, us, ms, s, m, h or d; for a quota hour, day, week, month
or year. Whatever follows it may be left out.";

const EXIT_CODES: &str =
    "Exit codes: 0 done, 1 the output could not be written, 2 usage or input (the reason is on standard error).";

/// The command line.
#[derive(Parser)]
#[command(version, about = ABOUT, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Decide(decide::Arguments),
    Replay(replay::Arguments),
}

/// Why a command ended early.
enum Failure {
    /// The input or the usage; the text says where and what was expected.
    Input(String),
    Output(io::Error),
}

impl Failure {
    fn input(reason: impl fmt::Display) -> Failure {
        Failure::Input(reason.to_string())
    }
}

fn main() -> ExitCode {
    let (name, outcome) = match Cli::parse().command {
        Command::Decide(arguments) => ("decide", decide::run(arguments)),
        Command::Replay(arguments) => ("replay", replay::run(arguments)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // Like `head`: the reader has seen enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Failure::Output(error)) => {
            eprintln!("azud {name}: output: {error}");
            ExitCode::from(1)
        }
        Err(Failure::Input(reason)) => {
            eprintln!("azud {name}: {reason}");
            ExitCode::from(2)
        }
    }
}
