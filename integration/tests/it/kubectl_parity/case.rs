//! What a parity case is made of.

/// One kubectl command that must do the same through the gateway as directly.
///
/// In every text `{ns}` is the side's namespace, `{dir}` its folder, `{port}` the port of a server
/// on this machine, `{side}` the side's letter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub name: &'static str,
    /// The test user who calls.
    pub user: &'static str,
    /// The arguments as typed; single quotes group words.
    pub command: &'static str,
    /// The exit code it must have on every side.
    pub exit: i32,
    pub stdin: &'static str,
    pub env: &'static [(&'static str, &'static str)],
    /// Commands of the admin, directly, before the case.
    pub before: &'static [&'static str],
    pub cache: Cache,
    pub way: Way,
    /// Compare only the lines that match, their words and themselves in any order: what comes from
    /// several sources at once has none, and no common end.
    pub only: Option<&'static str>,
}

/// Which discovery cache a case runs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cache {
    /// The side's own, filled by an earlier command.
    Warm,
    /// A fresh one.
    Cold,
    /// A fresh one, filled by the same command first; both runs must print the same.
    Twice,
}

/// How a case runs and ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    /// To its end.
    Plain,
    /// Until it printed `first`; then the admin runs `touch` directly; then until it printed
    /// `then`; then Ctrl-C. Output behind `then` depends on time and is not compared, unless the
    /// case says what to compare.
    Watch {
        first: &'static str,
        touch: &'static [&'static str],
        then: &'static str,
    },
    /// Once it printed `first`, the admin runs `touch` directly, and it ends by itself.
    Until {
        first: Trigger,
        touch: &'static [&'static str],
    },
    /// Until the local port it printed answers; then Ctrl-C.
    PortForward,
}

/// What lets the touch of [`Way::Until`] begin.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trigger {
    /// kubectl printed this.
    Printed(&'static str),
    /// kube-apiserver serves a watch whose path and query contain this.
    Watching(&'static str),
}

/// A case of the admin that ends with 0 on a warm cache.
pub(super) const fn case(name: &'static str, command: &'static str) -> Case {
    Case {
        name,
        user: "admin",
        command,
        exit: 0,
        stdin: "",
        env: &[],
        before: &[],
        cache: Cache::Warm,
        way: Way::Plain,
        only: None,
    }
}

impl Case {
    pub(super) const fn by(self, user: &'static str) -> Self {
        Self { user, ..self }
    }

    pub(super) const fn exits(self, exit: i32) -> Self {
        Self { exit, ..self }
    }

    pub(super) const fn stdin(self, stdin: &'static str) -> Self {
        Self { stdin, ..self }
    }

    pub(super) const fn env(self, env: &'static [(&'static str, &'static str)]) -> Self {
        Self { env, ..self }
    }

    pub(super) const fn before(self, before: &'static [&'static str]) -> Self {
        Self { before, ..self }
    }

    pub(super) const fn cache(self, cache: Cache) -> Self {
        Self { cache, ..self }
    }

    pub(super) const fn way(self, way: Way) -> Self {
        Self { way, ..self }
    }

    pub(super) const fn only(self, lines: &'static str) -> Self {
        Self {
            only: Some(lines),
            ..self
        }
    }
}
