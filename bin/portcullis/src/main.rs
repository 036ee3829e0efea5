//! The `portcullis` binary; everything it does is in `portcullis-runtime`.

use std::process::ExitCode;

// A proxied request makes some dozens of small, short-lived allocations; each worker thread gets
// them from a heap of its own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    portcullis_runtime::main()
}
