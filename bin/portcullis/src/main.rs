//! The `portcullis` binary; everything it does is in `portcullis-runtime`.

use std::process::ExitCode;

fn main() -> ExitCode {
    portcullis_runtime::main()
}
