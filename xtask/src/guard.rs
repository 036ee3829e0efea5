//! Rules about files.
//!
//! Invariant: every rule here can be broken by a one-line change and is stated in CONTRIBUTING.
//! Looks at the files git knows and those it would add.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{Findings, output};

/// A Rust file longer than this is refused.
const MAX_LINES: usize = 800;
/// A Rust file longer than this is listed.
const GOOD_LINES: usize = 400;

/// Kinds of text that people write; lock files, recorded data and licences are not.
const WRITTEN: &[&str] = &[
    "rs",
    "go",
    "md",
    "toml",
    "yaml",
    "yml",
    "sh",
    "json",
    "Makefile",
    "Dockerfile",
    "run",
];
const NOT_OURS: &[&str] = &["Cargo.lock", "go.sum", "LICENSE"];
/// Folders of recorded data, where any word may occur.
const RECORDED: &[&str] = &["conformance/"];

/// Marks of unfinished work, split so that this file does not contain them.
const LEFTOVERS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("to", "do!("),
    concat!("unimplemented", "!("),
];
/// The one word of this kind that is an API: Go's `context` package has a function of that name.
const GO_CONTEXT: &str = concat!("context.", "TO", "DO()");

/// Top-level folders that exist on somebody's machine only.
const MACHINE_FOLDERS: &[&str] = &["work", "home", "root", "Users"];

pub(crate) fn run(root: &Path) -> Result<Findings, String> {
    let mut command = Command::new("git");
    command
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root);
    let names = output(&mut command)?;
    let mut findings = Findings::default();
    for name in names
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        let Ok(name) = std::str::from_utf8(name) else {
            findings
                .wrong
                .push(format!("{name:?}: the file's name is not UTF-8"));
            continue;
        };
        if !is_written(name) {
            continue;
        }
        let path = root.join(name);
        // Listed and gone: a deletion that is not staged yet. A link shows its target's own rules.
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        if !metadata.is_file() {
            continue;
        }
        match fs::read_to_string(&path) {
            Ok(text) => check(name, &text, &mut findings),
            Err(error) => findings.wrong.push(format!("{name}: {error}")),
        }
    }
    Ok(findings)
}

fn is_written(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    let kind = file.rsplit('.').next().unwrap_or(file);
    WRITTEN.contains(&kind)
        && !NOT_OURS.contains(&file)
        && !RECORDED.iter().any(|folder| name.starts_with(folder))
}

fn check(name: &str, text: &str, findings: &mut Findings) {
    let rust = name.ends_with(".rs");
    if rust {
        let lines = text.lines().count();
        if lines > MAX_LINES {
            let wrong =
                format!("{name}: {lines} lines, more than {MAX_LINES}: split it by purpose");
            findings.wrong.push(wrong);
        } else if lines > GOOD_LINES {
            findings
                .notes
                .push(format!("{name}: {lines} lines, more than {GOOD_LINES}"));
        }
        attributes(name, text, findings);
    }
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let line = line.replace(GO_CONTEXT, "");
        if let Some(word) = LEFTOVERS.iter().find(|word| has_word(&line, word)) {
            findings.wrong.push(format!(
                "{name}:{number}: {word}: finish it or file an issue"
            ));
        }
        if let Some(folder) = MACHINE_FOLDERS
            .iter()
            .find(|folder| has_path(&line, folder))
        {
            findings.wrong.push(format!(
                "{name}:{number}: a path in /{folder} exists on one machine only: make it relative"
            ));
        }
    }
}

/// Refuses `ignore`, `allow` and `expect` attributes that give no reason.
fn attributes(name: &str, text: &str, findings: &mut Findings) {
    for (at, _) in text.match_indices("#[").chain(text.match_indices("#![")) {
        let before = text.get(..at).unwrap_or_default();
        // rustfmt puts each attribute on its own line; the rest is text about attributes.
        let line = before.rsplit('\n').next().unwrap_or_default();
        if !line.trim_start().is_empty() {
            continue;
        }
        let body = text
            .get(at..)
            .unwrap_or_default()
            .trim_start_matches(['#', '!', '[']);
        let number = before.matches('\n').count() + 1;
        let attribute = closed(body);
        if attribute.trim() == "ignore" {
            findings.wrong.push(format!(
                "{name}:{number}: #[ignore] without a reason: write #[ignore = \"why\"]"
            ));
        }
        let silences = attribute.starts_with("allow(") || attribute.starts_with("expect(");
        if silences && !attribute.contains("reason =") {
            findings.wrong.push(format!(
                "{name}:{number}: #[{}] without a reason: add reason = \"why\"",
                attribute.split('(').next().unwrap_or_default()
            ));
        }
    }
}

/// An attribute's text up to the bracket that closes it.
fn closed(body: &str) -> &str {
    let mut depth = 0_usize;
    for (at, character) in body.char_indices() {
        match character {
            '[' => depth += 1,
            ']' if depth == 0 => return body.get(..at).unwrap_or(body),
            ']' => depth -= 1,
            _ => {}
        }
    }
    body
}

/// Whether `word` occurs and is not part of a longer word.
fn has_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line
            .get(at + word.len()..)
            .and_then(|text| text.chars().next());
        !before.is_some_and(part_of_word)
            && (word.ends_with('(') || !after.is_some_and(part_of_word))
    })
}

/// Whether an absolute path into `/folder/` occurs: not one of a URL or of a longer path.
fn has_path(line: &str, folder: &str) -> bool {
    line.match_indices(&format!("/{folder}/")).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        !before
            .is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '}' | ')'))
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn wrong(name: &str, text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        check(name, text, &mut findings);
        findings.wrong
    }

    #[rstest]
    #[case(400, 0, 0)]
    #[case(401, 1, 0)]
    #[case(800, 1, 0)]
    #[case(801, 0, 1)]
    fn long_files(#[case] lines: usize, #[case] notes: usize, #[case] wrong: usize) {
        let mut findings = Findings::default();
        check("a.rs", &"x\n".repeat(lines), &mut findings);
        assert_eq!((findings.notes.len(), findings.wrong.len()), (notes, wrong));
    }

    #[rstest]
    #[case("a.rs", "#[ignore]\nfn f() {}", "a.rs:1: #[ignore]")]
    #[case("a.rs", "\n#[test]\n    #[ignore]", "a.rs:3: #[ignore]")]
    #[case("a.rs", "#![allow(\n    dead_code,\n)]", "a.rs:1: #[allow]")]
    #[case("a.rs", "    #[expect(unused)]", "a.rs:1: #[expect]")]
    #[case("a.rs", concat!("// TO", "DO: more"), "a.rs:1: TO")]
    #[case("a.md", concat!("x\nFIX", "ME"), "a.md:2: FIX")]
    #[case("a.rs", concat!("    to", "do!()"), "a.rs:1: to")]
    #[case("a.md", concat!("see /wo", "rk/x"), "a.md:1: a path in /work")]
    #[case("a.yaml", concat!("path: \"/ho", "me/me/x\""), "a.yaml:1: a path in /home")]
    fn refused(#[case] name: &str, #[case] text: &str, #[case] message: &str) {
        let wrong = wrong(name, text);
        let [wrong] = wrong.as_slice() else {
            panic!("{wrong:?}")
        };
        assert!(wrong.starts_with(message), "{wrong}");
    }

    #[rstest]
    #[case("a.rs", "#[ignore = \"needs a kernel feature\"]")]
    #[case(
        "a.rs",
        "#[allow(\n    dead_code,\n    reason = \"used on Windows\",\n)]"
    )]
    #[case("a.rs", "//! a bare `#[ignore]` is refused")]
    #[case("a.rs", concat!("let TO", "DOS = 1; auto", "do!();"))]
    #[case("a.go", concat!("f(context.", "TO", "DO())"))]
    #[case(
        "a.md",
        "https://example.com/home/page, docs/work/x and ${ROOT}/root/x"
    )]
    #[case("a.go", "#[ignore]")]
    fn allowed(#[case] name: &str, #[case] text: &str) {
        assert_eq!(wrong(name, text), Vec::<String>::new());
    }

    #[rstest]
    #[case("crates/core/src/lib.rs", true)]
    #[case(".ci/run", true)]
    #[case("Makefile", true)]
    #[case("Cargo.lock", false)]
    #[case("testcluster/go.sum", false)]
    #[case("conformance/x.json", false)]
    #[case("logo.png", false)]
    fn what_people_write_is_looked_at(#[case] name: &str, #[case] looked_at: bool) {
        assert_eq!(is_written(name), looked_at);
    }
}
