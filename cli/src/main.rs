//! The program: all of it is in the library, which the benchmarks use too.

use std::process::ExitCode;

fn main() -> ExitCode {
    tributary::main()
}
